//! Source files, only those that the debug info of an address names.

use std::path::Path;

use names::source_path::SourcePath;
use names::symbol::SymbolSource;
use recording::module::Module;

use super::Symbolicator;
use crate::sources::SourceError;
use crate::sources::text::{read, read_file, text, unreadable};

impl Symbolicator {
    /// The text of `file`, if the debug info of this relative address names it. Its path has the form of the debug info
    /// or of a profile.
    ///
    /// Debug info may name any file, also one with secrets. Only what looks like a source is read, and by root only
    /// what all users may read; but a file that is itself on both sides of a [`PathMap`](crate::PathMap) was asked for.
    ///
    /// # Errors
    ///
    /// The debug info does not name the file, or it can't or must not be read.
    pub fn source(&self, module: &Module, address: u64, file: &str) -> Result<String, SourceError> {
        let entry = self.entry(module);
        let infos = self.lookup_entry(&entry, &[address])?;
        let files = infos.iter().flat_map(|info| &info.frames);
        let files = files.flat_map(|frame| [frame.file.as_deref(), frame.declared_in.as_deref()]);
        let mut files = files.flatten();
        let asked = SourcePath::parse(file);
        // The path of the debug info is read, never the one that was asked for.
        let named = (files.clone().find(|named| *named == file))
            .or_else(|| files.find(|named| SourcePath::parse(named) == asked));
        let source = self.looked_up_in(module);
        let Some(file) = named else {
            let (module, file) = (module.name(), file.to_owned());
            return Err(match source {
                SymbolSource::Files { debug_info: false, .. } => SourceError::NoDebugInfo { module, file },
                _ => SourceError::NotNamed { module, address, file },
            });
        };
        let servers = (self.options().debuginfod.as_ref()).filter(|_| Path::new(file).is_absolute());
        let download = || read_file(&servers?.source(module.build_id.as_ref()?, file)?).ok();
        self.source_at(file)
            .or_else(|missing| download().map_or(Err(missing), |(_, bytes)| Ok(text(bytes))))
    }

    /// The text of the source file at a path of the debug info, by the rules of [`Symbolicator::source`]. For files of
    /// other profilers, which have no addresses.
    ///
    /// # Errors
    ///
    /// The file can't or must not be read.
    pub fn source_at(&self, file: &str) -> Result<String, SourceError> {
        if let Some((mapped, is_whole)) = self.options().path_maps.iter().find_map(|map| map.apply(file)) {
            return read(&mapped, is_whole);
        }
        let elsewhere = |missing| match self.local_sources().find(&SourcePath::parse(file)) {
            Ok(Some(found)) => read(&found, false),
            Ok(None) => Err(missing),
            Err(reason) => Err(unreadable(Path::new(file), reason)),
        };
        read(Path::new(file), false).or_else(elsewhere)
    }
}
