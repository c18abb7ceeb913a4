//! The second pass: the file is copied, with each thread written anew.

use std::fmt;
use std::io::{Read, Write};

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::columns::{Object, field, name};
use super::shared::Shared;
use super::{V55Error, VERSION, thread};

pub(super) fn write(json: impl Read, shared: &Shared, out: impl Write) -> Result<(), V55Error> {
    let mut json = serde_json::Deserializer::from_reader(std::io::BufReader::with_capacity(128 << 10, json));
    let mut copy = Copy {
        shared,
        out,
        failed: None,
    };
    let copied = Document(&mut copy).deserialize(&mut json);
    if let Some(error) = copy.failed.take() {
        return Err(error);
    }
    copied?;
    json.end()?;
    copy.out.flush()?;
    Ok(())
}

struct Copy<'a, W> {
    shared: &'a Shared,
    out: W,
    /// What ended the copying, where it was not the parser.
    failed: Option<V55Error>,
}

impl<W: Write> Copy<'_, W> {
    fn put<E: serde::de::Error>(&mut self, text: Result<String, V55Error>) -> Result<(), E> {
        let put = text.and_then(|text| Ok(self.out.write_all(text.as_bytes())?));
        put.map_err(|error| {
            self.failed = Some(error);
            E::custom("copying failed")
        })
    }
}

struct Document<'a, 'b, W>(&'a mut Copy<'b, W>);

impl<'de, W: Write> DeserializeSeed<'de> for Document<'_, '_, W> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, W: Write> Visitor<'de> for Document<'_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let copy = self.0;
        copy.put(Ok("{".into()))?;
        let mut separator = "";
        while let Some(key) = map.next_key::<String>()? {
            let mut text = String::from(separator);
            match key.as_str() {
                "shared" => {
                    map.next_value::<IgnoredAny>()?;
                    if copy.shared.unknown.0.is_empty() {
                        continue;
                    }
                    name(&mut text, &key);
                    text.push_str(&object(&copy.shared.unknown, None));
                }
                "meta" => {
                    name(&mut text, &key);
                    text.push_str(&object(
                        &map.next_value()?,
                        Some(("preprocessedProfileVersion", VERSION)),
                    ));
                }
                "threads" => {
                    name(&mut text, &key);
                    text.push('[');
                    copy.put(Ok(text))?;
                    map.next_value_seed(Threads(copy))?;
                    text = "]".into();
                }
                _ => {
                    name(&mut text, &key);
                    text.push_str(map.next_value::<Box<RawValue>>()?.get());
                }
            }
            copy.put(Ok(text))?;
            separator = ",\n";
        }
        copy.put(Ok("}\n".into()))
    }
}

struct Threads<'a, 'b, W>(&'a mut Copy<'b, W>);

impl<'de, W: Write> DeserializeSeed<'de> for Threads<'_, '_, W> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, W: Write> Visitor<'de> for Threads<'_, '_, W> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of threads")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut threads: A) -> Result<(), A::Error> {
        let copy = self.0;
        let mut separator = "";
        while let Some(next) = threads.next_element::<Object>()? {
            copy.put(Ok(separator.into()))?;
            let text = thread::write(&next, copy.shared);
            copy.put::<A::Error>(text)?;
            separator = ",\n";
        }
        Ok(())
    }
}

/// An object, with one field set.
fn object(object: &Object, set: Option<(&str, u32)>) -> String {
    let mut text = String::from("{");
    for (key, value) in &object.0 {
        match set {
            Some((name, number)) if name == key => field(&mut text, key, &number.to_string()),
            _ => field(&mut text, key, value.get()),
        }
    }
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
    text
}
