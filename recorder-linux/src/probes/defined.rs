//! The probes of one recording, as long as they stand in the kernel.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use recording::probe::{FilePlace, KernelPlace, ProbePlace};
use recording::regular_file;

use super::arguments;
use super::error::ProbeError;
use super::owner::Owner;
use super::tracefs::{CommandError, ProbeFiles, ProbeList};
use super::trial::{self, Trial};
use perf_data::events::RETURN_ADDRESS;

/// Longest time that the kernel may still use a definition after its events were closed: it releases them after a grace
/// period.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest line of a list: WRITE_BUFSIZE in kernel/trace/trace.c.
const MAX_LINE_BYTES: usize = 4095;

/// Held from the choice of a name to its definition.
static DEFINING: Mutex<()> = Mutex::new(());

/// Defined probes. Dropping this removes them; their events must have been closed before.
#[derive(Debug)]
pub struct Probes {
    tracefs: ProbeFiles,
    group: String,
    events: Vec<(ProbeList, String)>,
    trials: Vec<Trial>,
}

fn open(place: &FilePlace) -> Result<File, ProbeError> {
    regular_file::open(&place.path).map_err(|error| ProbeError::File {
        path: place.path.clone(),
        error,
    })
}

fn refused(place: &ProbePlace, reason: String) -> ProbeError {
    let reason = match place {
        ProbePlace::File(_) => reason,
        // kernel/trace/trace_kprobe.c has the same message for `notrace` and for the blacklist.
        ProbePlace::Kernel(_) => format!(
            "the kernel refuses it ({reason}); no function can be probed that is `notrace` or in \
             /sys/kernel/debug/kprobes/blacklist, and no place within an instruction: probe one of its callers"
        ),
    };
    ProbeError::Refused {
        place: place.clone(),
        reason,
    }
}

/// The arguments of a place: places with equal ones can be one event.
fn form(place: &ProbePlace) -> (ProbeList, Vec<String>) {
    let arguments = match place {
        ProbePlace::File(place) => arguments::form(&place.arguments),
        ProbePlace::Kernel(_) => Vec::new(),
    };
    (ProbeList::of(place), arguments)
}

impl Probes {
    /// Defines the places, or none of them.
    ///
    /// # Errors
    ///
    /// tracefs is missing or closed to this user, or a place cannot be probed: each place is tried out.
    pub fn define(places: &[ProbePlace]) -> Result<Probes, ProbeError> {
        let list = places.first().map_or(ProbeList::Uprobes, ProbeList::of);
        let mut defined = Probes::none(ProbeFiles::find(list)?)?;
        defined.add(places)?;
        Ok(defined)
    }

    /// Starts without probes.
    pub(super) fn none(tracefs: ProbeFiles) -> Result<Probes, ProbeError> {
        Ok(Probes {
            tracefs,
            group: Owner::myself()?.group(),
            events: Vec::new(),
            trials: Vec::new(),
        })
    }

    /// Adds the places of one name: as one event where their arguments are alike. 100 events took 9 s to close, one for
    /// each grace period of the kernel; one event of 100 places takes as long as one of a single place.
    pub(super) fn add(&mut self, places: &[ProbePlace]) -> Result<(), ProbeError> {
        let mut rest = places;
        while let Some(first) = rest.first() {
            let common = form(first);
            let alike = rest.iter().take_while(|place| form(place) == common).count();
            let (event, others) = rest.split_at(alike);
            self.add_event(event)?;
            rest = others;
        }
        Ok(())
    }

    fn add_event(&mut self, places: &[ProbePlace]) -> Result<(), ProbeError> {
        let Some((first, others)) = places.split_first() else {
            return Ok(());
        };
        let list = ProbeList::of(first);
        self.tracefs.check(list)?;
        // A second definition by the same name becomes a part of the first.
        let alone = DEFINING.lock().unwrap_or_else(PoisonError::into_inner);
        let name = self.tracefs.free_name(&self.group, self.events.len())?;
        self.define_one(&name, first)?;
        self.events.push((list, name.clone()));
        drop(alone);
        let mut of_event = vec![first];
        let mut apart = Vec::new();
        for place in others {
            match self.define_one(&name, place) {
                Ok(()) => of_event.push(place),
                // Before Linux 5.5 an event has one place.
                Err(ProbeError::Refused { .. }) => apart.push(place.clone()),
                Err(error) => return Err(error),
            }
        }
        let id = self.tracefs.event_id(&self.group, &name)?;
        let mut files = Vec::new();
        for place in of_event {
            if let ProbePlace::File(place) = place {
                files.push((open(place)?, place.file_offset));
            }
        }
        match trial::run(id, files.iter().map(|(file, offset)| (file, *offset))) {
            Ok(trial) => self.trials.push(trial),
            Err((_, reason)) if others.is_empty() => return Err(refused(first, reason)),
            Err((at, reason)) => {
                // To find out which place is refused, each is tried by itself.
                for place in places {
                    Probes::none(self.tracefs.clone())?.add_event(std::slice::from_ref(place))?;
                }
                return Err(refused(places.get(at).unwrap_or(first), reason));
            }
        }
        apart
            .iter()
            .try_for_each(|place| self.add_event(std::slice::from_ref(place)))
    }

