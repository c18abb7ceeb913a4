//! From addresses of a module to names, files and lines: kept answers first, then debug info and symbols, many at once
//! on several threads.

use names::rust_name;
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};

use super::answers::heap_of;
use super::{DebugInfoStage, ObjectModule};
use crate::demangle::is_mangled;

/// Number of look-ups from which on threads save time. 2,000 look-ups take 0.08 s of CPU time in a debug build of 182
/// MB; half of it is reading its tables.
const WORTH_THREADS: usize = 2000;

/// Look-ups whose answers wait in memory for their names.
const PREPARED_AT_ONCE: usize = 10_000;

/// Bytes that the answers of one call may take, and for each byte of the files. Symbols and debug info may point into
/// one long text at any place, so that each name is long, and all of them are longer than the file by any factor. A
/// debug build of 182 MB takes 0.1 for each byte.
const FREE_BYTES: usize = 32 << 20;
const BYTES_FOR_ONE: usize = 8;

impl ObjectModule {
    /// Looks up relative addresses, in any order.
    pub(crate) fn lookup(&mut self, addresses: &[u64]) -> Vec<AddressInfo> {
        // In address order, consecutive look-ups use the same units, lines and names.
        let mut order: Vec<usize> = (0..addresses.len()).collect();
        order.sort_unstable_by_key(|index| addresses[*index]);
        let mut answers = vec![AddressInfo::default(); addresses.len()];
        let mut unknown: Vec<usize> = Vec::new();
        let mut again: Vec<(usize, usize)> = Vec::new();
        for index in order {
            let address = addresses[index];
            if let Some(first) = unknown.last().filter(|first| addresses[**first] == address) {
                again.push((index, *first));
            } else if let Some(known) = self.kept.as_mut().and_then(|kept| kept.get(address)) {
                answers[index] = known.clone();
            } else {
                unknown.push(index);
            }
        }
        if !unknown.is_empty()
            && let Some(dwarf) = self.dwarf()
        {
            dwarf.begin_batch();
        }
        let files: usize = self.all_files().map(|file| <[u8]>::len(file)).sum();
        let allowed = files.saturating_mul(BYTES_FOR_ONE).saturating_add(FREE_BYTES);
        let (mut left, mut done) = (allowed, 0);
        'all: for unknown in unknown.chunks(PREPARED_AT_ONCE) {
            let asked: Vec<u64> = unknown.iter().map(|index| addresses[*index]).collect();
            let functions = self.prepare(&asked);
            for ((&index, address), function) in unknown.iter().zip(asked).zip(functions) {
                let function = function.unwrap_or_else(|| self.by_symbol(address));
                let answer = self.lookup_one(address, function);
                match left.checked_sub(heap_of(&answer)) {
                    Some(rest) => left = rest,
                    None => break 'all,
                }
                done += 1;
                self.kept.iter_mut().for_each(|kept| kept.add(address, &answer));
                answers[index] = answer;
            }
        }
        if done < unknown.len() {
            let path = self.all_files().next().map(|file| file.path().display().to_string());
            self.note_damage(format!(
                "{}: {} of {} addresses have no names, since the others' names take {} MB; the file is damaged",
                path.unwrap_or_default(),
                unknown.len() - done,
                unknown.len(),
                allowed >> 20
            ));
        }
        again
            .iter()
            .for_each(|(index, first)| answers[*index] = answers[*first].clone());
        if let DebugInfoStage::Read(dwarf) = &mut self.dwarf {
            let flaws = dwarf.take_flaws();
            flaws.into_iter().for_each(|flaw| self.note_damage(flaw));
        }
        self.keep_answers();
        answers
    }

    /// Answers that lack something are looked up again: what is missing may be there then.
    fn keep_answers(&mut self) {
        let is_split = matches!(&self.dwarf, DebugInfoStage::Read(dwarf) if dwarf.is_split());
        if !self.notes().is_empty() || is_split {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept
            && self.symbol_files.iter().all(|file| file.check_unchanged())
        {
            kept.write();
        }
    }

    /// Looks up many addresses in the debug info on several threads; [`ObjectModule::lookup_one`] then finds their
    /// answers there. Returns the functions of the symbol table, where these were looked up.
    fn prepare(&mut self, addresses: &[u64]) -> Vec<Option<Option<FunctionSymbol>>> {
        let mut functions = vec![None; addresses.len()];
        if addresses.len() < WORTH_THREADS || self.dwarf().is_none() {
            return functions;
        }
        // The symbol table is read meanwhile. It needs all but the debug info.
        match std::mem::replace(&mut self.dwarf, DebugInfoStage::Absent) {
            DebugInfoStage::Read(mut dwarf) => {
                dwarf.prepare(addresses, || {
                    for (function, address) in functions.iter_mut().zip(addresses) {
                        *function = Some(self.by_symbol(*address));
                    }
                });
                self.dwarf = DebugInfoStage::Read(dwarf);
            }
            other => self.dwarf = other,
        }
        functions
    }

    /// `function` is the answer of the symbol table.
    fn lookup_one(&mut self, address: u64, mut function: Option<FunctionSymbol>) -> AddressInfo {
        let mut frames: Vec<SourceFrame> = Vec::new();
        if let Some(dwarf) = self.dwarf() {
            let (found, outer) = dwarf.find(address);
            frames = found;
            // The symbol table is preferred: debug info may have a function in several parts.
            function = function.or(outer);
        }
        let mut function = function.or_else(|| self.unnamed(address));
        // Debug info of assembly has lines and no functions. The same holds for units whose split part is missing.
        let named = function.as_ref().filter(|function| function.is_named);
        if let (Some(outer), Some(function)) = (frames.last_mut(), named) {
            let name = outer.function.get_or_insert_with(|| function.name.clone());
            let full = with_its_scope(name, &function.name).or_else(|| {
                // The debug info has namespaces and classes; the symbol also has parameters.
                let (path, last) = rust_name::last_part(name)?;
                with_its_scope(last, &function.name).filter(|_| !path.is_empty())
            });
            // Debug info without the linkage name has only the source. If a macro made the function, this is the
            // macro's source. For implementations, the symbol is a guess.
            let is_exact = full.is_some() && !function.name.starts_with('<');
            let by_symbol = function.krate.clone();
            outer.krate = if is_exact {
                by_symbol.or(outer.krate.take())
            } else {
                outer.krate.take().or(by_symbol)
            };
            if let Some(full) = full {
                *name = full;
            }
        }
        let name = frames.last().and_then(|outer| outer.function.as_deref());
        if let (Some(function), Some(name)) = (&mut function, name)
            && is_mangled(&function.name)
        {
            name.clone_into(&mut function.name);
        }
        AddressInfo { function, frames }
    }
}

