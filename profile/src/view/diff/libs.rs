//! Matches libraries that have different names in two recordings: `app.old` and `app`, `libfoo.so.1.2` and
//! `libfoo.so.1.3`.

use std::collections::{BTreeMap, BTreeSet};

use names::rust_name::readable;

use crate::data::Data;

/// Longest program name that the kernel keeps, in bytes (`TASK_COMM_LEN`, include/linux/sched.h).
const LONGEST_COMM: usize = 15;

/// A library with a different name on each side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// Before.
    pub base: String,
    /// After.
    pub new: String,
}

/// Renames libraries and processes of `base` to their names in `new`. Only names that one side alone has are matched,
/// in this order:
///
/// 1. The recorded program, if each side has one.
/// 2. Libraries whose names differ only by versions and hashes.
/// 3. Libraries that share most functions of one of them.
pub fn match_libs(base: &mut [Data], new: &[Data]) -> Vec<Renamed> {
    let (mut before, mut after) = (SideLibs::new(base), SideLibs::new(new));
    let both: Vec<String> = (before.functions.keys())
        .filter(|name| after.functions.contains_key(*name))
        .cloned()
        .collect();
    for name in &both {
        before.functions.remove(name);
        after.functions.remove(name);
    }
    let mut renamed = Vec::new();
    let mut pair = |before: &mut SideLibs, after: &mut SideLibs, base: String, new: String| {
        before.functions.remove(&base);
        after.functions.remove(&new);
        renamed.push(Renamed { base, new });
    };
    if let (Some(base), Some(new)) = (before.program(), after.program()) {
        pair(&mut before, &mut after, base, new);
    }
    for (stem, base) in before.by_stem() {
        if let (Some(base), Some(Some(new))) = (base, after.by_stem().get(&stem)) {
            pair(&mut before, &mut after, base, new.clone());
        }
    }
    let mut alike: Vec<(usize, String, String)> = Vec::new();
    for (base, base_functions) in &before.functions {
        for (new, new_functions) in &after.functions {
            let shared = base_functions.intersection(new_functions).count();
            if shared * 2 > base_functions.len().min(new_functions.len()) {
                alike.push((shared, base.clone(), new.clone()));
            }
        }
    }
    alike.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| (&a.1, &a.2).cmp(&(&b.1, &b.2))));
    for (_, base, new) in alike {
        if before.functions.contains_key(&base) && after.functions.contains_key(&new) {
            pair(&mut before, &mut after, base, new);
        }
    }
    for Renamed { base: old, new } in &renamed {
        for data in base.iter_mut() {
            rename(data, old, new);
        }
    }
    renamed
}

fn rename(data: &mut Data, old: &str, new: &str) {
    for lib in &mut data.libs {
        if lib.name.as_deref().or(lib.debug_name.as_deref()) == Some(old) {
            lib.name = Some(new.to_owned());
        }
    }
    for thread in &mut data.threads {
        for name in [&mut thread.name, &mut thread.process_name] {
            if is_of_file(name, old) {
                *name = comm(new).to_owned();
            }
        }
    }
}

/// The libraries with functions on one side.
struct SideLibs {
    /// Names of functions, without addresses.
    functions: BTreeMap<String, BTreeSet<String>>,
    products: BTreeSet<String>,
}

impl SideLibs {
    fn new(side: &[Data]) -> SideLibs {
        let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for data in side {
            for func in 0..data.funcs.len() as u32 {
                if let Some(lib) = data.lib_name(func) {
                    let (names, name) = (functions.entry(lib.to_owned()).or_default(), data.func_name(func));
                    if !name.starts_with("0x") {
                        names.insert(readable(name).into_owned());
                    }
                }
            }
        }
        SideLibs {
            functions,
            products: side.iter().map(|data| data.product.clone()).collect(),
        }
    }

    /// The recorded program's file, if all recordings of the side have the same.
    fn program(&self) -> Option<String> {
        let product = self.products.first().filter(|_| self.products.len() == 1)?;
        let file = product.rsplit('/').next().unwrap_or(product);
        let mut found = self
            .functions
            .keys()
            .filter(|lib| *lib == file || is_of_file(file, lib));
        found.next().filter(|_| found.next().is_none()).cloned()
    }

    /// Libraries by name without version; `None` if several have that name.
    fn by_stem(&self) -> BTreeMap<String, Option<String>> {
        let mut stems = BTreeMap::new();
        for name in self.functions.keys() {
            let entry = stems.entry(stem(name)).or_insert_with(|| Some(name.clone()));
            if entry.as_ref() != Some(name) {
                *entry = None;
            }
        }
        stems
    }
}

/// True if a process that runs this file gets this name.
fn is_of_file(process: &str, file: &str) -> bool {
    !process.is_empty() && (process == file || process == comm(file))
}

/// The process name of a program file.
fn comm(file: &str) -> &str {
    let mut end = file.len().min(LONGEST_COMM);
    while !file.is_char_boundary(end) {
        end -= 1;
    }
    &file[..end]
}

/// A library's name without versions and hashes: `libfoo` for `libfoo.so.1.2`, `libfoo-1.2.so` and
/// `libfoo-0f3a9c71b2d4e586.so`.
fn stem(name: &str) -> String {
    let name = match name.find(".so") {
        Some(at) if name[at + 3..].is_empty() || name[at + 3..].starts_with('.') => &name[..at],
        _ => name,
    };
    let is_version = |part: &str| {
        let part = part.strip_prefix('v').unwrap_or(part);
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        let is_number = digits > 0 && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // Hashes of cargo and many build systems.
        let is_hash = part.len() >= 8 && digits > 0 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_number || is_hash
    };
    let mut stem = name;
    while let Some((rest, last)) = stem.rsplit_once(['-', '_', '.']) {
        if rest.is_empty() || !is_version(last) {
            break;
        }
        stem = rest;
    }
    // The stem of `libpython3.11` is `libpython3`.
    let bare = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.is_empty() { stem } else { bare }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn versions_and_hashes_are_no_part_of_a_library_s_name() {
        for (name, expected) in [
            ("libfoo.so", "libfoo"),
            ("libfoo.so.1.2.3", "libfoo"),
            ("libfoo-2.so", "libfoo"),
            ("libfoo-1.2.3.so", "libfoo"),
            ("libpython3.11.so.1.0", "libpython"),
            ("libstd-0f3a9c71b2d4e586.so", "libstd"),
            ("benches-0f3a9c71b2d4e586", "benches"),
            ("app-v1.2", "app"),
            ("app.old", "app.old"),
            ("my-app", "my-app"),
            ("7", "7"),
            ("[vdso]", "[vdso]"),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
    }
}
