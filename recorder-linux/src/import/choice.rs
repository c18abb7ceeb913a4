//! Which event's samples are shown.

use super::ImportError;
use super::attr::Attr;

/// The event of this name, or the first that has samples.
pub(super) fn choose(attrs: &[Attr], event: Option<&str>) -> Result<usize, ImportError> {
    let mut real = attrs.iter().enumerate().filter(|(_, attr)| !attr.is_dummy());
    let Some(asked) = event else {
        return Ok(real.next().map_or(0, |(index, _)| index));
    };
    // perf adds modifiers: `cycles:u`.
    let is_asked = |attr: &Attr| {
        let label = attr.label();
        label == asked || label.split_once(':').is_some_and(|(name, _)| name == asked)
    };
    let found = real.clone().find(|(_, attr)| is_asked(attr));
    found.map(|(index, _)| index).ok_or_else(|| ImportError::NoSuchEvent {
        asked: asked.to_owned(),
        known: real
            .by_ref()
            .map(|(_, attr)| attr.label())
            .collect::<Vec<_>>()
            .join(", "),
    })
}