/// The name of the symbol, if it is `name` with scope and arguments. In debug info, static functions and functions in
/// anonymous namespaces of C++ have no linkage name: `hidden` is `(anonymous namespace)::hidden(int)`. With rustc's
/// `line-tables-only`, no function has.
fn with_its_scope(name: &str, symbol: &str) -> Option<String> {
    let whole = symbol.split(" [clone").next().unwrap_or(symbol);
    let is_it = |(at, _): (usize, &str)| {
        let (before, after) = (&whole[..at], &whole[at + name.len()..]);
        (before.is_empty() || before.ends_with("::") || before.ends_with(' ')) && after.starts_with(['(', '<', '['])
    };
    let is_cpp = !name.is_empty() && whole.match_indices(name).any(is_it);
    let of_cpp = || is_cpp.then(|| whole.to_owned());
    rust_name::with_path(name, whole).or_else(of_cpp)
}

#[cfg(test)]
mod tests {
    use recording::module::{Module, ModuleKind};

    use unwind::Functions;

    use super::super::{DebugInfoStage, ObjectModule};
    use super::with_its_scope;
    use crate::files::object_file::ObjectFile;
    use crate::files::options::SymbolOptions;

    #[test]
    fn what_an_earlier_start_has_answered_needs_neither_symbols_nor_debug_info() {
        let module = Module {
            kind: ModuleKind::File,
            path: std::env::current_exe().unwrap(),
            readable_path: None,
            build_id: None,
            arch: None,
        };
        let cache = tempfile::tempdir().unwrap();
        let options = SymbolOptions {
            cache: Some(cache.path().to_owned()),
            ..SymbolOptions::default()
        };
        let open = || ObjectModule::open(&module, None, &options).unwrap();
        let mut first = open();
        if first.kept.is_none() {
            eprintln!("skipped: the linker wrote no build id into this test");
            return;
        }
        let text = Functions::read(&*first.binary().unwrap()).all();
        let addresses: Vec<u64> = text.iter().take(1000).map(|function| function.start).collect();
        let answers = first.lookup(&addresses);
        assert!(answers.iter().filter(|answer| !answer.frames.is_empty()).count() > 50);
        let mut second = open();
        assert_eq!(second.lookup(&addresses), answers);
        assert!(matches!(second.dwarf, DebugInfoStage::Unread(Some(_))) && second.symbols.is_none());
        // An address more: it is looked up, and kept with the others.
        let more = addresses[0] + 1;
        let both = second.lookup(&[more, addresses[0]]);
        assert_eq!(both[1], answers[0]);
        assert!(second.symbols.is_some());
        let mut third = open();
        assert_eq!(third.lookup(&[more, addresses[0]]), both);
        assert!(third.symbols.is_none());
        // One more than a thousand is not worth writing all of them again in the same start.
        third.lookup(&[more + 1]);
        third.lookup(&[more + 2]);
        let mut fourth = open();
        fourth.lookup(&[more + 1]);
        assert!(fourth.symbols.is_none());
        fourth.lookup(&[more + 2]);
        assert!(fourth.symbols.is_some());
    }

