//! Starting a program suspended.

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use mach2::port::{MACH_PORT_NULL, mach_port_name_t};
use recording::program::ProgramImage;

use crate::processes::wire;

unsafe extern "C" {
    /// Exported by libSystem since macOS 10.15 (libsyscall/wrappers/spawn/spawn_private.h).
    fn posix_spawnattr_set_registered_ports_np(
        attributes: *mut libc::posix_spawnattr_t,
        ports: *const mach_port_name_t,
        count: u32,
    ) -> c_int;
}

/// Attributes of a program that is to be started, freed when dropped.
struct SpawnAttributes(libc::posix_spawnattr_t);

impl SpawnAttributes {
    fn new() -> Result<SpawnAttributes, i32> {
        let mut attributes = ptr::null_mut();
        // SAFETY: writes a pointer to `attributes`, a local that outlives the call.
        check(unsafe { libc::posix_spawnattr_init(&raw mut attributes) })?;
        Ok(SpawnAttributes(attributes))
    }

    /// Suspended, with the signals that Rust's runtime ignores as every program expects them.
    fn for_recording(mut self) -> Result<SpawnAttributes, i32> {
        let defaults: libc::sigset_t = 1 << (libc::SIGPIPE - 1);
        // SAFETY: `new` has initialised the attributes, and the set outlives the call.
        check(unsafe { libc::posix_spawnattr_setsigdefault(&raw mut self.0, &raw const defaults) })?;
        let flags = libc::POSIX_SPAWN_START_SUSPENDED | libc::POSIX_SPAWN_SETSIGDEF;
        // SAFETY: `new` has initialised the attributes.
        check(unsafe { libc::posix_spawnattr_setflags(&raw mut self.0, flags as libc::c_short) })?;
        Ok(self)
    }

    /// With a port that the program and all below it inherit.
    fn with_port(mut self, port: mach_port_name_t) -> Result<SpawnAttributes, i32> {
        let mut ports = [MACH_PORT_NULL; wire::SLOT + 1];
        ports[wire::SLOT] = port;
        // SAFETY: `new` has initialised the attributes, and the call copies `ports.len()` names.
        check(unsafe { posix_spawnattr_set_registered_ports_np(&raw mut self.0, ports.as_ptr(), ports.len() as u32) })?;
        Ok(self)
    }
}

impl Drop for SpawnAttributes {
    fn drop(&mut self) {
        // SAFETY: `new` has initialised the attributes, and they are not used after this.
        let _ = unsafe { libc::posix_spawnattr_destroy(&raw mut self.0) };
    }
}

/// Starts a program, which runs at its first SIGCONT. An error has errno.
pub(super) fn suspended(image: &ProgramImage, port: Option<mach_port_name_t>) -> Result<i32, i32> {
    let mut attributes = SpawnAttributes::new()?.for_recording()?;
    if let Some(port) = port {
        attributes = attributes.with_port(port)?;
    }
    let (args, env) = (pointers(&image.args), pointers(&image.env));
    let mut pid = 0;
    // SAFETY: the attributes are initialised, the path is a C string, both lists are C strings with a null at the end,
    // and all outlive the call.
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
