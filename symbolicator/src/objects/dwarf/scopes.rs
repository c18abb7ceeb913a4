//! The namespaces, classes and functions around a function's entry. Functions without a linkage name get their path
//! from them: in C++ all with internal linkage, such as lambdas and what is in anonymous namespaces.

use std::sync::Arc;

use gimli::{AttributeValue, UnitOffset, UnitRef};
use rustc_hash::FxHashMap;

use super::budget::{Budget, Flaw};
use super::names::text;
use super::store::Slice;

/// Scopes around one entry at most: only damaged debug info has more.
const MAX_DEPTH: usize = 64;

/// The scopes of units, by the address of their debug info and their offset; `None` where they can't be read.
#[derive(Default)]
pub(super) struct Scopes<'a>(FxHashMap<(usize, usize), Option<Arc<UnitScopes<'a>>>>);

impl<'a> Scopes<'a> {
    /// The scopes of a unit: of languages whose names have no scopes in debug info it is empty. `None` where they can't
    /// be read; the flaw comes once.
    pub(super) fn of_unit(
        &mut self,
        unit: UnitRef<'_, Slice<'a>>,
        budget: &mut Budget,
    ) -> Result<Option<Arc<UnitScopes<'a>>>, Flaw> {
        let offset = unit.header.debug_info_offset().map_or(usize::MAX, |offset| offset.0);
        let info = std::ptr::from_ref(unit.dwarf).addr();
        if let Some(known) = self.0.get(&(info, offset)) {
            return Ok(known.clone());
        }
        let read = UnitScopes::read(unit, budget).map(Arc::new);
        self.0.insert((info, offset), read.as_ref().ok().cloned());
        read.map(Some)
    }
}

/// The scopes of a unit, in the order of their entries.
#[derive(Default)]
pub(super) struct UnitScopes<'a>(Vec<Scope<'a>>);

/// A scope that holds others, or functions.
struct Scope<'a> {
    begin: UnitOffset,
    end: UnitOffset,
    /// The scope around it: an index.
    around: Option<usize>,
    name: ScopeName<'a>,
}

/// The name of a scope.
#[derive(Clone, Copy)]
pub(super) enum ScopeName<'a> {
    Namespace(Option<Slice<'a>>),
    Type(Option<Slice<'a>>),
    /// The entry of a function.
    Function(UnitOffset),
}

impl<'a> UnitScopes<'a> {
    fn read(unit: UnitRef<'_, Slice<'a>>, budget: &mut Budget) -> Result<UnitScopes<'a>, Flaw> {
        let mut entries = unit.entries_raw(None)?;
        let mut scopes: Vec<Scope<'a>> = Vec::new();
        // (depth, scope) of the scopes around the current entry, and the function around it, which is a scope once it
        // holds a type.
        let mut around: Vec<(isize, usize)> = Vec::new();
        let mut functions: Vec<(isize, UnitOffset)> = Vec::new();
        let mut is_root = true;
        while !entries.is_empty() {
            let (offset, depth) = (entries.next_offset(), entries.next_depth());
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            while around.last().is_some_and(|(outer, _)| *outer >= depth) {
                scopes[around.pop().map_or(0, |(_, scope)| scope)].end = offset;
            }
            while functions.last().is_some_and(|(outer, _)| *outer >= depth) {
                functions.pop();
            }
            let tag = abbreviation.tag();
            let is_scope = matches!(
                tag,
                gimli::DW_TAG_namespace
                    | gimli::DW_TAG_module
                    | gimli::DW_TAG_class_type
                    | gimli::DW_TAG_structure_type
                    | gimli::DW_TAG_union_type
                    | gimli::DW_TAG_enumeration_type
            );
            budget.take_attributes(abbreviation)?;
            if tag == gimli::DW_TAG_subprogram && abbreviation.has_children() {
                functions.push((depth, offset));
            }
            if !(is_root || is_scope && abbreviation.has_children()) {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let mut name = None;
            let mut language = None;
            for specification in abbreviation.attributes() {
                let attribute = entries.read_attribute(*specification)?;
                match (attribute.name(), attribute.value()) {
                    (gimli::DW_AT_name, text) => name = budget.text(unit, text)?,
                    (gimli::DW_AT_language, AttributeValue::Language(found)) => language = Some(found),
                    _ => {}
                }
            }
            if std::mem::take(&mut is_root) {
                if !language.is_some_and(has_scopes) {
                    return Ok(UnitScopes::default());
                }
                budget.take(unit.header.length_including_self() as u64)?;
                continue;
            }
            let mut push = |name, begin, depth, around: &mut Vec<(isize, usize)>| {
                around.push((depth, scopes.len()));
                let outer = around.len().checked_sub(2).and_then(|outer| around.get(outer));
                scopes.push(Scope {
                    begin,
                    end: UnitOffset(usize::MAX),
                    around: outer.map(|(_, scope)| *scope),
                    name,
                });
                budget.keep(2)
            };
            // A type in a function: the function is its scope.
            let innermost = around.last().map_or(-1, |(depth, _)| *depth);
            if let Some((depth, function)) = functions.last().copied().filter(|(depth, _)| *depth > innermost) {
                push(ScopeName::Function(function), function, depth, &mut around)?;
            }
            let is_namespace = matches!(tag, gimli::DW_TAG_namespace | gimli::DW_TAG_module);
            let name = if is_namespace {
                ScopeName::Namespace(name)
            } else {
                ScopeName::Type(name)
            };
            push(name, offset, depth, &mut around)?;
        }
        Ok(UnitScopes(scopes))
    }

    /// The scopes around an entry, outermost first, from the innermost function on: that has a path of its own.
    pub(super) fn around(&self, entry: UnitOffset) -> Vec<ScopeName<'a>> {
        let after = self.0.partition_point(|scope| scope.begin < entry);
        let mut next = after.checked_sub(1);
        let mut found = Vec::new();
        while let Some(scope) = next.and_then(|next| self.0.get(next)) {
            if entry < scope.end {
                found.push(scope.name);
                if matches!(scope.name, ScopeName::Function(_)) || found.len() == MAX_DEPTH {
                    break;
                }
            }
            next = scope.around;
        }
        found.reverse();
        found
    }
}

/// Languages whose linkage names have the path of namespaces and types.
fn has_scopes(language: gimli::DwLang) -> bool {
    matches!(
        language,
        gimli::DW_LANG_C_plus_plus
            | gimli::DW_LANG_C_plus_plus_03
            | gimli::DW_LANG_C_plus_plus_11
            | gimli::DW_LANG_C_plus_plus_14
            | gimli::DW_LANG_C_plus_plus_17
            | gimli::DW_LANG_C_plus_plus_20
            | gimli::DW_LANG_ObjC_plus_plus
    )
}

/// A part of a path as demanglers write it: `(anonymous namespace)`, `{lambda(int)}` for gcc's `<lambda(int)>`.
pub(super) fn part_of_path(name: Option<Slice<'_>>, is_namespace: bool) -> String {
    let name = name.map(|name| text(name).into_owned());
    let name = name.filter(|name| !name.is_empty());
    match name {
        Some(name) => match name.strip_prefix("<lambda").and_then(|rest| rest.strip_suffix('>')) {
            Some(parameters) => format!("{{lambda{parameters}}}"),
            None => name,
        },
        None if is_namespace => "(anonymous namespace)".to_owned(),
        None => "{unnamed type}".to_owned(),
    }
}
