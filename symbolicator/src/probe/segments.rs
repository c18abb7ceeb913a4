//! Where the code of a file is.

use std::path::Path;

use object::{Object, ObjectSegment};
use recording::module::{Module, ModuleKind};

use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::objects::ObjectModule;

/// A file with its symbols, and where its code is.
pub(super) fn open(path: &Path, options: &SymbolOptions) -> Result<(ObjectModule, Segments), SymbolError> {
    let file = ObjectFile::open(path)?;
    let module = Module {
        kind: ModuleKind::File,
        path: path.to_owned(),
        readable_path: None,
        build_id: file.build_id().cloned(),
        arch: None,
    };
    Ok((ObjectModule::open(&module, None, options)?, Segments::code(&file)?))
}

/// Segments of a file: addresses and file offsets.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    /// Relative address, offset in the file, bytes.
    segments: Vec<(u64, u64, u64)>,
}

impl Segments {
    /// The executable segments.
    pub(super) fn code(file: &ObjectFile) -> Result<Segments, SymbolError> {
        Segments::matching(file, |segment| segment.permissions().executable())
    }

    /// The segments that `is_wanted` accepts.
    pub(super) fn matching(
        file: &ObjectFile,
        is_wanted: impl Fn(&object::Segment<'_, '_>) -> bool,
    ) -> Result<Segments, SymbolError> {
        let object = file.object()?;
        let segments = object.segments().filter(is_wanted).map(|segment| {
            let (offset, bytes) = segment.file_range();
            (segment.address().wrapping_sub(file.base_svma()), offset, bytes)
        });
        Ok(Segments {
            segments: segments.collect(),
        })
    }

    /// The file offset of a relative address.
    pub(super) fn offset(&self, address: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, offset, bytes)| {
            let within = address.checked_sub(*start).filter(|within| within < bytes)?;
            offset.checked_add(within)
        })
    }

    /// The relative address of a file offset.
    pub(super) fn address(&self, file_offset: u64) -> Option<u64> {
        self.segments.iter().find_map(|(start, offset, bytes)| {
            let within = file_offset.checked_sub(*offset).filter(|within| within < bytes)?;
            start.checked_add(within)
        })
    }
}