    fn define_one(&self, name: &str, place: &ProbePlace) -> Result<(), ProbeError> {
        // Open until the kernel has read the line, which may name its descriptor.
        let (line, _file) = match place {
            ProbePlace::File(place) => {
                let file = open(place)?;
                (in_file(&self.group, name, place, &file), Some(file))
            }
            ProbePlace::Kernel(place) => (in_kernel(&self.group, name, place), None),
        };
        if line.len() > MAX_LINE_BYTES {
            let reason = format!(
                "its definition would have {} bytes, more than the kernel takes",
                line.len()
            );
            return Err(refused(place, reason));
        }
        self.tracefs
            .command(ProbeList::of(place), &line)
            .map_err(|error| match error {
                CommandError::Tracefs(error) => error,
                CommandError::Refused(reason) => refused(place, reason),
            })
    }

    /// Call it when the events are open: closing the last one of a probe takes a grace period, so the trials last until
    /// then.
    pub(crate) fn ready(mut self) -> Probes {
        self.trials.clear();
        self
    }

    /// Group and event of each: how tracefs names the tracepoints.
    pub fn tracepoints(&self) -> impl Iterator<Item = (&str, &str)> {
        self.events
            .iter()
            .map(|(_, event)| (self.group.as_str(), event.as_str()))
    }

    /// Removes the definitions. Waits up to 5 s for the kernel to release events that were closed just before.
    ///
    /// # Errors
    ///
    /// [`ProbeError::NotRemoved`], with a command that removes them: the kernel still uses a definition, or refuses.
    pub fn remove(mut self) -> Result<(), ProbeError> {
        self.remove_all()
    }

    fn remove_all(&mut self) -> Result<(), ProbeError> {
        self.trials.clear();
        let deadline = Instant::now() + PATIENCE;
        while let Some((list, event)) = self.events.last() {
            match self.tracefs.remove(*list, &self.group, event) {
                Ok(()) => {
                    self.events.pop();
                }
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(error) => {
                    let left = self.events.iter();
                    let left = left.map(|(list, event)| (*list, self.group.as_str(), event.as_str()));
                    let command = self.tracefs.removing_command(left);
                    return Err(ProbeError::NotRemoved {
                        reason: error.to_string(),
                        command,
                    });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // If this fails, the next recording finds them as leftovers.
        let _ = self.remove_all();
    }
}

/// Documentation/trace/uprobetracer.rst: `p:GROUP/EVENT PATH:OFFSET(REF_CTR_OFFSET) ARGUMENTS`.
fn in_file(group: &str, name: &str, place: &FilePlace, file: &File) -> String {
    let path = match in_one_word(&place.path) {
        Some(path) => path,
        None => format!("/proc/self/fd/{}", file.as_raw_fd()),
    };
    let mut line = format!("p:{group}/{name} {path}:{:#x}", place.file_offset);
    if let Some(semaphore) = place.semaphore {
        line.push_str(&format!("({semaphore:#x})"));
    }
    for argument in arguments::translate(&place.arguments).fetched {
        line.push(' ');
        line.push_str(&argument);
    }
    line
}

/// Documentation/trace/kprobetrace.rst: `p:GROUP/EVENT FUNCTION+OFFSET ARGUMENTS`.
///
/// On arm64 the kernel unwinds itself by frame records alone. At its first instruction a function has no frame record
/// yet, so its caller is missing from the chain. The link register has the caller, so it is recorded.
fn in_kernel(group: &str, name: &str, place: &KernelPlace) -> String {
    let mut line = format!("p:{group}/{name} {}", place.function);
    match place.offset {
        0 if cfg!(target_arch = "aarch64") => line.push_str(&format!(" {RETURN_ADDRESS}=%lr:x64")),
        0 => {}
        offset => line.push_str(&format!("+{offset}")),
    }
    line
}

/// The absolute path, if a definition can hold it: words end at spaces, lines at `#`, and nothing can be quoted.
fn in_one_word(path: &Path) -> Option<String> {
    let path = std::path::absolute(path).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let plain = bytes.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#');
    plain.then(|| path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_in_the_kernel_s_notation() {
        let file = File::open("/dev/null").unwrap();
        let mut probe = FilePlace {
            path: "/usr/bin/app".into(),
            file_offset: 0x1160,
            semaphore: None,
            arguments: String::new(),
        };
        assert_eq!(in_file("g", "e0", &probe, &file), "p:g/e0 /usr/bin/app:0x1160");
        probe.semaphore = Some(0x3010);
        probe.arguments = "-4@%edi 8f@%xmm0".to_owned();
        assert_eq!(
            in_file("g", "e0", &probe, &file),
            "p:g/e0 /usr/bin/app:0x1160(0x3010) arg1=%di:s32"
        );
        // Seen with a name that has a space: "Failed to find the given file".
        for path in ["/tmp/with space", "/tmp/a#b", "/tmp/ä"] {
            probe.path = path.into();
            let line = in_file("g", "e0", &probe, &file);
            assert!(line.starts_with("p:g/e0 /proc/self/fd/"), "{line}");
        }
        let mut place = KernelPlace {
            function: "tcp_sendmsg".to_owned(),
            offset: 16,
        };
        assert_eq!(in_kernel("g", "e0", &place), "p:g/e0 tcp_sendmsg+16");
        place.offset = 0;
        let caller = if cfg!(target_arch = "aarch64") {
            " __return_address=%lr:x64"
        } else {
            ""
        };
        assert_eq!(in_kernel("g", "e0", &place), format!("p:g/e0 tcp_sendmsg{caller}"));
    }
}
