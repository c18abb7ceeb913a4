//! What keeps sprof from a program, by the program's file.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use recorder_macos::access::{AccessMethod, Barrier, barred_programs};
use recorder_macos::codesign::Cpu;

use crate::codesign::write_signed;

fn found(program: &Path, search: &OsStr) -> Vec<(String, Barrier)> {
    found_by(AccessMethod::Task, program, search)
}

fn found_by(way: AccessMethod, program: &Path, search: &OsStr) -> Vec<(String, Barrier)> {
    let found = barred_programs(program, search, Cpu::Arm64, way).into_iter();
    found
        .map(|barred| (barred.program.to_string_lossy().into_owned(), barred.bar))
        .collect()
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

#[test]
fn scripts_lead_to_their_interpreters_and_each_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let search = folder.path().as_os_str();
    let text = |name: &str| path(name).to_string_lossy().into_owned();
    write(&path("script"), "#!/bin/sh -e\nexit 0\n");
    assert_eq!(
        found(&path("script"), search),
        [("/bin/sh".to_owned(), Barrier::Platform)]
    );

    write_signed("rollup", None, &path("open"));
    assert_eq!(found(&path("open"), search), []);
    write(&path("env-script"), "#! /usr/bin/env -S open --flag\n");
    assert_eq!(
        found(&path("env-script"), search),
        [("/usr/bin/env".to_owned(), Barrier::Platform)]
    );

    write_signed("rollup", None, &path("takes"));
    fs::set_permissions(path("takes"), fs::Permissions::from_mode(0o4755)).unwrap();
    write(&path("chain"), &format!("#!{}\n", text("takes")));
    assert_eq!(found(&path("chain"), search), [(text("takes"), Barrier::SetUserId)]);

    write_signed("node", None, &path("debuggable"));
    assert_eq!(found(&path("debuggable"), search), []);
    write_signed("node", Some("com.apple.security.get-task-allow"), &path("hardened"));
    assert_eq!(
        found(&path("hardened"), search),
        [(text("hardened"), Barrier::Hardened)]
    );

    // A script that names itself has an end.
    write(&path("round"), &format!("#!{}\n", text("round")));
    assert_eq!(found(&path("round"), search), []);
    assert_eq!(found(&path("nowhere"), search), []);
    for bar in [
        Barrier::Platform,
        Barrier::Hardened,
        Barrier::Restricted,
        Barrier::SetUserId,
        Barrier::Translated,
    ] {
        assert!(!bar.to_string().is_empty() && !bar.remedy().is_empty());
    }
}

#[test]
fn a_library_is_inserted_where_the_signature_permits_both_dylds_variables_and_libraries_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let bars = |file: &str, without: Option<&str>| {
        let path = folder.path().join("program");
        write_signed(file, without, &path);
        let found = found_by(AccessMethod::Library, &path, folder.path().as_os_str());
        found.into_iter().map(|(_, bar)| bar).collect::<Vec<_>>()
    };
    assert_eq!(bars("rollup", None), []);
    assert_eq!(bars("node", None), []);
    assert_eq!(bars("node", Some("com.apple.security.get-task-allow")), []);
    for needed in ["allow-dyld-environment-variables", "disable-library-validation"] {
        let needed = format!("com.apple.security.cs.{needed}");
        assert_eq!(bars("node", Some(&needed)), [Barrier::Restricted], "{needed}");
    }
}
