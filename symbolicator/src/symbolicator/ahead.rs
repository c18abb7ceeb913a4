//! Several modules at once: look-ups that are made before they are asked for.
//!
//! With recordings of Python (41 processes), rustc, and ten test programs of 35 MB each with cc1 and ld, `sprof export
//! --format folded` takes 0.57, 0.61 and 0.69 of the time on two CPUs, with 0.5 % more CPU time (medians of 7
//! interleaved runs under SCHED_FIFO, without a cache).

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use names::symbol::AddressInfo;
use recording::module::{Module, ModuleKind};

use super::Symbolicator;
use crate::error::SymbolError;
use crate::helper_threads::MAX_THREADS;

/// Addresses whose answers wait to be asked for, at most, with one request more for each thread, also for the one that
/// asks. An answer has about 0.5 KB.
const MAX_WAITING: usize = 50_000;

type LookupResult = Result<Vec<AddressInfo>, SymbolError>;

/// [`Symbolicator::lookup`].
type LookUp<'a> = &'a (dyn Fn(&Module, &[u64]) -> LookupResult + Sync);

/// Look-ups that will be asked for. Each is made at most once.
pub struct Ahead<'a> {
    look_up: LookUp<'a>,
    /// Relative addresses of a module.
    requests: &'a [(Arc<Module>, Vec<u64>)],
    state: Mutex<LookAheadState>,
    /// An answer was added or taken.
    changed: Condvar,
}

struct LookAheadState {
    slots: Vec<RequestState>,
    /// Requests that may be open, the next one last.
    order: Vec<usize>,
    /// Addresses of all answers that wait.
    waiting: usize,
    /// True once nobody asks any more.
    is_over: bool,
}

/// How far a request is.
enum RequestState {
    Open,
    UnderWay,
    Answered(LookupResult),
    /// The answer was asked for.
    Given,
}

impl Symbolicator {
    /// Runs `ask` while other threads, fewer than there are CPUs, make the look-ups that it will ask for: about in this
    /// order, but look-ups in the kernel first: it takes 50 ms to list its functions.
    pub fn look_up_ahead<T>(&self, requests: &[(Arc<Module>, Vec<u64>)], ask: impl FnOnce(&Ahead<'_>) -> T) -> T {
        let cpus = match self.asks_servers() {
            // Downloads show their progress one after the other.
            true => 1,
            false => thread::available_parallelism().map_or(1, usize::from),
        };
        let helpers = (cpus.min(MAX_THREADS) - 1).min(requests.len().saturating_sub(1));
        let look_up = |module: &Module, addresses: &[u64]| self.lookup(module, addresses);
        Ahead::new(requests, &look_up).run(helpers, ask)
    }
}

/// Ends the help when it is dropped, also by a panic: the scope waits for the threads.
struct StopHelpers<'a>(&'a Ahead<'a>);

impl Drop for StopHelpers<'_> {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

/// A request that is under way. If a panic drops it, the caller makes the look-up. Helpers do not: they would panic as
/// well.
struct RunningRequest<'a>(&'a Ahead<'a>, usize);

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.0.state().slots[self.1] = RequestState::Open;
        self.0.changed.notify_all();
    }
}

