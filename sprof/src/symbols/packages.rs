//! The packages with the debug symbols of installed files, from the package manager's database.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use profile::data::SavedLib;
use profile::view::shortfalls::is_installed;
use recording::regular_file;
use recording::sink::OnDisk;

use crate::symbols::library::module;

/// Longest wait for a database. Its answer only saves the user a search.
const PATIENCE: Duration = Duration::from_secs(2);
/// Most libraries that the package manager is asked about.
const MOST: usize = 3;

/// The command that installs debug symbols of the libraries; `None` if no package manager knows their files. A library
/// of another root, or of another build than this machine's file, is left out: its package is not this machine's.
pub(crate) fn install_command<'a>(libs: impl Iterator<Item = &'a SavedLib>) -> Option<String> {
    let until = Instant::now() + PATIENCE;
    let paths = libs.filter(|lib| is_of_this_machine(lib)).take(MOST);
    let paths: Vec<&str> = paths.filter_map(|lib| lib.path.as_deref()).collect();
    let all = |of: &dyn Fn(&str) -> Option<String>| {
        let mut found: Vec<String> = paths.iter().filter_map(|path| of(path)).collect();
        found.sort();
        found.dedup();
        (!found.is_empty()).then(|| found.join(" "))
    };
    let debian = all(&|path| dpkg(path, until).map(|package| debug_package(&package)));
    let debian =
        debian.map(|packages| format!("apt install {packages} (in Debian's and Ubuntu's archives of debug symbols)"));
    debian.or_else(|| all(&|path| rpm(path, until)).map(|packages| format!("dnf debuginfo-install {packages}")))
}

/// True if the file at the library's path on this machine is the recorded build.
fn is_of_this_machine(lib: &SavedLib) -> bool {
    let (Some(path), Some(build_id)) = (lib.path.as_deref(), module(lib).and_then(|module| module.build_id)) else {
        return false;
    };
    let file = (is_installed(lib))
        .then(|| regular_file::open(Path::new(path)).ok())
        .flatten();
    file.and_then(|file| unwind::build_id_of(&OnDisk(file))) == Some(build_id)
}

/// Name of the package with the debug symbols of a Debian package. debhelper makes it, except for the C library.
fn debug_package(package: &str) -> String {
    match package {
        "libc6" => "libc6-dbg".to_owned(),
        package => format!("{package}-dbgsym"),
    }
}

fn dpkg(path: &str, until: Instant) -> Option<String> {
    // The database takes patterns. It lists some files under /lib, from before /lib became a link to /usr/lib.
    let before = path.strip_prefix("/usr").unwrap_or(path);
    let is_pattern = path.contains(['*', '?', '[', '\\']);
    let mut answers = [path, before].into_iter().filter(|_| !is_pattern);
    answers.find_map(|path| package_of(&answer("/usr/bin/dpkg-query", &["--search", path], until)?))
}

/// `zlib1g` of `zlib1g:amd64: /lib/x86_64-linux-gnu/libz.so.1.2.13`; `a, b: /path` for a file of several packages.
fn package_of(answer: &str) -> Option<String> {
    let line = answer.lines().find(|line| !line.starts_with("diversion "))?;
    let (packages, _) = line.split_once(": /")?;
    let package = packages.split([',', ':']).next()?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    (!package.is_empty() && package.chars().all(is_name)).then(|| package.to_owned())
}

fn rpm(path: &str, until: Instant) -> Option<String> {
    let answer = answer("/usr/bin/rpm", &["-qf", "--queryformat", "%{NAME}\n", path], until)?;
    let name = answer.lines().next()?.trim();
    (!name.is_empty() && !name.contains(char::is_whitespace)).then(|| name.to_owned())
}

/// The output of a program; `None` if it fails or takes too long.
fn answer(program: &str, arguments: &[&str], until: Instant) -> Option<String> {
    if !Path::new(program).exists() || Instant::now() >= until {
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("LC_ALL", "C").current_dir("/");
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => break None,
        }
    };
    if status.is_none() {
        // The program may have ended by now.
        drop(child.kill());
        drop(child.wait());
    }
    status.filter(|status| status.success())?;
    let mut text = String::new();
    child.stdout.take()?.take(1 << 16).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of dpkg-query 1.21.
    #[test]
    fn a_package_is_read_from_the_answer() {
        let package = |answer: &str| package_of(answer);
        assert_eq!(
            package("zlib1g:amd64: /lib/x86_64-linux-gnu/libz.so.1.2.13\n").as_deref(),
            Some("zlib1g")
        );
        assert_eq!(
            package("nginx, nginx-light: /usr/sbin/nginx\n").as_deref(),
            Some("nginx")
        );
        assert_eq!(
            package("diversion by dash from: /bin/sh\ndash: /bin/sh\n").as_deref(),
            Some("dash")
        );
        assert_eq!(package(""), None);
        assert_eq!(package("dpkg-query: no path found"), None);
    }
}
