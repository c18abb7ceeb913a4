//! Comparison with serde_json: equal values and equal refusals, at any block boundary.

use std::io::{self, Read};
use std::marker::PhantomData;

use proptest::prelude::*;
use serde::de::{Deserialize, IgnoredAny};
use serde_json::{Number, Value, json};

use super::*;
use crate::read::FilePosition;

/// Gives this many bytes at a time.
struct Cut<'a>(&'a [u8], usize);

impl Blocks for Cut<'_> {
    fn next(&mut self, mut used: InputBlock) -> io::Result<InputBlock> {
        used.fill(&mut self.0.by_ref().take(self.1 as u64))?;
        Ok(used)
    }
}

fn parse<'de, T: Deserialize<'de>>(json: &[u8], block: usize) -> Result<T> {
    parse_within(json, block, ReadLimits::default())
}

fn parse_within<'de, T: Deserialize<'de>>(json: &[u8], block: usize, limits: ReadLimits) -> Result<T> {
    Parser::new(&mut Cut(json, block), limits).read(PhantomData)
}

fn failure<'de, T: Deserialize<'de>>(json: &[u8], block: usize) -> (ParseFault, FilePosition) {
    match parse::<T>(json, block) {
        Ok(_) => panic!("{} is read", String::from_utf8_lossy(json)),
        Err(error) => error.into_parts(),
    }
}

/// serde_json's default way with fractions is off by one in the last place for some.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(ours, theirs)| ours.0 == theirs.0 && same(ours.1, theirs.1))
        }
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() && theirs.is_f64() => {
            let (ours, theirs) = (ours.as_f64().unwrap_or(0.0), theirs.as_f64().unwrap_or(1.0));
            (ours - theirs).abs() <= theirs.abs().max(f64::MIN_POSITIVE) * 4.0 * f64::EPSILON
                && ours.is_sign_negative() == theirs.is_sign_negative()
        }
        (ours, theirs) => ours == theirs,
    }
}

/// Any JSON, as text.
fn any_json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        (0u64..100_000_000).prop_map(|number| number.to_string()),
        any::<f64>().prop_filter_map("finite", |number| Number::from_f64(number)
            .map(|number| number.to_string())),
        (0u32..10_000, 0u32..10_000_000).prop_map(|(whole, part)| format!("{whole}.{part}")),
        "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?",
    ];
    let text = prop_oneof![
        any::<String>().prop_map(|text| json!(text).to_string()),
        "[a-z]{0,90}".prop_map(|text| json!(text).to_string()),
        Just("\"\\ud83d\\ude00 \\u00e4\\/\\b\\f\\n\\r\\t\\\\\\\"\"".to_owned()),
    ];
    let leaf = prop_oneof![
        4 => number,
        2 => text.clone(),
        1 => "null|true|false",
    ];
    let space = "[ \n\r\t]{0,2}";
    leaf.prop_recursive(6, 80, 8, move |inner| {
        let items = prop::collection::vec((space, inner.clone(), space), 0..8);
        let fields = prop::collection::vec((space, text.clone(), space, inner, space), 0..8);
        let list = items.prop_map(|items| {
            let items: Vec<String> = items.into_iter().map(|(a, item, b)| a + &item + &b).collect();
            format!("[{}]", items.join(","))
        });
        let object = fields.prop_map(|fields| {
            let fields: Vec<String> = (fields.into_iter())
                .map(|(a, key, b, value, c)| format!("{a}{key}{b}:{c}{value}"))
                .collect();
            format!("{{{}}}", fields.join(","))
        });
        prop_oneof![list, object]
    })
}

proptest! {
    // The same cases in each run.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(1000)
    })]

    #[test]
    fn any_json_has_the_same_values_wherever_blocks_end(json in any_json(), block in 1usize..100) {
        let theirs: Value = serde_json::from_str(&json).map_err(|error| TestCaseError::fail(format!("{json}: {error}")))?;
        let ours: Value = parse(json.as_bytes(), block).map_err(|error| TestCaseError::fail(format!("{json}: {error}")))?;
        prop_assert!(same(&ours, &theirs), "{json}: {ours} {theirs}");
        prop_assert!(parse::<IgnoredAny>(json.as_bytes(), block).is_ok(), "{json}");
    }

    #[test]
    fn what_is_no_json_is_refused_read_or_skipped(
        json in any_json(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>(),
            prop::sample::select(&b"0123456789.eE+-[]{},:\"\\ \nnulltruefas"[..]),
        ]), 1..4),
        block in 1usize..100,
    ) {
        let mut bytes = json.into_bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let theirs = serde_json::from_slice::<Value>(&bytes);
        let ours = parse::<Value>(&bytes, block);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}: {:?} {:?}", text, ours, theirs);
        if let (Ok(ours), Ok(theirs)) = (&ours, &theirs) {
            prop_assert!(same(ours, theirs), "{}", text);
        }
        let theirs = serde_json::from_slice::<IgnoredAny>(&bytes);
        let skipped = parse::<IgnoredAny>(&bytes, block);
        prop_assert_eq!(skipped.is_ok(), theirs.is_ok(), "{}: {:?} {:?}", text, skipped, theirs);
        // Both parsers fail at the end of the input or both before it. Exceptions: serde_json calls a cut `-` a wrong
        // number, and a wrong escape near the end a cut text.
        if let (Err(ours), Err(theirs)) = (skipped, theirs) {
            let (why, at) = ours.into_parts();
            let same = matches!(why, ParseFault::End) == theirs.is_eof()
                || theirs.to_string().contains("invalid number")
                || matches!(why, ParseFault::Syntax("invalid escape"));
            prop_assert!(same, "{}: {:?} {:?} {}", text, why, at, theirs);
        }
    }

    /// Numbers equal the standard library's to the last bit.
    #[test]
    fn numbers_are_exact(
        text in prop_oneof![
            "-?(0|[1-9][0-9]{0,8})(\\.[0-9]{1,9})?",
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
            any::<f64>().prop_filter_map("finite", |number| number.is_finite().then(|| format!("{number:?}"))),
        ],
        block in 1usize..30,
    ) {
        let expected: f64 = text.parse().map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
        match parse::<f64>(text.as_bytes(), block) {
            Ok(number) => prop_assert_eq!(number.to_bits(), expected.to_bits(), "{}", text),
            Err(error) => prop_assert!(expected.is_infinite(), "{}: {}", text, error),
        }
    }
}

