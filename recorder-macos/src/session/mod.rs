//! One recording from launch to end.
//!
//! - this file: the contract of recorders.
//! - [``task_access`]: whether macOS gives access to a process.
//! - `common`: what every session has.

mod common;
pub mod task_access;

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use recording::clock::{ClockReference, Timestamp};
use recording::command::own;
use recording::cpu_account::CpuAccount;
use recording::info::RecordingInfo;
use recording::program::{self, ProgramImage};
use recording::session::{
    Finished, HoldOutcome, RecordError, RecordOptions, RecordTarget, Session, StopReason, Target as _,
};
use recording::sink::EventSink;

use crate::access::{AccessMethod, BarredProgram, OWN_CPU, barred_programs};
use crate::files::SharedMach;
use crate::kernel::{KernelEvent, Signal};
use crate::processes::hello;
use crate::processes::host::Host;
use crate::processes::launch::StartedProgram;
use crate::processes::preload::Preload;
use crate::processes::stop::MachTarget;
use crate::processes::watched::{Watched, stop_at_end, take_signal};
use crate::sampling::{SampleError, SamplingPlan, SamplingResult, UnreachedProcess, sample};
use task_access::{Rights, TaskAccess, ask_for_task, own_rights};

/// From one check whether a held recording begins to the next, ns.
const ROUND_NS: u64 = 10_000_000;

/// A recording that is ready: of a launched program, which is suspended at its first instruction, or of running
/// processes.
#[derive(Debug)]
pub struct MachRecording<M: Host> {
    host: M,
    options: RecordOptions,
    begin: RecordingStart<M>,
    /// Where programs announce themselves, if macOS gives sprof no access to them.
    preload: Option<Preload<M>>,
    announcements: Vec<String>,
    began: Option<Timestamp>,
}

#[derive(Debug)]
enum RecordingStart<M: Host> {
    /// The program, which has not run yet.
    Launch(StartedProgram<M>),
    /// The program, which has run.
    Held(StartedProgram<M>),
    /// Processes with their names, and the program with which the recording ends.
    Attached(Vec<i32>, Vec<String>, Option<StartedProgram<M>>),
}

impl<M: Host + SharedMach> MachRecording<M>
where
    M::Task: Send,
{
    /// Prepares a recording by these calls, with these rights.
    ///
    /// # Errors
    ///
    /// Why the program or a process can't be recorded, and the remedy.
    pub fn prepare(host: M, options: &RecordOptions, rights: Rights) -> Result<MachRecording<M>, RecordError> {
        common::check(options)?;
        let image = if options.command.is_empty() {
            None
        } else {
            Some(program::resolve(&options.command, &options.env)?)
        };
        host.hear_signals()
            .map_err(|errno| failed("take over signals", errno))?;
        let mut announcements = Vec::new();
        let opened = match &options.target {
            RecordTarget::Processes(pids) => {
                let pids: Vec<i32> = pids.iter().map(|pid| pid.0).collect();
                let begin = attach(&host, options, &pids, image.as_ref(), rights, &mut announcements);
                begin.map(|begin| (begin, None))
            }
            _ => match rights.access_method() {
                AccessMethod::Task => {
                    let begin = launch(&host, options, image.as_ref(), rights, &mut announcements);
                    begin.map(|begin| (begin, None))
                }
                AccessMethod::Library => launch_with_library(&host, options, image.as_ref(), &mut announcements),
            },
        };
        let (begin, preload) = opened.inspect_err(|_| host.forget_signals())?;
        Ok(MachRecording {
            host,
            options: options.clone(),
            begin,
            preload,
            announcements,
            began: None,
        })
    }
}

