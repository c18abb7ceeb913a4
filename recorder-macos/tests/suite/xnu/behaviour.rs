//! What threads do, by chance, and what happens at set times.

use super::machine::Machine;

/// Numbers by chance, the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below the limit, splitmix64.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    pub(super) fn between(&mut self, range: (u64, u64)) -> u64 {
        range.0 + self.below(range.1.saturating_sub(range.0) + 1)
    }
}

/// What a thread does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behaviour {
    /// It stays in a function for so long, ns.
    pub(crate) run_ns: (u64, u64),
    /// It waits for so long, ns.
    pub(crate) wait_ns: (u64, u64),
    /// Of 100 functions, so many are followed by a wait.
    pub(crate) waits: u64,
    /// The same for system calls, of which each takes up to 20 us.
    pub(crate) calls: u64,
    /// Of 1000 functions, so many end the thread, start one, start a process or execute a program.
    pub(crate) changes: u64,
    /// Of 100 functions, so many have a stack with pages that can't be read.
    pub(crate) holes: u64,
}

impl Behaviour {
    /// It runs, and does nothing else.
    pub(crate) const RUNS: Behaviour = Behaviour {
        run_ns: (1_000_000, 1_000_000),
        wait_ns: (0, 0),
        waits: 0,
        calls: 0,
        changes: 0,
        holes: 0,
    };
}

/// Something that happens to the machine.
pub(crate) struct Planned(pub(super) Box<dyn FnOnce(&mut Machine) + Send>);

impl std::fmt::Debug for Planned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Planned")
    }
}
