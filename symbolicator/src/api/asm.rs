//! `/asm/v1`: the instructions of an address range.

use serde::{Deserialize, Serialize};

use super::body::{HexNumber, RequestError};
use crate::{ModuleKey, Symbolicator};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AsmRequest {
    debug_name: String,
    debug_id: String,
    start_address: HexNumber,
    size: HexNumber,
    /// The UI sets this if it does not know the size of the function and estimates it from the samples.
    #[serde(default)]
    continue_until_function_end: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AsmAnswer {
    start_address: String,
    size: String,
    arch: &'static str,
    syntax: &'static str,
    /// (bytes from the start, text)
    instructions: Vec<(u64, String)>,
}

pub(super) fn answer(symbolicator: &Symbolicator, request: AsmRequest) -> Result<AsmAnswer, RequestError> {
    let key = ModuleKey {
        debug_name: request.debug_name,
        debug_id: request.debug_id,
    };
    let assembly = symbolicator
        .ask_all(&key, |module| {
            symbolicator.assembly(
                module,
                request.start_address.0,
                request.size.0,
                request.continue_until_function_end,
            )
        })
        .map_err(RequestError::new)?;
    let lines = assembly.instructions.iter();
    let lines = lines.map(|instruction| (instruction.offset, assembly.line(instruction)));
    Ok(AsmAnswer {
        start_address: format!("{:#x}", assembly.start),
        size: format!("{:#x}", assembly.size),
        arch: assembly.arch,
        syntax: assembly.syntax,
        instructions: lines.collect(),
    })
}
