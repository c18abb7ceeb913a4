//! symbolicator
