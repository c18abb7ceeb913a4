//! Several modules at once: look-ups that are made before they are asked for.
//!
//! Of recordings of Python (41 processes), rustc, and ten test programs of 35 MB each with cc1 and ld, `sprof export --format folded` takes 0.57, 0.61 and 0.69
//! of the time on two CPUs, with 0.5 % more CPU time (medians of 7 interleaved runs under SCHED_FIFO, without a cache).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use recording::module::{Module, ModuleKind};
use recording::symbol::AddressInfo;

use crate::error::SymbolError;
use crate::helpers::MAX_THREADS;
use crate::symbolicator::Symbolicator;

/// Addresses whose answers wait to be asked for, at most, with one module more for each thread. An answer has about 0.5 KB.
const MAX_WAITING: usize = 50_000;

type Answer = Result<Vec<AddressInfo>, SymbolError>;

/// Look-ups that will be asked for, each once at most.
pub struct Ahead<'a> {
    symbolicator: &'a Symbolicator,
    /// Relative addresses of a module.
    requests: &'a [(Arc<Module>, Vec<u64>)],
    state: Mutex<State>,
    /// An answer was added or taken.
    changed: Condvar,
}

struct State {
    slots: Vec<Slot>,
    /// Requests that may be open, the next one last.
    order: Vec<usize>,
    /// Addresses of all answers that wait.
    waiting: usize,
    /// True once nobody asks any more.
    is_over: bool,
}

/// How far a request is.
enum Slot {
    Open,
    UnderWay,
    Answered(Answer),
    /// The answer was asked for.
    Given,
}

