//! `install.sh` in three shells, with made-up releases from a server on loopback: nothing is half installed.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::spool::SmallDisk;
use crate::support::run::{output, wait_until};
use crate::support::scripted::{Answer, Scripted};
use crate::support::skip::{Need, has};
use crate::support::{copy_program, temp_dir};

/// Programs that the script always needs. Of curl and wget, for example, it needs only one.
const TOOLS: [&str; 10] = [
    "cat", "grep", "gzip", "mkdir", "mktemp", "mv", "rm", "tail", "tar", "uname",
];
const SHELLS: [&[&str]; 3] = [&["dash"], &["busybox", "sh"], &["bash"]];

/// Goes on where all shells and downloaders are installed.
fn shells() -> bool {
    let found = ["dash", "busybox", "bash", "curl", "wget", "shasum"].map(|tool| which(tool).is_some());
    has(
        Need::Shells,
        found == [true; 6],
        "dash, busybox, curl, wget or shasum is not installed",
    )
}

fn which(tool: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}

/// Runs the script away from the tools of this machine, but for these.
struct Installer {
    dir: tempfile::TempDir,
    releases: String,
}

impl Installer {
    fn new(releases: &Scripted, tools: &[&str]) -> Installer {
        let dir = temp_dir();
        let bin = dir.path().join("tools");
        std::fs::create_dir(&bin).unwrap();
        for tool in TOOLS.iter().chain(tools) {
            symlink(which(tool).unwrap(), bin.join(tool)).unwrap();
        }
        Installer {
            dir,
            releases: releases.url.clone(),
        }
    }

    /// The folder that the script installs into unless it is given another one.
    fn home_bin(&self) -> PathBuf {
        self.dir.path().join(".local/bin")
    }

    fn command(&self, shell: &[&str], arguments: &[&str]) -> Command {
        let mut command = Command::new(which(shell[0]).unwrap());
        command
            .args(&shell[1..])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../install.sh"))
            .args(arguments)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", self.dir.path().join("tools"))
            .env("SPROF_RELEASES", &self.releases);
        command
    }

    fn run(&self, shell: &[&str]) -> Output {
        output(&mut self.command(shell, &[]))
    }
}

/// A program that says what the installed sprof would.
fn stand_in(version: &str) -> String {
    format!(
        "#!/bin/sh\ncase $1 in\n--version) echo sprof {version} ;;\ndoctor) echo first; echo verdict of {version} ;;\nesac\n"
    )
}

fn write_program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// The files of a release, by the path that a client asks for.
fn release(version: &str, sprof: &str) -> HashMap<String, Vec<u8>> {
    let dir = temp_dir();
    let name = format!("sprof-{version}-{}", target());
    let folder = dir.path().join(&name);
    std::fs::create_dir(&folder).unwrap();
    write_program(&folder.join("sprof"), sprof);
    write_program(&folder.join("cargo-sprof"), &stand_in(version));
    // More than a small disk holds.
    std::fs::write(folder.join("README.md"), vec![b'x'; 1 << 20]).unwrap();
    let script = format!("tar -czf {name}.tar.gz {name} && sha256sum {name}.tar.gz >sha256sums");
    let status = Command::new("sh")
        .args(["-ec", &script])
        .current_dir(dir.path())
        .status();
    assert!(status.unwrap().success());
    ["sha256sums".to_owned(), format!("{name}.tar.gz")]
        .map(|file| (format!("/{file}"), std::fs::read(dir.path().join(&file)).unwrap()))
        .into()
}

fn serve(files: HashMap<String, Vec<u8>>) -> Scripted {
    Scripted::start(move |path| {
        files
            .get(path)
            .map_or(Answer::NotFound, |file| Answer::File(file.clone()))
    })
}

