//! Addresses, each with its space in its type.
//!
//! An address in a running process, an address as a file's headers state it and an offset from a module's
//! image base are three different numbers that all look like `u64`. Mixing them up gives a profile with
//! plausible, wrong names.

use std::fmt;

/// Actual virtual memory address: valid in one process at one time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Avma(pub u64);

/// Offset from a module's image base (for ELF: from the address of the first `PT_LOAD`). The same in every
/// process that maps the module; what profiles store and symbol servers are asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RelativeAddress(pub u64);

macro_rules! hex_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
        impl fmt::LowerHex for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }
    )*};
}
hex_debug!(Avma, RelativeAddress);
