//! Bodies of the symbol-server requests of the Firefox Profiler, without the server.
//!
//! | path | request, answer |
//! |---|---|
//! | `/symbolicate/v5` | addresses -> functions, inline frames, lines |
//! | `/source/v1` | a file that the debug info of an address names -> its text |
//! | `/asm/v1` | an address range -> its instructions |
//!
//! Each answer is JSON; a request that fails gets `{"error": "..."}`. The server must send all answers with HTTP status
//! 200: of other replies the UI shows the status and drops the body.

mod asm;
mod body;
mod source;
mod symbolicate;

use serde::Serialize;

use self::body::RequestError;
use crate::Symbolicator;

/// Longest request body, in bytes. 10,000 addresses, the most that the UI sends, take about 150 KB.
const MAX_BODY_BYTES: usize = 16 << 20;

/// Answers the request `body` to `path` (`/symbolicate/v5`, `/source/v1`, `/asm/v1`) with JSON.
pub fn handle(symbolicator: &Symbolicator, path: &str, body: &[u8]) -> Vec<u8> {
    let answer = if body.len() <= MAX_BODY_BYTES {
        route(symbolicator, path, body)
    } else {
        Err(RequestError::new(format_args!(
            "the request has {} bytes, at most {MAX_BODY_BYTES} are read; ask in several requests",
            body.len()
        )))
    };
    answer.unwrap_or_else(|refusal| to_json(&refusal))
}

fn route(symbolicator: &Symbolicator, path: &str, body: &[u8]) -> Result<Vec<u8>, RequestError> {
    match path {
        "/symbolicate/v5" => Ok(to_json(&symbolicate::answer(symbolicator, &parse(body)?)?)),
        "/source/v1" => Ok(to_json(&source::answer(symbolicator, parse(body)?)?)),
        "/asm/v1" => Ok(to_json(&asm::answer(symbolicator, parse(body)?)?)),
        _ => Err(RequestError::new(format_args!(
            "there is no {path}; ask /symbolicate/v5, /source/v1 or /asm/v1"
        ))),
    }
}

fn parse<'a, T: serde::Deserialize<'a>>(body: &'a [u8]) -> Result<T, RequestError> {
    serde_json::from_slice(body)
        .map_err(|error| RequestError::new(format_args!("the request is not understood: {error}")))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    // Answers are structs with string keys: to serialise them into memory can't fail.
    serde_json::to_vec(value).unwrap_or_else(|_| br#"{"error":"the answer could not be written as JSON"}"#.to_vec())
}
