//! Functions of V8 in files whose writer kept V8's names: older recordings of sprof, samply, `perf script`.

use names::v8::{self, Code, Named, Tier};
use rustc_hash::FxHashMap;

use super::{Calls, Category, Data, Func, NONE, Script};
use crate::category::{CATEGORIES, CodeKind};
use crate::unique::Unique;

/// Gives functions of JIT code the names and files that recordings have, and in sprof's category the subcategories.
/// Functions of other code stay, whatever their names.
pub(crate) fn readable_names(data: &mut Data) {
    let ours = CATEGORIES[CodeKind::Jit.category(false).0].name;
    let ours = data.categories.iter().position(|category| category.name == ours);
    let is_jit: Vec<bool> = data.categories.iter().map(is_jit).collect();
    let of_jit = |category: u32| is_jit.get(category as usize).is_some_and(|is_jit| *is_jit);
    let mut found: FxHashMap<u32, V8Function> = FxHashMap::default();
    for frame in data.frames.iter().filter(|frame| of_jit(frame.category)) {
        if let Some(named) = v8::parse(data.func_name(frame.func)) {
            let of_lines = data.text(data.funcs[frame.func as usize].file);
            found
                .entry(frame.func)
                .or_insert_with(|| V8Function::new(&named, of_lines));
        }
    }
    if found.is_empty() || data.calls != Calls::Paths {
        return;
    }
    let mut texts: Unique<Box<str>> = std::mem::take(&mut data.texts).into();
    let mut scripts: Unique<Script> = std::mem::take(&mut data.scripts).into();
    let mut funcs: Unique<Func> = Unique::default();
    // The new index of each function, its tier, and whether its lines are of its script.
    let mut new: Vec<(u32, Option<Tier>, bool)> = Vec::with_capacity(data.funcs.len());
    for (index, old) in (0..).zip(&data.funcs) {
        let Some(found) = found.get(&index) else {
            new.push((funcs.index(*old), None, true));
            continue;
        };
        let (file, start) = (found.file.as_deref(), found.code.start);
        let func = Func {
            name: texts.index_of(&*found.name),
            file: file.map_or(old.file, |file| texts.index_of(file)),
            script: start.map_or(old.script, |start| scripts.index(Script::from_start(start))),
            ..*old
        };
        new.push((funcs.index(func), found.code.tier, found.has_lines));
    }
    for frame in &mut data.frames {
        let (func, tier, has_lines) = new[frame.func as usize];
        frame.func = func;
        if let Some(tier) = tier.filter(|_| ours == Some(frame.category as usize)) {
            frame.subcategory = subcategory(&mut data.categories, frame.category, tier);
        }
        if !has_lines {
            (frame.line, frame.line_file, frame.column) = (NONE, NONE, NONE);
        }
    }
    (data.texts, data.scripts, data.funcs) = (texts.all, scripts.all, funcs.all);
}

/// The new properties of a function.
struct V8Function {
    name: String,
    file: Option<String>,
    code: Code,
    /// The lines of its frames are of its script. TurboFan inlines functions of other scripts.
    has_lines: bool,
}

impl V8Function {
    fn new(named: &Named<'_>, of_lines: &str) -> V8Function {
        let file = named.file().map(|file| file.into_owned());
        V8Function {
            name: named.name.clone().into_owned(),
            has_lines: of_lines.is_empty() || of_lines == named.script || Some(of_lines) == file.as_deref(),
            file,
            code: named.code,
        }
    }
}

/// True for categories of JIT code: of sprof, and the tiers of samply (samply/src/shared/jit_category_manager.rs).
fn is_jit(category: &Category) -> bool {
    const SAMPLY: &[&str] = &[
        "JIT",
        "Interpreter",
        "Baseline",
        "Maglev",
        "Turbofan",
        "JavaScript",
        "Builtin",
    ];
    category.name == CATEGORIES[CodeKind::Jit.category(false).0].name || SAMPLY.contains(&category.name.as_str())
}

/// The tier's index in the category's subcategories, which get it if they lack it.
pub(crate) fn subcategory(categories: &mut [Category], category: u32, tier: Tier) -> u16 {
    let Some(category) = categories.get_mut(category as usize) else {
        return 0;
    };
    let names = &mut category.subcategories;
    if names.is_empty() {
        names.push("Other".to_owned());
    }
    let at = names.iter().position(|name| name == tier.name()).unwrap_or_else(|| {
        names.push(tier.name().to_owned());
        names.len() - 1
    });
    u16::try_from(at).unwrap_or(0)
}
