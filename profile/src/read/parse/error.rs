//! Parse errors and their places.

use std::fmt::{self, Display};
use std::io;

use crate::read::position::Position;

pub(in crate::read) type Result<T> = std::result::Result<T, Error>;

/// One pointer, so that a `Result` passes the value beside it in registers.
#[derive(Debug)]
pub(in crate::read) struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    why: Why,
    at: Option<Position>,
}

/// The cause of a parse error.
#[derive(Debug)]
pub(in crate::read) enum Why {
    /// The input ended within the value.
    End,
    /// The input is not JSON.
    Syntax(&'static str),
    /// The JSON has an unexpected type or value.
    Data(String),
    /// Reading more would cost more than the caller allows.
    Limit(Limit),
    /// Reading or inflating failed.
    Io(io::Error),
}

/// The exceeded limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct Limit {
    pub(in crate::read) what: &'static str,
    pub(in crate::read) bytes: u64,
}

impl Error {
    pub(super) fn new(why: Why) -> Error {
        Error(Box::new(Inner { why, at: None }))
    }

    /// Sets the place, unless the error has one.
    pub(super) fn at(mut self, place: Position) -> Error {
        self.0.at.get_or_insert(place);
        self
    }

    /// The cause and the place.
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
