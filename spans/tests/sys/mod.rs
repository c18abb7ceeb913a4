//! What the standard library does not do with descriptors.

use std::ffi::c_int;
use std::fs::File;
use std::os::fd::AsRawFd as _;

extern "C" {
    fn dup2(old: c_int, new: c_int) -> c_int;
}

/// Gives a file's number to another file.
pub(crate) fn replace(number: c_int, file: &File) {
    // SAFETY: no `File` of this process has the number.
    assert_eq!(unsafe { dup2(file.as_raw_fd(), number) }, number);
}
