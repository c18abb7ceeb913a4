//! No command uses the network unless the user asks for it: shown by the kernel's own counts, in a network namespace of
//! its own.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::skip::{Need, has, perf_events, root};
use crate::support::{machine, program, temp_dir};

/// Goes on where unshare(1) can make a network namespace.
pub(crate) fn network_namespaces() -> Option<()> {
    let made = Command::new("unshare").args(["-n", "true"]).status();
    let works = made.is_ok_and(|status| status.success());
    (root() && has(Need::Namespaces, works, "unshare -n is not permitted")).then_some(())
}

/// How often something tried to reach another machine or a service of this one while a shell script runs. The namespace
/// has no interface that is up, so each attempt fails; /proc/net/snmp counts them: connections begun, datagrams sent,
/// and what found no route.
pub(crate) fn attempts(script: &str, folder: &Path) -> u64 {
    machine::share();
    let output = Command::new("unshare")
        .args([
            "-n",
            "sh",
            "-c",
            &format!("{script}\ncat /proc/net/snmp > snmp\ncat /proc/net/snmp6 > snmp6"),
        ])
        .current_dir(folder)
        .env("SPROF", env!("CARGO_BIN_EXE_sprof"))
        .env("SPROF_CACHE", folder.join("cache"))
        .env("DEBUGINFOD_URLS", "http://203.0.113.1:8002")
        .env("DEBUGINFOD_CACHE_PATH", folder.join("client"))
        .env("DEBUGINFOD_TIMEOUT", "2")
        .env_remove("CI")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let (v4, v6) = (read("snmp"), read("snmp6"));
    assert!(!v4.is_empty(), "{output:?}");
    // `Tcp: RtoAlgorithm ... ActiveOpens ...`, and a line of values below it.
    let of_v4 = |protocol: &str, name: &str| -> u64 {
        let mut lines = v4.lines().filter(|line| line.starts_with(protocol));
        let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
        let at = names.split(' ').position(|word| word == name).unwrap();
        values.split(' ').nth(at).unwrap().parse().unwrap()
    };
    // `Udp6OutDatagrams   	0`
    let of_v6 = |name: &str| -> u64 {
        let mut lines = v6.lines().filter_map(|line| line.split_once(char::is_whitespace));
        lines
            .find(|line| line.0 == name)
            .map_or(0, |line| line.1.trim().parse().unwrap())
    };
    of_v4("Tcp:", "ActiveOpens")
        + of_v4("Udp:", "OutDatagrams")
        + of_v4("Ip:", "OutNoRoutes")
        + of_v6("Udp6OutDatagrams")
        + of_v6("Ip6OutNoRoutes")
}

#[test]
fn no_command_uses_the_network_unless_the_user_asks() {
    let (Some(()), Some(())) = (perf_events(), network_namespaces()) else {
        return;
    };
    let dir = temp_dir();
    // Its debug info names a source on a web server.
    let source = dir.path().join("web.c");
    let text = "static volatile unsigned long sink;\n\
                #line 1 \"http://203.0.113.1/web.c\"\n\
                int main(void) { for (unsigned long i = 0; i < 100000000; i++) sink += i; return 0; }\n";
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc")
        .args(["-g", "-O1", "-o", "web", "web.c"])
        .current_dir(dir.path())
        .status();
    assert!(compiled.unwrap().success());
    let stripped = dir.path().join("stripped");
    let strip = Command::new("strip")
        .arg("-o")
        .arg(&stripped)
        .arg(program("split").unwrap())
        .status();
    assert!(strip.unwrap().success());

    let by_default = "set -e
        $SPROF record --save-only -o web.json.gz ./web 2>&1
        $SPROF record --save-only -o stripped.json.gz ./stripped 300 2>&1
        $SPROF report web.json.gz
        $SPROF report stripped.json.gz
        $SPROF annotate web.json.gz main
        $SPROF export web.json.gz -f folded -o web.folded
        $SPROF flamegraph web.json.gz -o web.svg
        $SPROF diff web.json.gz stripped.json.gz
        export XDG_DATA_HOME=$PWD/data
        $SPROF share --list
        ! $SPROF share web.json.gz
        $SPROF doctor || true";
    assert_eq!(attempts(by_default, dir.path()), 0);
    assert!(dir.path().join("web.svg").exists(), "the commands ran to their end");
    let asked = "XDG_DATA_HOME=$PWD/data $SPROF share --yes --ui-url https://ui.example.org --server https://203.0.113.1 web.json.gz";
    assert!(attempts(asked, dir.path()) > 0);

    // The user asks: the counts above would have shown it.
    let asked = "$SPROF record --save-only --debuginfod -o stripped.json.gz ./stripped 300";
    assert!(attempts(asked, dir.path()) > 0);
}
