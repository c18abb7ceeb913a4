//! The modules of one crate, and what a path in one of them leads to.

use std::collections::BTreeMap;

use crate::source::{ChildModule, ModuleSource};

/// The files of a crate by their path below `src`, with their text.
pub(crate) type CrateFiles = BTreeMap<String, String>;

pub(crate) struct CrateModules {
    modules: Vec<Module>,
}

/// A module of a crate.
struct Module {
    file: String,
    /// Its name from the root on, as in `crate::a::b`.
    path: Vec<String>,
    parent: Option<usize>,
    children: BTreeMap<String, Vec<usize>>,
    source: ModuleSource,
}

/// File `from` uses something that file `to` defines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) line: usize,
}

/// A type, as `crate::module::Name`, and where it is defined.
pub(crate) struct DefinedType {
    pub(crate) name: String,
    pub(crate) module: Vec<String>,
    pub(crate) place: String,
}

/// What a path leads to.
#[derive(Clone, Copy, PartialEq)]
enum Target {
    Module(usize),
    ItemOf(usize),
}

impl CrateModules {
    /// Reads the modules below each root (`lib.rs`, `main.rs`). An error names the file.
    pub(crate) fn read(files: &CrateFiles) -> Result<CrateModules, String> {
        let mut read = CrateModules { modules: Vec::new() };
        for root in files.keys().filter(|file| is_root(file)) {
            read.add_file(files, root, None, Vec::new())?;
        }
        Ok(read)
    }

    fn add_file(
        &mut self,
        files: &CrateFiles,
        file: &str,
        parent: Option<usize>,
        path: Vec<String>,
    ) -> Result<usize, String> {
        let text = files.get(file).ok_or_else(|| format!("there is no {file}"))?;
        let source = ModuleSource::parse(text).map_err(|error| format!("{file}: {error}"))?;
        self.add(files, file, parent, path, source)
    }

    fn add(
        &mut self,
        files: &CrateFiles,
        file: &str,
        parent: Option<usize>,
        path: Vec<String>,
        mut source: ModuleSource,
    ) -> Result<usize, String> {
        let children = std::mem::take(&mut source.children);
        let id = self.modules.len();
        self.modules.push(Module {
            file: file.to_owned(),
            path: path.clone(),
            parent,
            children: BTreeMap::new(),
            source,
        });
        for ChildModule {
            name,
            path: by_path,
            inline,
        } in children
        {
            let path = [path.as_slice(), std::slice::from_ref(&name)].concat();
            let child = match inline {
                Some(source) => self.add(files, file, Some(id), path, source)?,
                None => {
                    let child = child_file(files, file, &path, by_path)
                        .ok_or_else(|| format!("{file}: no file of `mod {name}`"))?;
                    self.add_file(files, &child, Some(id), path)?
                }
            };
            self.modules[id].children.entry(name).or_default().push(child);
        }
        Ok(id)
    }

    /// All imports between files, each pair once.
    pub(crate) fn imports(&self) -> Vec<Import> {
        let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (id, module) in self.modules.iter().enumerate() {
            let source = &module.source;
            // A module that hands on a name does not use it, unless its own code has the name.
            let used = source
                .uses
                .iter()
                .filter(|used| !used.is_public || used.name.as_ref().is_some_and(|name| source.names.contains(name)))
                .map(|used| (&used.path, used.line, used.name.is_none()));
            let paths = source.paths.iter().map(|(path, line)| (path, *line, false));
            for (path, line, is_glob) in used.chain(paths) {
                for target in self.resolve(id, path) {
                    let target = match target {
                        Target::ItemOf(module) => module,
                        Target::Module(module) if is_glob => module,
                        Target::Module(_) => continue,
                    };
                    let to = &self.modules[target].file;
                    if *to != module.file {
                        lines.entry((module.file.clone(), to.clone())).or_insert(line);
                    }
                }
            }
        }
        lines
            .into_iter()
            .map(|((from, to), line)| Import { from, to, line })
            .collect()
    }

