//! The kernel: its functions, and the files, lines and inlined functions of its debug info.
//!
//! - [`kallsyms`]: the functions of the running kernel and of its modules.
//! - [`image`]: `vmlinux`, the kernel's own debug info. [`Kernel`] answers from both, and from `modules`.
//! - `modules`: debug info of kernel modules.
//! - [`vdso`]: the code that the kernel maps into every process.

mod image;
pub(crate) mod kallsyms;
mod modules;
pub(crate) mod vdso;

pub(crate) use image::Kernel;