impl<'a> Ahead<'a> {
    fn new(requests: &'a [(Arc<Module>, Vec<u64>)], look_up: LookUp<'a>) -> Ahead<'a> {
        let mut order: Vec<usize> = (0..requests.len()).rev().collect();
        order.sort_by_key(|request| requests[*request].0.kind == ModuleKind::Kernel);
        Ahead {
            look_up,
            requests,
            state: Mutex::new(LookAheadState {
                slots: requests.iter().map(|_| RequestState::Open).collect(),
                order,
                waiting: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Runs `ask` while `helpers` threads look up.
    fn run<T>(&self, helpers: usize, ask: impl FnOnce(&Ahead<'_>) -> T) -> T {
        thread::scope(|scope| {
            let _end = StopHelpers(self);
            for _ in 0..helpers {
                let thread = thread::Builder::new().name("look-up".to_owned());
                // Without a thread the caller looks up all.
                if thread.spawn_scoped(scope, || self.help()).is_err() {
                    break;
                }
            }
            ask(self)
        })
    }

    /// As [`Symbolicator::lookup`]. If this request was announced, takes the prepared answer, or waits for it.
    ///
    /// # Errors
    ///
    /// Those of [`Symbolicator::lookup`].
    pub fn lookup(&self, module: &Module, addresses: &[u64]) -> Result<Vec<AddressInfo>, SymbolError> {
        let mut state = self.state();
        // A foreign profile may list a library twice: each of the two requests has an answer.
        let is_it = |(slot, (other, asked)): (&RequestState, &(Arc<Module>, Vec<u64>))| {
            !matches!(slot, RequestState::Given) && **other == *module && asked == addresses
        };
        let Some(request) = state.slots.iter().zip(self.requests).position(is_it) else {
            drop(state);
            return (self.look_up)(module, addresses);
        };
        while let RequestState::UnderWay = state.slots[request] {
            state = match state.next_open() {
                Some(other) => self.answer(state, other),
                None => self.wait(state),
            };
        }
        match std::mem::replace(&mut state.slots[request], RequestState::Given) {
            RequestState::Answered(answer) => {
                state.waiting -= addresses.len();
                self.changed.notify_all();
                answer
            }
            RequestState::Open | RequestState::UnderWay | RequestState::Given => {
                drop(state);
                (self.look_up)(module, addresses)
            }
        }
    }

    /// Looks up until nobody asks any more.
    fn help(&self) {
        let mut state = self.state();
        while !state.is_over && !state.order.is_empty() {
            state = match state.next_open() {
                Some(request) => self.answer(state, request),
                None => self.wait(state),
            };
        }
    }

    /// Makes the look-ups of a request that is under way.
    fn answer<'s>(&'s self, state: MutexGuard<'s, LookAheadState>, request: usize) -> MutexGuard<'s, LookAheadState> {
        drop(state);
        let under_way = RunningRequest(self, request);
        let (module, addresses) = &self.requests[request];
        let answer = (self.look_up)(module, addresses);
        std::mem::forget(under_way);
        let mut state = self.state();
        state.slots[request] = RequestState::Answered(answer);
        state.waiting += addresses.len();
        self.changed.notify_all();
        state
    }

    fn state(&self) -> MutexGuard<'_, LookAheadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, LookAheadState>) -> MutexGuard<'s, LookAheadState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl LookAheadState {
    /// The next request that nobody works at is then under way. `None` also while enough answers wait.
    fn next_open(&mut self) -> Option<usize> {
        if self.waiting >= MAX_WAITING {
            return None;
        }
        while let Some(request) = self.order.pop() {
            if let RequestState::Open = self.slots[request] {
                self.slots[request] = RequestState::UnderWay;
                return Some(request);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering};

    use names::symbol::SourceFrame;
    use recording::module::BuildId;

    use super::*;
    use crate::files::options::SymbolOptions;

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
        let text = |answer: LookupResult| answer.map_err(|error| error.to_string());
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

    /// An answer that names its look-up.
    fn infos(from: u32) -> LookupResult {
        let frame = SourceFrame {
            line: Some(from),
            ..SourceFrame::default()
        };
        Ok(vec![AddressInfo {
            frames: vec![frame],
            ..AddressInfo::default()
        }])
    }

    #[test]
    fn a_panic_of_a_helper_is_no_endless_wait() {
        let requests = ["/a", "/b"].map(|path| (module(ModuleKind::File, path), vec![1]));
        let began = Barrier::new(2);
        let look_up = |_: &Module, _: &[u64]| match thread::current().name() {
            Some("look-up") => {
                began.wait();
                panic!("in a helper")
            }
            _ => infos(7),
        };
        let ahead = Ahead::new(&requests, &look_up);
        let mut answer = None;
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            ahead.run(1, |ahead| {
                began.wait();
                let (module, addresses) = &requests[0];
                answer = ahead.lookup(module, addresses).ok();
            });
        }));
        assert_eq!(answer, infos(7).ok());
        assert!(ended.is_err(), "the panic is not hidden");
    }

    #[test]
    fn each_of_two_equal_requests_is_looked_up_once() {
        let requests = ["/a", "/a", "/b"].map(|path| (module(ModuleKind::File, path), vec![1]));
        let looked_up = AtomicU32::new(0);
        let look_up = |_: &Module, _: &[u64]| infos(looked_up.fetch_add(1, Ordering::Relaxed));
        let ahead = Ahead::new(&requests, &look_up);
        // All three are answered before they are asked for.
        for request in 0..3 {
            ahead.state().slots[request] = RequestState::UnderWay;
            drop(ahead.answer(ahead.state(), request));
        }
        for (number, (module, addresses)) in (0..).zip(&requests) {
            assert_eq!(ahead.lookup(module, addresses).ok(), infos(number).ok());
        }
        assert_eq!((ahead.state().waiting, looked_up.load(Ordering::Relaxed)), (0, 3));
    }

    /// The one request is under way elsewhere: who waits for it makes other look-ups, while few answers wait.
    #[test]
    fn who_waits_looks_up_no_more_than_helpers_do() {
        let mut requests = vec![(module(ModuleKind::File, "/slow"), vec![1])];
        let many = (0..MAX_WAITING as u64 / 2).collect::<Vec<u64>>();
        requests.extend((0..5).map(|number| (module(ModuleKind::File, &number.to_string()), many.clone())));
        let look_up = |_: &Module, _: &[u64]| infos(7);
        let ahead = Ahead::new(&requests, &look_up);
        ahead.state().slots[0] = RequestState::UnderWay;
        thread::scope(|scope| {
            scope.spawn(|| ahead.lookup(&requests[0].0, &requests[0].1));
            let mut state = ahead.state();
            while state.waiting < MAX_WAITING {
                state = ahead.wait(state);
            }
            drop(ahead.answer(state, 0));
        });
        let answered = |slot: &&RequestState| matches!(slot, RequestState::Answered(_));
        assert_eq!(ahead.state().slots.iter().filter(answered).count(), 2);
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
