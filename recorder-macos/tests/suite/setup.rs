//! Signing sprof, with a tool in place of macOS's.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use recorder_macos::setup::sign;

/// A folder with a program, and with a `codesign` that does this to the file that it is to sign.
fn folder(signing: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (program, tool) = (folder.path().join("sprof"), folder.path().join("codesign"));
    script(&program, "exit 0");
    // `codesign --force --sign - --entitlements LIST COPY` or `codesign --verify --strict COPY`.
    script(&tool, &format!("[ \"$1\" = --verify ] && exit 0\n{signing}"));
    (folder, program, tool)
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn names(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

#[test]
fn a_tool_that_fails_or_signs_nothing_changes_nothing() {
    for (signing, reason) in [
        ("echo no identity >&2; exit 3", "no identity"),
        ("exit 0", "no entitlement"),
        ("echo changed > \"$6\"", "no entitlement"),
    ] {
        let (folder, program, tool) = folder(signing);
        let before = fs::read(&program).unwrap();
        let error = sign(&program, &tool).unwrap_err();
        assert!(
            error.contains(reason) && error.contains("it was not changed"),
            "{error}"
        );
        assert_eq!(fs::read(&program).unwrap(), before);
        assert_eq!(names(folder.path()), 2, "nothing is left behind");
    }
    // In the same test: a file that is being written can't be executed, and another thread's child has it open for a
    // moment.
    let (folder, program, tool) = folder("cp \"$5\" \"${6%/*}/kept\"; exit 1");
    sign(&program, &tool).unwrap_err();
    let list = fs::read_to_string(folder.path().join("kept")).unwrap();
    assert!(list.contains("<key>com.apple.security.cs.debugger</key>\n\t<true/>"));
}
