//! Object storage with the API of Amazon S3.
//!
//! The caller gives an address, `s3://bucket/prefix`, and gets a [`Bucket`]: objects are put, read by parts, listed and
//! deleted, and have links for others. `config` finds credentials, region and endpoint where the tools of AWS look
//! for them. Requests are signed by `rusty-s3`, and sent by [`http`](crate::http). `error` says what a
//! refusal means, `xml` reads replies. Out of scope: what the objects are. No secret is in an error, or in what
//! `Debug` shows.

mod bucket;
mod config;
mod error;
mod location;
mod xml;

pub use bucket::{Bucket, Link, MAX_BYTES, MAX_EXPIRES};
pub use config::{AddressStyle, BucketOptions};
pub use location::{is_address, is_key};
pub use xml::BucketObject;