    pub(crate) fn types(&self) -> Vec<DefinedType> {
        let mut types = Vec::new();
        for module in &self.modules {
            types.extend(module.source.types.iter().map(|(name, line)| DefinedType {
                name: name.clone(),
                module: module.path.clone(),
                place: format!("{}:{line}", module.file),
            }));
        }
        types
    }

    /// Where a path leads to: a module, or the module that defines an item. Empty for what other crates define; several
    /// where `#[cfg]` chooses among modules of one name.
    fn resolve(&self, from: usize, path: &[String]) -> Vec<Target> {
        let mut here = vec![from];
        let mut rest = path;
        loop {
            match rest.first().map(String::as_str) {
                Some("crate") => here = vec![self.root(from)],
                Some("super") => here = here.iter().filter_map(|id| self.modules[*id].parent).collect(),
                Some("self") => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        let is_anchored = rest.len() < path.len();
        let mut targets = Vec::new();
        for id in here {
            targets.extend(self.resolve_in(id, rest, is_anchored, 0));
        }
        targets
    }

    fn resolve_in(&self, id: usize, path: &[String], is_anchored: bool, depth: usize) -> Vec<Target> {
        let Some(name) = path.first() else {
            return vec![Target::Module(id)];
        };
        if depth > 20 {
            return Vec::new();
        }
        let module = &self.modules[id];
        if let Some(children) = module.children.get(name) {
            let into = |child: &usize| self.resolve_in(*child, &path[1..], true, depth + 1);
            return children.iter().flat_map(into).collect();
        }
        if module.source.items.contains(name) {
            return vec![Target::ItemOf(id)];
        }
        let mut targets = Vec::new();
        for used in &module.source.uses {
            if used.name.as_ref() == Some(name) && used.path != path {
                // What the used name stands for, and what the rest of the path is in it.
                let whole = [&used.path[..], &path[1..]].concat();
                targets.extend(self.resolve_used(id, &whole, depth));
            } else if used.name.is_none() {
                let whole = [&used.path[..], path].concat();
                let found = self.resolve_used(id, &whole, depth);
                // A glob of another module has the name only if that module has it.
                targets.extend(found.into_iter().filter(|target| match target {
                    Target::ItemOf(module) => self.modules[*module].source.items.contains(name),
                    Target::Module(_) => true,
                }));
            }
        }
        // A macro may have made it.
        if targets.is_empty() && is_anchored {
            targets.push(Target::ItemOf(id));
        }
        targets
    }

    fn resolve_used(&self, id: usize, path: &[String], depth: usize) -> Vec<Target> {
        let mut here = id;
        let mut rest = path;
        loop {
            match rest.first().map(String::as_str) {
                Some("crate") => here = self.root(id),
                Some("super") => match self.modules[here].parent {
                    Some(parent) => here = parent,
                    None => return Vec::new(),
                },
                Some("self") => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        // A name that is not from here: another crate's.
        let first = rest.first();
        if here == id && rest.len() == path.len() && first.is_some_and(|name| !self.defines(id, name)) {
            return Vec::new();
        }
        self.resolve_in(here, rest, rest.len() < path.len(), depth + 1)
    }

    fn defines(&self, id: usize, name: &str) -> bool {
        let module = &self.modules[id];
        module.children.contains_key(name)
            || module.source.items.contains(name)
            || module
                .source
                .uses
                .iter()
                .any(|used| used.name.as_deref() == Some(name) && used.path[0] != *name)
    }

    fn root(&self, mut id: usize) -> usize {
        while let Some(parent) = self.modules[id].parent {
            id = parent;
        }
        id
    }
}

fn is_root(file: &str) -> bool {
    ["lib.rs", "main.rs"].contains(&file) || file.starts_with("bin/")
}

/// The file of `mod name;` in `file`, where `path` is the new module's.
fn child_file(files: &CrateFiles, file: &str, path: &[String], by_path: Option<String>) -> Option<String> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    if let Some(by_path) = by_path {
        let child = format!("{folder}/{by_path}");
        return Some(child.trim_start_matches('/').to_owned());
    }
    let stem = path.join("/");
    [format!("{stem}.rs"), format!("{stem}/mod.rs")]
        .into_iter()
        .find(|child| files.contains_key(child))
}
