//! Damage to files, for the tests of all readers: bytes and bits, numbers at their limits, blocks of one place at
//! another, blocks that are missing or there twice, and a cut.

use std::ops::Range;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;

/// This many cases, the same in each run, or as many others as `PROPTEST_CASES` says. `PROPTEST_RNG_SEED` repeats a
/// run.
pub(crate) fn cases(usual: u32) -> ProptestConfig {
    let is_asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: if is_asked { default.cases } else { usual },
        rng_seed: if is_asked { default.rng_seed } else { RngSeed::Fixed(1) },
        failure_persistence: None,
        ..default
    }
}

/// What happens to a file.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    changes: Vec<(Index, Index, Change)>,
    cut: Option<Index>,
}

#[derive(Clone, Debug)]
enum Change {
    Byte(u8),
    Bit(u8),
    /// This many bytes of a number, the lowest first.
    Number(usize, u64),
    /// Adds this to a number of that many bytes.
    Add(usize, i64),
    /// As many bytes of another place.
    Block(Index, usize),
    Missing(usize),
    Twice(usize),
}

/// Damage with this number of changes. In one of four cases it also cuts the file.
pub(crate) fn damage(changes: Range<usize>) -> impl Strategy<Value = Damage> {
    let changes = prop::collection::vec((any::<Index>(), any::<Index>(), change()), changes);
    let cut = prop::option::weighted(0.25, any::<Index>());
    (changes, cut).prop_map(|(changes, cut)| Damage { changes, cut })
}

fn change() -> impl Strategy<Value = Change> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x7f), Just(0x80), Just(0xff), any::<u8>()];
    let width = || prop::sample::select(&[1usize, 2, 4, 8][..]);
    let limit = prop_oneof![
        prop::sample::select(
            &[
                0,
                1,
                u64::MAX,
                u64::MAX - 7,
                i64::MAX as u64,
                1 << 63,
                u32::MAX as u64,
                1 << 32,
                i32::MAX as u64,
                0xffff,
            ][..]
        ),
        (0u32..64).prop_map(|bit| 1 << bit),
        any::<u64>(),
    ];
    prop_oneof![
        byte.prop_map(Change::Byte),
        (0u8..8).prop_map(Change::Bit),
        (width(), limit).prop_map(|(width, number)| Change::Number(width, number)),
        (width(), -9i64..10).prop_map(|(width, number)| Change::Add(width, number)),
        (any::<Index>(), 1usize..200).prop_map(|(from, bytes)| Change::Block(from, bytes)),
        (1usize..200).prop_map(Change::Missing),
        (1usize..200).prop_map(Change::Twice),
    ]
}

impl Damage {
    /// Where bytes change, and how many bytes are left: blocks that are missing or there twice do not count. The
    /// changes are within `targets`, each from its first byte to the one behind its last.
    pub(crate) fn patches(&self, file: &[u8], targets: &[(usize, usize)]) -> (Vec<(usize, Vec<u8>)>, usize) {
        let patches = self.places(file.len(), targets).filter_map(|(at, change)| {
            let number = |bytes: usize| {
                let known = file.get(at..at + bytes).unwrap_or_default();
                known
                    .iter()
                    .rev()
                    .fold(0u64, |number, byte| number << 8 | u64::from(*byte))
            };
            let mut patch = match change {
                Change::Byte(byte) => vec![*byte],
                Change::Bit(bit) => vec![file.get(at)? ^ (1 << bit)],
                Change::Number(bytes, number) => number.to_le_bytes()[..*bytes].to_vec(),
                Change::Add(bytes, by) => number(*bytes).wrapping_add_signed(*by).to_le_bytes()[..*bytes].to_vec(),
                Change::Block(from, bytes) => file[from.index(file.len())..].iter().take(*bytes).copied().collect(),
                Change::Missing(_) | Change::Twice(_) => return None,
            };
            patch.truncate(file.len() - at);
            Some((at, patch))
        });
        let len = self.cut.map_or(file.len(), |cut| cut.index(file.len()));
        (patches.collect(), len)
    }

    /// Damages a file at any place.
    pub(crate) fn anywhere(&self, file: &[u8]) -> Vec<u8> {
        self.within(file, &[(0, file.len())])
    }

    /// Damages a file within `targets`.
    pub(crate) fn within(&self, file: &[u8], targets: &[(usize, usize)]) -> Vec<u8> {
        let mut damaged = file.to_vec();
        if file.is_empty() {
            return damaged;
        }
        let (patches, len) = self.patches(file, targets);
        for (at, patch) in patches {
            damaged[at..at + patch.len()].copy_from_slice(&patch);
        }
        damaged.truncate(len);
        for (at, change) in self.places(file.len(), targets) {
            let len = damaged.len();
            let block = |bytes: &usize| at.min(len)..at.saturating_add(*bytes).min(len);
            match change {
                Change::Missing(bytes) => drop(damaged.drain(block(bytes))),
                Change::Twice(bytes) => {
                    let block = block(bytes);
                    let again = damaged[block.clone()].to_vec();
                    damaged.splice(block.end..block.end, again);
                }
                _ => {}
            }
        }
        damaged
    }

    fn places<'a>(
        &'a self,
        len: usize,
        targets: &'a [(usize, usize)],
    ) -> impl Iterator<Item = (usize, &'a Change)> + 'a {
        self.changes.iter().filter_map(move |(target, at, change)| {
            let (start, end) = targets[target.index(targets.len())];
            let end = end.min(len);
            (start < end).then(|| (start + at.index(end - start), change))
        })
    }
}
