//! Numbers in the front end's form.

use serde_json::Value;

/// Nanoseconds as milliseconds in JSON.
pub(super) fn json_ms(ns: i64) -> Value {
    number(ms(ns))
}

/// A whole number is written without a fraction.
pub(crate) fn number(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 2f64.powi(53) {
        true => (number as i64).into(),
        false => number.into(),
    }
}

/// Nanoseconds as milliseconds.
pub(super) fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}