impl<M: Host + SharedMach + Default> Session for MachRecording<M>
where
    M::Task: Send,
{
    type Target = MachTarget<M>;

    fn open(options: &RecordOptions) -> Result<MachRecording<M>, RecordError> {
        let host = M::default();
        let rights = own_rights(&host);
        MachRecording::prepare(host, options, rights)
    }

    fn announcements(&self) -> &[String] {
        &self.announcements
    }

    fn remark(&self) -> Option<&'static str> {
        Some(
            "kernel functions are not seen: macOS shows no kernel stacks, and kernel time counts for the function that called the kernel",
        )
    }

    fn info_so_far(&self, clock: ClockReference) -> RecordingInfo {
        let names = match &self.begin {
            RecordingStart::Attached(_, names, _) => Some(names.join(", ")),
            RecordingStart::Launch(_) | RecordingStart::Held(_) => None,
        };
        common::info(&self.options, &self.host, clock, Timestamp(self.host.now_ns()), names)
    }

    fn began(&self) -> Option<Timestamp> {
        self.began
    }

    fn run(self, clock: ClockReference, sink: &mut dyn EventSink) -> Result<Finished<MachTarget<M>>, RecordError> {
        let info = self.info_so_far(clock);
        let (host, options) = (self.host, self.options);
        let (roots, is_new, program, timer) = match self.begin {
            RecordingStart::Launch(started) => (vec![started.pid()], true, Some(started), None),
            RecordingStart::Held(started) => (vec![started.pid()], false, Some(started), None),
            RecordingStart::Attached(pids, _, timer) => (pids, false, None, timer),
        };
        let is_attached = options.target != RecordTarget::Command;
        let watched = Watched {
            program: roots.first().copied().filter(|_| !is_attached),
            others: match &timer {
                Some(timer) => [timer.pid()].into(),
                None => roots.iter().copied().collect(),
            },
        };
        let plan = SamplingPlan {
            roots,
            is_new,
            suspended: program
                .iter()
                .filter(|_| is_new)
                .chain(&timer)
                .map(StartedProgram::pid)
                .collect(),
            watched,
            interval_ns: common::interval_ns(&options),
            off_cpu: options.off_cpu,
            deadline_ns: common::deadline_ns(&options, host.now_ns()),
        };
        if let Some(timer) = &timer {
            host.watch(timer.pid())
                .map_err(|_| RecordError::Failed("the command ended before recording began".to_owned()))?;
        }
        let sampled = sample(&host, plan, sink);
        host.forget_signals();
        let way = match self.preload {
            Some(preload) => {
                drop(preload);
                AccessMethod::Library
            }
            None => AccessMethod::Task,
        };
        let sampled = sampled.map_err(|error| RecordError::Failed(sample_error(&error)))?;
        let launched = program.map(StartedProgram::release).filter(|_| !is_attached);
        // A command that has not ended by itself is killed.
        drop(timer);
        let totals = &sampled.totals;
        let cpu_time_ns = (totals.cpu_ns > 0).then_some(totals.cpu_ns);
        Ok(Finished {
            info: RecordingInfo {
                end: Timestamp(sampled.end_ns),
                notes: notes(&sampled, &options, way),
                ..info
            },
            stop: sampled.stop,
            asked_rate_hz: options.rate_hz,
            achieved_rate_hz: cpu_time_ns.map(|ns| totals.samples as f64 * 1e9 / ns as f64),
            cpu_time_ns,
            cpu_account: CpuAccount::default(),
            problem: nothing_reached(&sampled, way),
            target: launched
                .map(|pid| MachTarget::after(host, pid, sampled.stop, options.keep_running, &sampled.living)),
        })
    }

    fn hold_until(mut self, begin: BorrowedFd<'_>) -> Result<HoldOutcome<MachRecording<M>>, RecordError> {
        let started = match self.begin {
            RecordingStart::Launch(started) => started,
            begin => {
                self.begin = begin;
                return Ok(HoldOutcome::Begins(Box::new(self)));
            }
        };
        if let Some(stop) = run_until(&self.host, started.pid(), begin) {
            self.host.forget_signals();
            drop(self.preload);
            let target = MachTarget::after(self.host, started.release(), stop, false, &[]);
            return Ok(HoldOutcome::Ended(target.wait()));
        }
        self.began = Some(Timestamp(self.host.now_ns()));
        self.begin = RecordingStart::Held(started);
        Ok(HoldOutcome::Begins(Box::new(self)))
    }
}

