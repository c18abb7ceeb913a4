#![doc = include_str!("../README.md")]
//! 1. [`symbol`]: the symbol table as plain data, from which a profile gets its names.
//! 2. [`rust_name`]: names of Rust functions; [`rust_crate`]: the crate that defines a function.
//! 3. [`v8`]: names of code that V8 compiled.
//! 4. [`source_path`]: paths of source files, as debug info has them and as profiles have them.

pub mod rust_crate;
pub mod rust_name;
pub mod source_path;
pub mod symbol;
pub mod v8;
