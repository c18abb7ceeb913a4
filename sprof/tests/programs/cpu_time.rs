//! The clock of this thread's CPU time, for programs of one file.

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
}

/// CPU time of this thread (CLOCK_THREAD_CPUTIME_ID), ns.
pub fn cpu_ns() -> i64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: it has room for a `struct timespec` of 64-bit Linux.
    assert_eq!(unsafe { clock_gettime(3, &mut time) }, 0);
    time.seconds * 1_000_000_000 + time.nanoseconds
}
