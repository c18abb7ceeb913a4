//! Places in the program, and values.

use core::sync::atomic::AtomicU32;

use crate::format::MOST_FIELDS;

/// A place in the program that records, with its name and the names of its fields. The macros make it.
#[derive(Debug)]
pub struct Site {
    pub(crate) name: &'static str,
    pub(crate) keys: &'static [&'static str],
    /// Offset of its text in the shared memory, in words; 0 before it has one.
    pub(crate) id: AtomicU32,
}

impl Site {
    /// A place; at most 8 fields.
    pub const fn new(name: &'static str, keys: &'static [&'static str]) -> Site {
        assert!(keys.len() <= MOST_FIELDS, "a span has at most 8 fields");
        let id = AtomicU32::new(0);
        Site { name, keys, id }
    }
}

/// The value of a field. Numbers, `bool`, `&str`, [`Flow`] and [`FlowEnd`] become one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Field<'a> {
    /// No value.
    None,
    /// A number.
    Signed(i64),
    /// A number.
    Unsigned(u64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// A text. The first 96 bytes are recorded.
    Text(&'a str),
    /// See [`Flow`].
    Flow(Flow),
    /// See [`Flow`].
    FlowEnd(FlowEnd),
}

macro_rules! from {
    ($($variant:ident: $($kind:ty)+,)+) => {
        $($(
            impl From<$kind> for Field<'_> {
                #[inline]
                fn from(value: $kind) -> Self {
                    Field::$variant(value as _)
                }
            }
        )+)+
    };
}

from! {
    Signed: i8 i16 i32 i64 isize,
    Unsigned: u8 u16 u32 u64 usize,
    Float: f32 f64,
    Bool: bool,
    Flow: Flow,
    FlowEnd: FlowEnd,
}

impl<'a> From<&'a str> for Field<'a> {
    #[inline]
    fn from(value: &'a str) -> Self {
        Field::Text(value)
    }
}

#[cfg(feature = "std")]
impl<'a> From<&'a std::string::String> for Field<'a> {
    #[inline]
    fn from(value: &'a std::string::String) -> Self {
        Field::Text(value)
    }
}

/// Connects spans of several threads: a message is sent in one, and handled in another.
///
/// ```
/// use sprof_spans::{span, Flow};
///
/// let flow = Flow::new();
/// let sent = span!("send", flow = flow);
/// drop(sent);
/// std::thread::spawn(move || {
///     let _handled = span!("handle", flow = flow.end());
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow(pub(crate) u64);

/// A [`Flow`] in the last span that it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowEnd(pub(crate) u64);

impl Flow {
    /// For the last span.
    pub fn end(self) -> FlowEnd {
        FlowEnd(self.0)
    }
}
