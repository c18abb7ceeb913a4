//! Parses a command line of cargo, as far as a recording needs it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Options of cargo and cargo-nextest whose value is the next word. The list must be complete for `cargo run`: there
/// the first word that is not an option ends cargo's options.
const WITH_VALUE: &[&str] = &[
    "--bench",
    "--bin",
    "--cargo-profile",
    "--color",
    "--config",
    "--config-file",
    "--example",
    "--exclude",
    "--features",
    "--jobs",
    "--lockfile-path",
    "--manifest-path",
    "--message-format",
    "--package",
    "--profile",
    "--target",
    "--target-dir",
    "--test",
    "-C",
    "-E",
    "-F",
    "-P",
    "-Z",
    "-j",
    "-p",
];

/// The subcommands that run programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subcommand {
    Bench,
    Test,
    Run,
    Nextest,
}

/// A command line of cargo that builds programs and runs them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CargoCommand {
    /// `cargo`, and the toolchain (`+nightly`).
    pub(crate) program: Vec<OsString>,
    pub(crate) subcommand: Subcommand,
    pub(crate) profile: String,
    /// `--target`, as typed; may be several.
    pub(crate) targets: Vec<String>,
    pub(crate) manifest_path: Option<PathBuf>,
    /// `--config`, in order.
    pub(crate) config: Vec<String>,
    /// `-C`.
    pub(crate) folder: Option<PathBuf>,
}

/// Parses a command line; `None` if it is not cargo's, or runs no programs. `alias` resolves the user's own
/// subcommands.
pub(crate) fn parse(words: &[OsString], alias: &dyn Fn(&str) -> Option<Vec<String>>) -> Option<CargoCommand> {
    let (program, rest) = words.split_first()?;
    if Path::new(program).file_name() != Some(OsStr::new("cargo")) {
        return None;
    }
    let mut program = vec![program.clone()];
    let mut rest = rest.to_vec();
    if rest.first().is_some_and(|word| word.as_bytes().starts_with(b"+")) {
        program.push(rest.remove(0));
    }
    // An alias may refer to another alias; cargo refuses circles.
    for _ in 0..8 {
        let at = subcommand_at(&rest)?;
        let name = rest[at].to_str()?.to_owned();
        if let Some((subcommand, words)) = known(&name, &rest[at + 1..]) {
            let mut command = CargoCommand {
                program,
                subcommand,
                profile: String::new(),
                targets: Vec::new(),
                manifest_path: None,
                config: Vec::new(),
                folder: None,
            };
            let mut options = Options::default();
            options.read(&mut command, &rest[..at], false);
            options.read(&mut command, words, subcommand == Subcommand::Run);
            command.profile = options.profile(subcommand);
            return Some(command);
        }
        let stands_for = alias(&name)?;
        rest.splice(at..=at, stands_for.into_iter().map(OsString::from));
    }
    None
}

/// Index of the subcommand: the first word that is neither an option of cargo nor the value of one.
fn subcommand_at(words: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !word.as_bytes().starts_with(b"-") {
            return Some(at);
        }
        at += if takes_next(word) { 2 } else { 1 };
    }
    None
}

fn known<'a>(name: &str, rest: &'a [OsString]) -> Option<(Subcommand, &'a [OsString])> {
    Some(match name {
        "bench" => (Subcommand::Bench, rest),
        "test" | "t" => (Subcommand::Test, rest),
        "run" | "r" => (Subcommand::Run, rest),
        "nextest" => {
            let at = subcommand_at(rest)?;
            let runs = ["run", "r"].iter().any(|name| rest[at] == *name);
            (Subcommand::Nextest, runs.then_some(&rest[at + 1..])?)
        }
        _ => return None,
    })
}

fn takes_next(word: &OsStr) -> bool {
    WITH_VALUE.iter().any(|option| word == *option)
}

