//! Names rustc processes by the crate that they compile, `rustc serde`; a build has hundreds of rustc processes.

use std::fs::File;
use std::io::Read as _;

use recording::clock::Timestamp;
use recording::event::{Event, EventKind, Pid, ProcessEvent};
use recording::sink::{Completion, EventSink};

/// Bytes of a command line to read. cargo writes the crate's name first: `rustc --crate-name serde --edition=2021 ...`.
const COMMAND_LINE_BYTES: u64 = 4096;

/// The sink, in front of the next one.
pub(crate) struct CrateNames<'a> {
    next: &'a mut dyn EventSink,
}

impl<'a> CrateNames<'a> {
    pub(crate) fn new(next: &'a mut dyn EventSink) -> Self {
        CrateNames { next }
    }
}

impl EventSink for CrateNames<'_> {
    fn end_round(&mut self, until: Timestamp) -> Completion {
        self.next.end_round(until)
    }

    fn on_event(&mut self, event: &Event<'_>) {
        if let EventKind::Process(pid, ProcessEvent::Exec("rustc")) = event.kind
            && let Some(name) = crate_of(pid)
        {
            let name = format!("rustc {name}");
            return self
                .next
                .on_event(&Event::process(event.time, pid, ProcessEvent::Exec(&name)));
        }
        self.next.on_event(event);
    }
}

/// The crate of a running process. `None` if the process has ended: its record is up to 0.4 s old, and rustc mostly
/// runs longer.
fn crate_of(pid: Pid) -> Option<String> {
    let mut line = Vec::new();
    let file = File::open(format!("/proc/{}/cmdline", pid.0)).ok()?;
    file.take(COMMAND_LINE_BYTES).read_to_end(&mut line).ok()?;
    crate_name(&line)
}

/// Arguments are separated by NUL (proc(5)).
fn crate_name(line: &[u8]) -> Option<String> {
    let mut arguments = line.split(|byte| *byte == 0);
    arguments.find(|argument| *argument == b"--crate-name")?;
    let name = std::str::from_utf8(arguments.next()?).ok()?;
    // cargo asks rustc for its features with the name `___`.
    let is_crate = |name: &&str| name.chars().any(char::is_alphanumeric);
    let is_identifier = |name: &&str| name.chars().all(|c| c.is_alphanumeric() || c == '_');
    Some(name).filter(is_crate).filter(is_identifier).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::crate_name;

    #[test]
    fn the_crate_is_known_by_the_argument() {
        let name = |line: &str| crate_name(line.as_bytes());
        assert_eq!(
            name("rustc\0--crate-name\0serde\0--edition=2021\0"),
            Some("serde".to_owned())
        );
        for none in [
            "",
            "rustc\0-vV\0",
            "rustc\0--crate-name",
            "rustc\0-\0--crate-name\0___\0",
            "rustc\0--crate-name\0\u{1b}[2J\0",
        ] {
            assert_eq!(name(none), None, "{none:?}");
        }
    }
}
