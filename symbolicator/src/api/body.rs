//! What the bodies of all requests and answers share.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

/// Why a request is refused.
#[derive(Serialize)]
pub(super) struct RequestError {
    error: String,
}

impl RequestError {
    pub(super) fn new(message: impl ToString) -> RequestError {
        RequestError {
            error: message.to_string(),
        }
    }
}

/// A number that the UI sends as hexadecimal text, `"0x1f"`.
pub(super) struct HexNumber(pub(super) u64);

impl<'de> Deserialize<'de> for HexNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HexNumber, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.strip_prefix("0x").unwrap_or(&text);
        // `from_str_radix` would accept a sign.
        let plain = !digits.starts_with(['+', '-']);
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| plain);
        number
            .map(HexNumber)
            .ok_or_else(|| D::Error::custom(format_args!("{text:?} is not a hexadecimal number like \"0x1f\"")))
    }
}
