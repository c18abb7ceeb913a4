//! `sprof top`: views of a recording that goes on.
//!
//! [`watch`] asks the recorder for snapshots, and hands them to a thread of their own. [`names`] makes of a snapshot
//! what is read of a file. [`screen`] shows that on a terminal, [`table`] prints it elsewhere. Reports do the rest.
//! [`streams`] keeps the terminal, or stdout, for sprof.

pub(crate) mod names;
pub(crate) mod screen;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod watch;
