//! The XML of replies. Names are compared without their namespaces: servers have different ones for the same.

use quick_xml::Reader;
use quick_xml::events::Event;

/// Levels of elements; replies have four.
const DEPTH: usize = 16;

/// A refusal, in the server's words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
    /// Where the bucket is.
    pub(super) region: String,
}

/// A refusal; `None` if the text is something else.
pub(super) fn refusal(text: &str) -> Option<Refusal> {
    let mut refusal = Refusal::default();
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
