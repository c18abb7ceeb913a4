//! OpenTelemetry: `ProfilesService/Export` of OTLP 1.10 over HTTP, as protobuf.

use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use profile::export::otlp;

use super::{PushError, PushRequest, Shipment};

pub(super) fn post(shipment: &Shipment<'_>) -> io::Result<PushRequest> {
    let mut body = GzEncoder::new(Vec::new(), Compression::default());
    otlp::write(shipment.picked, &shipment.labels.of_opentelemetry(), &mut body)?;
    Ok(PushRequest {
        path: &["v1development", "profiles"],
        headers: &[("Content-Type", "application/x-protobuf"), ("Content-Encoding", "gzip")],
        body: body.finish()?,
    })
}

/// A collector may take a part of a profile.
pub(super) fn check(reply: &[u8]) -> Result<(), PushError> {
    match otlp::refused(reply) {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(PushError::Partly(why)),
        Err(_) => Err(PushError::Reply("the reply is not that of OTLP".to_owned())),
    }
}