/// Lets a program run until `begin` is readable. Returns why recording ended, if the program or a signal ends it
/// before.
fn run_until(host: &impl Host, pid: i32, begin: BorrowedFd<'_>) -> Option<StopReason> {
    // Its end is seen, at the latest, when it is recorded.
    let _ = host.watch(pid);
    host.send(pid, Signal::Continue);
    let mut interrupts = 0;
    loop {
        let events = host.sleep(host.now_ns().saturating_add(ROUND_NS));
        if events.contains(&KernelEvent::Messages) {
            hello::keep_all(host);
        }
        if events.contains(&KernelEvent::Ended(pid)) {
            return Some(stop_at_end(&events, interrupts));
        }
        let mut signals = events.iter().filter_map(|event| match event {
            KernelEvent::Signal(signal) => Some(*signal),
            _ => None,
        });
        let stop = signals.find_map(|signal| take_signal(host, signal, &mut interrupts, Some(pid)));
        if stop.is_some() || host.is_readable(begin) {
            return stop;
        }
    }
}

/// Starts the program suspended, and finds out whether it can be recorded.
fn launch<M: Host + SharedMach>(
    host: &M,
    options: &RecordOptions,
    image: Option<&ProgramImage>,
    rights: Rights,
    announcements: &mut Vec<String>,
) -> Result<RecordingStart<M>, RecordError>
where
    M::Task: Send,
{
    let image = image.ok_or_else(|| RecordError::NotFound(String::new()))?;
    let program = Path::new(OsStr::from_bytes(image.path.to_bytes()));
    let barred = barred_programs(program, &search_path(image), OWN_CPU, AccessMethod::Task);
    let started = StartedProgram::start(host, image, options)?;
    match ask_for_task(host, started.pid(), rights) {
        TaskAccess::Given => {}
        TaskAccess::Ended => return Err(RecordError::Failed("the program ended before it could run".to_owned())),
        // What it starts may still be recorded.
        TaskAccess::Refused(_) if !barred.is_empty() => {
            announcements.extend(barred.iter().map(say_barred));
        }
        TaskAccess::Refused(message) => return Err(RecordError::Failed(message)),
    }
    if host.is_translated(started.pid()) {
        return Err(RecordError::Failed(translated(&format!("`{}`", program.display()))));
    }
    Ok(RecordingStart::Launch(started))
}

/// Starts the program suspended, with a library that sends its task. The kernel is not asked for any.
fn launch_with_library<M: Host + SharedMach>(
    host: &M,
    options: &RecordOptions,
    image: Option<&ProgramImage>,
    announcements: &mut Vec<String>,
) -> Result<(RecordingStart<M>, Option<Preload<M>>), RecordError> {
    let image = image.ok_or_else(|| RecordError::NotFound(String::new()))?;
    let program = Path::new(OsStr::from_bytes(image.path.to_bytes()));
    // dyld also takes the library out of the environment of what such a program starts.
    if let Some(barred) = barred_programs(program, &search_path(image), OWN_CPU, AccessMethod::Library).first() {
        return Err(RecordError::Failed(format!(
            "cannot record {barred}. sprof is not signed to record such programs, and what they start: `{0} setup` signs it, once; or run \
             it with sudo",
            own()
        )));
    }
    let (preload, image) = Preload::open(host, image)?;
    let started = StartedProgram::start(host, &image, options)?;
    if host.is_translated(started.pid()) {
        return Err(RecordError::Failed(translated(&format!("`{}`", program.display()))));
    }
    announcements.push(format!(
        "recording by a library in the program, because sprof is not signed to ask macOS for access: programs of macOS, and what they \
         start, are not recorded; `{} setup` changes that",
        own()
    ));
    Ok((RecordingStart::Launch(started), Some(preload)))
}

fn translated(what: &str) -> String {
    format!(
        "cannot record {what}: Rosetta translates it, and its code in memory is not its program's; build it for this Mac's processor"
    )
}

fn say_barred(barred: &BarredProgram) -> String {
    format!("not recorded, but what it starts is: {barred}")
}

