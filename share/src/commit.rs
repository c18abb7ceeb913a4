//! The commit that a program was built from, as far as the surroundings of sprof name it.
//!
//! CI systems name it in a variable. Elsewhere the repository of the current folder does: its files are read, and git
//! is not started. Layout: gitrepository-layout(5), git-worktree(1).

use std::io::Read;
use std::path::{Path, PathBuf};

use recording::regular_file;

/// Variables in which CI systems name the commit: GitHub, GitLab, Buildkite, Jenkins.
const VARIABLES: [&str; 4] = ["GITHUB_SHA", "CI_COMMIT_SHA", "BUILDKITE_COMMIT", "GIT_COMMIT"];

/// Bytes of `HEAD` or of a ref that are read.
const REF_BYTES: u64 = 4096;

/// Bytes of `packed-refs` that are read: a line of 100 bytes for each of 160,000 refs.
const PACKED_BYTES: u64 = 16 << 20;

/// The commit by the variables of CI systems, as they say it.
///
/// # Errors
///
/// A variable can't be read.
pub fn of_variables(variable: &dyn Fn(&str) -> Result<Option<String>, String>) -> Result<Option<String>, String> {
    for name in VARIABLES {
        if let Some(commit) = variable(name)? {
            return Ok(Some(commit));
        }
    }
    Ok(None)
}

/// The commit of a program that is started here: by the variables of CI systems, else by the repository of this folder.
/// `None` if neither names one.
pub fn of_surroundings() -> Option<String> {
    let variable = |name: &str| Ok(std::env::var(name).ok().filter(|value| is_hash(value)));
    let named = of_variables(&variable).ok().flatten();
    named.or_else(|| of_folder(&std::env::current_dir().ok()?))
}

/// True for a hash of git, or its beginning: Jenkins and others may name a branch.
fn is_hash(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The commit that is checked out in the repository that this folder is in.
fn of_folder(folder: &Path) -> Option<String> {
    let git = folder.ancestors().find_map(git_folder)?;
    let head = read(&git.join("HEAD"), REF_BYTES)?;
    let Some(name) = head.trim().strip_prefix("ref: ") else {
        return hash(&head);
    };
    // `HEAD` may hold anything.
    let is_below = |name: &str| name.split('/').all(|part| !matches!(part, "" | "." | ".."));
    if !name.starts_with("refs/") || !is_below(name) {
        return None;
    }
    // The branches of a worktree are in the repository that it belongs to.
    let common = match read(&git.join("commondir"), REF_BYTES) {
        Some(common) => git.join(common.trim_end_matches(['\r', '\n'])),
        None => git.clone(),
    };
    let loose = [&git, &common].map(|folder| read(&folder.join(name), REF_BYTES));
    let loose = loose.into_iter().flatten().find_map(|text| hash(&text));
    loose.or_else(|| packed(&read(&common.join("packed-refs"), PACKED_BYTES)?, name))
}

/// The repository's folder of a folder with a `.git`; a worktree and a submodule have a file there that names it.
fn git_folder(folder: &Path) -> Option<PathBuf> {
    let git = folder.join(".git");
    if git.is_dir() {
        return Some(git);
    }
    let text = read(&git, REF_BYTES)?;
    let named = text.strip_prefix("gitdir: ")?.trim_end_matches(['\r', '\n']);
    Some(folder.join(named))
}

/// The commit of a ref in `packed-refs`: lines of `HASH NAME`, comments, and `^HASH` of the tag before.
fn packed(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find_map(|(commit, of)| (of == name).then(|| hash(commit)).flatten())
}

fn hash(text: &str) -> Option<String> {
    let text = text.trim();
    (matches!(text.len(), 40 | 64) && is_hash(text)).then(|| text.to_owned())
}

/// The text of a regular file that is not longer than this.
fn read(path: &Path, limit: u64) -> Option<String> {
    let mut text = String::new();
    let file = regular_file::open(path).ok()?;
    let read = file.take(limit + 1).read_to_string(&mut text).ok()?;
    (read as u64 <= limit).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    const ONE: &str = "1f0b7a66c1d2e3f405162738495a6b7c8d9e0f10";
    const TWO: &str = "2f0b7a66c1d2e3f405162738495a6b7c8d9e0f10";

    /// A repository on the branch `main`, and a folder below it.
    fn repository() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(dir.path().join(".git/refs/heads/feature")).unwrap();
        write(dir.path(), ".git/HEAD", "ref: refs/heads/main\n");
        (dir, below)
    }

    fn write(folder: &Path, name: &str, text: &str) {
        fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn a_branch_is_a_file_or_a_line() {
        let (dir, below) = repository();
        assert_eq!(of_folder(&below), None, "a branch without a commit");
        let packed = format!("# pack-refs with: peeled\n{TWO} refs/heads/maintenance\n{ONE} refs/heads/main\n^{TWO}\n");
        write(dir.path(), ".git/packed-refs", &packed);
        assert_eq!(of_folder(&below).as_deref(), Some(ONE));
        write(dir.path(), ".git/refs/heads/main", &format!("{TWO}\n"));
        assert_eq!(of_folder(&below).as_deref(), Some(TWO), "the file is newer");
    }

    #[test]
    fn without_a_branch_the_head_is_the_commit() {
        let (dir, below) = repository();
        write(dir.path(), ".git/HEAD", &format!("{ONE}\n"));
        assert_eq!(of_folder(&below).as_deref(), Some(ONE));
        write(dir.path(), ".git/HEAD", "1f0b7a6\n");
        assert_eq!(of_folder(&below), None, "a hash in a repository is whole");
    }

    #[test]
    fn a_worktree_has_a_head_of_its_own_and_the_branches_of_its_repository() {
        let (dir, _) = repository();
        let (git, tree) = (dir.path().join(".git/worktrees/tree"), dir.path().join("tree"));
        fs::create_dir_all(&git).unwrap();
        fs::create_dir_all(&tree).unwrap();
        write(&tree, ".git", "gitdir: ../.git/worktrees/tree\n");
        write(&git, "HEAD", "ref: refs/heads/feature/x\n");
        write(&git, "commondir", "../..\n");
        write(dir.path(), ".git/refs/heads/feature/x", TWO);
        assert_eq!(of_folder(&tree).as_deref(), Some(TWO));
    }

    #[test]
    fn a_head_leads_to_no_other_file() {
        let (dir, below) = repository();
        write(dir.path(), "secret", ONE);
        for head in [
            "ref: refs/../../secret",
            "ref: ../secret",
            "ref: refs//x",
            "ref: ",
            "",
            "secret\n",
        ] {
            write(dir.path(), ".git/HEAD", head);
            assert_eq!(of_folder(&below), None, "{head}");
        }
        fs::remove_file(dir.path().join(".git/HEAD")).unwrap();
        fs::create_dir(dir.path().join(".git/HEAD")).unwrap();
        assert_eq!(of_folder(&below), None);
        fs::remove_dir(dir.path().join(".git/HEAD")).unwrap();
        let pipe = Command::new("mkfifo").arg(dir.path().join(".git/HEAD")).status();
        assert!(pipe.unwrap().success());
        assert_eq!(of_folder(&below), None);
    }

    #[test]
    fn what_is_no_hash_is_no_commit() {
        assert!(is_hash("1f0b7a6") && is_hash(ONE));
        for text in ["", "1f0b7a", "main", "refs/heads/main", "1f0b7a6 ", &"a".repeat(65)] {
            assert!(!is_hash(text), "{text}");
        }
    }
}
