//! Parse errors and their places.

use std::fmt::{self, Display};
use std::io;

use crate::read::position::FilePosition;

pub(in crate::read) type Result<T> = std::result::Result<T, Error>;

/// One pointer, so that a `Result` passes the value beside it in registers.
#[derive(Debug)]
pub(in crate::read) struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    why: ParseFault,
    at: Option<FilePosition>,
}

/// The cause of a parse error.
#[derive(Debug)]
pub(in crate::read) enum ParseFault {
    /// The input ended within the value.
    End,
    /// The input is not JSON.
    Syntax(&'static str),
    /// The JSON has an unexpected type or value.
    Data(String),
    /// Reading more would cost more than the caller allows.
    Limit(ReadLimit),
    /// Reading or inflating failed.
    Io(io::Error),
}

/// The exceeded limit.
#[derive(Clone, Copy, Debug)]
pub(in crate::read) struct ReadLimit {
    pub(in crate::read) what: &'static str,
    pub(in crate::read) bytes: u64,
}

impl Error {
    pub(super) fn new(why: ParseFault) -> Error {
        Error(Box::new(Inner { why, at: None }))
    }

    /// Sets the place, unless the error has one.
    pub(super) fn at(mut self, place: FilePosition) -> Error {
        self.0.at.get_or_insert(place);
        self
    }

    /// The cause and the place.
    pub(in crate::read) fn into_parts(self) -> (ParseFault, FilePosition) {
        let start = FilePosition::Json { line: 1, column: 0 };
        (self.0.why, self.0.at.unwrap_or(start))
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.why {
            ParseFault::End => f.write_str("the end of the input within a value"),
            ParseFault::Syntax(what) => f.write_str(what),
            ParseFault::Data(what) => f.write_str(what),
            ParseFault::Limit(limit) => write!(f, "{} exceeds the limit of {}", limit.what, limit.bytes),
            ParseFault::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl serde::de::Error for Error {
    fn custom<T: Display>(message: T) -> Error {
        Error::new(ParseFault::Data(message.to_string()))
    }
}
