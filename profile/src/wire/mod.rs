//! Formats that are both written ([`export`](crate::export)) and read ([`read`](crate::read)), with one definition for
//! both.

pub(crate) mod pprof;
pub(crate) mod protobuf;
