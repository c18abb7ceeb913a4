//! The result of `sprof share`, for the user and for scripts.

use super::shown::ReadyUpload;

/// Increases when a field of the JSON changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A shared profile.
pub(crate) struct ShareOutcome {
    /// Address that others open. For rows: their address in the bucket.
    pub(crate) link: String,
    /// The command that deletes it.
    pub(super) delete: String,
    pub(super) server: String,
    /// `s3://BUCKET/KEY` of an object in a bucket.
    pub(super) object: Option<String>,
    /// Unix time, ms, at which the link ends.
    pub(super) expires_ms: Option<u64>,
    /// True if sprof followed the link, and it opens.
    pub(super) opens: bool,
    pub(super) shown: ReadyUpload,
}

impl ShareOutcome {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "schema": "sprof-share",
            "schema_version": SCHEMA_VERSION,
            "link": self.link,
            "delete": self.delete,
            "server": self.server,
            "object": self.object,
            "expires_ms": self.expires_ms,
            "bytes": self.shown.bytes,
            "program": self.shown.program,
            "removed": self.shown.removed_json(),
        })
    }
}