/// Options of cargo that decide the build profile, beside the command itself.
#[derive(Default)]
struct Options {
    profile: Option<String>,
    cargo_profile: Option<String>,
    release: bool,
}

impl Options {
    /// Reads options up to `--`; with `until_positional`, up to the first positional word.
    fn read(&mut self, command: &mut CargoCommand, words: &[OsString], until_positional: bool) {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" || (until_positional && !bytes.starts_with(b"-")) {
                return;
            }
            let (name, mut value) = match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) if bytes.starts_with(b"--") => {
                    (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec())))
                }
                _ => (bytes, None),
            };
            if value.is_none() && takes_next(OsStr::from_bytes(name)) {
                value = words.next().cloned();
            }
            let text = || value.clone().and_then(|value| value.into_string().ok());
            match name {
                b"--release" | b"-r" => self.release = true,
                b"--profile" => self.profile = text(),
                b"--cargo-profile" => self.cargo_profile = text(),
                b"--target" => command.targets.extend(text()),
                b"--config" => command.config.extend(text()),
                b"--manifest-path" => command.manifest_path = value.map(PathBuf::from),
                b"-C" => command.folder = value.map(PathBuf::from),
                _ => {}
            }
        }
    }

    /// The build profile that the options name.
    fn profile(self, subcommand: Subcommand) -> String {
        // `--profile` of nextest is a profile of nextest, not of cargo.
        let named = match subcommand {
            Subcommand::Nextest => self.cargo_profile,
            _ => self.profile,
        };
        let usual = match subcommand {
            Subcommand::Bench => "bench",
            _ if self.release => "release",
            Subcommand::Test | Subcommand::Nextest => "test",
            Subcommand::Run => "dev",
        };
        named.unwrap_or_else(|| usual.to_owned())
    }
}

impl Subcommand {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subcommand::Bench => "bench",
            Subcommand::Test => "test",
            Subcommand::Run => "run",
            Subcommand::Nextest => "nextest run",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<CargoCommand> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words, &|name| {
            (name == "xt").then(|| vec!["run".to_owned(), "--profile=fast".to_owned(), "--".to_owned()])
        })
    }

    #[test]
    fn each_command_has_its_profile() {
        for (line, subcommand, profile) in [
            ("cargo bench", Subcommand::Bench, "bench"),
            (
                "/home/someone/.cargo/bin/cargo +nightly bench --profile fast",
                Subcommand::Bench,
                "fast",
            ),
            ("cargo test -- --release", Subcommand::Test, "test"),
            ("cargo -q --config a=1 t --release name", Subcommand::Test, "release"),
            ("cargo run", Subcommand::Run, "dev"),
            ("cargo r -p x --bin run --release file", Subcommand::Run, "release"),
            ("cargo run file --release", Subcommand::Run, "dev"),
            ("cargo nextest run --profile ci", Subcommand::Nextest, "test"),
            (
                "cargo nextest --color always r --cargo-profile=ci",
                Subcommand::Nextest,
                "ci",
            ),
            ("cargo xt --release", Subcommand::Run, "fast"),
        ] {
            let command = parsed(line).unwrap();
            assert_eq!((command.subcommand, &*command.profile), (subcommand, profile), "{line}");
        }
    }

    #[test]
    fn what_runs_no_programs_is_a_program_like_any_other() {
        for line in [
            "cargo",
            "cargo build",
            "cargo nextest list",
            "cargo --version",
            "cargo what",
            "rustc bench",
            "cargo-x run",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn options_with_values_in_both_forms() {
        let command =
            parsed("cargo +1.95 test --target a --target=b --manifest-path=x/Cargo.toml --config k=1").unwrap();
        assert_eq!(command.program, ["cargo", "+1.95"]);
        assert_eq!(command.targets, ["a", "b"]);
        assert_eq!(command.manifest_path, Some("x/Cargo.toml".into()));
        assert_eq!(command.config, ["k=1"]);
    }
}
