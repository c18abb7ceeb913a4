//! Places in files, for messages.

use std::fmt;

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// A place in the JSON, after inflating. Line and column count from 1; the column counts bytes.
    Json {
        /// Line.
        line: usize,
        /// Byte in the line.
        column: usize,
    },
    /// In a file of lines.
    Line {
        /// From 1.
        line: u64,
    },
    /// A place in a binary file.
    Byte {
        /// Bytes from the start.
        byte: u64,
        /// True if the file is compressed and the offset is in its inflated content.
        is_inflated: bool,
    },
    /// A place in the compressed file. It is approximate, because reading is buffered.
    Compressed {
        /// Bytes from the start.
        byte: u64,
    },
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePosition::Json { line, column } => write!(f, "line {line}, byte {column} of the JSON"),
            FilePosition::Line { line } => write!(f, "line {line}"),
            FilePosition::Byte {
                byte,
                is_inflated: false,
            } => write!(f, "byte {byte}"),
            FilePosition::Byte {
                byte,
                is_inflated: true,
            } => write!(f, "byte {byte} of the inflated file"),
            FilePosition::Compressed { byte } => write!(f, "about byte {byte} of the compressed file"),
        }
    }
}
