//! A thread with tables of its own: the rows that its samples and markers use, in the order of their first use.

use rustc_hash::FxHashMap;
use serde_json::value::RawValue;

use super::V55Error;
use super::columns::{Indexes, Object, column_of, field, list, name, put_or};
use super::shared::{Shared, Tables};

/// The tables, which versions 56 to 59 have here, too.
const TABLES: [&str; 6] = [
    "stringArray",
    "stackTable",
    "frameTable",
    "funcTable",
    "resourceTable",
    "nativeSymbols",
];
/// What has a column of stacks.
const WITH_STACKS: [&str; 3] = ["samples", "jsAllocations", "nativeAllocations"];

/// A thread as JSON.
pub(super) fn write(thread: &Object, shared: &Shared) -> Result<String, V55Error> {
    let parsed;
    let tables = match &shared.tables {
        Some(tables) => tables,
        None => {
            parsed = shared.tables_of(thread)?;
            &parsed
        }
    };
    let mut own = Own::new(shared, tables);
    own.keep_stacks(thread)?;
    let mut text = String::from("{");
    for (key, value) in &thread.0 {
        match key.as_str() {
            key if TABLES.contains(&key) => {}
            key if WITH_STACKS.contains(&key) => {
                name(&mut text, key);
                own.with_stacks(&thread.parse(key)?, &mut text)?;
            }
            "markers" => {
                name(&mut text, key);
                own.markers(&thread.parse(key)?, &mut text)?;
            }
            key => field(&mut text, key, value.get()),
        }
    }
    own.tables(&mut text);
    text.push('}');
    Ok(text)
}

/// Rows that are kept, and where each is now.
struct Rows<K> {
    kept: Vec<K>,
    at: FxHashMap<K, u32>,
}

impl<K: Copy + Eq + std::hash::Hash> Rows<K> {
    fn new() -> Rows<K> {
        Rows {
            kept: Vec::new(),
            at: FxHashMap::default(),
        }
    }

    fn keep(&mut self, row: K) -> u32 {
        *self.at.entry(row).or_insert_with(|| {
            self.kept.push(row);
            self.kept.len() as u32 - 1
        })
    }
}

/// A text of the file, or the name of a library.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Text {
    Shared(u32),
    Lib(u32),
}

/// The tables of one thread.
struct Own<'a> {
    shared: &'a Shared,
    tables: &'a Tables,
    texts: Rows<Text>,
    stacks: Rows<u32>,
    frames: Rows<u32>,
    /// Functions with the library of their frames: until version 69 that is the function's, by its resource.
    funcs: Rows<(u32, Option<u32>)>,
    /// Resources with their library; without a resource in the file, one for the library.
    resources: Rows<(Option<u32>, Option<u32>)>,
    symbols: Rows<u32>,
}

