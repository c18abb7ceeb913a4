//! Whether macOS gives access to a process, and what helps if it does not.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use recording::command::own;

use crate::access::{AccessMethod, Barrier, OWN_CPU, barrier_of};
use crate::codesign::read;
use crate::files::SharedMach;
use crate::files::on_disk::OnDisk;
use crate::kernel::MachError;
use crate::processes::host::Host;

/// taskgated may ask an administrator, and may never answer where nobody is at the screen.
const PATIENCE: Duration = Duration::from_secs(30);

/// The rights of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// It runs as root.
    Root,
    /// Its program is signed for debuggers.
    Entitled,
    /// Neither: macOS gives no access to other processes, but those that give it themselves.
    None,
}

impl Rights {
    /// How sprof gets access to the programs that it starts.
    pub fn access_method(self) -> AccessMethod {
        match self {
            Rights::Root | Rights::Entitled => AccessMethod::Task,
            Rights::None => AccessMethod::Library,
        }
    }
}

/// The rights of this process, by its user and by its program's signature.
pub fn own_rights(host: &impl Host) -> Rights {
    if host.is_root() {
        return Rights::Root;
    }
    if std::env::current_exe().is_ok_and(|path| is_entitled(&path)) {
        Rights::Entitled
    } else {
        Rights::None
    }
}

/// True if a program is signed for debuggers.
pub fn is_entitled(program: &Path) -> bool {
    let slices = std::fs::File::open(program).map(|file| read(&OnDisk(file)).unwrap_or_default());
    let signatures = slices.into_iter().flatten().filter_map(|slice| slice.signature);
    signatures.into_iter().any(|signature| signature.permits_debugging())
}

/// The answer to a request for a process's task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskAccess {
    /// macOS gives access.
    Given,
    /// The process has ended.
    Ended,
    /// macOS gives no access. The text is an error for the user, with the remedy.
    Refused(String),
}

/// Asks for the task of a process, and waits for at most 30 s. Without rights it refuses at once: the question could
/// wait for an administrator.
pub fn ask_for_task<M: Host + SharedMach>(host: &M, pid: i32, rights: Rights) -> TaskAccess
where
    M::Task: Send,
{
    let name = host.process_name(pid).unwrap_or_default();
    let what = format!("macOS gives no access to process {pid} ({name})");
    if rights == Rights::None {
        return TaskAccess::Refused(format!(
            "{what}: sprof is not signed to ask for it. `{0} setup` signs it, once; or run it with sudo",
            own()
        ));
    }
    let (sender, answer) = mpsc::channel();
    let asking = {
        let host = host.clone();
        move || {
            // The answer may be late: nobody waits for it any more.
            let _ = sender.send(host.task(pid).map(drop));
        }
    };
    // Not waited for: it may never end.
    if std::thread::Builder::new()
        .name("sprof-ask".to_owned())
        .spawn(asking)
        .is_err()
    {
        return TaskAccess::Refused(format!("{what}: no thread can be started to ask for it"));
    }
    match answer.recv_timeout(PATIENCE) {
        Ok(Ok(())) => TaskAccess::Given,
        Ok(Err(MachError::Gone)) => TaskAccess::Ended,
        Ok(Err(MachError::Code(code))) => {
            let bar = host
                .program(pid)
                .and_then(|program| barrier_of(&program, OWN_CPU, AccessMethod::Task));
            let reason = match bar {
                Some(bar) => format!("{bar}; {}", bar.remedy()),
                None => format!(
                    "macOS refused (code {code}); `{} doctor` shows what this Mac permits{}",
                    own(),
                    if rights == Rights::Root {
                        ""
                    } else {
                        ", and with sudo more may be"
                    }
                ),
            };
            TaskAccess::Refused(format!("{what}: {reason}"))
        }
        Err(_) => TaskAccess::Refused(format!(
            "{what}: no answer in {} s. A window may ask an administrator for the password; `sudo DevToolsSecurity -enable` makes that \
             unnecessary",
            PATIENCE.as_secs()
        )),
    }
}

/// Why a process has no samples, in a few words, by the file that it executes.
pub fn reason(program: Option<&Path>, way: AccessMethod) -> &'static str {
    match program.and_then(|program| barrier_of(program, OWN_CPU, way)) {
        Some(Barrier::Platform) => "a part of macOS",
        Some(Barrier::Hardened) => "hardened",
        Some(Barrier::Restricted) => "signed against libraries of others",
        Some(Barrier::SetUserId) => "with the rights of another user or group",
        Some(Barrier::Translated) => "translated by Rosetta",
        None => match way {
            AccessMethod::Task => "refused",
            AccessMethod::Library => "it ended first, or did not load sprof's library",
        },
    }
}
