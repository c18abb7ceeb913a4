//! Starting and ending programs.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use recorder_macos::kernel::MachError;
use recorder_macos::processes::host::{Host, ProcessEnd};
use recording::info;
use recording::program::ProgramImage;

use super::Xnu;
use super::calls::Kernel;
use super::fault::Faults;
use super::machine::{Behaviour, Machine, State};

/// What a started program does.
const STARTED: Behaviour = Behaviour {
    run_ns: (100_000, 1_000_000),
    wait_ns: (100_000, 1_000_000),
    waits: 10,
    calls: 10,
    changes: 0,
    holes: 0,
};

impl Default for Xnu {
    fn default() -> Xnu {
        Xnu::new(Machine::new(0, 2), Faults::default())
    }
}

impl Kernel {
    /// Starts a program suspended, as the recorder's child.
    fn start(&mut self, name: String, has_library: bool) -> i32 {
        let bars = self.bars_started;
        let process = self.machine.start(None, 1, STARTED);
        let started = &mut self.machine.processes[process];
        started.name = name;
        started.is_stranger = false;
        started.is_suspended = true;
        started.is_barred = bars;
        started.has_library = has_library;
        started.end = Some(ProcessEnd::Exited(0));
        let pid = started.pid;
        let threads: Vec<usize> = self.machine.living(process).collect();
        for serial in threads {
            self.machine.leave(serial, State::Stopped);
            self.machine.threads[serial].suspend_count = 1;
        }
        pid
    }
}

impl Host for Xnu {
    fn hear_signals(&self) -> Result<(), i32> {
        self.lock().hears_signals = true;
        Ok(())
    }

    fn forget_signals(&self) {
        self.lock().hears_signals = false;
    }

    fn spawn(&self, image: &ProgramImage) -> Result<i32, i32> {
        let mut kernel = self.lock();
        kernel.call(None, None).map_err(|_| 35)?;
        let name = image.args[0].to_string_lossy();
        let library = image
            .env
            .iter()
            .find_map(|entry| entry.to_bytes().strip_prefix(b"DYLD_INSERT_LIBRARIES="));
        let paths = library
            .unwrap_or_default()
            .split(|byte| *byte == b':')
            .filter(|path| !path.is_empty());
        let paths: Vec<&Path> = paths.map(|path| Path::new(OsStr::from_bytes(path))).collect();
        assert!(paths.iter().all(|path| path.is_file()), "dyld ends such a program");
        let name = name.rsplit('/').next().unwrap_or_default().to_owned();
        Ok(kernel.start(name, !paths.is_empty()))
    }

    fn listen(&self) -> Result<String, MachError> {
        let mut kernel = self.lock();
        kernel.call(None, None)?;
        kernel.open_port();
        Ok("sprof-test".to_owned())
    }

    fn stop_listening(&self) {
        self.lock().close_port();
    }

    fn own_folder(&self) -> Option<PathBuf> {
        let mut kernel = self.lock();
        let folder = kernel
            .folder
            .get_or_insert_with(|| tempfile::tempdir().expect("a folder"));
        Some(folder.path().to_owned())
    }

    fn reap(&self, pid: i32) -> Option<ProcessEnd> {
        let mut kernel = self.lock();
        let ended = kernel.machine.processes.iter_mut();
        let mut ended = ended.filter(|process| process.pid == pid && !process.is_alive);
        ended.find_map(|process| process.end.take())
    }

    fn is_translated(&self, _pid: i32) -> bool {
        false
    }

    fn is_readable(&self, file: BorrowedFd<'_>) -> bool {
        let mut polls = [rustix::event::PollFd::from_borrowed_fd(
            file,
            rustix::event::PollFlags::IN,
        )];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut polls, Some(&now)) == Ok(1)
    }

    fn describe(&self) -> info::Host {
        info::Host::default()
    }

    fn is_root(&self) -> bool {
        self.lock().is_root
    }
}
