//! Another user's place to record in.

use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::skip::{Need, has};
use super::{copy_program, program};

/// A user id that owns nothing.
pub(crate) const NOBODY: &str = "65534";

/// A directory that everyone may use, with copies of sprof and a program: the build directory may be closed to others.
pub(crate) struct Playground {
    dir: tempfile::TempDir,
}

impl Playground {
    pub(crate) fn new(programs: &[&str]) -> Playground {
        let dir = tempfile::Builder::new()
            .prefix("sprof-test-")
            .tempdir_in("/tmp")
            .unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        copy_program(Path::new(env!("CARGO_BIN_EXE_sprof")), dir.path().join("sprof"));
        for name in programs {
            copy_program(program(name).unwrap(), dir.path().join(name));
        }
        Playground { dir }
    }

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command that runs as nobody.
    pub(crate) fn as_nobody(&self, program: impl AsRef<OsStr>) -> Command {
        self.as_nobody_with(&["--no-new-privs"], program)
    }

    /// The same, where the rights of set-user-ID programs count.
    pub(crate) fn as_nobody_with_rights(&self, program: impl AsRef<OsStr>) -> Command {
        self.as_nobody_with(&[], program)
    }

    fn as_nobody_with(&self, options: &[&str], program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
            "--inh-caps=-all",
        ]);
        command.args(options);
        command.arg(program).env("HOME", self.dir.path());
        command.current_dir(Path::new("/")).stdin(Stdio::null());
        command
    }

    /// A copy of `processes` with this mode, to be executed by nobody; `None` (after saying so) where a set-user-ID bit
    /// does nothing.
    pub(crate) fn processes_of_root(&self, name: &str, mode: u32) -> Option<PathBuf> {
        let path = self.path(name);
        copy_program(program("processes").unwrap(), &path);
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let output = self.as_nobody_with_rights(&path).args(["work", "1"]).output().unwrap();
        let gains_rights = String::from_utf8_lossy(&output.stdout).contains("euid=0\n");
        let works = output.status.success() && gains_rights == (mode & 0o4000 != 0);
        has(
            Need::SetUserId,
            works,
            "set-user-ID programs have no rights in /tmp here",
        )
        .then_some(path)
    }

    /// Records a program of this directory as nobody: what came of it, and the profile.
    pub(crate) fn record(&self, options: &[&str], name: &str, arguments: &[&str]) -> (Output, PathBuf) {
        let program = self.path(name);
        let words = ["--", program.to_str().unwrap()]
            .into_iter()
            .chain(arguments.iter().copied());
        self.sprof(&options.iter().copied().chain(words).collect::<Vec<_>>())
    }

    /// `sprof record` with these words, as nobody.
    pub(crate) fn sprof(&self, words: &[&str]) -> (Output, PathBuf) {
        let output = self.path("profile.json.gz");
        let mut command = self.as_nobody(self.path("sprof"));
        command.args(["record", "--save-only", "-o"]).arg(&output).args(words);
        (command.output().unwrap(), output)
    }
}
