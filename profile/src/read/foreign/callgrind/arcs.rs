//! Sums of calls between functions.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use crate::data::{CallArc, Data, Func, NONE};

/// Name, library and file of a callee in a call line.
type CalleeNames = (u32, u32, u32);

#[derive(Default)]
pub(super) struct CallArcs {
    callees: FxHashMap<CalleeNames, u32>,
    names: Vec<CalleeNames>,
    /// By thread, frame and callee.
    sums: FxHashMap<(u32, u32, u32), (u64, u64)>,
    order: Vec<(u32, u32, u32)>,
}

impl CallArcs {
    /// Adds calls from a frame of a thread. Returns the additional memory in units of 8 bytes.
    pub(super) fn add(&mut self, (thread, frame): (u32, u32), callee: CalleeNames, calls: u64, cost: u64) -> u64 {
        let next = self.names.len() as u32;
        let id = *self.callees.entry(callee).or_insert(next);
        let mut more = 0;
        if id == next {
            self.names.push(callee);
            more += 6;
        }
        match self.sums.entry((thread, frame, id)) {
            Entry::Occupied(mut sum) => {
                let (all_calls, all_costs) = sum.get_mut();
                *all_calls = all_calls.saturating_add(calls);
                *all_costs = all_costs.saturating_add(cost);
            }
            Entry::Vacant(sum) => {
                sum.insert((calls, cost));
                self.order.push((thread, frame, id));
                more += 14;
            }
        }
        more
    }

    /// Finds the called functions. A call may name another file than the function, or a full path for a relative one.
    /// If the library has exactly one function of the name, it is the callee. Others are new, without self cost.
    pub(super) fn finish(self, data: &mut Data) -> Vec<CallArc> {
        let mut exact: FxHashMap<CalleeNames, u32> = FxHashMap::default();
        // `NONE`: several functions.
        let mut by_name: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        for (id, func) in (0..).zip(&data.funcs) {
            exact.insert((func.name, func.lib, func.file), id);
            (by_name.entry((func.name, func.lib)))
                .and_modify(|known| *known = NONE)
                .or_insert(id);
        }
        let mut of_callee = Vec::with_capacity(self.names.len());
        for named @ (name, lib, file) in self.names {
            let one = by_name.get(&(name, lib)).copied().filter(|id| *id != NONE);
            let known = exact.get(&named).copied().or(one);
            of_callee.push(known.unwrap_or_else(|| {
                let id = data.funcs.len() as u32;
                data.funcs.push(Func::native(name, lib, file));
                exact.insert(named, id);
                id
            }));
        }
        let arcs = self.order.iter().map(|key @ (thread, caller, callee)| {
            let (calls, cost) = self.sums.get(key).copied().unwrap_or_default();
            CallArc {
                thread: *thread,
                caller: *caller,
                callee: of_callee[*callee as usize],
                calls,
                weight: cost as f64,
            }
        });
        arcs.collect()
    }
}
