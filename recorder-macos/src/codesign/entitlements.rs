//! Entitlements: the keys that are true.

use std::collections::BTreeSet;

/// `[APPLICATION 16]`: all of it, a version and a dictionary.
const ALL: u8 = 0x70;
/// `[16]`: a dictionary.
const DICTIONARY: u8 = 0xb0;
/// The dictionary of the first version, which is all of it.
const SET: u8 = 0x31;
const SEQUENCE: u8 = 0x30;
const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const UTF8: u8 = 0x0c;

/// The keys that are true in DER. `None` if the bytes are not the DER of entitlements.
///
/// `70 { INTEGER 1, b0 { SEQUENCE { UTF8String key, value }... } }`, as the entitlements of Node.js and Deno have it.
pub(super) fn from_der(bytes: &[u8]) -> Option<BTreeSet<String>> {
    let (tag, contents, _) = element(bytes)?;
    let mut entries = match tag {
        ALL => {
            let (INTEGER, _, rest) = element(contents)? else {
                return None;
            };
            let (DICTIONARY, entries, _) = element(rest)? else {
                return None;
            };
            entries
        }
        SET => contents,
        _ => return None,
    };
    let mut keys = BTreeSet::new();
    while !entries.is_empty() {
        let (SEQUENCE, entry, rest) = element(entries)? else {
            return None;
        };
        entries = rest;
        let (UTF8, key, value) = element(entry)? else {
            return None;
        };
        let (tag, value, _) = element(value)?;
        if tag == BOOLEAN && value.iter().any(|byte| *byte != 0) {
            keys.insert(String::from_utf8_lossy(key).into_owned());
        }
    }
    Some(keys)
}

/// The tag and the contents of the first element, and what follows.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, bytes) = bytes.split_first()?;
    let (&first, bytes) = bytes.split_first()?;
    let (len, bytes) = match first {
        0..=0x7f => (usize::from(first), bytes),
        // The number of bytes of the length follows.
        0x81..=0x84 => {
            let (len, rest) = bytes.split_at_checked(usize::from(first - 0x80))?;
            (len.iter().fold(0, |len, byte| (len << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (contents, rest) = bytes.split_at_checked(len)?;
    Some((tag, contents, rest))
}

/// The keys that are true in the outermost dictionary of a property list. Empty for other bytes.
pub(super) fn from_plist(bytes: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut rest: &str = &text;
    let mut keys = BTreeSet::new();
    let mut depth = 0u32;
    let mut key = None;
    while let Some((before, from)) = rest.split_once('<') {
        // A comment may contain tags.
        if let Some(comment) = from.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, rest)| rest);
            continue;
        }
        let Some((tag, after)) = from.split_once('>') else {
            break;
        };
        rest = after;
        match tag.trim_end_matches('/').trim() {
            "dict" | "array" if !tag.ends_with('/') => depth += 1,
            "/dict" | "/array" => depth = depth.saturating_sub(1),
            // Of `<key>name</key>`, the name is before the second tag.
            "/key" if depth == 1 => key = Some(before.to_owned()),
            "true" if depth == 1 => keys.extend(key.take()),
            _ => {}
        }
        if !tag.starts_with('/') {
            key = None;
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &BTreeSet<String>) -> Vec<&str> {
        keys.iter().map(String::as_str).collect()
    }

    #[test]
    fn only_true_is_true_in_der() {
        // 70 { 1, b0 { { "a", true }, { "b", false }, { "c", "x" }, { "d", { true } } } }
        let entries = b"\x30\x06\x0c\x01a\x01\x01\xff\x30\x06\x0c\x01b\x01\x01\x00\x30\x06\x0c\x01c\x0c\x01x\x30\x08\x0c\x01d\x30\x03\x01\x01\xff";
        let wrap = |tag: u8, contents: &[u8]| [&[tag, 0x81, contents.len() as u8], contents].concat();
        let dictionary = wrap(DICTIONARY, entries);
        let all = wrap(ALL, &[&[INTEGER, 1, 1], dictionary.as_slice()].concat());
        assert_eq!(keys(&from_der(&all).unwrap()), ["a"]);
        assert_eq!(keys(&from_der(&wrap(SET, entries)).unwrap()), ["a"]);
        for end in 0..all.len() {
            assert_eq!(from_der(&all[..end]), None, "cut at {end}");
        }
        assert_eq!(from_der(&wrap(UTF8, entries)), None);
    }

    #[test]
    fn only_true_is_true_in_a_property_list() {
        let list = b"<?xml version=\"1.0\"?><!-- <dict><key>no</key><true/> --><plist><dict>
            <key>a</key> <true/> <key>b</key><false/> <key>c</key><string>true</string>
            <key>d</key><dict><key>inner</key><true/></dict> <key>e</key><true></true>
            <key>f</key><array><true/></array> <key>g</key><array/> <key>h</key><true /> <true/>
            </dict></plist>";
        assert_eq!(keys(&from_plist(list)), ["a", "e", "h"]);
        for end in 0..list.len() {
            from_plist(&list[..end]);
        }
        assert!(from_plist(b"\xff</dict></dict><true/>").is_empty());
    }
}
