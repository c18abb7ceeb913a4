//! What is private on this machine.

use std::path::Path;

use profile::sanitize::{PrivateWords, is_secret};

/// Shorter values are found in any text.
const MIN_SECRET: usize = 8;

/// Home folder, user, host, and the secrets in the environment.
pub fn private() -> PrivateWords {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let secrets = std::env::vars_os().filter_map(|(name, value)| {
        let value = value.into_string().ok()?;
        // A path to a socket or to a file of keys is shortened like other paths.
        let is_file = value.starts_with('/') && Path::new(&value).exists();
        (is_secret(name.to_str()?) && value.len() >= MIN_SECRET && !is_file).then_some(value)
    });
    PrivateWords {
        homes: variable("HOME").into_iter().collect(),
        users: ["USER", "LOGNAME", "SUDO_USER"]
            .into_iter()
            .filter_map(variable)
            .collect(),
        hosts: variable("HOSTNAME").into_iter().chain([host]).collect(),
        values: secrets.collect(),
    }
}