    #[test]
    fn answers_do_not_depend_on_the_order_of_the_questions() {
        let own = ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        let text = Functions::read(&own).all();
        // Several in a function, the next function, and one between functions.
        let near =
            |function: &std::ops::Range<u64>| [function.start, function.start + 9, function.end - 1, function.end];
        let addresses: Vec<u64> = text.iter().step_by(20).flat_map(near).collect();
        let mut module = ObjectModule::new(Some(own), None, &SymbolOptions::default());
        let mut at_once = module.lookup(&addresses);
        assert!(at_once.iter().filter(|answer| !answer.frames.is_empty()).count() > 100);
        at_once.reverse();
        let own = ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        let mut module = ObjectModule::new(Some(own), None, &SymbolOptions::default());
        let one_by_one: Vec<_> = addresses
            .iter()
            .rev()
            .flat_map(|address| module.lookup(&[*address]))
            .collect();
        assert_eq!(one_by_one, at_once);
    }

    #[test]
    fn answers_are_the_same_on_one_thread_and_on_several() {
        let own = || ObjectFile::open(&std::env::current_exe().unwrap()).unwrap();
        let text = Functions::read(&own()).all();
        let all: Vec<u64> = (text.iter().flat_map(|function| [function.start, function.end - 1])).collect();
        assert!(all.len() > super::WORTH_THREADS);
        // Some twice, and not in order.
        let addresses: Vec<u64> = (all.iter().rev().chain(all.iter().step_by(7)))
            .take(12_000)
            .copied()
            .collect();
        let module = || ObjectModule::new(Some(own()), None, &SymbolOptions::default());
        let (mut several, mut one) = (module(), module());
        let found = several.lookup(&addresses);
        assert!(found.iter().filter(|answer| answer.frames.len() > 1).count() > 100);
        for (addresses, found) in addresses.chunks(1000).zip(found.chunks(1000)) {
            assert_eq!(one.lookup(addresses), found);
        }
        assert_eq!((several.notes(), several.damage()), (one.notes(), one.damage()));
    }

    #[test]
    fn a_name_without_scope_gets_that_of_its_symbol() {
        let full = "(anonymous namespace)::hidden(unsigned long)";
        let scoped = |name: &str, symbol: &str| with_its_scope(name, symbol).unwrap_or_default();
        assert_eq!(scoped("hidden", full), full);
        assert_eq!(scoped("hidden", &format!("{full} [clone .cold]")), full);
        assert_eq!(scoped("local", "local(int)"), "local(int)");
        let lambda = "main::{lambda(int)#1}::operator()(int) const";
        assert_eq!(scoped("operator()", lambda), lambda);
        assert_eq!(scoped("merge", "words::merge"), "words::merge");
        let instance = "int (anonymous namespace)::f<int>(int)";
        assert_eq!(scoped("f<int>", &format!("{instance} [clone .isra.0]")), instance);
    }

    #[test]
    fn c_names_and_names_of_others_stay() {
        // Parts of C functions and functions that were merged into one.
        assert_eq!(with_its_scope("work", "work.constprop.0"), None);
        assert_eq!(with_its_scope("work", "work"), None);
        assert_eq!(with_its_scope("work", "framework(int)"), None);
        assert_eq!(with_its_scope("", "f()"), None);
    }
}
