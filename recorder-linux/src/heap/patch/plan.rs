//! Which entries of an executable are patched, and with what.

use std::collections::{BTreeSet, HashMap};

use object::read::ReadRef;

use super::displaced::{Displaced, JUMP_BYTES};
use super::executable::{Executable, Reference, ReferenceKind};
use super::functions::{CallClass, CallSignature, KnownFunction, OWN_MALLOC};
use super::inner::inner_functions;
use super::slot::{PatchSlot, continuation_address, distance, slot_address};
use super::{LeftOut, PatchAddresses, PlacedPatches, PlacedWrite, SLOT_BYTES};

/// What can be patched in a file, wherever it is loaded.
#[derive(Debug, Default)]
pub(in crate::heap) struct PatchPlan {
    allocators: BTreeSet<&'static str>,
    slots: Vec<PatchSlot>,
    writes: Vec<PlannedWrite>,
    left_out: Vec<(String, LeftOut)>,
    /// The function that frees blocks and can't be patched: so nothing is.
    refused: Option<(String, LeftOut)>,
}

/// An instruction of the executable that will lead to a slot. Addresses are those in the file.
#[derive(Clone, Copy, Debug)]
enum PlannedWrite {
    /// A jump to the slot, at this address.
    Entry {
        start: u64,
        slot: usize,
        before: [u8; JUMP_BYTES as usize],
    },
    /// The last 4 bytes of a call or jump that ends at this address: to the continuation.
    Branch { next: u64, slot: usize, before: [u8; 4] },
}

/// A function of an allocator that may be patched.
struct PatchEntry<'data> {
    address: u64,
    name: &'data str,
    function: KnownFunction,
    call: CallSignature,
    displaced: Displaced,
}

