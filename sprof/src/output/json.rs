//! JSON outputs, which docs/json.md describes: each begins with its schema.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
struct JsonFile {
    schema: &'static str,
    schema_version: u32,
    sprof_version: &'static str,
    #[serde(flatten)]
    fields: Value,
}

/// Writes an object with these fields, on one line.
pub(crate) fn write(schema: &'static str, schema_version: u32, fields: Value, out: &mut dyn Write) -> io::Result<()> {
    let output = JsonFile {
        schema,
        schema_version,
        sprof_version: env!("CARGO_PKG_VERSION"),
        fields,
    };
    serde_json::to_writer(&mut *out, &output)?;
    out.write_all(b"\n")
}