/// A server that answers in this way when it is asked for the archive.
fn serve_archive(answer: impl Fn(&[u8]) -> Answer + Send + Sync + 'static) -> Scripted {
    let files = release("2.0", &stand_in("2.0"));
    Scripted::start(move |path| match path {
        "/sha256sums" => Answer::File(files[path].clone()),
        _ => answer(&files[path]),
    })
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Puts programs of an earlier release into the folder.
fn install_earlier(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for name in ["cargo-sprof", "sprof"] {
        write_program(&folder.join(name), "earlier");
    }
}

fn assert_only_earlier(folder: &Path, context: &str) {
    assert_eq!(names(folder), ["cargo-sprof", "sprof"], "{context}");
    for name in names(folder) {
        assert_eq!(std::fs::read(folder.join(name)).unwrap(), b"earlier", "{context}");
    }
}

/// The script fails over an earlier release, says this, and leaves the earlier programs.
fn assert_fails(server: &Scripted, tools: &[&str], said: &str) {
    for shell in SHELLS {
        let installer = Installer::new(server, tools);
        install_earlier(&installer.home_bin());
        let output = installer.run(shell);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{shell:?}: {stderr}");
        assert!(stderr.contains(said), "{shell:?}: {stderr}");
        assert_only_earlier(&installer.home_bin(), &format!("{shell:?}: {stderr}"));
    }
}

#[test]
fn both_programs_are_installed_over_nothing_and_over_an_earlier_release() {
    if !shells() {
        return;
    }
    let server = serve(release("2.0", &stand_in("2.0")));
    for tools in [["curl", "sha256sum"], ["wget", "sha256sum"], ["curl", "shasum"]] {
        for shell in SHELLS {
            let installer = Installer::new(&server, &tools);
            for earlier in [false, true] {
                if earlier {
                    install_earlier(&installer.home_bin());
                }
                let output = installer.run(shell);
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{shell:?}, {tools:?}: {stderr}");
                assert_eq!(output.stdout, b"verdict of 2.0\n");
                assert!(stderr.contains("installed sprof 2.0 and cargo-sprof in "), "{stderr}");
                assert_eq!(names(&installer.home_bin()), ["cargo-sprof", "sprof"]);
                for name in ["cargo-sprof", "sprof"] {
                    let installed = std::fs::read_to_string(installer.home_bin().join(name));
                    assert_eq!(installed.unwrap(), stand_in("2.0"));
                }
            }
        }
    }
}

#[test]
fn a_folder_that_is_not_in_path_and_another_sprof_are_named() {
    if !shells() {
        return;
    }
    let server = serve(release("2.0", &stand_in("2.0")));
    for shell in SHELLS {
        let installer = Installer::new(&server, &["curl", "sha256sum"]);
        let (to, tools) = (installer.dir.path().join("here"), installer.dir.path().join("tools"));
        let said = |path: &[&Path]| {
            let mut command = installer.command(shell, &["--to", to.to_str().unwrap()]);
            let output = output(command.env("PATH", std::env::join_paths(path).unwrap()));
            assert!(output.status.success());
            String::from_utf8(output.stderr).unwrap()
        };
        let export = format!("export PATH=\"{}:$PATH\"", to.display());
        let text = said(&[&tools]);
        assert!(
            text.contains(&export) && !text.contains("until then"),
            "{shell:?}: {text}"
        );
        assert_eq!(said(&[&to, &tools]).lines().count(), 1, "{shell:?}");
        write_program(&tools.join("sprof"), "another");
        let text = said(&[&tools, &to]);
        let other = format!("until then `sprof` runs {}", tools.join("sprof").display());
        assert!(text.contains(&export) && text.contains(&other), "{shell:?}: {text}");
        std::fs::remove_file(tools.join("sprof")).unwrap();
        if Path::new("/usr/bin/sprof").exists() {
            let text = said(&[&tools, Path::new("/usr/bin"), &to]);
            assert!(
                text.contains("/usr/bin/sprof is another program, of glibc"),
                "{shell:?}: {text}"
            );
        }
    }
}

#[test]
fn what_is_not_whole_or_does_not_run_is_not_installed() {
    if !shells() {
        return;
    }
    let cut = serve_archive(|file| Answer::CutShort(file.to_vec()));
    for downloader in ["curl", "wget"] {
        assert_fails(&cut, &[downloader, "sha256sum"], "cannot download");
    }
    let changed = serve_archive(|file| Answer::File([file, b"x"].concat()));
    for tool in ["sha256sum", "shasum"] {
        assert_fails(&changed, &["curl", tool], "another checksum");
    }
    let server = serve_archive(|file| Answer::File(file.to_vec()));
    assert_fails(&server, &["sha256sum"], "install curl or wget");
    assert_fails(&server, &["curl"], "install sha256sum or shasum");
    assert_fails(&serve(HashMap::new()), &["curl", "sha256sum"], "/sha256sums");
    let other = serve(HashMap::from([(
        "/sha256sums".to_owned(),
        b"0  sprof-2.0-riscv64.tar.gz\n".to_vec(),
    )]));
    assert_fails(&other, &["curl", "sha256sum"], "has no file for");
    let fails = serve(release("2.0", "#!/bin/sh\nexit 1\n"));
    assert_fails(&fails, &["curl", "sha256sum"], "does not run here");
}

#[test]
fn a_signal_ends_the_installation_at_once_and_leaves_nothing() {
    if !shells() {
        return;
    }
    for (downloader, shell) in ["curl", "wget"]
        .into_iter()
        .flat_map(|tool| SHELLS.map(|shell| (tool, shell)))
    {
        let server = serve_archive(|_| Answer::Size(1 << 30));
        let installer = Installer::new(&server, &[downloader, "sha256sum"]);
        install_earlier(&installer.home_bin());
        let mut command = installer.command(shell, &[]);
        let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| server.asked().len() == 2, || "the archive is asked for".to_owned());
        crate::support::run::kill("TERM", &child.id().to_string());
        // Until the downloader, too, has closed its end.
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{shell:?}: {output:?}");
        assert_only_earlier(&installer.home_bin(), &format!("{shell:?}, {downloader}"));
    }
}

