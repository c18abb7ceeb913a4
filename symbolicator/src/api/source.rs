//! `/source/v1`: the text of a file that the debug info of an address names.

use serde::{Deserialize, Serialize};

use super::body::{HexNumber, RequestError};
use crate::{ModuleKey, Symbolicator};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SourceRequest {
    debug_name: String,
    debug_id: String,
    module_offset: HexNumber,
    file: String,
}

#[derive(Serialize)]
pub(super) struct SourceAnswer {
    source: String,
}

pub(super) fn answer(symbolicator: &Symbolicator, request: SourceRequest) -> Result<SourceAnswer, RequestError> {
    let key = ModuleKey {
        debug_name: request.debug_name,
        debug_id: request.debug_id,
    };
    let source = symbolicator
        .ask_all(&key, |module| {
            symbolicator.source(module, request.module_offset.0, &request.file)
        })
        .map_err(RequestError::new)?;
    Ok(SourceAnswer { source })
}
