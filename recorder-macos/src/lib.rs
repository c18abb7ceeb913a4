//! recorder-macos