#[test]
fn a_full_disk_keeps_the_earlier_programs() {
    if !shells() {
        return;
    }
    let server = serve_archive(|file| Answer::File(file.to_vec()));
    for shell in SHELLS {
        let Some(disk) = SmallDisk::mount(64) else { return };
        let to = disk.0.path().join("bin");
        install_earlier(&to);
        let installer = Installer::new(&server, &["curl", "sha256sum"]);
        let output = output(&mut installer.command(shell, &["--to", to.to_str().unwrap()]));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{shell:?}: {stderr}");
        assert!(stderr.contains("check the free space"), "{shell:?}: {stderr}");
        assert_only_earlier(&to, &format!("{shell:?}: {stderr}"));
    }
}

/// Runs `release/publish` with a stand-in for GitHub's program, and returns its status and the commands that it ran.
fn publish(is_draft: Option<bool>, sent: &str) -> (Option<i32>, Vec<String>) {
    let dir = temp_dir();
    let files = dir.path().join("files");
    std::fs::create_dir(&files).unwrap();
    for (path, content) in release("2.0", &stand_in("2.0")) {
        std::fs::write(files.join(path.trim_start_matches('/')), content).unwrap();
    }
    let state = is_draft.map_or("exit 1".to_owned(), |is_draft| format!("echo {is_draft}"));
    write_program(
        &dir.path().join("gh.sh"),
        &format!(
            "#!/bin/sh\necho \"$2 $*\" | cut -d' ' -f1,5- >>log\ncase $* in *isDraft*) {state} ;; *assets*) printf '{sent}' ;; esac\n"
        ),
    );
    // Another test's child may still have the written file open, and so it could not be executed.
    copy_program(dir.path().join("gh.sh"), dir.path().join("gh"));
    let mut path = vec![dir.path().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let output = output(
        Command::new("bash")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../release/publish"))
            .args(["files", "v2.0"])
            .env("PATH", std::env::join_paths(path).unwrap())
            .current_dir(dir.path()),
    );
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    (output.status.code(), log.lines().map(str::to_owned).collect())
}

#[test]
fn a_release_is_public_when_all_its_files_are_there_and_not_before() {
    let all = format!("sha256sums\\nsprof-2.0-{}.tar.gz\\n", target());
    let public = "edit --draft=false";
    let (status, commands) = publish(None, &all);
    assert_eq!(status, Some(0), "{commands:?}");
    assert!(commands[1].starts_with("create --draft"), "{commands:?}");
    assert_eq!(commands.last().unwrap(), public);
    let (status, commands) = publish(None, "sha256sums\\n");
    assert_eq!(status, Some(1));
    assert!(!commands.iter().any(|command| command == public), "{commands:?}");
    // An earlier try left a draft.
    let (status, commands) = publish(Some(true), &all);
    assert_eq!(
        (status, commands[1].as_str()),
        (Some(0), "delete --yes"),
        "{commands:?}"
    );
    // A published release stays as it is.
    let (status, commands) = publish(Some(false), &all);
    assert_eq!((status, commands.len()), (Some(1), 1), "{commands:?}");
}
