//! Which settings a build profile of cargo lacks for function names and lines.
//!
//! <https://doc.rust-lang.org/cargo/reference/profiles.html>. A variable `CARGO_PROFILE_<NAME>_DEBUG` overrides
//! Cargo.toml and configuration files, and is part of cargo's fingerprint: the same variable in the next run builds
//! nothing.

use toml::{Table, Value};

use super::config::{self, CargoConfig, SettingOrigin};

/// Profiles inherit from each other; cargo refuses circles.
const MAX_CHAIN: usize = 16;
/// Lines, and whole names of inlined functions. `line-tables-only` has `wrapping_mul` and `{closure#0}` instead of
/// `<u64>::wrapping_mul` and `<u64 as core::iter::traits::accum::Sum>::sum::{{closure}}`. A Criterion benchmark with
/// its dependencies took 69 s of CPU time to build and has 18.4 MB; with `line-tables-only` it took 71 s and has 15.4
/// MB.
const LINES: &str = "limited";

/// What to do about a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ProfileAdvice {
    pub(crate) variables: Vec<(String, String)>,
    /// What will be missing because of the user's own settings, a sentence each.
    pub(crate) remarks: Vec<String>,
}

/// Advises on the profile of this name. `manifest` is the workspace's Cargo.toml.
pub(crate) fn advice(profile: &str, manifest: &Table, config: &CargoConfig, targets: &[String]) -> ProfileAdvice {
    let mut advice = ProfileAdvice::default();
    let chain = chain(profile, manifest, config);
    let debug = chain.iter().find_map(|name| setting(name, "debug", manifest, config));
    let has_lines = match &debug {
        Some((value, _)) => is_enough(value),
        None => chain.last().is_some_and(|name| name == "dev"),
    };
    if !has_lines {
        advise(
            &mut advice,
            profile,
            "debug",
            LINES,
            debug,
            "there will be no lines and no inlined functions",
        );
    }
    let strip = chain.iter().find_map(|name| setting(name, "strip", manifest, config));
    if strip.as_ref().is_some_and(|(value, _)| takes_away(value)) {
        advise(
            &mut advice,
            profile,
            "strip",
            "none",
            strip,
            "names or lines of functions will be missing",
        );
    }
    for name in &chain {
        advice.remarks.extend(of_packages(name, manifest, config));
    }
    advice.remarks.extend(of_flags(config, targets));
    advice
}

/// Advises on one setting. A setting that the user made for this run stays.
fn advise(
    advice: &mut ProfileAdvice,
    profile: &str,
    key: &str,
    wanted: &str,
    found: Option<(Value, SettingOrigin)>,
    loss: &str,
) {
    let own = match found {
        Some((value, SettingOrigin::Environment(name))) => Some(format!("{name}={}", plain(&value))),
        Some((value, SettingOrigin::CommandLine)) => Some(format!("--config with {key} = {}", plain(&value))),
        Some((_, SettingOrigin::File)) | None => None,
    };
    match own {
        Some(own) => advice.remarks.push(format!("{own} stays as it is: {loss}")),
        None => {
            let name = config::environment_name(&["profile", profile, key]);
            advice.variables.push((name, wanted.to_owned()));
        }
    }
}

/// The profile and the profiles that it inherits from.
fn chain(profile: &str, manifest: &Table, config: &CargoConfig) -> Vec<String> {
    let mut chain = vec![profile.to_owned()];
    while let Some(last) = chain.last().filter(|_| chain.len() < MAX_CHAIN) {
        let next = match &**last {
            "dev" | "release" => break,
            "test" => "dev".to_owned(),
            "bench" => "release".to_owned(),
            custom => match setting(custom, "inherits", manifest, config) {
                Some((Value::String(parent), _)) => parent,
                _ => break,
            },
        };
        chain.push(next);
    }
    chain
}

