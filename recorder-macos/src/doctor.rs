//! What this Mac permits, and threads that were left suspended.

use std::process::Command;

use recording::command::own;
use recording::doctor::{CheckState, Examination, Finding};

use crate::kernel::{Mach, MachError};
use crate::processes::host::Host;
use crate::session::task_access::{Rights, own_rights};

/// Finds out what this Mac and this user may do. No access is asked for: that could wait for an administrator.
pub fn examine(host: &impl Host) -> Examination {
    let kernel = Finding::works(
        "mach",
        "access through the kernel",
        "to programs that sprof starts, and to running ones",
    );
    let kernel = match own_rights(host) {
        Rights::Root => kernel,
        Rights::Entitled => kernel.because(
            CheckState::Works,
            "sprof is signed for it; macOS may ask an administrator for the password once a login",
        ),
        Rights::None => kernel
            .because(
                CheckState::Fails,
                "sprof is not signed to have access to other processes",
            )
            .fixed_by([format!("{} setup", own()), format!("sudo {} record ...", own())]),
    };
    let library = Finding::works(
        "mach-library",
        "access through a library in the program",
        "to programs that sprof starts, if dyld inserts libraries into them: not to programs of macOS, nor to what they start",
    );
    Examination {
        ways: vec![kernel, library],
        limits: vec![
            Finding::works(
                "stacks",
                "stacks",
                "Mach calls suspend a thread for each sample; there are no kernel functions",
            ),
            integrity_protection(),
            Finding::works(
                "hardened",
                "hardened programs",
                "programs without the entitlement get-task-allow give no access, not even to root",
            )
            .in_state(CheckState::Limited),
        ],
    }
}

/// What `csrutil status` says: with System Integrity Protection, programs of macOS give no access.
fn integrity_protection() -> Finding {
    let output = Command::new("/usr/bin/csrutil").arg("status").output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let finding = Finding::works("integrity-protection", "System Integrity Protection", "");
    match text.as_str() {
        "" => finding.because(CheckState::Limited, "unknown: csrutil printed nothing"),
        text if text.contains("enabled") => finding.because(
            CheckState::Limited,
            "enabled: programs of macOS in /bin, /usr and /System are not recorded; what they start is",
        ),
        text => finding.because(CheckState::Works, text),
    }
}

/// Maximum number of suspends of one thread that are undone. A recorder suspends each thread once.
const MOST_SUSPENDS: u32 = 1000;

/// Resumes the threads of a process that are suspended: a recorder that was killed between suspend and resume leaves
/// one so. Also resumes threads that the program itself has suspended. Returns what was done, for the user.
///
/// # Errors
///
/// The process does not exist, or macOS gives no access to it.
pub fn resume(mach: &impl Mach, pid: i32) -> Result<String, String> {
    let failed = |failure| match failure {
        MachError::Gone => format!("there is no process {pid}; `ps -e` lists all that run"),
        MachError::Code(code) => format!(
            "macOS gives no access to process {pid} (code {code}); try with sudo: `sudo {} doctor --resume {pid}`",
            own()
        ),
    };
    let task = mach.task(pid).map_err(failed)?;
    let threads = mach.threads(&task).map_err(failed)?;
    let (mut resumed, mut again) = (0, 0);
    for thread in &threads {
        // As often as it is suspended now: the program may go on suspending its threads.
        let count = mach.suspend_count(thread).unwrap_or(0).min(MOST_SUSPENDS);
        for _ in 0..count {
            // A thread that ends now needs nothing.
            match mach.resume(thread) {
                Ok(()) => {}
                Err(MachError::Gone) => break,
                Err(failure) => return Err(failed(failure)),
            }
        }
        resumed += usize::from(count > 0);
        again += usize::from(count > 0 && mach.suspend_count(thread).is_ok_and(|count| count > 0));
    }
    let all = threads.len();
    Ok(match (resumed, again) {
        (0, _) => format!("process {pid} has {all} threads, and none is suspended"),
        (resumed, 0) => format!("resumed {resumed} of the {all} threads of process {pid}"),
        (resumed, again) => format!(
            "resumed {resumed} of the {all} threads of process {pid}; {again} of them are suspended again, by another process or by itself"
        ),
    })
}
