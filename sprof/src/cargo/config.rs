//! Cargo's settings from the command line, the environment and configuration files, as far as a recording needs them.
//!
//! <https://doc.rust-lang.org/cargo/reference/config.html>

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// Larger files are not read.
const MAX_BYTES: u64 = 1 << 20;

/// Settings; an earlier layer overrides a later one.
#[derive(Debug, Default)]
pub(crate) struct CargoConfig {
    layers: Vec<Layer>,
    env: Vec<(String, String)>,
}

#[derive(Debug)]
struct Layer {
    table: Table,
    /// The folder that relative paths in it start from.
    folder: PathBuf,
    from_command_line: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SettingOrigin {
    Environment(String),
    CommandLine,
    File,
}

impl CargoConfig {
    /// Reads the `--config` words, and the files that cargo reads when it runs in `folder`.
    pub(crate) fn read(words: &[String], folder: &Path, env: &[(OsString, OsString)]) -> CargoConfig {
        let text = |text: &OsString| text.to_str().map(str::to_owned);
        let env: Vec<(String, String)> = (env.iter())
            .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
            .collect();
        // The last `--config` overrides the others.
        let mut layers: Vec<Layer> = words.iter().rev().filter_map(|word| of_word(word, folder)).collect();
        let home = variable(&env, "CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(Path::new(variable(&env, "HOME")?).join(".cargo")));
        let places = folder.ancestors().map(|folder| folder.join(".cargo"));
        let mut seen: Vec<PathBuf> = Vec::new();
        for place in places.chain(home) {
            if seen.contains(&place) {
                continue;
            }
            // If both files exist, cargo reads the one without the ending.
            let table = ["config", "config.toml"]
                .iter()
                .find_map(|name| read_table(&place.join(name)));
            if let Some(table) = table {
                layers.push(Layer {
                    table,
                    folder: place.parent().unwrap_or(&place).to_owned(),
                    from_command_line: false,
                });
            }
            seen.push(place);
        }
        CargoConfig { layers, env }
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        variable(&self.env, name)
    }

    /// A setting by its path in the tables. The command line overrides the environment, the environment overrides
    /// files.
    pub(crate) fn setting(&self, path: &[&str]) -> Option<(Value, SettingOrigin)> {
        let name = environment_name(path);
        let of_environment = || {
            let value = self.variable(&name)?;
            Some((
                Value::String(value.to_owned()),
                SettingOrigin::Environment(name.clone()),
            ))
        };
        let found = |layer: &Layer, origin| Some((at(&layer.table, path)?.clone(), origin));
        let mut from_words = self.layers.iter().filter(|layer| layer.from_command_line);
        let mut from_files = self.layers.iter().filter(|layer| !layer.from_command_line);
        from_words
            .find_map(|layer| found(layer, SettingOrigin::CommandLine))
            .or_else(of_environment)
            .or_else(|| from_files.find_map(|layer| found(layer, SettingOrigin::File)))
    }

    /// All tables at this path, each with the folder that paths in it start from.
    pub(crate) fn tables<'a>(&'a self, path: &'a [&str]) -> impl Iterator<Item = (&'a Table, &'a Path)> {
        self.layers
            .iter()
            .filter_map(move |layer| Some((at(&layer.table, path)?.as_table()?, layer.folder.as_path())))
    }

    /// A setting that is a word or a list of words, with the folder that paths in it start from.
    pub(crate) fn words(&self, path: &[&str]) -> Option<(Vec<String>, PathBuf)> {
        if let Some(value) = self.variable(&environment_name(path)) {
            return Some((split(value), PathBuf::new()));
        }
        self.layers
            .iter()
            .find_map(|layer| Some((words(at(&layer.table, path)?)?, layer.folder.clone())))
    }
}

/// `CARGO_PROFILE_RELEASE_LTO_DEBUG` of `profile.release-lto.debug`.
pub(crate) fn environment_name(path: &[&str]) -> String {
    let joined = path.join("_");
    format!("CARGO_{}", joined.replace(['-', '.'], "_").to_uppercase())
}

/// The words of a list, or of a text with blanks.
pub(crate) fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(text) => Some(split(text)),
        Value::Array(list) => list.iter().map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => None,
    }
}

/// Reads a file with settings; `None` if it has none.
pub(crate) fn read_table(path: &Path) -> Option<Table> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    toml::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// The value at a path of keys.
pub(crate) fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    match rest {
        [] => Some(value),
        _ => at(value.as_table()?, rest),
    }
}

fn of_word(word: &str, folder: &Path) -> Option<Layer> {
    let table = toml::from_str(word).ok().or_else(|| read_table(&folder.join(word)))?;
    Some(Layer {
        table,
        folder: folder.to_owned(),
        from_command_line: true,
    })
}

fn variable<'a>(env: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let found = env.iter().find(|(other, _)| other == name);
    found.map(|(_, value)| value.as_str())
}

fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}