fn setting(profile: &str, key: &str, manifest: &Table, config: &CargoConfig) -> Option<(Value, SettingOrigin)> {
    let path = ["profile", profile, key];
    let in_manifest = || Some((config::at(manifest, &path)?.clone(), SettingOrigin::File));
    config.setting(&path).or_else(in_manifest)
}

fn is_enough(debug: &Value) -> bool {
    match debug {
        Value::Boolean(all) => *all,
        Value::Integer(level) => *level > 0,
        Value::String(level) => !matches!(level.as_str(), "0" | "false" | "none" | "line-directives-only"),
        _ => false,
    }
}

fn takes_away(strip: &Value) -> bool {
    match strip {
        Value::Boolean(strip) => *strip,
        Value::String(what) => !matches!(what.as_str(), "none" | "false"),
        _ => false,
    }
}

/// Remarks on packages with settings of their own. Such settings override the profile. Users mostly make them to build
/// dependencies faster.
fn of_packages(profile: &str, manifest: &Table, config: &CargoConfig) -> Vec<String> {
    let path = ["profile", profile, "package"];
    let in_manifest = config::at(manifest, &path).and_then(Value::as_table);
    let tables = config.tables(&path).map(|(table, _)| table).chain(in_manifest);
    let mut remarks = Vec::new();
    for (package, settings) in tables.flatten() {
        let debug = settings.get("debug").filter(|debug| !is_enough(debug));
        remarks.extend(debug.map(|debug| {
            format!(
                "[profile.{profile}.package.{package:?}] has debug = {}: no lines of that code",
                plain(debug)
            )
        }));
    }
    remarks
}

