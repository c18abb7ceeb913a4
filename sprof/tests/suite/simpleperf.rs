//! Files of Android's simpleperf, built by hand: what they name has its name.

#[path = "../../../perf-data/tests/suite/common/mod.rs"]
mod perf_file;
use std::path::Path;

use crate::support::perf::load;
use crate::support::temp_dir;
use perf_file::simpleperf::{ELF, FILE, KERNEL, META_INFO, file, meta_info};
use perf_file::{CPU_CLOCK, attr, file_with_features, mmap2, pair, record, words};

/// Writes a file with two samples of a call path of three functions.
pub(crate) fn write(path: &Path) {
    const LIBRARY: &str = "/data/app/base.apk!/lib/arm64-v8a/libfoo.so";
    const CONTEXT_KERNEL: u64 = -128i64 as u64;
    const CONTEXT_USER: u64 = -512i64 as u64;
    let sample = |time: u64| {
        let fields = [1, 0xffff_8000_0008, pair(7, 7), time, 0, 1_000_000];
        // The last is the first byte of its function: as a return address it would be that of the one before.
        let chain = [5, CONTEXT_KERNEL, 0xffff_8000_0008, CONTEXT_USER, 0x1013, 0x1020];
        record(9, 1, &words(&[&fields[..], &chain].concat()))
    };
    let library = [
        (0x14010, 0x10, "_ZN3foo3barEv"),
        (0x14020, 0x10, "__dl__ZN6linker4mainEv"),
    ];
    let kernel = [(0xffff_8000_0000, 64, "vfs_read")];
    let files = [
        file(LIBRARY, ELF, 0x14000, 0x4000, &library),
        file("[kernel.kallsyms]", KERNEL, 0, 0, &kernel),
    ];
    let facts = [
        ("simpleperf_version", "1.build.1"),
        ("event_type_info", "cpu-clock,1,0"),
    ];
    // The kernel is all of the address space that is not the process's.
    let kernel_map = [pair(u32::MAX, 0), 0, u64::MAX, 0];
    let kernel_name = b"[kernel.kallsyms]\0\0\0\0\0\0\0".to_vec();
    let kernel_id = words(&[pair(u32::MAX, 0), 0, 0, 1]);
    let records = [
        record(1, 1, &[words(&kernel_map), kernel_name, kernel_id].concat()),
        mmap2(1, LIBRARY, 0x1000, 0x1000, 0x4000, 5),
        sample(1_000_000),
        sample(2_000_000),
    ];
    let features = [(FILE, files.concat()), (META_INFO, meta_info(&facts))];
    std::fs::write(path, file_with_features(&[(attr(CPU_CLOCK), 1)], &records, &features)).unwrap();
}

#[test]
fn functions_have_the_names_that_came_with_the_file() {
    let dir = temp_dir();
    let path = dir.path().join("perf.data");
    write(&path);
    let (profile, stderr) = load(&path, &[]);
    let stack = profile.samples().next().unwrap().stack.unwrap();
    let names: Vec<_> = profile.names(stack).collect();
    assert_eq!(names, ["[linker]linker::main()", "foo::bar()", "vfs_read"], "{stderr}");
    assert_eq!(profile.sample_count(), 2);
    assert!(!stderr.contains("warning"), "{stderr}");
}
