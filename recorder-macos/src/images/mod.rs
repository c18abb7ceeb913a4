//! The images of a process, by the list that dyld keeps in the process's memory. The process is not suspended for that.
//!
//! dyld changes the list's timestamp with each change, and the list has no address while it changes
//! (mach-o/dyld_images.h). So the timestamp is read before and after: if it differs, the list is read again at a later
//! sample.
//!
//! - this file: what was loaded and unloaded since the last look.
//! - [`header`]: size and UUID of an image.
//! - [`jit_files`]: the files of JIT compilers.

pub(crate) mod header;
pub(crate) mod jit_files;

use std::collections::BTreeMap;
use std::ops::Range;

use recording::little_endian::{u32_at, u64_at};
use recording::outbox::OwnedMapping;

use crate::kernel::{Mach, MachError};
use header::ImageHeader;

/// Images at most; large applications have some thousand.
const MOST_IMAGES: u32 = 1 << 14;
/// `dyld_image_info`: address, path, time of the file.
const ENTRY: usize = 24;
/// `dyld_all_image_infos` up to `dyldPath`.
const LIST: usize = 200;
/// `MAXPATHLEN`.
const MOST_PATH: usize = 1024;
/// How many times a list is read again whose images can't be read.
const TRIES: u32 = 8;
/// A path is read in pieces, which end with pages.
const PIECE: u64 = 256;
/// Regions of code that are in no image, at most.
const MOST_ANONYMOUS: usize = 4096;
/// An image without a path: dyld itself, before it has set its own.
const DYLD: &[u8] = b"/usr/lib/dyld";
/// The name of anonymous memory, as in Linux recordings.
const ANONYMOUS: &[u8] = b"//anon";

/// The known images of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    list_at: Option<u64>,
    /// Timestamp and count of the list that was read last.
    seen: Option<(u64, u32)>,
    /// How often images of the present list could not be read.
    failed: u32,
    loaded: BTreeMap<u64, LoadedImage>,
    anonymous: BTreeMap<u64, u64>,
}

/// An image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LoadedImage {
    end: u64,
    /// Entry of the list: another file at the same place has another path or time.
    path_at: u64,
    file_time: u64,
}

/// The list's head.
struct ImageList {
    count: u32,
    entries_at: u64,
    dyld_at: u64,
    timestamp: u64,
    dyld_path_at: u64,
}

impl ImageList {
    fn read<M: Mach>(mach: &M, task: &M::Task, at: u64) -> Result<ImageList, MachError> {
        let mut bytes = [0; LIST];
        mach.read(task, at, &mut bytes)?;
        let word = |at| u64_at(&bytes, at).unwrap_or(0);
        Ok(ImageList {
            count: u32_at(&bytes, 4).unwrap_or(0),
            entries_at: word(8),
            dyld_at: word(32),
            timestamp: word(184),
            dyld_path_at: word(192),
        })
    }

    fn stamp(&self) -> (u64, u32) {
        (self.timestamp, self.count)
    }
}

