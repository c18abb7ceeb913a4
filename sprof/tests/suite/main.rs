//! sprof as its users run it, on programs whose answer is known. A module is a topic, and one binary compiles and links
//! what they share once: `cargo test -p sprof --test suite ground_truth::`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test ends where its premise fails"
)]

mod annotate;
mod arm64_machine;
mod attach;
mod bad_input;
mod bpf;
mod browse;
mod bucket;
mod bucket_errors;
mod bucket_pages;
mod build_ids;
mod cargo;
mod check;
mod cli;
mod cli_terminal;
mod client;
mod compare;
mod completions;
mod count;
mod debuginfod;
mod diff;
mod events;
mod exit_status;
mod export;
mod functions;
mod gate;
mod ground_truth;
mod guide;
mod heap;
mod heap_programs;
mod heap_views;
mod hostile;
mod import_reports;
mod install;
mod jit;
mod ladder;
mod larger_stacks;
mod last;
mod later_names;
mod limits;
mod loaded;
mod mac_recording;
mod mach_o;
mod markers;
mod memory;
mod merge;
mod offcpu;
mod parallelism;
mod parquet;
mod perf_data;
mod perf_off_cpu;
mod privacy;
mod probes;
mod processes;
mod program_spans;
mod push;
mod query;
mod rates;
mod report;
mod resources;
mod self_test;
mod serve_dir;
mod server;
mod share;
mod simpleperf;
mod source_paths;
mod span_files;
mod span_functions;
mod span_views;
mod spool;
mod stat;
mod summary;
mod support;
mod swapped_files;
mod symbols;
mod times;
mod tokio_spans;
mod top;
mod tracepoints;
mod unprivileged;
mod unreadable;
mod unusual_stacks;
mod usage;
mod vanished;
mod viewer;
