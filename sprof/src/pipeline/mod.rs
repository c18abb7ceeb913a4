//! The journey through the libraries: recorder -> unwinder -> profile -> symbols.
//!
//! [`probes`]: from names of functions to file offsets. [`jit`] finds the files of JIT compilers. [`crates`] names
//! rustc processes by their crate. [`spool`] keeps the recording so far, [`window`] its last seconds alone.
//! [`triggers`] come while it goes on, and [`trigger_files`] writes the profile of each. [`snapshots`] are profiles of
//! all so far.

mod crates;
pub(crate) mod jit;
pub(crate) mod libraries;
pub(crate) mod probes;
pub(crate) mod snapshots;
pub(crate) mod spool;
pub(crate) mod trigger_files;
pub(crate) mod triggers;
mod window;
mod window_copies;

use std::sync::Arc;
use std::time::Duration;

use perf_data::spool::SpoolSink;
use profile::Profile;
use profile::builder::BuildOptions;
use profile::window::EventWindow;
use recording::cpu_account::CpuAccount;
use recording::event::{Mapping, Pid};
use recording::info::RecordingInfo;
use recording::module::Module;
use recording::session::{Finished, ProgramExit, RecordOptions, RecordTarget, Session, StopReason, Target as _};
use recording::sink::{EventSink, KeptFile, ModuleMiss};
use unwind::{UnwindEngine, UnwindOptions, Unwinder};

use crate::cargo::{self, CargoRun};
use crate::exit::{FAILED, Failure};
use crate::interrupt::Interrupt;
use crate::pipeline::crates::CrateNames;
use crate::pipeline::jit::{JitModules, JitWatch};
use crate::pipeline::snapshots::{RecordingWatch, SnapshotStage};
use crate::pipeline::spool::Spool;
use crate::recorder::{self, Target};
use crate::span_files::{SpanFile, SpanFiles};
use crate::symbols::kernel;
use crate::terminal::Term;
use trigger_files::{TriggerFiles, TriggerOutput, TriggerWriter};
use triggers::{TriggerStage, TriggerWatch};
use window::{BuilderStart, EventStore, LastEvents};
use window_copies::WindowCopies;

/// Opens a file of spans as its process saw it.
type OpenSpanFile<'f> = Box<dyn FnMut(Pid, &Mapping<'_>) -> Result<SpanFile, ModuleMiss> + 'f>;

/// The stages of a recording, from the unwinder on.
type RecordingStages<'f> = Unwinder<'f, SpoolSink<JitWatch<SpanFiles<EventStore, OpenSpanFile<'f>>>>>;

/// What to record: the options of the recorder, and options of sprof.
#[derive(Debug)]
pub(crate) struct RecordingPlan {
    pub(crate) recorder: RecordOptions,
    pub(crate) build: BuildOptions,
    /// Runs of the program, into one profile.
    pub(crate) iterations: u32,
    /// Continue after a failed run.
    pub(crate) ignore_exit_code: bool,
    /// Most arguments that go into the profile.
    pub(crate) max_args: usize,
    pub(crate) engine: UnwindEngine,
    pub(crate) profile_name: Option<String>,
    /// The commit that the program was built from, if known.
    pub(crate) commit: Option<String>,
    /// Keep the events of the last seconds alone.
    pub(crate) last: Option<Duration>,
    /// With `last`: have a profile written at each of these, meanwhile.
    pub(crate) triggers: Option<(TriggerWatch, TriggerOutput)>,
    /// Record the programs that cargo runs.
    pub(crate) cargo: Option<CargoRun>,
}

/// A recording that has ended; the program of the last run may still run.
pub(crate) struct Recorded {
    pub(crate) profile: Profile,
    /// Open files of the sampled modules: their paths may be gone when symbols are looked up.
    pub(crate) kept_files: Vec<(Arc<Module>, KeptFile)>,
    /// Symbols of the JIT code with samples.
    pub(crate) jit_symbols: JitModules,
    pub(crate) stop: StopReason,
    pub(crate) program: ProgramState,
    pub(crate) iterations: u32,
    /// The failure of a further run.
    pub(crate) failure: Option<Failure>,
    /// The copy on disk, until the profile is saved.
    pub(crate) spool: Option<Spool>,
}

/// The program after its (last) run.
pub(crate) enum ProgramState {
    /// The program may still run for up to 5 s.
    Ending(Option<Target>),
    Ended(ProgramExit),
}

impl ProgramState {
    /// False if the program has ended, or none was launched.
    pub(crate) fn may_be_running(&self) -> bool {
        matches!(self, ProgramState::Ending(Some(_)))
    }