impl Images {
    /// True if no list was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.seen.is_none()
    }

    /// True if a task has the list that was read last: the task is a fork of the process, and has loaded nothing since.
    /// A program that was executed since has another timestamp, even if it is the same program at the same address.
    pub(crate) fn match_task<M: Mach>(&self, mach: &M, task: &M::Task) -> bool {
        let at = mach.image_list(task).ok().filter(|at| self.list_at == Some(*at));
        let list = at.and_then(|at| ImageList::read(mach, task, at).ok());
        list.is_some_and(|list| self.seen == Some(list.stamp()))
    }

    /// Returns what was mapped and unmapped since the last look. Empty while the list can't be read, or changes.
    pub(crate) fn refresh<M: Mach>(&mut self, mach: &M, task: &M::Task) -> Vec<OwnedMapping> {
        self.try_refresh(mach, task).unwrap_or_default()
    }

    fn try_refresh<M: Mach>(&mut self, mach: &M, task: &M::Task) -> Result<Vec<OwnedMapping>, MachError> {
        let at = match self.list_at {
            Some(at) => at,
            None => mach.image_list(task)?,
        };
        self.list_at = Some(at);
        let list = ImageList::read(mach, task, at)?;
        if list.entries_at == 0 || self.seen == Some(list.stamp()) {
            return Ok(Vec::new());
        }
        let count = list.count.min(MOST_IMAGES);
        let mut entries = vec![0; count as usize * ENTRY];
        mach.read(task, list.entries_at, &mut entries)?;
        let again = ImageList::read(mach, task, at)?;
        if again.entries_at != list.entries_at || again.stamp() != list.stamp() {
            return Ok(Vec::new());
        }
        let mut found: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        // Since macOS 13 the list also has dyld.
        found.insert(list.dyld_at, (list.dyld_path_at, 0));
        for entry in entries.chunks_exact(ENTRY) {
            let word = |at| u64_at(entry, at).unwrap_or(0);
            found.insert(word(0), (word(8), word(16)));
        }
        found.remove(&0);
        let mut changes = self.unloaded(&found);
        let mut is_whole = true;
        for (address, (path_at, file_time)) in found {
            if self.loaded.contains_key(&address) {
                continue;
            }
            match read_image(mach, task, address, path_at) {
                Ok(mapping) => {
                    let end = mapping.start.saturating_add(mapping.len);
                    let image = LoadedImage {
                        end,
                        path_at,
                        file_time,
                    };
                    self.loaded.insert(address, image);
                    self.anonymous.retain(|start, until| *until <= address || *start >= end);
                    changes.push(mapping);
                }
                // It may be unloaded by now, or its pages can't be read at this moment.
                Err(_) => is_whole = false,
            }
        }
        self.failed = if is_whole { 0 } else { self.failed + 1 };
        if self.failed == 0 || self.failed >= TRIES {
            self.failed = 0;
            self.seen = Some(list.stamp());
        }
        Ok(changes)
    }

    /// Forgets images that are not in the list any more. Their places become memory of no file.
    fn unloaded(&mut self, found: &BTreeMap<u64, (u64, u64)>) -> Vec<OwnedMapping> {
        let mut changes = Vec::new();
        self.loaded.retain(|address, image| {
            let stays = found.get(address) == Some(&(image.path_at, image.file_time));
            if !stays {
                changes.push(anonymous(*address..image.end));
            }
            stays
        });
        changes
    }

    /// The code around an address that is in no image: JIT code. `None` if the address is in a known image or region,
    /// or not mapped.
    pub(crate) fn code_at<M: Mach>(&mut self, mach: &M, task: &M::Task, address: u64) -> Option<OwnedMapping> {
        if self.holds(address) || self.anonymous.len() >= MOST_ANONYMOUS {
            return None;
        }
        let region = mach.region(task, address).filter(|region| region.contains(&address))?;
        // Not over images: a region with the same protection may hold several.
        let start = self
            .loaded
            .range(..address)
            .next_back()
            .map_or(0, |(_, image)| image.end);
        let end = self
            .loaded
            .range(address..)
            .next()
            .map_or(u64::MAX, |(start, _)| *start);
        let region = region.start.max(start)..region.end.min(end);
        self.anonymous.insert(region.start, region.end);
        Some(anonymous(region))
    }

    /// True if an address is in code that is in no image.
    pub(crate) fn is_anonymous(&self, address: u64) -> bool {
        let region = self.anonymous.range(..=address).next_back();
        region.is_some_and(|(_, end)| address < *end)
    }

    /// True if an address is in a known image or region.
    pub(crate) fn holds(&self, address: u64) -> bool {
        let image = self.loaded.range(..=address).next_back();
        image.is_some_and(|(_, image)| address < image.end) || self.is_anonymous(address)
    }
}

fn anonymous(region: Range<u64>) -> OwnedMapping {
    OwnedMapping {
        start: region.start,
        len: region.end.saturating_sub(region.start),
        file_offset: 0,
        path: ANONYMOUS.to_vec(),
        build_id: None,
        inode: None,
    }
}

fn read_image<M: Mach>(mach: &M, task: &M::Task, address: u64, path_at: u64) -> Result<OwnedMapping, MachError> {
    let header = ImageHeader::read(mach, task, address)?;
    let text = header.text().filter(|text| text.size > 0).ok_or(MachError::Code(0))?;
    Ok(OwnedMapping {
        start: address,
        len: text.size,
        // That of the slice: the text of every image begins with its header.
        file_offset: 0,
        path: read_path(mach, task, path_at)?,
        build_id: header.build_id(),
        inode: None,
    })
}

fn read_path<M: Mach>(mach: &M, task: &M::Task, address: u64) -> Result<Vec<u8>, MachError> {
    let mut path = Vec::new();
    if address == 0 {
        return Ok(DYLD.to_vec());
    }
    while path.len() < MOST_PATH {
        let at = address.checked_add(path.len() as u64).ok_or(MachError::Code(0))?;
        let mut piece = vec![0; (PIECE - at % PIECE) as usize];
        mach.read(task, at, &mut piece)?;
        let len = piece.iter().position(|byte| *byte == 0);
        path.extend_from_slice(&piece[..len.unwrap_or(piece.len())]);
        if len.is_some() {
            return Ok(path);
        }
    }
    Err(MachError::Code(0))
}
