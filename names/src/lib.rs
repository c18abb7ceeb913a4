//! What code is called: one form for the names of functions, crates and source files, whoever wrote them down.
//!
//! A symbol engine gives names in these forms, and a profile keeps and compares them. Recorders, the unwinder and
//! readers of records see addresses only: they do not depend on this crate, and it depends on nothing of sprof.
//!
//! ```
//! use names::source_path::{SourcePath, in_profile};
//!
//! // Both manglings of Rust give one name.
//! assert_eq!(names::rust_name::readable("app::main::{{closure}}"), "app::main::{closure}");
//! // V8 names code by its tier; the function is the same in all tiers.
//! let named = names::v8::parse("JS:*fib /srv/busy.js:1:13").ok_or("not a name of V8")?;
//! assert_eq!(named.name, "fib busy.js:1:13");
//! // The path of a file that cargo downloaded has no home folder.
//! let path = "/home/me/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/serde-1.0.1/src/de.rs";
//! assert_eq!(in_profile(path), "cargo:index.crates.io-1949cf8c6b5b557f:serde-1.0.1:src/de.rs");
//! assert_eq!(SourcePath::parse(path).short(), "serde-1.0.1/src/de.rs");
//! # Ok::<(), &str>(())
//! ```
//!
//! 1. [`symbol`]: the symbol table as plain data, from which a profile gets its names.
//! 2. [`rust_name`]: names of Rust functions; [`rust_crate`]: the crate that defines a function.
//! 3. [`v8`]: names of code that V8 compiled.
//! 4. [`source_path`]: paths of source files, as debug info has them and as profiles have them.

pub mod rust_crate;
pub mod rust_name;
pub mod source_path;
pub mod symbol;
pub mod v8;
