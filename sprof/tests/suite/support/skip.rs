//! Tests that can't run here say so, and fail where they have to run.

use std::io::Write as _;
use std::path::Path;

use super::machine;

/// What a test needs beyond a compiler. `SPROF_REQUIRE` holds a comma-separated list of the tags that must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Root,
    KernelSamples,
    PerfEvents,
    TwoCpus,
    ProfilerCli,
    Cxx,
    StaticLibc,
    Lld,
    Perf,
    FullDisk,
    Attach,
    Namespaces,
    Node,
    PythonPerf,
    Python,
    Java,
    Arm64Machine,
    Musl,
    Go,
    Bits32,
    Tracefs,
    Uprobes,
    Breakpoints,
    Valgrind,
    Heaptrack,
    Chromium,
    FrontEnd,
    Cargo,
    Crates,
    Nextest,
    SetUserId,
    Debuginfod,
    Binutils,
    Bpf,
    Duckdb,
    Clickhouse,
    Opentelemetry,
    Dpkg,
    Shells,
    Sanitizers,
    Gate,
}

impl Need {
    fn tag(self) -> &'static str {
        match self {
            Need::Root => "root",
            Need::Dpkg => "dpkg",
            Need::Shells => "shells",
            Need::Sanitizers => "sanitizers",
            Need::Gate => "gate",
            Need::KernelSamples => "kernel-samples",
            Need::PerfEvents => "perf-events",
            Need::TwoCpus => "two-cpus",
            Need::ProfilerCli => "profiler-cli",
            Need::Cxx => "cxx",
            Need::StaticLibc => "static-libc",
            Need::Lld => "lld",
            Need::Perf => "perf",
            Need::FullDisk => "full-disk",
            Need::Attach => "attach",
            Need::Musl => "musl",
            Need::Go => "go",
            Need::Bits32 => "32-bit",
            Need::Tracefs => "tracefs",
            Need::Valgrind => "valgrind",
            Need::Heaptrack => "heaptrack",
            Need::Chromium => "chromium",
            Need::FrontEnd => "front-end",
            Need::Cargo => "cargo",
            Need::Crates => "crates",
            Need::Nextest => "nextest",
            Need::SetUserId => "set-user-id",
            Need::Debuginfod => "debuginfod",
            Need::Binutils => "binutils",
            Need::Bpf => "bpf",
            Need::Duckdb => "duckdb",
            Need::Clickhouse => "clickhouse",
            Need::Opentelemetry => "opentelemetry",
            Need::Namespaces => "namespaces",
            Need::Node => "node",
            Need::Uprobes => "uprobes",
            Need::Breakpoints => "breakpoints",
            Need::PythonPerf => "python-perf",
            Need::Python => "python",
            Need::Java => "java",
            Need::Arm64Machine => "arm64-machine",
        }
    }
}

/// True if the test may go on. Otherwise says why not, past the test runner's capture so that it can be counted.
pub(crate) fn has(need: Need, available: bool, reason: &str) -> bool {
    machine::share();
    if available {
        return true;
    }
    let required = std::env::var("SPROF_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|tag| tag == need.tag() || tag == "all"),
        "`{}` is required here, but: {reason}",
        need.tag()
    );
    let name = std::thread::current().name().unwrap_or("?").to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {reason}");
    false
}

/// True if this process is root.
pub(crate) fn is_root() -> bool {
    // Without a system call of our own: the owner of our own /proc entry is the effective user.
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// `kernel.perf_event_paranoid`, or `None` where there is no such file: no perf events in this kernel.
pub(crate) fn paranoid() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}

/// Goes on where perf events can be opened at all.
pub(crate) fn perf_events() -> Option<()> {
    let allowed = match paranoid() {
        None => false,
        Some(level) => level <= 2 || is_root(),
    };
    let reason = "this kernel or its perf_event_paranoid refuses perf events";
    has(Need::PerfEvents, allowed, reason).then_some(())
}

/// Goes on where kernel functions may be sampled.
pub(crate) fn kernel_samples() -> Option<()> {
    perf_events()?;
    let allowed = is_root() || paranoid().is_some_and(|level| level <= 1);
    has(
        Need::KernelSamples,
        allowed,
        "kernel samples need root or perf_event_paranoid 1",
    )
    .then_some(())
}

/// Goes on where tracepoints can be recorded.
pub(crate) fn tracepoints() -> Option<()> {
    kernel_samples()?;
    let readable = Path::new("/sys/kernel/tracing/events/sched").exists();
    (root() && has(Need::Tracefs, readable, "tracefs is not mounted at /sys/kernel/tracing")).then_some(())
}

/// Goes on as root.
pub(crate) fn root() -> bool {
    has(Need::Root, is_root(), "needs root")
}

/// Arguments of unshare(1) that run a script in a mount namespace of its own, as a container runtime does.
pub(crate) const IN_NAMESPACE: &[&str] = &["-m", "--propagation", "private", "sh", "-ec"];

/// Goes on where [`IN_NAMESPACE`] works.
pub(crate) fn mount_namespaces() -> bool {
    let status = std::process::Command::new("unshare").args(["-m", "true"]).status();
    root()
        && has(
            Need::Namespaces,
            status.is_ok_and(|status| status.success()),
            "unshare -m is not permitted",
        )
}

/// Goes on on a machine with at least two CPUs.
pub(crate) fn two_cpus() -> bool {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    has(Need::TwoCpus, cpus >= 2, "needs two CPUs")
}

/// Goes on where the kernel's perf tool is installed, alone: Linux 6.18 leaves the flag for build ids set for another
/// listener of a mapping, so that perf 6.1 aborts beside a recording of sprof ("stack smashing detected").
pub(crate) fn perf() -> Option<()> {
    perf_after(machine::alone)
}

/// The same, for a test in which perf records one thread and nothing else is recorded: beside another of these.
pub(crate) fn perf_on_one_cpu() -> Option<()> {
    perf_after(machine::one_cpu_for_perf)
}

fn perf_after(take_machine: fn()) -> Option<()> {
    perf_events()?;
    take_machine();
    let version = std::process::Command::new("perf").arg("version").output();
    has(
        Need::Perf,
        version.is_ok_and(|output| output.status.success()),
        "perf is not installed (Debian: linux-perf)",
    )
    .then_some(())
}
