//! What was shared, for the user and for scripts.

use super::shown::ReadyUpload;

/// Increases when a field of the JSON changes its meaning.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A shared profile.
pub(crate) struct ShareOutcome {
    /// What others open. Of rows it is their address in the bucket.
    pub(crate) link: String,
    /// The command that deletes it.
    pub(super) delete: String,
    pub(super) server: String,
    /// Of an object in a bucket: `s3://BUCKET/KEY`.
    pub(super) object: Option<String>,
    /// Unix time, ms, at which the link ends.
    pub(super) expires_ms: Option<u64>,
    /// The link was tried, and others can open it.
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
