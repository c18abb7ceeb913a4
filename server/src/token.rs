//! The secret in addresses: random, or kept in a file, so that links stay.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Characters of a token in a file. 22 characters of base64 hold 128 bits.
const LENGTHS: std::ops::RangeInclusive<usize> = 22..=128;

/// 128 random bits in hex. Without the token nobody can read the profile or the sources.
pub(super) fn random() -> Result<String, String> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("cannot start the server: no random bytes: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The token in a file that is this user's alone.
///
/// # Errors
///
/// The file can't be read, others may read it, or it holds something else. The message does not have its content.
pub(super) fn of_file(path: &Path) -> Result<String, String> {
    let failed = |why: &str| {
        let path = path.display();
        format!("--token-file {path}: {why}; `(umask 077; openssl rand -hex 32 > {path})` makes one")
    };
    // Opening a pipe would wait for its other end.
    let opened = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path);
    let mut file = opened.map_err(|error| failed(&error.to_string()))?;
    let metadata = file.metadata().map_err(|error| failed(&error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("this is not a file"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(failed(
            "others may read or change it: `chmod 600` it, or choose a new one",
        ));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed("the file is another user's"));
    }
    let mut text = String::new();
    let read = (&mut file).take(1024).read_to_string(&mut text);
    read.map_err(|error| failed(&error.to_string()))?;
    let token = text.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    match LENGTHS.contains(&token.len()) && token.bytes().all(is_plain) {
        true => Ok(token.to_owned()),
        false => Err(failed("a token has 22 to 128 letters, digits, - and _")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
    }

    #[test]
    fn a_token_in_a_file_is_of_one_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let token = random().unwrap();
        let with = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            of_file(&path)
        };
        assert_eq!(with(&format!("{token}\n"), 0o600), Ok(token.clone()));
        assert_eq!(with(&token, 0o400), Ok(token.clone()));
        assert!(with(&token, 0o640).unwrap_err().contains("chmod 600"));
        for text in ["", "short", &"x/".repeat(20), &"x".repeat(129), &"ä".repeat(20)] {
            let error = with(text, 0o600).unwrap_err();
            assert!(error.contains("22 to 128"), "{error}");
            assert!(text.len() < 6 || !error.contains(text), "{error}");
        }
        assert!(of_file(dir.path()).is_err());
        assert!(of_file(&dir.path().join("none")).unwrap_err().contains("openssl rand"));
    }
}
