//! Answers that several threads find at once, each for other units.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::budget::{Budget, Flaw};
use super::lazy_unit::{AbbreviationTables, DwarfOf};
use super::unit::{Unit, UnitAnswer};
use crate::helper_threads;

/// Frames that are kept for later, about: 40 of each address. More addresses are looked up when they are asked for.
const MAX_FRAMES: usize = 400_000;

/// What all units share.
#[derive(Clone, Copy)]
pub(super) struct UnitContext<'u, 'a> {
    pub(super) dwarf: &'u DwarfOf<'a>,
    pub(super) tables: &'u AbbreviationTables,
}

/// Answers that have frames, with the index of their unit, by stated virtual address.
#[derive(Default)]
pub(super) struct PreparedAnswers {
    answers: FxHashMap<u64, (usize, UnitAnswer)>,
    pub(super) flaws: Vec<Flaw>,
}

impl PreparedAnswers {
    pub(super) fn take(&mut self, svma: u64) -> Option<(usize, UnitAnswer)> {
        if self.answers.is_empty() {
            None
        } else {
            self.answers.remove(&svma)
        }
    }
}

/// Asks the units for the addresses, (index of the unit, stated virtual address). Units with a part in another file,
/// which one thread reads, are left out.
pub(super) fn look_up<'a>(
    units: &mut [Unit<'a>],
    mut asked: Vec<(usize, u64)>,
    shared: UnitContext<'_, 'a>,
    budget: &mut Budget,
    first: impl FnOnce(),
) -> PreparedAnswers {
    asked.sort_unstable();
    let mut groups = asked.chunk_by(|(one, _), (other, _)| one == other).peekable();
    let mut items = Vec::new();
    for (index, unit) in units.iter_mut().enumerate() {
        if let Some(group) = groups.next_if(|group| group.first().is_some_and(|(unit, _)| *unit == index)) {
            items.push((unit, group));
        }
    }
    // The longest first: the last one decides when all are done.
    items.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    let found = Mutex::new((PreparedAnswers::default(), budget));
    let frames = AtomicUsize::new(0);
    let lock = || found.lock().unwrap_or_else(PoisonError::into_inner);
    let task = |(unit, group): (&mut Unit<'a>, &[(usize, u64)])| {
        let UnitContext { dwarf, tables } = shared;
        if unit.may_be_split(dwarf, tables) {
            return;
        }
        let before = lock().1.clone();
        let mut left = before.clone();
        let mut flaws = Vec::new();
        let mut answers = Vec::with_capacity(group.len());
        for &(index, svma) in group {
            if frames.load(Ordering::Relaxed) > MAX_FRAMES {
                break;
            }
            let answer = unit.find(dwarf, tables, svma, &mut left, &mut flaws, &mut |_, _| None);
            frames.fetch_add(answer.frames.len(), Ordering::Relaxed);
            if !answer.is_empty() {
                answers.push((svma, (index, answer)));
            }
        }
        let (prepared, budget) = &mut *lock();
        prepared.answers.extend(answers);
        prepared.flaws.append(&mut flaws);
        budget.take_as(&before, &left);
    };
    helper_threads::share(items, task, first);
    let (prepared, _) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    prepared
}
