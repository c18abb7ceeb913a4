//! Events, build ids and names, which stand among the records of a pipe-mode file and are needed before the first
//! record.

use std::io::{self, Read, Seek};

use super::attr::Attr;
use super::header::{FileAttrs, FileFeatures};
use super::input::bytes_after;
use super::records::RecordReader;
use crate::abi::record_type;
use crate::decode::{Reader, RecordHeader};

/// Reads through the whole file, and leaves the reader anywhere.
pub(super) fn scan<R: Read + Seek>(
    mut records: RecordReader<R>,
    attrs: &mut FileAttrs,
    features: &mut FileFeatures,
) -> io::Result<R> {
    while let Ok(record) = records.next()? {
        let Some((header, body)) = record.split_first_chunk() else {
            break;
        };
        let mut body = Reader(body);
        let mut skip = 0;
        match RecordHeader::parse(header).kind {
            record_type::HEADER_ATTR => add_attr(body.0, attrs),
            record_type::HEADER_BUILD_ID => features.add_build_ids(record),
            record_type::EVENT_UPDATE => rename(&mut body, attrs).unwrap_or_default(),
            record_type::HEADER_FEATURE => {
                if let Some(number) = body.u64() {
                    features.add(number, body.0, attrs);
                }
            }
            kind => skip = bytes_after(kind, body.0),
        }
        records.skip(skip)?;
    }
    Ok(records.into_reader())
}

/// HEADER_ATTR: an attr of the size that stands in it, and its ids.
fn add_attr(body: &[u8], attrs: &mut FileAttrs) {
    let size = body.get(4..).and_then(|rest| Reader(rest).u32()).unwrap_or_default() as usize;
    if let Some((attr, ids)) = body.split_at_checked(size)
        && let Some(attr) = Attr::parse(attr)
    {
        attrs.add(attr, ids);
    }
}

/// EVENT_UPDATE of the kind PERF_EVENT_UPDATE__NAME (2): u64 kind, u64 id, name.
fn rename(body: &mut Reader<'_>, attrs: &mut FileAttrs) -> Option<()> {
    let kind = body.u64()?;
    let index = attrs.by_id(body.u64()?)?;
    if kind == 2 {
        attrs.list.get_mut(index)?.name = Some(String::from_utf8_lossy(body.c_string()).into_owned());
    }
    Some(())
}
