//! The few fields of a profile that loading needs. All others are only checked to be JSON.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::parse::{self, Parser};
use super::whole::RawId;
use super::{Form, ReadLimits, SavedLib};
use crate::tracks::{Track, VisibleThreads};

/// Most tracks, and most bytes of each process id, that are kept: a link cannot hold more.
const MOST_TRACKS: usize = 100_000;
const MOST_PID_BYTES: usize = 64;

/// The fields that were found.
#[derive(Default)]
pub(super) struct KnownFields {
    pub(super) meta: ServingMeta,
    pub(super) libs: Vec<SavedLib>,
    pub(super) threads: u64,
    /// The first tracks of the file.
    pub(super) tracks: Vec<Track>,
    has_meta: bool,
    has_threads: bool,
    lib_bytes: u64,
    max_lib_bytes: u64,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ServingMeta {
    pub(super) product: Option<String>,
    pub(super) imported_from: Option<String>,
    pub(super) symbolicated: Option<bool>,
    pub(super) initial_visible_threads: VisibleThreads,
    preprocessed_profile_version: Option<u32>,
    version: Option<u32>,
}

impl KnownFields {
    /// The form of the profile, or its missing part.
    pub(super) fn form(&self) -> Result<Form, &'static str> {
        if !self.has_meta {
            return Err("an object `meta`");
        }
        if !self.has_threads {
            return Err("a list `threads`");
        }
        match (self.meta.preprocessed_profile_version, self.meta.version) {
            (Some(version), _) => Ok(Form::Processed { version }),
            (None, Some(version)) => Ok(Form::Gecko { version }),
            (None, None) => Err("a number `meta.preprocessedProfileVersion` or `meta.version`"),
        }
    }

    fn add_lib(&mut self, lib: SavedLib) -> bool {
        self.lib_bytes += lib.texts().map(|text| text.len() as u64).sum::<u64>();
        self.lib_bytes += size_of::<SavedLib>() as u64;
        self.libs.push(lib);
        self.lib_bytes <= self.max_lib_bytes
    }
}

pub(super) fn read(json: &mut Parser<'_>, limits: ReadLimits) -> parse::Result<KnownFields> {
    let mut found = KnownFields {
        // A vector doubles as it grows.
        max_lib_bytes: limits.memory_bytes / 4,
        ..KnownFields::default()
    };
    json.read(ProcessFields {
        found: &mut found,
        is_top: true,
    })?;
    Ok(found)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum KnownKey {
    Meta,
    Libs,
    Threads,
    Processes,
    Pid,
    IsMainThread,
    #[serde(other)]
    Other,
}

/// A profile, or a subprocess's profile inside a file in Firefox's own form.
struct ProcessFields<'a> {
    found: &'a mut KnownFields,
    is_top: bool,
}

impl<'de> DeserializeSeed<'de> for ProcessFields<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ProcessFields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a profile (an object with `meta` and `threads`)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let ProcessFields { found, is_top } = self;
        while let Some(key) = map.next_key()? {
            match key {
                KnownKey::Meta if is_top => {
                    found.meta = map.next_value()?;
                    found.has_meta = true;
                }
                KnownKey::Libs => map.next_value_seed(LibFields(found))?,
                KnownKey::Threads => {
                    found.has_threads |= is_top;
                    map.next_value_seed(Each(found, Element::Thread))?;
                }
                KnownKey::Processes => map.next_value_seed(Each(found, Element::Process))?,
                KnownKey::Meta | KnownKey::Pid | KnownKey::IsMainThread | KnownKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

enum Element {
    Thread,
    Process,
}

/// A list of threads or processes.
struct Each<'a>(&'a mut KnownFields, Element);

impl<'de> DeserializeSeed<'de> for Each<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.1 {
            Element::Thread => "a list of threads",
            Element::Process => "a list of processes",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let Each(found, element) = self;
        loop {
            let more = match element {
                Element::Thread => seq.next_element_seed(ThreadFields(found))?,
                Element::Process => seq.next_element_seed(ProcessFields { found, is_top: false })?,
            };
            if more.is_none() {
                return Ok(());
            }
        }
    }
}

/// A thread. Before processed version 41, threads held the libraries.
struct ThreadFields<'a>(&'a mut KnownFields);

impl<'de> DeserializeSeed<'de> for ThreadFields<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ThreadFields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a thread (an object)")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.0.threads += 1;
        let mut track = Track::default();
        while let Some(key) = map.next_key()? {
            match key {
                KnownKey::Libs => map.next_value_seed(LibFields(self.0))?,
                KnownKey::Pid => track.pid = map.next_value::<RawId>()?.into_text(),
                KnownKey::IsMainThread => track.is_main = map.next_value::<Option<bool>>()?.unwrap_or(false),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if self.0.tracks.len() < MOST_TRACKS && track.pid.len() <= MOST_PID_BYTES {
            self.0.tracks.push(track);
        }
        Ok(())
    }
}

struct LibFields<'a>(&'a mut KnownFields);

impl<'de> DeserializeSeed<'de> for LibFields<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for LibFields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of libraries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(lib) = seq.next_element()? {
            if !self.0.add_lib(lib) {
                return Err(A::Error::custom(format_args!(
                    "the list of libraries takes more than {} bytes",
                    self.0.max_lib_bytes
                )));
            }
        }
        Ok(())
    }
}
