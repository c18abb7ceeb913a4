//! `/source/v1`: the text of a file that the debug info of an address names.

use serde::{Deserialize, Serialize};

use super::body::{Address, Refusal};
use crate::{ModuleKey, Symbolicator};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Request {
    debug_name: String,
    debug_id: String,
    module_offset: Address,
    file: String,
}

#[derive(Serialize)]
pub(super) struct Answer {
    source: String,
}

pub(super) fn answer(symbolicator: &Symbolicator, request: Request) -> Result<Answer, Refusal> {
    let key = ModuleKey {
        debug_name: request.debug_name,
        debug_id: request.debug_id,
    };
    let source = symbolicator
        .ask_all(&key, |module| {
            symbolicator.source(module, request.module_offset.0, &request.file)
        })
        .map_err(Refusal::new)?;
    Ok(Answer { source })
}
