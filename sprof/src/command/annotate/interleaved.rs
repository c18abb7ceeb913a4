//! The source lines between the instructions.

use std::collections::BTreeMap;

use names::source_path::SourcePath;
use names::symbol::{AddressInfo, SourceFrame};
use profile::data::Data;
use recording::module::Module;
use symbolicator::Symbolicator;

/// Source of instructions: the line of the function, and the line of the innermost function that is inlined there.
#[derive(Default)]
pub(super) struct Interleaved {
    origins: BTreeMap<u64, InstructionOrigin>,
    /// The lines of each file, or why it was not read.
    files: BTreeMap<String, Result<Vec<String>, String>>,
    last: InstructionOrigin,
    repeat: bool,
}

/// Source of an instruction.
#[derive(Default)]
struct InstructionOrigin {
    /// `None` without debug info.
    outer: Option<SourcePlace>,
    inlined: Option<SourcePlace>,
}

#[derive(PartialEq, Eq)]
struct SourcePlace {
    function: Option<String>,
    file: Option<String>,
    /// `None`: the compiler made the instruction for no line.
    line: Option<u32>,
}

impl InstructionOrigin {
    fn of(info: AddressInfo) -> InstructionOrigin {
        let place = |frame: SourceFrame| SourcePlace {
            function: frame.function,
            file: frame.file,
            line: frame.line,
        };
        let mut frames = info.frames.into_iter();
        InstructionOrigin {
            outer: frames.next_back().map(place),
            inlined: frames.next().map(place),
        }
    }
}

impl Interleaved {
    /// Looks up the instructions at the given relative addresses, and reads their source files.
    pub(super) fn new(symbolicator: &Symbolicator, data: &Data, module: &Module, addresses: &[u64]) -> Interleaved {
        // The function was looked up before, which reported any error.
        let infos = symbolicator.lookup(module, addresses).unwrap_or_default();
        let mut interleaved = Interleaved::default();
        for (address, info) in addresses.iter().zip(infos) {
            let origin = InstructionOrigin::of(info);
            for file in [&origin.outer, &origin.inlined]
                .into_iter()
                .flatten()
                .flat_map(|place| &place.file)
            {
                if !interleaved.files.contains_key(file) {
                    let look_up = || symbolicator.source(module, *address, file);
                    let text = data.source(file).map_or_else(look_up, |text| Ok(text.to_owned()));
                    let text = text.map(|text| text.lines().map(str::to_owned).collect());
                    (interleaved.files).insert(file.clone(), text.map_err(|error| error.to_string()));
                }
            }
            interleaved.origins.insert(*address, origin);
        }
        interleaved
    }

    /// Shows the line of the next instruction even if the last instruction had the same line.
    pub(super) fn repeat_line(&mut self) {
        self.repeat = true;
    }

    /// What to show before the instruction at a relative address. Each address is asked for once.
    pub(super) fn lines_before(&mut self, address: u64) -> Vec<String> {
        let Some(origin) = self.origins.remove(&address) else {
            return Vec::new();
        };
        let last = std::mem::take(&mut self.last);
        let repeat = std::mem::take(&mut self.repeat);
        let mut lines = Vec::new();
        let is_back = last.inlined.is_some() && origin.inlined.is_none();
        let is_new = repeat || is_back || last.outer != origin.outer;
        match &origin.outer {
            Some(outer) if is_new => self.push("", outer, "", last.outer.as_ref(), &mut lines),
            None if last.outer.is_some() => lines.push("; no debug info".to_owned()),
            _ => {}
        }
        if let Some(inlined) = origin
            .inlined
            .as_ref()
            .filter(|_| is_new || last.inlined != origin.inlined)
        {
            let last = last.inlined.as_ref().filter(|_| !is_new);
            self.push("       ", inlined, " (inlined)", last, &mut lines);
        }
        self.last = origin;
        lines
    }

    /// Appends a source line. A line with function and file comes before it, unless `last` has the same.
    fn push(&self, indent: &str, place: &SourcePlace, how: &str, last: Option<&SourcePlace>, lines: &mut Vec<String>) {
        let path = place.file.as_deref();
        let text = path.and_then(|path| self.files.get(path)?.as_ref().ok());
        let function = place.function.as_deref().unwrap_or("unknown function");
        let path = path.map_or("unknown file".into(), |path| SourcePath::parse(path).short());
        let number = place.line.map_or("?".to_owned(), |line| line.to_string());
        let Some(text) = text else {
            return lines.push(format!("; {indent}{function}{how}, {path}:{number}"));
        };
        if last.is_none_or(|last| (&last.function, &last.file) != (&place.function, &place.file)) {
            lines.push(format!("; {indent}{function}{how}, {path}"));
        }
        let text = place.line.and_then(|line| text.get(line.checked_sub(1)? as usize));
        lines.push(format!("; {indent}{number:>5}  {}", text.map_or("", String::as_str)));
    }

    /// A sentence if source files were not read; `None` if all were.
    pub(super) fn unread(&self) -> Option<String> {
        let mut reasons = self.files.values().filter_map(|text| text.as_ref().err());
        let first = reasons.next()?;
        Some(match reasons.count() {
            0 => first.clone(),
            more => format!("{} source files could not be read; the first: {first}", more + 1),
        })
    }
}