    /// Waits for the program; returns how it ended.
    pub(crate) fn wait(&mut self) -> ProgramExit {
        match self {
            ProgramState::Ending(target) => {
                let exit = target.take().map_or(ProgramExit::StillRunning, Target::wait);
                *self = ProgramState::Ended(exit);
                exit
            }
            ProgramState::Ended(exit) => *exit,
        }
    }
}

/// Runs and records the program. The spool holds the recording so far; a watch gets snapshots of it.
pub(crate) fn record(
    plan: &mut RecordingPlan,
    term: &Term,
    interrupt: &Interrupt,
    mut spool: Option<Spool>,
    mut watch: Option<&mut dyn RecordingWatch>,
) -> Result<Recorded, Failure> {
    if plan.last.is_some() {
        recorder::return_freed_memory();
    }
    // No work may come between attaching and recording, or threads that start meanwhile are found late. So slow steps
    // come before.
    let kernel = kernel::running();
    let wait_reasons = plan.recorder.off_cpu.then(kernel::wait_reasons);
    let before_opening = recorder::clock_reference();
    // With cargo, this returns after the build.
    let first = open(plan, 1, term).map_err(|error| with_rest(error, spool.take()))?;
    // A launched program starts later; the builder moves time zero to its start.
    let zero = first.began().unwrap_or_else(|| recorder::clock_reference().timestamp);
    let clock = before_opening.later(zero);
    let mut first = Some(first);
    let builder_start = Arc::new(BuilderStart {
        clock,
        options: plan.build,
        kernel: kernel.clone(),
        wait_reasons,
    });
    let mut builder = builder_start.builder(None);
    // Not for several runs: it has a thread, and the next one begins with one thread alone.
    // Nor where snapshots are taken: samples stay in memory for them.
    let is_whole = plan.iterations == 1 && plan.last.is_none() && watch.is_none();
    if let Some(spool) = spool.as_ref().filter(|_| is_whole) {
        match spool.unnamed_file() {
            Ok(file) => builder.spill_to(file),
            Err(error) => term.verbose(format_args!(
                "samples stay in memory: no file beside the output: {error}"
            )),
        }
    }
    let (memory, files) = (recorder::Memory::default(), recorder::Files::default());
    let mut files_of_spans = recorder::Files::default();
    let open_spans: OpenSpanFile<'_> =
        Box::new(|pid, mapping: &Mapping<'_>| recorder::open_span_file(&mut files_of_spans, pid, mapping));
    let window = plan.last.or_else(|| watch.as_ref().map(|watch| watch.longest_end()));
    let store = EventStore {
        whole: plan.last.is_none().then_some(builder),
        last: window.map(|length| LastEvents {
            window: EventWindow::new(length, zero),
            copies: None,
        }),
    };
    let sink = SpoolSink::new(JitWatch::new(SpanFiles::new(store, Some(open_spans))));
    let options = UnwindOptions {
        engine: plan.engine,
        ..UnwindOptions::default()
    };
    let mut unwinder: RecordingStages<'_> = Unwinder::new(sink, memory, files, options);

    let mut runs = Runs::default();
    let mut failure = None;
    let mut moments = Vec::new();
    let (mut run_starts, mut whole_runs) = (Vec::new(), plan.recorder.target == RecordTarget::Command);
    for iteration in 1..=plan.iterations {
        let opened = first.take().map_or_else(|| open(plan, iteration, term), Ok);
        let start = recorder::clock_reference().timestamp;
        let launched = opened.and_then(|recording| {
            if let (Some(last), Some(spool)) = (
                &mut last_stage(&mut unwinder).last,
                spool.take_if(|_| plan.last.is_some()),
            ) {
                let mut info = recording.info_so_far(clock);
                complete(&mut info, plan);
                let waits = plan.recorder.off_cpu;
                last.copies = Some(WindowCopies::new(
                    spool,
                    info,
                    last.window.length(),
                    waits,
                    kernel.clone(),
                    term,
                ));
            } else if let Some(spool) = &mut spool {
                let mut info = recording.info_so_far(clock);
                complete(&mut info, plan);
                spool.start(
                    unwinder.next_mut(),
                    start,
                    &info,
                    plan.recorder.off_cpu,
                    kernel.as_ref(),
                    term,
                );
            }
            let mut watched = plan.triggers.take().map(|(watch, output)| {
                let mut info = recording.info_so_far(clock);
                complete(&mut info, plan);
                let writer = TriggerWriter {
                    output,
                    start: builder_start.clone(),
                    commit: plan.commit.clone(),
                    stack_bytes: plan.recorder.stack_bytes.into(),
                    ended: Default::default(),
                    written_bytes: Default::default(),
                };
                (watch, TriggerFiles::new(writer, info, plan.last.unwrap_or_default()))
            });
            let (mut stage, mut snapshots);
            let sink: &mut dyn EventSink = match (&mut watched, &mut watch) {
                (Some((watch, files)), _) => {
                    stage = TriggerStage {
                        next: &mut unwinder,
                        watch,
                        files,
                    };
                    &mut stage
                }
                (None, Some(watch)) => {
                    let mut info = recording.info_so_far(clock);
                    complete(&mut info, plan);
                    let (start, announcements) = (builder_start.clone(), recording.announcements());
                    snapshots = SnapshotStage::start(&mut unwinder, &mut **watch, start, info, announcements)?;
                    &mut snapshots
                }
                (None, None) => &mut unwinder,
            };
            let mut named = CrateNames::new(sink);
            let finished = match &mut plan.cargo {
                Some(cargo) => cargo.record(&mut named, |sink| recording.run(clock, sink)),
                None => recording.run(clock, &mut named),
            };
            if let Some((watch, files)) = watched {
                files.finish(watch.without_file());
                moments = watch.into_moments();
            }
            // The next run begins with one thread alone.
            unwinder.next_mut().stop();
            Ok(finished?)
        });
        match launched {
            Ok(finished) => {
                failure = finished.problem.as_deref().map(Failure::failed);
                runs.add(finished);
                run_starts.push(start);
            }
            Err(error) if runs.count == 0 => {
                return Err(with_rest(
                    error,
                    spool.or_else(|| last_stage(&mut unwinder).take_copy()),
                ));
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
        let is_ended = runs.stop.is_some_and(StopReason::is_end_of_program);
        let exit = runs.program.as_mut().filter(|_| is_ended).map(ProgramState::wait);
        whole_runs &= runs.stop == Some(StopReason::ProgramEnded) && exit.is_some_and(is_own_end);
        if iteration == plan.iterations || !is_ended || interrupt.is_seen() {
            break;
        }
        if exit != Some(ProgramExit::Code(0)) && !plan.ignore_exit_code {
            term.warning(format_args!(
                "run {iteration} failed, and the next runs are left out; -i continues with them"
            ));
            break;
        }
    }
    if let (Some(cargo), Some(program)) = (&plan.cargo, &mut runs.program)
        && !cargo.has_content()
    {
        let spool = spool.or_else(|| last_stage(&mut unwinder).take_copy());
        spool.into_iter().for_each(Spool::remove);
        return Err(cargo::ran_nothing(program.wait()));
    }

    let kept_files = unwinder.kept_files();
    let (spool_sink, mut quality) = unwinder.finish();
    let (watched, is_whole) = spool_sink.finish();
    if let (Some(spool), false) = (&mut spool, is_whole) {
        spool.set_cut();
    }
    let (watched, jit_code) = watched.finish();
    let store = watched.finish(&mut quality);
    quality.asked_rate_hz = runs.asked_rate_hz;
    quality.achieved_rate_hz = runs.achieved_rate_hz();
    quality.cpu_time_ns = runs.cpu_time_ns;
    quality.cpu_account = runs.cpu_account;
    let (Some(mut info), Some(stop), Some(program)) = (runs.info, runs.stop, runs.program) else {
        return Err(Failure::failed("nothing was recorded"));
    };
    complete(&mut info, plan);
    info.whole_runs = Some(whole_runs && failure.is_none());
    let mut part = None;
    let builder = match (store.whole, store.last) {
        (Some(mut builder), _) => {
            if let Err(error) = builder.read_back() {
                let message = format_args!("reading the samples of this recording back failed: {error}");
                return Err(with_rest(Failure::failed(message), spool));
            }
            builder
        }
        (None, None) => return Err(Failure::failed("nothing was recorded")),
        (None, Some(mut last)) => {
            spool = last.copies.take().map(WindowCopies::finish);
            let snapshot = last.window.snapshot(info.end);
            let whole = quality;
            let builder;
            (builder, quality) = builder_start.build(&snapshot, &moments, &whole);
            if snapshot.from().is_none() {
                // All of it is in the window.
                quality = whole;
            }
            part = window::narrow(&mut info, &snapshot);
            builder
        }
    };
    if run_starts.len() > 1 {
        info.run_starts = run_starts;
    }
    if let Some(cargo) = &plan.cargo {
        cargo.add_notes(&mut info);
    }
    let (mut profile, jit_symbols) = jit_code.finish(builder, info, quality, |note| term.verbose(note));
    profile.set_commit(plan.commit.take());
    profile.set_stack_bytes(plan.recorder.stack_bytes.into());
    profile.set_part(part);
    Ok(Recorded {
        profile,
        kept_files,
        jit_symbols,
        stop,
        program,
        iterations: runs.count,
        failure,
        spool,
    })
}

/// The last stage of a recording.
fn last_stage<'a>(stages: &'a mut RecordingStages<'_>) -> &'a mut EventStore {
    stages.next_mut().next_mut().next_mut().next_mut()
}

/// False if a signal ended the program, or a child that the program waited for: shells add 128 to the signal's number.
fn is_own_end(exit: ProgramExit) -> bool {
    matches!(exit, ProgramExit::Code(code) if !(129..160).contains(&code))
}

/// A failure in the middle of a recording, with the path of the part on disk.
fn with_rest(error: Failure, spool: Option<Spool>) -> Failure {
    match (error, spool) {
        (
            Failure::Failed {
                message,
                status: FAILED,
            },
            Some(spool),
        ) if spool.is_started() => Failure::failed(format_args!("{message}; {}", spool.left())),
        // The program did not run.
        (error, spool) => {
            spool.into_iter().for_each(Spool::remove);
            error
        }
    }
}

/// Opens the events of one run. Returns when the recording can start; with cargo, after the build.
fn open(plan: &mut RecordingPlan, iteration: u32, term: &Term) -> Result<recorder::Recording, Failure> {
    debug_assert!(has_one_thread(), "a further thread takes signals from the recorder");
    let recording = recorder::Recording::open(&plan.recorder)?;
    if iteration == 1 {
        recording.remark().iter().for_each(|line| term.verbose(line));
        recording.announcements().iter().for_each(|line| term.line(line));
    }
    if plan.iterations > 1 {
        term.line(format_args!("run {iteration} of {}", plan.iterations));
    }
    match &mut plan.cargo {
        Some(cargo) => cargo.hold(recording),
        None => Ok(recording),
    }
}

/// True once this process has one thread. A thread that was there before the recorder blocked its signals (SIGINT, with
/// ptrace SIGCHLD) would get them instead of the recorder. A joined thread is in /proc for some microseconds longer.
fn has_one_thread() -> bool {
    (0..1000).any(|_| {
        let has_one = std::fs::read_dir("/proc/self/task").map_or(true, |tasks| tasks.count() == 1);
        if !has_one {
            std::thread::sleep(Duration::from_millis(1));
        }
        has_one
    })
}

/// Adds the user's options to the facts of the recording.
fn complete(info: &mut RecordingInfo, plan: &RecordingPlan) {
    if let Some(args) = &mut info.args {
        args.truncate(plan.max_args);
    }
    if let Some(name) = &plan.profile_name {
        info.program = name.clone();
    }
}

/// Sums over the runs so far.
#[derive(Default)]
struct Runs {
    count: u32,
    info: Option<RecordingInfo>,
    stop: Option<StopReason>,
    program: Option<ProgramState>,
    asked_rate_hz: f64,
    cpu_time_ns: Option<u64>,
    cpu_account: CpuAccount,
    /// Delivered samples, if the event counts time.
    delivered: Option<f64>,
}

impl Runs {
    fn add(&mut self, run: Finished<Target>) {
        self.count += 1;
        self.stop = Some(run.stop);
        self.asked_rate_hz = run.asked_rate_hz;
        self.program = Some(match run.target {
            Some(target) => ProgramState::Ending(Some(target)),
            None => ProgramState::Ended(ProgramExit::NotOurs),
        });
        let delivered = (run.achieved_rate_hz.zip(run.cpu_time_ns)).map(|(rate, ns)| rate * ns as f64 / 1e9);
        if self.count == 1 {
            self.cpu_time_ns = run.cpu_time_ns;
            self.cpu_account = run.cpu_account;
            self.delivered = delivered;
        } else {
            self.cpu_time_ns = (self.cpu_time_ns.zip(run.cpu_time_ns)).map(|(sum, ns)| sum.saturating_add(ns));
            self.cpu_account = std::mem::take(&mut self.cpu_account).plus(run.cpu_account);
            self.delivered = (self.delivered.zip(delivered)).map(|(sum, more)| sum + more);
        }
        let mut info = run.info;
        if let Some(earlier) = self.info.take() {
            for (event, earlier) in info.events.iter_mut().zip(earlier.events) {
                event.counts = event.counts.zip(earlier.counts).map(|(counts, more)| counts.plus(more));
            }
            info.heap = info.heap.zip(earlier.heap).map(|(heap, more)| more.plus(heap));
            let mut notes = earlier.notes;
            info.notes.retain(|note| !notes.contains(note));
            notes.append(&mut info.notes);
            info.notes = notes;
        }
        self.info = Some(info);
    }

    fn achieved_rate_hz(&self) -> Option<f64> {
        let (delivered, cpu_time_ns) = self.delivered.zip(self.cpu_time_ns)?;
        (cpu_time_ns > 0).then(|| delivered * 1e9 / cpu_time_ns as f64)
    }
}
