//! The end of the program, when recording ends before it does.

use std::collections::BTreeMap;

use recording::session::{self, ProgramExit, StopReason};

use super::host::Host;
use crate::kernel::{KernelEvent, Signal};

/// From SIGTERM to SIGKILL, ns.
const GRACE_NS: u64 = 5_000_000_000;
/// From one look at what lives to the next, where no events come, ns.
const ROUND_NS: u64 = 50_000_000;

/// The launched program after recording.
#[derive(Debug)]
pub struct MachTarget<M: Host> {
    host: M,
    program: i32,
    /// Processes below it that were alive when recording ended, with their starts: an id may be another's by now.
    others: BTreeMap<i32, u64>,
    asked_to_end_ns: Option<u64>,
    keep_running: bool,
    /// Once it was reaped: its id may be another's by now.
    exit: Option<ProgramExit>,
}

impl<M: Host> session::Target for MachTarget<M> {
    fn wait(mut self) -> ProgramExit {
        if self.keep_running {
            return self.reap().unwrap_or(ProgramExit::StillRunning);
        }
        if let Some(asked_ns) = self.asked_to_end_ns {
            // Another Ctrl-C kills the rest at once. Where it can't be heard, the grace still ends.
            let _ = self.host.hear_signals();
            self.wait_or_kill(asked_ns);
            self.host.forget_signals();
        }
        loop {
            if let Some(exit) = self.reap() {
                return exit;
            }
            self.host.sleep(self.host.now_ns().saturating_add(ROUND_NS));
        }
    }
}

impl<M: Host> MachTarget<M> {
    /// Sends SIGTERM to the program and to all live recorded processes, unless the program ended by itself or is to be
    /// kept.
    pub fn after(host: M, program: i32, stop: StopReason, keep_running: bool, living: &[i32]) -> MachTarget<M> {
        let mut target = MachTarget {
            host,
            program,
            others: BTreeMap::new(),
            asked_to_end_ns: None,
            keep_running,
            exit: None,
        };
        if stop.is_end_of_program() || keep_running {
            // A program may leave processes behind on purpose (a daemon).
            return target;
        }
        for pid in living {
            target.hold(*pid);
        }
        target.hold_children();
        target.send_to_all(Signal::Terminate);
        target.asked_to_end_ns = Some(target.host.now_ns());
        target
    }

    /// How the program has ended, once it has.
    fn reap(&mut self) -> Option<ProgramExit> {
        self.exit = self
            .exit
            .or_else(|| self.host.reap(self.program).map(ProgramExit::from));
        self.exit
    }

    fn wait_or_kill(&mut self, asked_ns: u64) {
        let end_ns = asked_ns.saturating_add(GRACE_NS);
        loop {
            self.forget_ended();
            let now = self.host.now_ns();
            if self.reap().is_some() && self.others.is_empty() {
                return;
            }
            if now >= end_ns {
                break;
            }
            let events = self.host.sleep(now.saturating_add(ROUND_NS).min(end_ns));
            if events.iter().any(|event| matches!(event, KernelEvent::Signal(_))) {
                break;
            }
        }
        // Processes that started after the recording ended are children of the held ones.
        self.hold_children();
        self.send_to_all(Signal::Kill);
    }

    fn send_to_all(&mut self, signal: Signal) {
        self.forget_ended();
        if self.reap().is_none() {
            self.host.send(self.program, signal);
        }
        self.others.keys().for_each(|pid| self.host.send(*pid, signal));
    }

    fn forget_ended(&mut self) {
        let host = &self.host;
        let is_same = |pid: i32, started_us: u64| {
            host.identity(pid)
                .is_some_and(|identity| identity.started_us == started_us)
        };
        self.others.retain(|pid, started_us| is_same(*pid, *started_us));
    }

    /// Takes hold of a process, unless it has ended.
    fn hold(&mut self, pid: i32) -> bool {
        let identity = self.host.identity(pid).filter(|_| pid != self.program);
        if let Some(identity) = identity {
            self.others.insert(pid, identity.started_us);
        }
        identity.is_some()
    }

    /// Takes hold of all below the program and below what is held.
    fn hold_children(&mut self) {
        let program = self.exit.is_none().then_some(self.program);
        let mut parents: Vec<i32> = self.others.keys().copied().chain(program).collect();
        while let Some(parent) = parents.pop() {
            for child in self.host.children(parent) {
                if !self.others.contains_key(&child) && self.hold(child) {
                    parents.push(child);
                }
            }
        }
    }
}
