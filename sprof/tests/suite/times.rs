//! Times of a recording: time 0 is when the first event counts, and the length is the time for which events count.
#![cfg(target_os = "linux")]

use crate::support::machine::alone;
use crate::support::skip::{perf_events, tracepoints};
use crate::support::steal::with_stolen_ms;
use crate::support::target::Target;
use crate::support::{Profile, Recording, program, record};

const SECONDS: f64 = 0.8;
const DURATION: [&str; 2] = ["-d", "0.8"];

/// All samples and markers are in the recording, which is as long as asked. Returns its length, ms.
fn assert_times(recording: &Recording, profile: &Profile, what: &str) -> f64 {
    let length = profile.json["meta"]["profilingEndTime"].as_f64().unwrap();
    let asked = SECONDS * 1e3;
    assert!(length >= asked, "{what}: {length} ms are less than {asked} ms");
    let lasted = recording.after.duration_since(recording.before).unwrap().as_secs_f64() * 1e3;
    assert!(length < lasted, "{what}: {length} ms of {lasted} ms");
    let samples = profile.samples().map(|sample| sample.time_ms);
    let markers = profile.threads.iter().flat_map(|thread| &thread.markers);
    let markers = markers.filter_map(|marker| marker["startTime"].as_f64());
    // Times are sums of differences.
    let whole = -1e-3..length + 1e-3;
    let outside = samples.chain(markers).filter(|time| !whole.contains(time));
    let outside: Vec<f64> = outside.collect();
    assert!(outside.is_empty(), "{what}: outside of 0..{length}: {outside:?}");
    length
}

/// The samples of a process that always runs begin with the recording and end with it. The host may have its CPU then
/// (`stolen_ms`).
fn assert_fills(profile: &Profile, pid: &str, length: f64, stolen_ms: f64, what: &str) {
    let samples = profile.threads.iter().filter(|thread| thread.pid == pid);
    let times = samples.flat_map(|thread| thread.samples.iter().map(|sample| sample.time_ms));
    let (first, last) = times.fold((f64::MAX, 0.0), |(first, last): (f64, f64), time| {
        (first.min(time), last.max(time))
    });
    assert!(
        first < length / 8.0 + stolen_ms,
        "{what}: first sample at {first} of {length} ms; {stolen_ms} ms were taken away"
    );
    assert!(
        last > length * 7.0 / 8.0 - stolen_ms,
        "{what}: last sample at {last} of {length} ms; {stolen_ms} ms were taken away"
    );
}

#[test]
fn a_recording_of_what_runs_begins_with_its_first_event_and_is_as_long_as_asked() {
    let Some(()) = perf_events() else { return };
    alone();
    let busy = Target::start(program("split").unwrap(), &["600000"]);
    let pid = busy.pid();
    for options in [&[][..], &["--off-cpu"], &["-e", "cpu-clock,page-faults"]] {
        let (recording, stolen_ms) = with_stolen_ms(|| {
            let recorder = record().options(&["-p", &pid]).options(&DURATION).options(options);
            recorder.attach().finish()
        });
        let profile = recording.profile();
        let length = assert_times(&recording, &profile, &format!("{options:?}"));
        assert_fills(&profile, &pid, length, stolen_ms, &format!("{options:?}"));
        let stated = format!("in {:.2} s", length / 1e3);
        assert!(recording.stderr.contains(&stated), "{stated}: {}", recording.stderr);
    }
}

#[test]
fn a_recording_of_the_machine_begins_with_its_first_event_and_is_as_long_as_asked() {
    let Some(()) = tracepoints() else { return };
    alone();
    let busy = Target::start(program("split").unwrap(), &["600000"]);
    for options in [
        &[][..],
        &["--off-cpu"],
        &["-e", "sched:sched_process_exec"],
        &["-e", "sched:sched_process_fork", "--off-cpu"],
    ] {
        let (recording, stolen_ms) = with_stolen_ms(|| {
            let recorder = record().options(&["-a"]).options(&DURATION).options(options);
            recorder.attach().finish()
        });
        let profile = recording.profile();
        let length = assert_times(&recording, &profile, &format!("{options:?}"));
        assert_fills(&profile, &busy.pid(), length, stolen_ms, &format!("{options:?}"));
        // Each CPU has at most as much time as the recording has. At the default rate a sample is a millisecond.
        let cpus = std::thread::available_parallelism().map_or(1.0, |cpus| cpus.get() as f64);
        let used = profile.cpu_ns() / 1e6;
        assert!(used <= length * cpus * 1.02, "{options:?}: {used} ms of {length} ms");
    }
}

#[test]
fn a_recording_of_a_launched_program_begins_with_it_and_is_as_long_as_asked() {
    let Some(()) = perf_events() else { return };
    alone();
    let refuse = program("refuse").unwrap();
    let ptrace = [refuse.to_str().unwrap(), "eperm"];
    for (wrapper, options) in [(&[][..], &[][..]), (&[], &["--off-cpu"]), (&ptrace, &[])] {
        let what = format!("{wrapper:?} {options:?}");
        let (recording, stolen_ms) = with_stolen_ms(|| {
            let recorder = record().under(wrapper).options(&DURATION).options(options);
            recorder.run(program("split").unwrap(), &["600000"])
        });
        let profile = recording.profile();
        let length = assert_times(&recording, &profile, &what);
        let pid = profile.threads[0].pid.clone();
        assert_fills(&profile, &pid, length, stolen_ms, &what);
    }
}
