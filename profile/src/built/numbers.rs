//! Numbers as the front end has them.

use serde_json::Value;

/// The same as JSON.
pub(super) fn json_ms(ns: i64) -> Value {
    number(ms(ns))
}

/// Whole numbers without a fraction, as everybody else writes them.
pub(crate) fn number(number: f64) -> Value {
    match number.fract() == 0.0 && number.abs() < 2f64.powi(53) {
        true => (number as i64).into(),
        false => number.into(),
    }
}

/// Nanoseconds as the front end has times.
pub(super) fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}
