//! Opens the link in the user's browser, or prints how to open it.

use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Where the user sits.
#[derive(Debug, PartialEq)]
pub(crate) enum DesktopInfo {
    /// At the screen of this machine.
    Here,
    /// The command to type on the user's own machine: it forwards the port to there.
    OverSsh {
        /// The command to type on the user's own machine; it makes the port reachable there.
        tunnel: String,
    },
    /// No browser can be started from here; the text is the reason.
    NoBrowser(&'static str),
}

/// Finds out where the user sits.
pub(crate) fn desk(server: SocketAddr) -> DesktopInfo {
    desk_of(server, &|name| {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    })
}

fn desk_of(server: SocketAddr, variable: &dyn Fn(&str) -> Option<String>) -> DesktopInfo {
    if let Some(connection) = variable("SSH_CONNECTION") {
        let user = variable("USER").or_else(|| variable("LOGNAME"));
        return DesktopInfo::OverSsh {
            tunnel: tunnel(server, &connection, user.as_deref()),
        };
    }
    if variable("SUDO_USER").is_some() {
        // A browser that root starts refuses to run, or leaves root's files in the user's home.
        return DesktopInfo::NoBrowser("sprof runs under sudo");
    }
    let has_screen = cfg!(target_os = "macos")
        || ["DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME"]
            .iter()
            .any(|name| variable(name).is_some());
    if has_screen {
        DesktopInfo::Here
    } else {
        DesktopInfo::NoBrowser("there is no display")
    }
}

/// `SSH_CONNECTION` is "client-address client-port server-address server-port" (sshd(8)).
fn tunnel(server: SocketAddr, connection: &str, user: Option<&str>) -> String {
    let mut words = connection.split_whitespace().skip(2);
    let host = words.next().unwrap_or("HOST");
    let ssh_port = match words.next() {
        None | Some("22") => String::new(),
        Some(port) => format!(" -p {port}"),
    };
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let ip = match server.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        ip if ip.is_ipv6() => format!("[{ip}]"),
        ip => ip.to_string(),
    };
    let port = server.port();
    format!("ssh -N -L {port}:{ip}:{port}{ssh_port} {user}{host}")
}

/// Starts the browser without waiting for it. Calls `failed` on another thread if the browser fails.
pub(crate) fn open(url: &str, failed: impl FnOnce(String) + Send + 'static) -> io::Result<()> {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut child = Command::new(opener)
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C must end the server and not the browser.
        .process_group(0)
        .spawn()?;
    std::thread::Builder::new()
        .name("browser".into())
        .spawn(move || match child.wait() {
            Ok(status) if status.success() => {}
            Ok(status) => failed(format!("{opener}: {status}")),
            Err(error) => failed(format!("{opener}: {error}")),
        })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk_with(variables: &[(&str, &str)]) -> DesktopInfo {
        desk_of(SocketAddr::from(([127, 0, 0, 1], 3001)), &|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn over_ssh_the_tunnel_is_spelled_out() {
        let desk = desk_with(&[
            ("SSH_CONNECTION", "192.0.2.7 50000 10.1.2.3 22"),
            ("USER", "ada"),
            ("DISPLAY", ":10"),
        ]);
        let tunnel = "ssh -N -L 3001:127.0.0.1:3001 ada@10.1.2.3".to_owned();
        assert_eq!(desk, DesktopInfo::OverSsh { tunnel });
        let desk = desk_with(&[("SSH_CONNECTION", "192.0.2.7 50000 10.1.2.3 2222")]);
        let tunnel = "ssh -N -L 3001:127.0.0.1:3001 -p 2222 10.1.2.3".to_owned();
        assert_eq!(desk, DesktopInfo::OverSsh { tunnel });
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn no_browser_without_display_or_as_root() {
        assert_eq!(desk_with(&[("WAYLAND_DISPLAY", "wayland-0")]), DesktopInfo::Here);
        assert!(matches!(desk_with(&[]), DesktopInfo::NoBrowser(_)));
        assert!(matches!(
            desk_with(&[("DISPLAY", ":0"), ("SUDO_USER", "ada")]),
            DesktopInfo::NoBrowser(_)
        ));
    }
}
