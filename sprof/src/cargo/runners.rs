//! Finds the user's own runner of cargo.
//!
//! `target.<triple>.runner` overrides `target.'cfg(...)'.runner`, as in cargo.

use std::path::Path;

use super::config::{self, CargoConfig};

/// The user's runner and its arguments; empty without one. `cfg` returns the lines of `rustc --print cfg` for a target.
pub(crate) fn of_user(
    targets: &[String],
    config: &CargoConfig,
    folder: &Path,
    cfg: impl Fn(&str) -> Option<String>,
) -> Vec<String> {
    for target in targets {
        let path = ["target", target.as_str(), "runner"];
        if let Some((words, base)) = config.words(&path) {
            return resolved(words, &folder.join(base));
        }
        let mut facts = None;
        for (table, base) in config.tables(&["target"]) {
            for (key, settings) in table {
                let condition = key.strip_prefix("cfg(").and_then(|rest| rest.strip_suffix(')'));
                let runner = settings
                    .as_table()
                    .and_then(|settings| config::words(settings.get("runner")?));
                if let (Some(condition), Some(runner)) = (condition, runner) {
                    let facts = facts.get_or_insert_with(|| cfg(target).unwrap_or_default());
                    if holds(condition, facts) {
                        return resolved(runner, base);
                    }
                }
            }
        }
    }
    Vec::new()
}

/// Resolves a path with a slash, which is relative to the file of the setting.
fn resolved(mut words: Vec<String>, base: &Path) -> Vec<String> {
    if let Some(program) = words.first_mut().filter(|program| program.contains('/')) {
        *program = base.join(&*program).to_string_lossy().into_owned();
    }
    words
}

/// Whether a condition as in `cfg(...)` holds, by lines such as `unix` and `target_os="linux"`.
fn holds(condition: &str, facts: &str) -> bool {
    let condition = condition.trim();
    let inside = |name: &str| {
        let rest = condition.strip_prefix(name)?.trim_start();
        rest.strip_prefix('(')?.strip_suffix(')')
    };
    if let Some(list) = inside("all") {
        return parts(list).iter().all(|part| holds(part, facts));
    }
    if let Some(list) = inside("any") {
        return parts(list).iter().any(|part| holds(part, facts));
    }
    if let Some(part) = inside("not") {
        return !holds(part, facts);
    }
    match condition.split_once('=') {
        Some((key, value)) => {
            let fact = format!("{}={}", key.trim(), value.trim());
            facts.lines().any(|line| line == fact)
        }
        None => condition == "true" || facts.lines().any(|line| line == condition),
    }
}

/// Splits at commas outside of brackets.
fn parts(list: &str) -> Vec<&str> {
    let (mut depth, mut start) = (0_usize, 0);
    let mut parts = Vec::new();
    for (at, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: &str = "debug_assertions\ntarget_os=\"linux\"\nunix";

    #[test]
    fn conditions_as_rustc_has_them() {
        for (condition, expected) in [
            ("unix", true),
            ("windows", false),
            ("target_os = \"linux\"", true),
            ("all(unix, not(target_os=\"macos\"))", true),
            ("any(windows, all(unix, target_os = \"macos\"))", false),
            ("all()", true),
            ("any()", false),
        ] {
            assert_eq!(holds(condition, FACTS), expected, "{condition}");
        }
    }

    #[test]
    fn the_target_s_own_runner_counts_more_than_a_condition() {
        let word = "target = {'cfg(unix)' = {runner = 'nice'}, a-b = {runner = ['bin/qemu', '-x y']}}".to_owned();
        let of = |target: &str, env: &[(&str, &str)]| {
            let env: Vec<_> = env.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let config = CargoConfig::read(std::slice::from_ref(&word), Path::new("/nonexistent"), &env);
            of_user(&[target.to_owned()], &config, Path::new("/here"), |_| {
                Some(FACTS.to_owned())
            })
        };
        assert_eq!(of("a-b", &[]), ["/nonexistent/bin/qemu", "-x y"]);
        assert_eq!(of("c-d", &[]), ["nice"]);
        assert_eq!(of("a-b", &[("CARGO_TARGET_A_B_RUNNER", "env  A=1")]), ["env", "A=1"]);
    }
}
