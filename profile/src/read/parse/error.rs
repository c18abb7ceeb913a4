//! Why parsing stopped, and where.

use std::fmt::{self, Display};
use std::io;

use super::super::Position;

pub(in crate::read) type Result<T> = std::result::Result<T, Error>;

/// One pointer, so that the values beside it in a `Result` are passed in registers.
#[derive(Debug)]
pub(in crate::read) struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    why: Why,
    at: Option<Position>,
}

/// Why parsing stopped.
#[derive(Debug)]
pub(in crate::read) enum Why {
    /// The input ended within the value.
    End,
    /// This is no JSON.
    Syntax(&'static str),
    /// It is JSON, but not what was asked for.
    Data(String),
    /// Reading more would cost more than the caller allows.
    Limit(Limit),
    /// Reading or inflating failed.
    Io(io::Error),
}

/// The limit that was hit.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Limit {
    pub(in crate::read) what: &'static str,
    pub(in crate::read) bytes: u64,
}

impl Error {
    pub(super) fn new(why: Why) -> Error {
        Error(Box::new(Inner { why, at: None }))
    }

    /// With a place, unless it has one already.
    pub(super) fn at(mut self, place: Position) -> Error {
        self.0.at.get_or_insert(place);
        self
    }

    /// What happened, and where.
    pub(in crate::read) fn into_parts(self) -> (Why, Position) {
        let start = Position::Json { line: 1, column: 0 };
        (self.0.why, self.0.at.unwrap_or(start))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.why {
            Why::End => f.write_str("the end of the input within a value"),
            Why::Syntax(what) => f.write_str(what),
            Why::Data(what) => f.write_str(what),
            Why::Limit(limit) => write!(f, "{} exceeds the limit of {}", limit.what, limit.bytes),
            Why::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error::new(Why::Data(message.to_string()))
    }
}