impl Symbolicator {
    /// Runs `ask` while other threads, fewer than there are CPUs, make the look-ups that it will ask for: about in this order, those of the kernel
    /// first, which takes 50 ms to list its functions.
    pub fn look_up_ahead<T>(&self, requests: &[(Arc<Module>, Vec<u64>)], ask: impl FnOnce(&Ahead<'_>) -> T) -> T {
        let mut order: Vec<usize> = (0..requests.len()).rev().collect();
        order.sort_by_key(|request| requests[*request].0.kind == ModuleKind::Kernel);
        let ahead = Ahead {
            symbolicator: self,
            requests,
            state: Mutex::new(State {
                slots: requests.iter().map(|_| Slot::Open).collect(),
                order,
                waiting: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        };
        let cpus = match self.asks_servers() {
            // Downloads show their progress one after the other.
            true => 1,
            false => thread::available_parallelism().map_or(1, usize::from),
        };
        let helpers = (cpus.min(MAX_THREADS) - 1).min(requests.len().saturating_sub(1));
        thread::scope(|scope| {
            let _end = End(&ahead);
            for _ in 0..helpers {
                let thread = thread::Builder::new().name("look-up".to_owned());
                // Without a thread the caller looks up all.
                if thread.spawn_scoped(scope, || ahead.help()).is_err() {
                    break;
                }
            }
            ask(&ahead)
        })
    }
}

/// Ends the help when it is dropped, also by a panic: the scope waits for the threads.
struct End<'a>(&'a Ahead<'a>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Ahead<'_> {
    /// [`Symbolicator::lookup`]. If this request was announced, its answer is there already, or is waited for.
    ///
    /// # Errors
    ///
    /// Those of [`Symbolicator::lookup`].
    pub fn lookup(&self, module: &Module, addresses: &[u64]) -> Result<Vec<AddressInfo>, SymbolError> {
        let is_it = |(other, asked): &(Arc<Module>, Vec<u64>)| **other == *module && asked == addresses;
        let Some(request) = self.requests.iter().position(is_it) else {
            return self.symbolicator.lookup(module, addresses);
        };
        let mut state = self.state();
        while let Slot::UnderWay = state.slots[request] {
            state = match state.next_open() {
                Some(other) => self.answer(state, other),
                None => self.wait(state),
            };
        }
        match std::mem::replace(&mut state.slots[request], Slot::Given) {
            Slot::Answered(answer) => {
                state.waiting -= addresses.len();
                self.changed.notify_all();
                answer
            }
            Slot::Open | Slot::UnderWay | Slot::Given => {
                drop(state);
                self.symbolicator.lookup(module, addresses)
            }
        }
    }

    /// Looks up until nobody asks any more.
    fn help(&self) {
        let mut state = self.state();
        while !state.is_over && !state.order.is_empty() {
            state = match (state.waiting < MAX_WAITING).then(|| state.next_open()).flatten() {
                Some(request) => self.answer(state, request),
                None => self.wait(state),
            };
        }
    }

    /// Makes the look-ups of a request that is under way.
    fn answer<'s>(&'s self, state: MutexGuard<'s, State>, request: usize) -> MutexGuard<'s, State> {
        drop(state);
        let (module, addresses) = &self.requests[request];
        let answer = self.symbolicator.lookup(module, addresses);
        let mut state = self.state();
        state.slots[request] = Slot::Answered(answer);
        state.waiting += addresses.len();
        self.changed.notify_all();
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The next request that nobody works at is then under way.
    fn next_open(&mut self) -> Option<usize> {
        while let Some(request) = self.order.pop() {
            if let Slot::Open = self.slots[request] {
                self.slots[request] = Slot::UnderWay;
                return Some(request);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use recording::module::BuildId;

    use super::*;
    use crate::locate::SymbolOptions;

    fn module(kind: ModuleKind, path: &str) -> Arc<Module> {
        Arc::new(Module {
            kind,
            path: path.into(),
            readable_path: None,
            build_id: None,
            arch: None,
        })
    }

    #[test]
    fn answers_are_those_of_one_look_up_after_the_other() {
        let own = std::env::current_exe().unwrap().display().to_string();
        // Files with names, one that is not there, and another kernel.
        let files = [&own, "/usr/bin/env", "/bin/sh", "/no/such/file"];
        let mut requests: Vec<(Arc<Module>, Vec<u64>)> = files
            .iter()
            .flat_map(|path| {
                (0..5).map(|from| {
                    (
                        module(ModuleKind::File, path),
                        (from * 7919..).step_by(4099).take(300).collect(),
                    )
                })
            })
            .collect();
        let kernel = Module {
            build_id: Some(BuildId(vec![7; 20])),
            ..Module::clone(&module(ModuleKind::Kernel, "[kernel.kallsyms]"))
        };
        requests.insert(3, (Arc::new(kernel), vec![1, 2]));
        let symbolicator = || Symbolicator::new(SymbolOptions::default());
        let text = |answer: Answer| answer.map_err(|error| error.to_string());
        let one = symbolicator();
        let expected: Vec<_> = requests
            .iter()
            .map(|(module, addresses)| text(one.lookup(module, addresses)))
            .collect();
        assert!(expected.iter().filter(|answer| answer.is_ok()).count() >= 5);
        for _ in 0..5 {
            let found: Vec<_> = symbolicator().look_up_ahead(&requests, |ahead| {
                let asked = requests.iter();
                asked
                    .map(|(module, addresses)| text(ahead.lookup(module, addresses)))
                    .collect()
            });
            assert!(found == expected);
        }
        // Not announced, asked twice, and not asked for.
        symbolicator().look_up_ahead(&requests, |ahead| {
            let (module, addresses) = &requests[0];
            for addresses in [&addresses[1..], addresses, addresses] {
                assert_eq!(
                    text(ahead.lookup(module, addresses)),
                    text(one.lookup(module, addresses))
                );
            }
        });
        assert_eq!(symbolicator().look_up_ahead(&[], |_| 7), 7);
    }

    #[test]
    fn who_asks_for_nothing_waits_for_few_answers() {
        let addresses: Vec<u64> = (0..20_000).collect();
        let own = std::env::current_exe().unwrap().display().to_string();
        let requests: Vec<(Arc<Module>, Vec<u64>)> = (0..8)
            .map(|more| (module(ModuleKind::File, &own), addresses[more..].to_vec()))
            .collect();
        Symbolicator::new(SymbolOptions::default()).look_up_ahead(&requests, |ahead| {
            // The last one is looked up here, at the end of what helpers do at their pace.
            let (module, addresses) = &requests[7];
            assert!(ahead.lookup(module, addresses).is_ok());
            let waiting = ahead.state().waiting;
            assert!(waiting <= MAX_WAITING + MAX_THREADS * 20_000, "{waiting}");
        });
        assert!(
            std::panic::catch_unwind(|| {
                Symbolicator::new(SymbolOptions::default()).look_up_ahead(&requests, |_| panic!("ends the help, too"))
            })
            .is_err()
        );
    }
}
