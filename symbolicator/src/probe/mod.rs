//! File offsets for probes: the starts of functions, the ends of their calls, and the probes that a program's author
//! defined (USDT).
//!
//! The caller gives a file and a name as in the source, and gets file offsets, and the calls that such probes miss.
//! Names are in the symbol tables of the file and of its separate debug file; offsets are in the file alone.
//!
//! `names` (does the name mean this symbol?) -> `functions` (where it begins) -> `calls` (where it ends); `notes`
//! (USDT).

mod at_offset;
mod calls;
mod functions;
mod loader;
mod names;
mod notes;
mod segments;

pub use self::at_offset::{AtOffset, place_at};
pub use self::calls::{CallPlaces, CallPlacesError, TailCall, call_places};
pub use self::functions::{FoundFunctions, FunctionStart, find_functions};
pub use self::loader::loader_of;
pub use self::notes::{StaticProbe, static_probes};
