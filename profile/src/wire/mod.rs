//! Formats that are both written ([`export`](crate::export)) and read ([`read`](crate::read)): one definition for both directions.

pub(crate) mod pprof;
pub(crate) mod protobuf;