impl PatchPlan {
    /// The plan for an executable. It is empty without an allocator, and for another machine.
    ///
    /// # Errors
    ///
    /// When this is no 64-bit ELF file, or its tables are broken.
    pub(in crate::heap) fn new<'data>(elf: impl ReadRef<'data>) -> Result<PatchPlan, object::Error> {
        let plan = PatchPlan::of_all(&Executable::read(elf)?);
        let Some((name, reason)) = plan.refused else {
            return Ok(plan);
        };
        Ok(PatchPlan {
            allocators: plan.allocators,
            refused: Some((name, reason)),
            ..PatchPlan::default()
        })
    }

    /// The plan for all functions of an executable that are known and can be patched, also where nothing is to be.
    pub(super) fn of_all(executable: &Executable<'_>) -> PatchPlan {
        let mut plan = PatchPlan {
            allocators: executable.allocators(),
            ..PatchPlan::default()
        };
        let entries = plan.entries_of(executable);
        let slot_of = slots_by_address(&entries);
        for entry in &entries {
            let slot_of = |address: u64| slot_of.get(&address).copied();
            let slot = PatchSlot::new(&entry.function, entry.call, &entry.displaced, slot_of);
            // The longest displaced code has room.
            let Some(slot) = slot else {
                return PatchPlan::default();
            };
            let start = entry.displaced.start;
            plan.writes.push(PlannedWrite::Entry {
                start,
                slot: plan.slots.len(),
                before: executable.bytes_at(start),
            });
            plan.slots.push(slot);
        }
        // Entries call each other, also by functions that only they use: the outer call counts.
        let starts: BTreeSet<u64> = entries.iter().map(|entry| entry.address).collect();
        let is_displaced = |address: u64| {
            let mut displaced = entries.iter().map(|entry| entry.address..entry.displaced.end);
            displaced.any(|displaced| displaced.contains(&address))
        };
        let inner = inner_functions(executable, &starts);
        for function in starts.iter().chain(&inner) {
            for reference in executable.references(*function) {
                if reference.kind == ReferenceKind::Jump
                    && !is_displaced(reference.at)
                    && let Some(&slot) = slot_of.get(&reference.target)
                {
                    plan.writes.push(PlannedWrite::Branch {
                        next: reference.next,
                        slot,
                        before: executable.bytes_at(reference.next - 4),
                    });
                }
            }
        }
        if executable.is_too_much() {
            return PatchPlan::default();
        }
        plan
    }

    /// The functions that can be patched, ascending. Notes the others.
    fn entries_of<'data>(&mut self, executable: &Executable<'data>) -> Vec<PatchEntry<'data>> {
        let mut entries = Vec::new();
        let mut left_out = Vec::new();
        for (&address, names) in &executable.known {
            match entry(executable, address, names) {
                Ok(entry) => entries.push(entry),
                Err((name, reason)) => left_out.push((address, name, reason)),
            }
        }
        let displaced = entries.iter().flat_map(|entry| entry.address..entry.displaced.end);
        let others = { left_out.iter().map(|(address, ..)| *address) }.chain(executable.slow_paths.keys().copied());
        let mut targets: Vec<u64> = displaced.chain(others).collect();
        targets.sort_unstable();
        let mut inlined = None;
        // A table of addresses, for example of a `switch`, may lead behind an entry.
        let in_data = executable.in_data(&targets);
        let (mut called, mut inner) = (BTreeSet::new(), in_data.clone());
        for reference in executable.references_to(&targets) {
            if !executable.is_in_allocator(reference.at) {
                called.insert(reference.target);
            }
            inner.insert(reference.target);
            if let Some(name) = executable.slow_paths.get(&reference.target)
                && reference.kind != ReferenceKind::Address
                && !executable.is_in_allocator(reference.at)
                && let Some(function) = executable.function_of(reference.at)
                && !executable.known.contains_key(&function)
            {
                inlined = Some(((*name).to_owned(), LeftOut::Inlined));
            }
        }
        let mut keep =
            |entries: Vec<PatchEntry<'data>>, reason: LeftOut, is_bad: &dyn Fn(&PatchEntry<'data>) -> bool| {
                let (bad, good) = entries.into_iter().partition::<Vec<_>, _>(is_bad);
                left_out.extend(bad.into_iter().map(|entry| (entry.address, entry.name, reason)));
                good
            };
        let entries = keep(entries, LeftOut::Jump, &|entry| {
            let Displaced { start, end, .. } = entry.displaced;
            let is_jumped_to = inner.range(entry.address + 1..end).any(|target| *target != start);
            is_jumped_to || executable.has_table_into(entry.address, entry.address..end)
        });
        let slot_of = slots_by_address(&entries);
        let entries = keep(entries, LeftOut::ShortJump, &|entry| {
            // Of what is displaced, the copy reaches a slot.
            let is_short = |reference: &Reference| reference.kind == ReferenceKind::ShortJump;
            let mut rest = executable
                .references(entry.address)
                .filter(|found| found.at >= entry.displaced.end);
            rest.any(|reference| is_short(&reference) && slot_of.contains_key(&reference.target))
        });
        // Linkers keep functions that nobody calls, or only the allocator itself.
        // Blocks would look as if they were never freed.
        let no_free = { left_out.iter() }
            .find(|(address, _, reason)| {
                let is_called = [&called, &in_data, &executable.exported].map(|all| all.contains(address));
                let mut known = executable.known.get(address).into_iter().flatten();
                let frees = |call: CallSignature| matches!(call.class, CallClass::Free | CallClass::Reallocate);
                let frees = *reason == LeftOut::FreesMany || known.any(|(_, known)| known.call.is_ok_and(frees));
                frees && is_called.contains(&true)
            })
            .map(|(_, name, reason)| ((*name).to_owned(), *reason));
        self.refused = no_free.or(inlined);
        left_out.retain(|(address, ..)| called.contains(address));
        self.left_out = left_out
            .into_iter()
            .map(|(_, name, reason)| (name.to_owned(), reason))
            .collect();
        entries
    }

    /// The plan without a `malloc` that is known by its name alone. What the compiler has made of such an allocator
    /// can't be seen in the file: it may be a part of its callers, or never be asked to free.
    pub(in crate::heap) fn of_known_allocators(self) -> PatchPlan {
        let is_unknown = self.allocators.iter().all(|allocator| *allocator == OWN_MALLOC);
        if !is_unknown || self.is_empty() {
            return self;
        }
        PatchPlan {
            allocators: self.allocators,
            refused: Some((OWN_MALLOC.to_owned(), LeftOut::OwnMalloc)),
            ..PatchPlan::default()
        }
    }

    pub(in crate::heap) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The function that frees blocks and can't be patched: nothing is patched then. By one of its names.
    pub(in crate::heap) fn refused(&self) -> Option<&(String, LeftOut)> {
        self.refused.as_ref()
    }

    /// Names of the allocators of the executable, each once.
    pub(in crate::heap) fn allocators(&self) -> impl Iterator<Item = &'static str> {
        self.allocators.iter().copied()
    }

    /// Functions of allocators that stay as they are although the executable calls them, each by one of its names.
    pub(in crate::heap) fn left_out(&self) -> &[(String, LeftOut)] {
        &self.left_out
    }

    /// Number of patched entries.
    pub(in crate::heap) fn entries(&self) -> usize {
        self.slots.len()
    }

    /// Length of the slots.
    pub(in crate::heap) fn code_bytes(&self) -> usize {
        self.slots.len() * SLOT_BYTES
    }

    /// The bytes for a process. `None`: the slots are more than 2 GiB away from what they refer to.
    pub(in crate::heap) fn place(&self, at: &PatchAddresses) -> Option<PlacedPatches> {
        let slots = self.slots.iter().enumerate();
        let code: Option<Vec<Vec<u8>>> = slots.map(|(index, slot)| slot.place(index, at)).collect();
        let write = |write: &PlannedWrite| match *write {
            PlannedWrite::Entry { start, slot, before } => {
                let start = start.wrapping_add(at.bias);
                let distance = distance(start.wrapping_add(JUMP_BYTES), slot_address(slot, at))?;
                let [a, b, c, d] = distance;
                Some(PlacedWrite {
                    address: start,
                    content: vec![0xe9, a, b, c, d],
                    before: before.to_vec(),
                })
            }
            PlannedWrite::Branch { next, slot, before } => {
                let next = next.wrapping_add(at.bias);
                Some(PlacedWrite {
                    address: next.wrapping_sub(4),
                    content: distance(next, continuation_address(slot, at))?.to_vec(),
                    before: before.to_vec(),
                })
            }
        };
        Some(PlacedPatches {
            code: code?.concat(),
            writes: self.writes.iter().map(write).collect::<Option<_>>()?,
        })
    }

    /// The address in the file of the instruction that has the same stack and registers of the caller as the code at
    /// this offset in the slots: a sample there is one of the patched function.
    pub(in crate::heap) fn original(&self, offset: u64) -> Option<u64> {
        let offset = usize::try_from(offset).ok()?;
        self.slots.get(offset / SLOT_BYTES)?.original(offset % SLOT_BYTES)
    }
}