impl<'a> Own<'a> {
    fn new(shared: &'a Shared, tables: &'a Tables) -> Own<'a> {
        Own {
            shared,
            tables,
            texts: Rows::new(),
            stacks: Rows::new(),
            frames: Rows::new(),
            funcs: Rows::new(),
            resources: Rows::new(),
            symbols: Rows::new(),
        }
    }

    /// Finds the stacks that the thread uses, with all their callers: in the order of the file, callers come first.
    fn keep_stacks(&mut self, thread: &Object) -> Result<(), V55Error> {
        let count = self.tables.stack_prefix.len();
        let mut used = vec![false; count];
        let mut mark = |stack: Option<u32>| -> Result<(), V55Error> {
            let Some(stack) = stack else { return Ok(()) };
            let used = used.get_mut(stack as usize);
            *used.ok_or_else(|| V55Error::Inconsistent(format!("there is no stack {stack}, of {count}")))? = true;
            Ok(())
        };
        for key in WITH_STACKS {
            let stacks: Indexes = thread.parse::<Object>(key)?.parse("stack")?;
            stacks.iter().try_for_each(&mut mark)?;
        }
        let data: Vec<Box<RawValue>> = thread.parse::<Object>("markers")?.parse("data")?;
        for data in data.iter().filter(|data| data.get().contains("\"cause\"")) {
            let data: Object = serde_json::from_str(data.get())?;
            mark(cause_stack(&data.parse("cause")?)?)?;
        }
        for stack in (0..count)
            .rev()
            .filter(|stack| self.tables.stack_prefix[*stack].is_some())
        {
            if let (true, Some(prefix)) = (used[stack], self.tables.stack_prefix[stack]) {
                used[prefix as usize] = true;
            }
        }
        for stack in (0..count as u32).filter(|stack| used[*stack as usize]) {
            self.stacks.keep(stack);
        }
        Ok(())
    }

    fn stack(&self, stack: Option<u32>) -> Option<u32> {
        self.stacks.at.get(&stack?).copied()
    }

    /// An object with a column of stacks.
    fn with_stacks(&self, object: &Object, text: &mut String) -> Result<(), V55Error> {
        text.push('{');
        for (key, value) in &object.0 {
            match key.as_str() {
                "stack" => {
                    let stacks: Indexes = object.parse("stack")?;
                    column_of(text, key, stacks.iter(), |text, stack| {
                        put_or(text, self.stack(stack), "null")
                    });
                }
                key => field(text, key, value.get()),
            }
        }
        close(text);
        text.push(',');
        Ok(())
    }

    fn markers(&mut self, markers: &Object, text: &mut String) -> Result<(), V55Error> {
        text.push('{');
        for (key, value) in &markers.0 {
            match key.as_str() {
                "name" => {
                    let names: Indexes = markers.parse("name")?;
                    let names: Vec<Option<u32>> = names.iter().map(|name| self.text(name)).collect();
                    column_of(text, key, names.into_iter(), |text, name| put_or(text, name, "null"));
                }
                "data" => {
                    let data: Vec<Box<RawValue>> = markers.parse("data")?;
                    let data: Vec<String> = data.iter().map(|data| self.payload(data)).collect::<Result<_, _>>()?;
                    column_of(text, key, data.iter(), |text, data| text.push_str(data));
                }
                key => field(text, key, value.get()),
            }
        }
        close(text);
        text.push(',');
        Ok(())
    }

    /// What a marker holds: texts and the stack of its cause are indexes.
    fn payload(&mut self, data: &RawValue) -> Result<String, V55Error> {
        if !data.get().starts_with('{') {
            return Ok(data.get().to_owned());
        }
        let object: Object = serde_json::from_str(data.get())?;
        let kind: String = object
            .parse::<serde_json::Value>("type")?
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let mut text = String::from("{");
        for (key, value) in &object.0 {
            if key == "cause" && value.get().starts_with('{') {
                let cause: Object = object.parse("cause")?;
                name(&mut text, key);
                text.push('{');
                for (key, value) in &cause.0 {
                    match key.as_str() {
                        "stack" => {
                            name(&mut text, key);
                            put_or(&mut text, self.stack(cause_stack(&cause)?), "null");
                            text.push(',');
                        }
                        key => field(&mut text, key, value.get()),
                    }
                }
                close(&mut text);
                text.push(',');
            } else if self.shared.text_fields.contains(&(kind.clone(), key.clone()))
                && let Ok(index) = serde_json::from_str::<u32>(value.get())
            {
                name(&mut text, key);
                put_or(&mut text, self.text(Some(index)), "null");
                text.push(',');
            } else {
                field(&mut text, key, value.get());
            }
        }
        close(&mut text);
        Ok(text)
    }

    fn text(&mut self, text: Option<u32>) -> Option<u32> {
        text.map(|text| self.texts.keep(Text::Shared(text)))
    }

    /// The tables from the stacks on; what they point at is kept on the way.
    fn tables(&mut self, text: &mut String) {
        let tables = self.tables;
        let stacks: Vec<u32> = self.stacks.kept.clone();
        let frames: Vec<Option<u32>> = (stacks.iter())
            .map(|stack| Some(self.frames.keep(tables.stack_frame.get(*stack)?)))
            .collect();
        let prefixes = stacks
            .iter()
            .map(|stack| self.stack(tables.stack_prefix[*stack as usize]));
        name(text, "stackTable");
        text.push('{');
        column_of(text, "frame", frames.into_iter(), |text, frame| {
            put_or(text, frame, "null")
        });
        column_of(text, "prefix", prefixes, |text, prefix| put_or(text, prefix, "null"));
        tables.stacks.write(&some(&stacks), text);
        text.push_str("},");

        let frames = self.frames.kept.clone();
        let funcs: Vec<Option<u32>> = (frames.iter())
            .map(|frame| {
                Some(self.funcs.keep((
                    tables.frame_func.get(*frame)?,
                    tables.frame_lib.get(*frame as usize).copied().flatten(),
                )))
            })
            .collect();
        let symbols: Vec<Option<u32>> = (frames.iter())
            .map(|frame| Some(self.symbols.keep(tables.frame_symbol.get(*frame)?)))
            .collect();
        name(text, "frameTable");
        text.push('{');
        column_of(text, "func", funcs.into_iter(), |text, func| put_or(text, func, "null"));
        column_of(text, "nativeSymbol", symbols.into_iter(), |text, symbol| {
            put_or(text, symbol, "null")
        });
        tables.frames.write(&some(&frames), text);
        text.push_str("},");

        let funcs = self.funcs.kept.clone();
        let names: Vec<_> = funcs
            .iter()
            .map(|(func, _)| self.text(tables.func_name.get(*func)))
            .collect();
        let files: Vec<_> = (funcs.iter())
            .map(|(func, _)| self.text(tables.func_file.get(*func as usize).copied().flatten()))
            .collect();
        let resources: Vec<_> = (funcs.iter())
            .map(|(func, lib)| (tables.func_resource.get(*func), *lib))
            .map(|key| (key != (None, None)).then(|| self.resources.keep(key)))
            .collect();
        name(text, "funcTable");
        text.push('{');
        column_of(text, "name", names.into_iter(), |text, name| put_or(text, name, "0"));
        column_of(text, "fileName", files.into_iter(), |text, file| {
            put_or(text, file, "null")
        });
        column_of(text, "resource", resources.into_iter(), |text, resource| {
            put_or(text, resource, "-1")
        });
        tables
            .funcs
            .write(&funcs.iter().map(|(func, _)| Some(*func)).collect::<Vec<_>>(), text);
        text.push_str("},");
        self.resources(text);

        let symbols = self.symbols.kept.clone();
        let names: Vec<_> = symbols
            .iter()
            .map(|symbol| self.text(tables.symbol_name.get(*symbol)))
            .collect();
        name(text, "nativeSymbols");
        text.push('{');
        column_of(text, "name", names.into_iter(), |text, name| put_or(text, name, "0"));
        tables.symbols.write(&some(&symbols), text);
        text.push_str("},");

        name(text, "stringArray");
        list(text, self.texts.kept.iter(), |text, kept| {
            let found = match kept {
                Text::Shared(index) => self.shared.texts.get(*index as usize).map(|value| value.get()),
                Text::Lib(index) => self.shared.lib_names.get(*index as usize).map(String::as_str),
            };
            text.push_str(found.unwrap_or("\"\""));
        });
    }

    fn resources(&mut self, text: &mut String) {
        let tables = self.tables;
        let resources = self.resources.kept.clone();
        let names: Vec<_> = (resources.iter())
            .map(
                |(resource, lib)| match resource.and_then(|resource| tables.resource_name.get(resource)) {
                    Some(name) => self.text(Some(name)),
                    None => lib.map(|lib| self.texts.keep(Text::Lib(lib))),
                },
            )
            .collect();
        let hosts: Vec<_> = (resources.iter())
            .map(|(resource, _)| self.text(resource.and_then(|resource| tables.resource_host.get(resource))))
            .collect();
        // ResourceType.Library
        let kinds = (resources.iter()).map(|(resource, _)| match resource {
            Some(resource) => tables.resource_type.get(*resource).unwrap_or(0),
            None => 1,
        });
        name(text, "resourceTable");
        text.push('{');
        column_of(text, "lib", resources.iter(), |text, (_, lib)| {
            put_or(text, *lib, "null")
        });
        column_of(text, "name", names.into_iter(), |text, name| put_or(text, name, "0"));
        column_of(text, "host", hosts.into_iter(), |text, host| put_or(text, host, "null"));
        column_of(text, "type", kinds, |text, kind| put_or(text, Some(kind), "0"));
        let rows: Vec<Option<u32>> = resources.iter().map(|(resource, _)| *resource).collect();
        tables.resources.write(&rows, text);
        text.push_str("},");
    }
}

fn cause_stack(cause: &Object) -> Result<Option<u32>, V55Error> {
    let stack: serde_json::Value = cause.parse("stack")?;
    Ok(stack.as_u64().and_then(|stack| u32::try_from(stack).ok()))
}

fn some(rows: &[u32]) -> Vec<Option<u32>> {
    rows.iter().copied().map(Some).collect()
}

/// Ends an object, of which each field ends in a comma.
fn close(text: &mut String) {
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
}
