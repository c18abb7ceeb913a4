//! What is private on this machine.

use profile::sanitize::Private;

/// Parts of names of variables whose values are secret.
const SECRET: [&str; 8] = ["TOKEN", "SECRET", "PASS", "KEY", "CRED", "AUTH", "SESSION", "COOKIE"];
/// Shorter values are found in any text.
const MIN_SECRET: usize = 8;

/// Home folder, user, host, and the secrets in the environment.
pub(crate) fn private() -> Private {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let secrets = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?.to_ascii_uppercase(), value.into_string().ok()?);
        let is_secret = SECRET.iter().any(|part| name.contains(part));
        // A path to a socket or to a file of keys is shortened like other paths.
        (is_secret && value.len() >= MIN_SECRET && !value.starts_with('/')).then_some(value)
    });
    Private {
        homes: variable("HOME").into_iter().collect(),
        users: ["USER", "LOGNAME", "SUDO_USER"]
            .into_iter()
            .filter_map(variable)
            .collect(),
        hosts: variable("HOSTNAME").into_iter().chain([host]).collect(),
        values: secrets.collect(),
    }
}
