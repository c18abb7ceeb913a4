//! Probes as a user named them, after their places were found: plain data for the recorder.

use std::fmt;
use std::path::PathBuf;

/// Places where each passing is to be recorded, under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// As the user wrote it: `uprobe:/usr/bin/app:function`.
    pub text: String,
    /// What to call it in the profile: `uprobe:function`.
    pub name: String,
    /// At least one: a function may have several instances, a mark several copies.
    pub places: Vec<ProbePlace>,
    /// True if breakpoint registers of the processor watch the places, in processes that run the file as their program.
    /// Else the kernel has a definition of each, for all processes that map the file.
    pub by_register: bool,
    /// A line each for the user, before recording begins: what is probed where that is not plain, and what no probe
    /// will see.
    pub notes: Vec<String>,
}

/// A function, each call of which is to be a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanFunction {
    /// Name of the spans: as the user wrote it.
    pub name: String,
    /// Where its calls begin and end. A function of several instances has several beginnings.
    pub places: Vec<CallPlace>,
    /// A line each for the user, before recording begins.
    pub notes: Vec<String>,
}

/// An instruction at which a call begins or ends. The stack pointer is the same at both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPlace {
    /// Where it is.
    pub place: ProbePlace,
    /// What happens there.
    pub moment: CallMoment,
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallMoment {
    /// The first instruction.
    Begins,
    /// The function returns.
    Returns,
    /// The function jumps to another one, which returns to its caller.
    TailCall,
}

impl CallMoment {
    /// All of them.
    pub const ALL: [CallMoment; 3] = [CallMoment::Begins, CallMoment::Returns, CallMoment::TailCall];
}

/// One place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbePlace {
    /// In a file that programs run.
    File(FilePlace),
    /// In the running kernel.
    Kernel(KernelPlace),
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// The file, as sprof's own mount namespace has it. All processes that map the same file are meant.
    pub path: PathBuf,
    /// Where in the file an instruction begins.
    pub file_offset: u64,
    /// Where in the file the 16-bit counter of a USDT probe is: above 0 in each process while the probe is in use.
    pub semaphore: Option<u64>,
    /// The arguments of a USDT probe as its note has them: `-4@%eax 8@-16(%rbp)`.
    pub arguments: String,
}

/// A place in the running kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPlace {
    /// A function as /proc/kallsyms names it, the only one of this name.
    pub function: String,
    /// Bytes from its start to an instruction.
    pub offset: u64,
}

impl fmt::Display for ProbePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbePlace::File(place) => write!(f, "{} at offset {:#x}", place.path.display(), place.file_offset),
            ProbePlace::Kernel(KernelPlace { function, offset: 0 }) => write!(f, "the kernel at {function}"),
            ProbePlace::Kernel(KernelPlace { function, offset }) => write!(f, "the kernel at {function}+{offset:#x}"),
        }
    }
}
