//! How messages name this program where they give a line to type.
//!
//! The bare name is not enough: glibc brings a `sprof` of its own, and `sudo sprof` looks through root's PATH.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

static OWN: OnceLock<String> = OnceLock::new();

/// Sets the path of the running program, once: this library makes no system calls and can't know it.
pub fn set_own(path: &Path) {
    // A second call would be from the same program.
    let _ = OWN.set(quoted(&path.display().to_string()).into_owned());
}

/// What starts this program in a shell: its full path. `sprof` as long as that is not known.
pub fn own() -> &'static str {
    OWN.get().map_or("sprof", String::as_str)
}

/// This program's command for a file: `/usr/local/bin/sprof load profile.json.gz`, as a shell takes it.
pub fn on_file(command: &str, file: &Path) -> String {
    format!("{} {command} {}", own(), quoted(&file.display().to_string()))
}

/// A word as a shell takes it.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => Cow::Borrowed(word),
        false => Cow::Owned(format!("'{}'", word.replace('\'', r"'\''"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("out/p.json.gz"), "out/p.json.gz");
        assert_eq!(quoted("it's here"), r"'it'\''s here'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_name_stands_for_the_program_until_its_path_is_known() {
        assert_eq!(own(), "sprof");
        set_own(Path::new("/opt/my tools/sprof"));
        assert_eq!(own(), "'/opt/my tools/sprof'");
    }
}
