//! From an address in a process to a frame of the profile.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use recording::address::Avma;
use recording::event::BpfProgram;
use recording::module::{Image, Images, Module, ModuleKind};
use recording::stack::{Frame, StackMark};
use rustc_hash::{FxHashMap, FxHashSet};

use super::mapped_code::MappedCode;
use crate::category::{CodeKind, MarkKind};
use crate::recorded::strings::{StringId, StringTable};
use crate::recorded::tables::{FrameId, FrameRow, FrameTables, FuncRow, LibId};

/// Identity of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum FrameKey {
    InLib(LibId, u64),
    /// In executable memory of no file.
    Nameless(Avma),
    Unmapped(Avma),
    UnmappedKernel(Avma),
    /// In a BPF program of this name. It has no address: another program may have had the same.
    Bpf(StringId),
    Mark(StackMark),
    Label(StringId),
}

/// Makes each frame once, and remembers the frame of each address per process.
#[derive(Clone, Default)]
pub(super) struct FrameResolver {
    pub(super) tables: FrameTables,
    kernel: Images,
    /// Code of BPF programs that were loaded while recording: (end, name) by first address.
    bpf: BTreeMap<u64, (u64, StringId)>,
    frames: FxHashMap<FrameKey, FrameId>,
    programs: FxHashSet<Arc<Module>>,
    name: String,
}

impl FrameResolver {
    pub(super) fn add_kernel(&mut self, image: Image) {
        self.kernel.insert(image);
    }

