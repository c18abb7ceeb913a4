//! `sprof setup`: signs sprof so that macOS lets it record.
//!
//! macOS gives access to other processes to programs with the entitlement of debuggers. Anybody may give it to a
//! program of their own. The program that runs is never changed: the kernel kills what was signed in place (it
//! remembers the signature of the file). So a copy is signed, verified and started once, and takes the program's place
//! then.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use recording::command::own;

use crate::processes::host::Host;
use crate::session::task_access::is_entitled;

/// What the copy is signed with.
const ENTITLEMENTS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>com.apple.security.cs.debugger</key>
	<true/>
</dict>
</plist>
"#;

/// The tool of macOS.
const CODESIGN: &str = "/usr/bin/codesign";

/// Files beside the program, removed when dropped.
struct TemporaryFiles(Vec<PathBuf>);

impl Drop for TemporaryFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

/// Signs the program of this process. Returns what was done, for the user.
///
/// # Errors
///
/// What failed; the program was then not changed.
pub fn sign_own(host: &impl Host) -> Result<String, String> {
    let program = std::env::current_exe().and_then(fs::canonicalize);
    let program = program.map_err(|error| format!("cannot sign sprof: its own file is not found: {error}"))?;
    if is_entitled(&program) {
        return Ok(format!(
            "{} is signed to record; nothing was changed",
            program.display()
        ));
    }
    sign(&program, Path::new(CODESIGN))?;
    let mut done = format!("signed {}; now `{} record COMMAND` records", program.display(), own());
    if !host.is_root() {
        done.push_str(
            "\nmacOS may ask an administrator for the password at the first recording of each login; `sudo DevToolsSecurity -enable` makes \
             that unnecessary",
        );
    }
    Ok(done)
}

/// Signs a program with a tool that works as `codesign`.
///
/// # Errors
///
/// What failed; the program was then not changed.
pub fn sign(program: &Path, codesign: &Path) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| {
        format!(
            "cannot sign {}: {what} failed: {error}; it was not changed",
            program.display()
        )
    };
    let beside = |extension: &str| {
        let mut name = program.as_os_str().to_owned();
        name.push(format!(".{}.{extension}", std::process::id()));
        PathBuf::from(name)
    };
    let (copy, list) = (beside("signed"), beside("plist"));
    let temporary = TemporaryFiles(vec![copy.clone(), list.clone()]);
    fs::copy(program, &copy).map_err(|error| failed("copying it", &error))?;
    fs::write(&list, ENTITLEMENTS).map_err(|error| failed("writing entitlements", &error))?;
    let words = ["--force", "--sign", "-", "--entitlements"].map(OsStr::new);
    let args = words.into_iter().chain([list.as_os_str(), copy.as_os_str()]);
    run(codesign, args).map_err(|error| failed("`codesign --sign`", &error))?;
    let args = [OsStr::new("--verify"), OsStr::new("--strict"), copy.as_os_str()];
    run(codesign, args).map_err(|error| failed("`codesign --verify`", &error))?;
    if !is_entitled(&copy) {
        return Err(failed("signing", &"the copy has no entitlement of debuggers"));
    }
    run(&copy, [OsStr::new("--version")]).map_err(|error| failed("starting the signed copy", &error))?;
    fs::rename(&copy, program).map_err(|error| failed("replacing it", &error))?;
    drop(temporary);
    Ok(())
}

fn run<'a>(program: &Path, args: impl IntoIterator<Item = &'a OsStr>) -> Result<(), String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(format!("{} {message}", output.status).trim_end().to_owned())
}
