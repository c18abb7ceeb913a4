//! The XML of replies. Names are compared without their namespaces: servers have different ones for the same.

use std::time::SystemTime;

use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use quick_xml::Reader;
use quick_xml::events::Event;

/// Levels of elements; replies have four.
const DEPTH: usize = 16;

/// An object of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketObject {
    /// Its key, with the prefix.
    pub key: String,
    /// Its size.
    pub bytes: u64,
    /// When it was put.
    pub modified: Option<SystemTime>,
    /// Another content has another one.
    pub etag: String,
}

/// A refusal, in the server's words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct RefusalReply {
    pub(super) code: String,
    pub(super) message: String,
    /// Where the bucket is.
    pub(super) region: String,
}

/// The objects of a page, and the token of the next one (AWS: ListObjectsV2).
pub(super) fn page(text: &str) -> Result<(Vec<BucketObject>, Option<String>), String> {
    let (mut objects, mut object) = (Vec::new(), BucketObject::default());
    let (mut next, mut is_encoded, mut is_list, mut is_more) = (None, false, false, false);
    elements(text, |path, text| {
        match path {
            ["ListBucketResult"] => is_list = true,
            ["ListBucketResult", "NextContinuationToken"] => next = Some(text).filter(|token| !token.is_empty()),
            ["ListBucketResult", "IsTruncated"] => is_more = text == "true",
            ["ListBucketResult", "EncodingType"] => is_encoded = text == "url",
            ["ListBucketResult", "Contents"] => objects.push(std::mem::take(&mut object)),
            ["ListBucketResult", "Contents", "Key"] => object.key = text,
            ["ListBucketResult", "Contents", "ETag"] => object.etag = text,
            ["ListBucketResult", "Contents", "Size"] => {
                object.bytes = text.parse().map_err(|_| "a size is not a number")?
            }
            ["ListBucketResult", "Contents", "LastModified"] => {
                object.modified = text.parse::<Timestamp>().ok().map(SystemTime::from);
            }
            _ => {}
        }
        Ok(())
    })?;
    if !is_list {
        return Err("it has no ListBucketResult".into());
    }
    if is_more && next.is_none() {
        return Err("it is cut, and does not say where the next page begins".into());
    }
    if is_encoded {
        for object in &mut objects {
            // As forms are encoded: `+` is a space.
            let plain = object.key.replace('+', " ");
            object.key = percent_decode_str(&plain).decode_utf8_lossy().into_owned();
        }
    }
    Ok((objects, next.filter(|_| is_more)))
}

/// A refusal; `None` if the text is something else.
pub(super) fn refusal(text: &str) -> Option<RefusalReply> {
    let mut refusal = RefusalReply::default();
    let read = elements(text, |path, text| {
        match path {
            ["Error", "Code"] => refusal.code = text,
            ["Error", "Message"] => refusal.message = text,
            ["Error", "Region"] => refusal.region = text,
            _ => {}
        }
        Ok(())
    });
    (read.is_ok() && !refusal.code.is_empty()).then_some(refusal)
}

/// Calls `found` at the end of each element, with the names that lead to it and the text since its last child.
fn elements(text: &str, mut found: impl FnMut(&[&str], String) -> Result<(), String>) -> Result<(), String> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let (mut path, mut content): (Vec<String>, String) = (Vec::new(), String::new());
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                if path.len() == DEPTH {
                    return Err("it has too many levels".into());
                }
                path.push(start.local_name().as_ref().to_owned());
                content.clear();
            }
            Event::Text(text) => content.push_str(&text),
            Event::CData(text) => content.push_str(&text),
            Event::GeneralRef(reference) => content.push_str(&resolved(&reference)?),
            Event::End(_) => {
                let names: Vec<&str> = path.iter().map(String::as_str).collect();
                found(&names, std::mem::take(&mut content))?;
                path.pop();
            }
            Event::Eof => {
                return if path.is_empty() {
                    Ok(())
                } else {
                    Err("it is cut".into())
                };
            }
            Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

/// A character, or one of the five names that XML itself has. No reference is to more text.
fn resolved(reference: &quick_xml::events::BytesRef<'_>) -> Result<String, String> {
    if let Some(character) = reference.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(character.into());
    }
    let known = quick_xml::escape::resolve_predefined_entity(reference);
    known
        .map(str::to_owned)
        .ok_or_else(|| "it has a name for a text".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Amazon and others reply, with the namespace of each.
    fn listing(namespace: &str, rest: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"{namespace}\"><Name>b</Name><Prefix/>{rest}</ListBucketResult>"
        )
    }

    #[test]
    fn objects_of_all_servers_are_read() {
        let object = "<Contents><Key>a/b c&amp;d&#x2b;.json</Key><LastModified>2026-11-24T11:13:23.000Z</LastModified>\
                      <ETag>&quot;5d41&quot;</ETag><Size>5</Size><Owner><ID>x</ID></Owner></Contents>";
        for namespace in [
            "http://s3.amazonaws.com/doc/2006-03-01/",
            "http://doc.s3.amazonaws.com/2006-03-01",
        ] {
            let (objects, next) = page(&listing(namespace, object)).unwrap();
            let [found] = &objects[..] else { panic!("{objects:?}") };
            assert_eq!((found.key.as_str(), found.bytes, next), ("a/b c&d+.json", 5, None));
            assert_eq!(found.etag, "\"5d41\"");
            // date -u -d '2026-11-24T11:13:23' +%s
            let since = found.modified.unwrap().duration_since(SystemTime::UNIX_EPOCH);
            assert_eq!(since.unwrap().as_secs(), 1_795_518_803);
        }
        let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1=</NextContinuationToken><EncodingType>url</EncodingType>\
                    <Contents><Key>a%2Bb+c%2Fd</Key><Size>1</Size></Contents>";
        let (objects, next) = page(&listing("", more)).unwrap();
        assert_eq!((objects[0].key.as_str(), next.as_deref()), ("a+b c/d", Some("t/1=")));
        let last = more.replace("true", "false");
        assert_eq!(page(&listing("", &last)).unwrap().1, None);
    }

    #[test]
    fn what_is_no_list_is_an_error() {
        let deep = "<a>".repeat(100_000);
        let entities = "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><ListBucketResult><Name>&a;</Name></ListBucketResult>";
        for bad in [
            "",
            "<html></html>",
            "{}",
            "<ListBucketResult>",
            "<ListBucketResult></Other>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents><Size>-1</Size></Contents></ListBucketResult>",
            "<ListBucketResult><Name>&#xd800;</Name></ListBucketResult>",
            entities,
            &deep,
        ] {
            assert!(page(bad).is_err(), "{}", &bad[..bad.len().min(80)]);
        }
    }

    #[test]
    fn a_refusal_has_a_code_and_words() {
        let text = "<?xml version=\"1.0\"?><Error><Code>PermanentRedirect</Code><Message>Go <![CDATA[there]]></Message><Region>eu-west-1</Region>\
                    <StringToSign>secret</StringToSign></Error>";
        let refusal = refusal(text).unwrap();
        assert_eq!(
            (refusal.code.as_str(), refusal.message.as_str()),
            ("PermanentRedirect", "Go there")
        );
        assert_eq!(refusal.region, "eu-west-1");
        for other in [
            "",
            "no",
            "<html><h1>403</h1></html>",
            "<Error><Message>x</Message></Error>",
        ] {
            assert_eq!(super::refusal(other), None, "{other}");
        }
    }
}
