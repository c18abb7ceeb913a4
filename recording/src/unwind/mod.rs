//! Turns snapshots into frames.
