//! Starting a program suspended.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use recording::program::Image;

/// Attributes of a program that is to be started, freed when dropped.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> Result<Attributes, i32> {
        let mut attributes = ptr::null_mut();
        // SAFETY: initialises the attributes.
        check(unsafe { libc::posix_spawnattr_init(&raw mut attributes) })?;
        Ok(Attributes(attributes))
    }

    /// Suspended, with the signals that Rust's runtime ignores as every program expects them.
    fn for_recording(mut self) -> Result<Attributes, i32> {
        let defaults: libc::sigset_t = 1 << (libc::SIGPIPE - 1);
        // SAFETY: the attributes are initialised, and the set lives until the call returns.
        check(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut self.0, &raw const defaults) })?;
        let flags = libc::POSIX_SPAWN_START_SUSPENDED | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: the attributes are initialised.
        check(unsafe { libc::posix_spawnattr_setflags(&raw mut self.0, flags as libc::c_short) })?;
        Ok(self)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the attributes are initialised, and not used after this.
        let _ = unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// Starts a program, which runs at its first SIGCONT. An error has errno.
pub(super) fn suspended(image: &Image) -> Result<i32, i32> {
    let attributes = Attributes::new()?.for_recording()?;
    let (args, env) = (pointers(&image.args), pointers(&image.env));
    let mut pid = 0;
    // SAFETY: all pointers are of valid attributes, C strings, and null-terminated lists of these, which live until the call returns.
    check(unsafe {
        libc::posix_spawn(
            &raw mut pid,
            image.path.as_ptr(),
            ptr::null(),
            &raw const attributes.0,
            args.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Ok(pid)
}

fn pointers(strings: &[CString]) -> Vec<*mut c_char> {
    let pointers = strings.iter().map(|string| string.as_ptr().cast_mut());
    pointers.chain([ptr::null_mut()]).collect()
}

fn check(errno: c_int) -> Result<(), i32> {
    if errno == 0 { Ok(()) } else { Err(errno) }
}