/// A remark on flags for rustc, which override the profile.
fn of_flags(config: &CargoConfig, targets: &[String]) -> Option<String> {
    let encoded = config.variable("CARGO_ENCODED_RUSTFLAGS");
    let encoded = encoded.map(|flags| {
        (
            "CARGO_ENCODED_RUSTFLAGS",
            flags.split('\u{1f}').map(str::to_owned).collect(),
        )
    });
    let plain = || {
        config
            .words(&["build", "rustflags"])
            .map(|(flags, _)| ("build.rustflags", flags))
    };
    let variable = || {
        let flags = config.variable("RUSTFLAGS")?;
        Some(("RUSTFLAGS", flags.split_whitespace().map(str::to_owned).collect()))
    };
    let of_target = || {
        let found = targets
            .iter()
            .find_map(|target| config.words(&["target", target, "rustflags"]));
        found.map(|(flags, _)| ("target.*.rustflags", flags))
    };
    let (place, flags): (&str, Vec<String>) = encoded.or_else(variable).or_else(of_target).or_else(plain)?;
    let mut harmful = None;
    let mut flags = flags.iter().map(String::as_str);
    while let Some(flag) = flags.next() {
        let option = match flag {
            "-C" | "--codegen" => flags.next().unwrap_or_default(),
            "-g" => "debuginfo=2",
            flag => flag.strip_prefix("-C").unwrap_or_default(),
        };
        match option.split_once('=') {
            Some(("strip", "none")) | Some(("debuginfo", "1" | "2" | "limited" | "full" | "line-tables-only")) => {}
            Some(("strip" | "debuginfo", _)) | Some(("link-arg", "-s" | "-Wl,-s" | "-Wl,--strip-all")) => {
                harmful = Some(option.to_owned());
            }
            _ => {}
        }
    }
    harmful
        .map(|option| format!("{place} has -C {option}, which overrides the profile: names or lines will be missing"))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        other => other.type_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn advice_for(profile: &str, manifest: &str, words: &[&str], env: &[(&str, &str)]) -> ProfileAdvice {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let env: Vec<_> = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let config = CargoConfig::read(&words, Path::new("/nonexistent"), &env);
        advice(
            profile,
            &toml::from_str(manifest).unwrap(),
            &config,
            &["x86_64-unknown-linux-gnu".to_owned()],
        )
    }

    fn variables(profile: &str, manifest: &str) -> Vec<String> {
        let advice = advice_for(profile, manifest, &[], &[]);
        assert_eq!(advice.remarks, [""; 0]);
        advice
            .variables
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect()
    }

    #[test]
    fn what_is_missing_is_set_for_the_very_profile() {
        let none = [""; 0];
        let debug = "limited";
        assert_eq!(variables("bench", ""), [format!("CARGO_PROFILE_BENCH_DEBUG={debug}")]);
        assert_eq!(
            variables("bench", "[profile.release]\nstrip = true"),
            [
                format!("CARGO_PROFILE_BENCH_DEBUG={debug}"),
                "CARGO_PROFILE_BENCH_STRIP=none".to_owned()
            ]
        );
        assert_eq!(variables("test", ""), none);
        assert_eq!(
            variables("test", "[profile.dev]\ndebug = 0"),
            [format!("CARGO_PROFILE_TEST_DEBUG={debug}")]
        );
        assert_eq!(
            variables(
                "release-lto",
                "[profile.release-lto]\ninherits = 'release'\nstrip = 'symbols'"
            ),
            [
                format!("CARGO_PROFILE_RELEASE_LTO_DEBUG={debug}"),
                "CARGO_PROFILE_RELEASE_LTO_STRIP=none".to_owned()
            ]
        );
    }

    #[test]
    fn what_suffices_is_never_lowered_nor_set() {
        let none = [""; 0];
        for level in ["2", "1", "true", "'full'", "'limited'", "'line-tables-only'"] {
            assert_eq!(
                variables("bench", &format!("[profile.release]\ndebug = {level}")),
                none,
                "{level}"
            );
        }
        for level in ["0", "false", "'none'", "'line-directives-only'"] {
            assert_eq!(
                variables("bench", &format!("[profile.release]\ndebug = {level}")).len(),
                1,
                "{level}"
            );
        }
        // The profile's own setting counts, not what it inherits.
        assert_eq!(
            variables("bench", "[profile.release]\ndebug = 0\n[profile.bench]\ndebug = 2"),
            none
        );
        assert_eq!(
            variables("a", "[profile.a]\ninherits = 'b'\n[profile.b]\ninherits = 'dev'"),
            none
        );
    }

    #[test]
    fn the_user_s_own_words_for_this_run_win() {
        let manifest = "[profile.release]\nstrip = true";
        let advice = advice_for("bench", manifest, &[], &[("CARGO_PROFILE_BENCH_DEBUG", "0")]);
        assert_eq!(
            advice.variables,
            [("CARGO_PROFILE_BENCH_STRIP".to_owned(), "none".to_owned())]
        );
        assert!(
            advice.remarks[0].starts_with("CARGO_PROFILE_BENCH_DEBUG=0 stays"),
            "{advice:?}"
        );
        let advice = advice_for(
            "bench",
            manifest,
            &["profile.release.strip='symbols'"],
            &[("CARGO_PROFILE_RELEASE_DEBUG", "2")],
        );
        assert!(advice.variables.is_empty(), "{advice:?}");
        assert!(advice.remarks[0].starts_with("--config with strip"), "{advice:?}");
    }

    #[test]
    fn flags_and_packages_that_count_more_are_told() {
        let manifest = "[profile.release]\ndebug = 1\n[profile.release.package.'*']\ndebug = false";
        let advice = advice_for(
            "bench",
            manifest,
            &[],
            &[("RUSTFLAGS", "-g -C opt-level=1 -Cstrip=symbols")],
        );
        assert!(advice.variables.is_empty());
        assert_eq!(advice.remarks.len(), 2, "{advice:?}");
        assert!(advice.remarks[0].contains("package.\"*\""), "{advice:?}");
        assert!(advice.remarks[1].contains("strip=symbols"), "{advice:?}");
    }
}