/// `PATH` in the program's environment.
fn search_path(image: &ProgramImage) -> std::ffi::OsString {
    let entries = image.env.iter().map(|entry| entry.to_bytes());
    let path = entries.filter_map(|entry| entry.strip_prefix(b"PATH=")).next();
    OsStr::from_bytes(path.unwrap_or_default()).to_owned()
}

/// Finds out whether processes can be recorded, and starts the program with which the recording ends.
fn attach<M: Host + SharedMach>(
    host: &M,
    options: &RecordOptions,
    pids: &[i32],
    timer: Option<&ProgramImage>,
    rights: Rights,
    announcements: &mut Vec<String>,
) -> Result<RecordingStart<M>, RecordError>
where
    M::Task: Send,
{
    let mut named: Vec<i32> = Vec::new();
    let mut names = Vec::new();
    for pid in pids {
        if named.contains(pid) {
            continue;
        }
        if u32::try_from(*pid) == Ok(std::process::id()) {
            let message = format!("process {pid} is this sprof; name another process");
            return Err(RecordError::Failed(message));
        }
        let gone = || RecordError::Failed(format!("there is no process {pid}; `ps -e` lists all that run"));
        names.push(host.process_name(*pid).ok_or_else(gone)?);
        if host.is_translated(*pid) {
            return Err(RecordError::Failed(translated(&format!("process {pid}"))));
        }
        match ask_for_task(host, *pid, rights) {
            TaskAccess::Given => named.push(*pid),
            TaskAccess::Ended => return Err(gone()),
            TaskAccess::Refused(message) => return Err(RecordError::Failed(message)),
        }
    }
    let timer = timer
        .map(|image| StartedProgram::start(host, image, options))
        .transpose()?;
    announcements.push(format!(
        "recording {} and all below; Ctrl-C ends the recording, and nothing else",
        names.join(", ")
    ));
    Ok(RecordingStart::Attached(named, names, timer))
}

/// What a reader must know to judge the recording, a sentence each.
fn notes(sampled: &SamplingResult, options: &RecordOptions, way: AccessMethod) -> Vec<String> {
    let mut notes = sampled.totals.notes();
    if options.parallelism {
        notes.push("macOS reports no switches of threads: the number of running threads is an estimate".to_owned());
    }
    if options.off_cpu {
        notes.push(
            "waits are looked for at each sampling interval: each is right to an interval, and of shorter ones only the sum is right".to_owned(),
        );
    }
    let totals = &sampled.totals;
    if totals.unreached > 0 {
        let more = totals.unreached.saturating_sub(sampled.unreached.len() as u64);
        notes.push(format!(
            "macOS gave no access to {} {}, which used {:.1} s of CPU time: {}{}",
            totals.unreached,
            if totals.unreached == 1 { "process" } else { "processes" },
            totals.unreached_cpu_ns as f64 / 1e9,
            unreached(sampled, way),
            if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            },
        ));
    }
    notes
}

fn unreached(sampled: &SamplingResult, way: AccessMethod) -> String {
    let describe = |process: &UnreachedProcess| {
        let reason = task_access::reason(process.program.as_deref(), way);
        format!("{} ({}, {reason})", process.name, process.pid)
    };
    sampled.unreached.iter().map(describe).collect::<Vec<_>>().join(", ")
}

/// The error of a recording in which no process could be reached.
fn nothing_reached(sampled: &SamplingResult, way: AccessMethod) -> Option<String> {
    let is_empty = sampled.totals.samples == 0 && sampled.totals.cpu_ns == 0 && sampled.totals.unreached > 0;
    is_empty.then(|| {
        format!(
            "nothing was recorded: macOS gave no access to {}; `{} doctor` shows what this Mac permits",
            unreached(sampled, way),
            own()
        )
    })
}

fn sample_error(error: &SampleError) -> String {
    format!("cannot record: {error}; `{} doctor` shows what this Mac permits", own())
}

fn failed(what: &str, errno: i32) -> RecordError {
    let error = std::io::Error::from_raw_os_error(errno);
    RecordError::Failed(format!("cannot {what}: {error}"))
}
