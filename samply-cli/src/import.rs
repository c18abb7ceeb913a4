//! a perf.data file to a profile: the same journey as a recording, from a file.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use profile::Profile;
use profile::build::{BuildOptions, Builder};
use recorder_linux::import::{Import, RecordedKernel, SavedFiles};
use recording::address::Avma;
use recording::clock::ClockReference;
use recording::module::{Image, Module, ModuleKind};
use recording::sink::NoMemory;
use recording::unwind::{UnwindOptions, Unwinder};

use crate::exit::Failure;
use crate::pipeline;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A profile made from a file, and what the file lacked, a line each.
pub(crate) struct Imported {
    pub(crate) profile: Profile,
    pub(crate) notes: Vec<String>,
}

/// True if the file begins as perf's do, on a machine of either byte order.
pub(crate) fn is_perf_data(path: &Path) -> bool {
    let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    let mut magic = [0; 8];
    is_file
        && File::open(path)
            .and_then(|mut file| file.read_exact(&mut magic))
            .is_ok()
        && [b"PERFILE2", b"2ELIFREP"].contains(&&magic)
}

/// Reads the samples of one event, the first unless it is named.
pub(crate) fn read(path: &Path, event: Option<&str>) -> Result<Imported, Failure> {
    let failed =
        |error: &dyn std::fmt::Display| Failure::failed(format_args!("cannot load {}: {error}", path.display()));
    let file = File::open(path).map_err(|error| failed(&error))?;
    let modified = file.metadata().and_then(|metadata| metadata.modified()).ok();
    let file = BufReader::with_capacity(BUFFER_BYTES, file);
    let import = Import::open(file, modified, event).map_err(|error| failed(&error))?;
    // The builder wants only the time zero now; the wall clock is known in the end.
    let clock = ClockReference {
        timestamp: import.zero(),
        wall: std::time::UNIX_EPOCH,
    };
    let mut builder = Builder::new(clock, BuildOptions::default());
    if let Some(kernel) = import.kernel().and_then(kernel_image) {
        builder.set_kernel(kernel);
    }
    if import.has_waits() {
        pipeline::name_waits(&mut builder);
    }
    let mut unwinder = Unwinder::new(builder, NoMemory, SavedFiles::new(), UnwindOptions::default());
    let imported = import.run(&mut unwinder).map_err(|error| failed(&error))?;
    let (builder, mut quality) = unwinder.finish();
    quality.asked_rate_hz = imported.asked_rate_hz;
    Ok(Imported {
        profile: builder.finish(imported.info, quality),
        notes: imported.notes,
    })
}

/// The recorded kernel, if its functions can be told: by its build id, or because it is the one that runs now.
fn kernel_image(recorded: RecordedKernel) -> Option<Image> {
    /// `_stext` stands up to this much after `_text`; files of perf may have either.
    const TEXT_START: u64 = 1 << 20;
    let running = symbolicator::kernel_text_base()
        .filter(|base| (*base..base.saturating_add(TEXT_START)).contains(&recorded.text));
    if running.is_none() && recorded.build_id.is_none() {
        return None;
    }
    let base = Avma(running.unwrap_or(recorded.text));
    Some(Image {
        start: base,
        end: Avma(u64::MAX),
        base,
        module: Arc::new(Module {
            kind: ModuleKind::Kernel,
            path: "[kernel.kallsyms]".into(),
            readable_path: None,
            build_id: recorded.build_id,
            arch: None,
        }),
    })
}