#[test]
fn whole_numbers_keep_all_digits() {
    for number in [0, 1, 9, 10, 99_999_999, 100_000_000, 123_456_789_012_345_678, u64::MAX] {
        assert_eq!(parse::<u64>(number.to_string().as_bytes(), 100).ok(), Some(number));
    }
    for number in [-1, -99_999_999, -123_456_789_012, i64::MIN] {
        assert_eq!(parse::<i64>(number.to_string().as_bytes(), 3).ok(), Some(number));
    }
}

#[test]
fn the_place_of_an_error_is_that_of_the_byte() {
    for (json, expected, line, column) in [
        (&b"[1, 2, x]"[..], "expected value", 1, 8),
        (b"[1,\n 2,]", "trailing comma", 2, 4),
        (b"{\"a\":1\n\n  \"b\":2}", "expected `,` or `}`", 3, 3),
        (b"{\"a\" 1}", "expected `:`", 1, 6),
        (b"{1:2}", "key must be a string", 1, 2),
        (b"[01]", "invalid number", 1, 3),
        (b"[1.]", "invalid number", 1, 4),
        (b"[\"a\tb\"]", CONTROL, 1, 4),
        (b"[\"\\x\"]", "invalid escape", 1, 4),
        (b"[1] 2", "trailing characters", 1, 5),
        (b"[tru]", "expected value", 1, 5),
    ] {
        for block in 1..10 {
            let (why, at) = failure::<Value>(json, block);
            assert_eq!(
                at,
                FilePosition::Json { line, column },
                "{}",
                String::from_utf8_lossy(json)
            );
            assert!(
                matches!(why, ParseFault::Syntax(what) if what == expected),
                "{why:?}, expected {expected}"
            );
            if expected != "trailing comma" {
                assert_eq!(failure::<IgnoredAny>(json, block).1, at, "skipped");
            }
        }
    }
    let (why, at) = failure::<Vec<u32>>(b"[1, 2,\n 3, \"four\"]", 5);
    assert!(matches!(why, ParseFault::Data(what) if what.contains("expected u32")));
    assert_eq!(at, FilePosition::Json { line: 2, column: 10 });
    let (why, at) = failure::<Vec<u32>>(b"[1, 2,\n 3", 5);
    assert!(matches!(why, ParseFault::End));
    assert_eq!(at, FilePosition::Json { line: 2, column: 2 });
}

const CONTROL: &str = "control character (\\u0000-\\u001F) found while parsing a string";

#[test]
fn what_would_cost_too_much_is_refused() {
    let limits = ReadLimits {
        memory_bytes: 8 << 10,
        json_bytes: 1 << 20,
        values: 100,
    };
    let long = 2 << 10;
    for (json, expected) in [
        (format!("\"{}\"", "a".repeat(long)), "one string of it"),
        (format!("\"{}\"", "\\n".repeat(long)), "one string of it"),
        ("[".repeat(long), "its nesting of brackets"),
        (format!("[{}0]", "0,".repeat(long)), "its number of values"),
        (" ".repeat(2 << 20), "its JSON"),
    ] {
        for block in [100, 10_000] {
            let Err(error) = parse_within::<IgnoredAny>(json.as_bytes(), block, limits) else {
                panic!("{expected} is read");
            };
            let why = error.into_parts().0;
            assert!(
                matches!(why, ParseFault::Limit(ReadLimit { what, .. }) if what == expected),
                "{why:?}, expected {expected}"
            );
        }
    }
    let digits = "1".repeat(long);
    let error = parse_within::<f64>(digits.as_bytes(), 100, limits).unwrap_err();
    assert!(error.to_string().contains("one number of it"), "{error}");
    // Deep nesting is reported as such, not as an unexpected list.
    let error = parse::<u32>("[".repeat(long).as_bytes(), 100).unwrap_err();
    assert!(error.to_string().contains("nesting"), "{error}");
    let error = parse::<Value>("[".repeat(200).as_bytes(), 100).unwrap_err();
    assert_eq!(error.to_string(), "recursion limit exceeded");
}