    /// Adds or removes the code of a BPF program. Later programs may lie at its addresses.
    pub(super) fn on_bpf(&mut self, program: &BpfProgram<'_>, strings: &mut StringTable) {
        let end = program.start.saturating_add(program.len);
        // Programs never overlap, so at most one reaches in from below.
        let below = self.bpf.range(..program.start).next_back();
        let from = match below {
            Some((start, (known_end, _))) if *known_end > program.start => *start,
            _ => program.start,
        };
        let gone: Vec<u64> = self.bpf.range(from..end.max(from)).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| {
            self.bpf.remove(start);
        });
        if program.is_loaded {
            // The name as /proc/kallsyms writes it; programs that stay loaded get their names from there.
            self.name.clear();
            let _ = write!(self.name, "{} [bpf]", program.name);
            self.bpf.insert(program.start, (end, strings.intern(&self.name)));
        }
    }

    fn bpf_at(&self, address: Avma) -> Option<StringId> {
        let (_, (end, name)) = self.bpf.range(..=address.0).next_back()?;
        (address.0 < *end).then_some(*name)
    }

    /// Notes that this module is the executable of a process.
    pub(super) fn is_program(&mut self, module: Arc<Module>) {
        self.programs.insert(module);
    }

    pub(super) fn resolve(&mut self, frame: Frame, code: &mut MappedCode, strings: &mut StringTable) -> FrameId {
        if let Some(id) = code.resolved.get(frame) {
            return id;
        }
        let key = self.key(frame, &code.images, strings);
        code.has_nameless_code |= matches!(key, FrameKey::Nameless(_));
        let id = self.find_or_make(key, strings);
        code.resolved.insert(frame, id);
        id
    }

    /// The frame of a mark, equal in all processes.
    pub(super) fn mark(&mut self, mark: StackMark, strings: &mut StringTable) -> FrameId {
        self.find_or_make(FrameKey::Mark(mark), strings)
    }

    /// The frames in code of no file, and their addresses.
    pub(super) fn nameless(&self) -> FxHashMap<FrameId, u64> {
        let nameless = |(key, id): (&FrameKey, &FrameId)| match key {
            FrameKey::Nameless(address) => Some((*id, address.0)),
            _ => None,
        };
        self.frames.iter().filter_map(nameless).collect()
    }

    /// The frame at a relative address of a module.
    pub(super) fn frame_in(&mut self, module: &Arc<Module>, address: u64, strings: &mut StringTable) -> FrameId {
        let key = FrameKey::InLib(self.tables.lib_for(module, strings), address);
        self.find_or_make(key, strings)
    }

    /// A frame that is not code and has this name.
    pub(super) fn label(&mut self, name: StringId, strings: &mut StringTable) -> FrameId {
        self.find_or_make(FrameKey::Label(name), strings)
    }

    fn find_or_make(&mut self, key: FrameKey, strings: &mut StringTable) -> FrameId {
        if let Some(&id) = self.frames.get(&key) {
            return id;
        }
        let id = self.make(key, strings);
        self.frames.insert(key, id);
        id
    }

    fn key(&mut self, frame: Frame, images: &Images, strings: &mut StringTable) -> FrameKey {
        if let Frame::Mark(mark) = frame {
            return FrameKey::Mark(mark);
        }
        let address = frame.lookup_address().unwrap_or_default();
        if frame.is_kernel()
            && let Some(name) = self.bpf_at(address)
        {
            return FrameKey::Bpf(name);
        }
        let images = if frame.is_kernel() { &self.kernel } else { images };
        match images.find(address) {
            Some(image) if image.module.kind == ModuleKind::Jit => FrameKey::Nameless(address),
            Some(image) => FrameKey::InLib(self.tables.lib_for(&image.module, strings), image.relative(address).0),
            None if frame.is_kernel() => FrameKey::UnmappedKernel(address),
            None => FrameKey::Unmapped(address),
        }
    }

    fn make(&mut self, key: FrameKey, strings: &mut StringTable) -> FrameId {
        self.name.clear();
        // Writing to a string can't fail.
        let (lib, address, kind) = match key {
            // The name is made at the end: here it would take a twentieth of the time that recording a compiler takes.
            FrameKey::InLib(lib, address) => (Some(lib), Some(address), self.tables.lib(lib).kind),
            FrameKey::Nameless(address) => {
                let _ = write!(self.name, "{address:#x}");
                (None, None, CodeKind::Jit)
            }
            FrameKey::Unmapped(address) => {
                let _ = write!(self.name, "{address:#x}");
                (None, None, CodeKind::Unknown)
            }
            FrameKey::UnmappedKernel(address) => {
                let _ = write!(self.name, "[kernel] {address:#x}");
                (None, None, CodeKind::Kernel)
            }
            FrameKey::Bpf(name) => {
                self.name.push_str(strings.get(name));
                (None, None, CodeKind::Kernel)
            }
            FrameKey::Mark(mark) => {
                self.name.push_str(mark.label());
                (None, None, mark_kind(mark))
            }
            FrameKey::Label(name) => {
                self.name.push_str(strings.get(name));
                (None, None, CodeKind::Unknown)
            }
        };
        let func = self.tables.push_func(FuncRow {
            name: strings.intern(&self.name),
            lib,
            source: None,
            start: None,
            krate: None,
        });
        self.tables.push_frame(FrameRow {
            address,
            lib,
            func,
            kind,
            inline_depth: 0,
            native_symbol: None,
            line: None,
            line_source: None,
            column: None,
        })
    }

    /// The tables, with facts that became known after frames were made.
    pub(super) fn finish(mut self, strings: &mut StringTable) -> FrameTables {
        for frame in &self.tables.frames {
            if let (Some(_), Some(address)) = (frame.lib, frame.address) {
                self.name.clear();
                let _ = write!(self.name, "{address:#x}");
                self.tables.funcs[frame.func.0 as usize].name = strings.intern(&self.name);
            }
        }
        for lib in &mut self.tables.libs {
            if lib.kind == CodeKind::Library && self.programs.contains(&lib.module) {
                lib.kind = CodeKind::Program;
            }
        }
        for frame in &mut self.tables.frames {
            if let Some(lib) = frame.lib {
                frame.kind = self.tables.libs[lib.0 as usize].kind;
            }
        }
        self.tables
    }
}

fn mark_kind(mark: StackMark) -> CodeKind {
    match mark {
        StackMark::Unverified => CodeKind::Mark(MarkKind::Unverified),
        StackMark::TruncatedNoMemory
        | StackMark::TruncatedNoRule
        | StackMark::TruncatedDepth
        | StackMark::TruncatedDeferred => CodeKind::Mark(MarkKind::Truncated),
        StackMark::OtherStack => CodeKind::Mark(MarkKind::OtherStack),
        StackMark::Missing(_) => CodeKind::Mark(MarkKind::NoUserStack),
        StackMark::WaitGuess(_) => CodeKind::Mark(MarkKind::Guess),
        StackMark::OffCpu => CodeKind::Wait(None),
        StackMark::Waiting(reason) => CodeKind::Wait(Some(reason)),
    }
}
