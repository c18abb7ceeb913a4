//! JSON of other profilers, read as a whole within limits.

use std::fmt;
use std::io::{self, Read};

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, SeqAccess, Visitor};

use super::ReadError;
use super::encoding::MixedText;
use super::source::{ForeignFile, ForeignReader};
use crate::read::FilePosition;

/// Most values in one list.
const MAX_VALUES: usize = 10_000_000;

/// A list of limited length.
pub(super) struct LimitedList<T>(pub(super) Vec<T>);

impl<T> Default for LimitedList<T> {
    fn default() -> Self {
        LimitedList(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for LimitedList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
            type Value = Vec<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
                let mut kept = Vec::new();
                while let Some(value) = list.next_element()? {
                    if kept.len() >= MAX_VALUES {
                        return Err(serde::de::Error::custom(format_args!(
                            "expected at most {MAX_VALUES} values in a list"
                        )));
                    }
                    kept.push(value);
                }
                Ok(kept)
            }
        }
        deserializer
            .deserialize_seq(List(std::marker::PhantomData))
            .map(LimitedList)
    }
}

/// The content of a file that is one JSON value.
pub(super) fn parse<T: DeserializeOwned>(source: &mut ForeignFile) -> Result<T, ReadError> {
    let path = source.path.clone();
    let mut reader = source.read()?;
    let mut bytes = FileBytes {
        reader: &mut reader,
        failed: None,
    };
    let parsed: serde_json::Result<T> = {
        let mut json =
            serde_json::Deserializer::from_reader(io::BufReader::with_capacity(1 << 16, MixedText::new(&mut bytes)));
        T::deserialize(&mut json).and_then(|file| json.end().map(|()| file))
    };
    if let Some(failed) = bytes.failed {
        return Err(failed);
    }
    parsed.map_err(|error| {
        let at = FilePosition::Json {
            line: error.line(),
            column: error.column(),
        };
        // serde_json's messages end with the place, in another form.
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or(&what).to_owned();
        match error.is_eof() {
            true => ReadError::Truncated { path, at },
            false => ReadError::Damaged { path, what, at },
        }
    })
}

/// The keys of the object that these bytes begin.
/// Keys behind the end of the bytes are missing.
pub(super) fn first_keys(start: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    let mut depth = 0usize;
    let mut bytes = start.trim_ascii_start();
    while let Some((first, rest)) = bytes.split_first() {
        bytes = rest;
        match first {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let mut end = 0;
                while rest.get(end).is_some_and(|byte| *byte != b'"') {
                    end += if rest[end] == b'\\' { 2 } else { 1 };
                }
                let Some(text) = rest.get(..end) else { break };
                bytes = rest.get(end + 1..).unwrap_or_default();
                let is_key = bytes.trim_ascii_start().first() == Some(&b':');
                if is_key && depth == 1 {
                    keys.push(String::from_utf8_lossy(text).into_owned());
                }
            }
            _ => {}
        }
    }
    keys
}

/// A [`Read`] adapter of a file that keeps the original error.
struct FileBytes<'a, 'b> {
    reader: &'a mut ForeignReader<'b>,
    failed: Option<ReadError>,
}

impl Read for FileBytes<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.some(buffer).map_err(|error| {
            self.failed = Some(error);
            io::Error::other("reading failed")
        })
    }
}
