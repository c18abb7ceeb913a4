//! `s3://bucket/prefix`, and the keys below it.

use std::fmt;

const SCHEME: &str = "s3://";

/// All keys of a bucket that begin with a prefix.
pub(super) struct Location {
    pub(super) name: String,
    /// Without `/` at its ends.
    pub(super) prefix: String,
}

/// True for the address of a bucket, whether or not it is a right one.
pub fn is_address(text: &str) -> bool {
    text.starts_with(SCHEME)
}

/// True for keys that stay as they are in addresses: a URL has no parts `.` and `..`.
pub fn is_key(key: &str) -> bool {
    key.len() <= 1024 && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

impl Location {
    /// Reads `s3://bucket/prefix`.
    ///
    /// # Errors
    ///
    /// What is wrong with it; not the text, which may hold a secret.
    pub(super) fn parse(address: &str) -> Result<Location, String> {
        let wrong = |why: &str| format!("{why}; for example s3://bucket/folder");
        let rest = address.strip_prefix(SCHEME);
        let rest = rest.ok_or_else(|| wrong("the address of a bucket starts with s3://"))?;
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if !(1..=255).contains(&name.len()) || !name.bytes().all(is_plain) || name.starts_with('.') {
            return Err(wrong("the name of a bucket has letters, digits, - . and _"));
        }
        let prefix = prefix.trim_matches('/');
        if !prefix.is_empty() && !is_key(prefix) {
            return Err(wrong(
                "what follows the bucket has an empty part, or one that is . or ..",
            ));
        }
        Ok(Location {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
        })
    }

    /// The key of an object below the prefix.
    pub(super) fn key(&self, name: &str) -> String {
        match self.prefix.as_str() {
            "" => name.to_owned(),
            prefix => format!("{prefix}/{name}"),
        }
    }

    /// The name of an object below the prefix; `None` for others.
    pub(super) fn name_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        match self.prefix.as_str() {
            "" => Some(key),
            prefix => key.strip_prefix(prefix)?.strip_prefix('/'),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.as_str() {
            "" => write!(f, "{SCHEME}{}", self.name),
            prefix => write!(f, "{SCHEME}{}/{prefix}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_below_the_prefix() {
        let location = Location::parse("s3://shop/x/y/").unwrap();
        assert_eq!((location.name.as_str(), location.key("a").as_str()), ("shop", "x/y/a"));
        assert_eq!(
            (
                location.name_of("x/y/z/a"),
                location.name_of("x/ya"),
                location.name_of("a")
            ),
            (Some("z/a"), None, None)
        );
        assert_eq!(location.to_string(), "s3://shop/x/y");
        let whole = Location::parse("s3://shop").unwrap();
        assert_eq!(
            (whole.key("a").as_str(), whole.name_of("a"), whole.to_string().as_str()),
            ("a", Some("a"), "s3://shop")
        );
        for bad in [
            "",
            "s3:",
            "s3://",
            "s3:///x",
            "s3://a b",
            "s3://../x",
            "s3://a/../b",
            "s3://a/x//y",
            "https://a/b",
            "s3://me:hunter2@a",
        ] {
            let error = Location::parse(bad).err().unwrap();
            assert!(
                error.contains("for example s3://") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }
}
