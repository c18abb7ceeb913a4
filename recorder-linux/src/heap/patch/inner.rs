//! Functions of an allocator that only its entries use.

use std::collections::BTreeSet;

use super::executable::{Executable, Reference, ReferenceKind};

/// More functions are not looked at. mimalloc's entries use 200.
const MOST_FUNCTIONS: usize = 4000;

/// Functions that entries call, at once or by each other, and that nobody else refers to but the allocator. What they
/// call is part of a call of an entry.
pub(super) fn inner_functions(executable: &Executable<'_>, entries: &BTreeSet<u64>) -> BTreeSet<u64> {
    let (mut inner, mut rest) = (BTreeSet::new(), Vec::from_iter(entries.iter().copied()));
    while let Some(function) = rest.pop() {
        let jumps = executable
            .references(function)
            .filter(|found| found.kind != ReferenceKind::Address);
        // The cold part of a function, which has a symbol of its own, is jumped to anywhere.
        for target in jumps.filter_map(|jump| executable.function_of(jump.target)) {
            // An entry that is not patched is called by others.
            if !executable.known.contains_key(&target) && inner.len() < MOST_FUNCTIONS && inner.insert(target) {
                rest.push(target);
            }
        }
    }
    let functions: Vec<u64> = inner.iter().copied().collect();
    for function in executable.in_data(&functions) {
        inner.remove(&function);
    }
    let references = executable.references_to(&functions);
    loop {
        let is_outer = |reference: &&Reference| {
            let by = executable.function_of(reference.at);
            let is_inner = by.is_some_and(|by| inner.contains(&by) || entries.contains(&by));
            let is_called =
                reference.kind != ReferenceKind::Address && (is_inner || executable.is_in_allocator(reference.at));
            !is_called
        };
        let outer: BTreeSet<u64> = references
            .iter()
            .filter(is_outer)
            .map(|reference| reference.target)
            .collect();
        let before = inner.len();
        inner.retain(|function| !outer.contains(function));
        if inner.len() == before {
            return inner;
        }
    }
}
