//! From files to unwind rules: the modules of all processes, and for each address the rule that leads to its caller.
//!
//! [`modules`] has the files, [`file_tables`] the rules of one file, [`mappings`] what a process has mapped where,
//! [`jit`] the rules of code that a JIT compiler made.

pub(crate) mod code_rules;
pub(crate) mod compact;
pub(crate) mod elf_code;
pub(crate) mod file_tables;
pub(crate) mod function_rules;
pub(crate) mod functions;
pub(crate) mod jit;
pub(crate) mod mappings;
pub(crate) mod modules;