/// What is patched at a function, or why not.
fn entry<'data>(
    executable: &Executable<'data>,
    address: u64,
    names: &[(&'data str, KnownFunction)],
) -> Result<PatchEntry<'data>, (&'data str, LeftOut)> {
    // The name of the allocator's own, where a function has that of C as well.
    let own = names.iter().find(|(_, known)| known.allocator != OWN_MALLOC);
    let Some(&(name, function)) = own.or(names.first()) else {
        return Err(("", LeftOut::NoCode));
    };
    let call = function.call.map_err(|reason| (name, reason))?;
    if names.iter().any(|(_, known)| known.call != Ok(call)) {
        return Err((name, LeftOut::Ambiguous));
    }
    let displaced = Displaced::new(executable, address).map_err(|reason| (name, reason))?;
    let inner = executable.next_function(address + 1);
    if inner < displaced.end && inner != displaced.start {
        return Err((name, LeftOut::Jump));
    }
    Ok(PatchEntry {
        address,
        name,
        function,
        call,
        displaced,
    })
}

/// The slot of each entry, by the addresses that others jump to.
fn slots_by_address(entries: &[PatchEntry<'_>]) -> HashMap<u64, usize> {
    let addresses = entries.iter().enumerate();
    addresses
        .flat_map(|(slot, entry)| [(entry.address, slot), (entry.displaced.start, slot)])
        .collect()
}
