//! Images, as dyld lists them in the memory of a process.

use std::sync::Arc;

use super::machine::Chance;
use super::program::Program;

/// Where the list is, and where the entries, the paths and the images are.
pub(crate) const LIST: u64 = 0x7000_0000_0000;
const ENTRIES: u64 = LIST + 0x10_0000;
pub(super) const PATHS: u64 = LIST + 0x20_0000;
const FIRST: u64 = 0x6000_0000_0000;
/// From one image to the next, and the size of its code.
const APART: u64 = 0x10_0000;
pub(crate) const TEXT: u64 = 0x8000;
/// For so long the list has no entries when it changes, ns.
const CHANGE_NS: u64 = 20_000;
const MOST: usize = 12;

/// An image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// A number that no other image of the machine has.
    pub(crate) serial: u64,
    pub(crate) address: u64,
}

/// All of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    loaded: Vec<Image>,
    changed_ns: u64,
    /// The only image, if the process executes a real program.
    pub(crate) program: Option<Arc<Program>>,
}

impl Images {
    pub(crate) fn load(&mut self, serial: u64, now: u64, chance: &mut Chance) {
        if self.loaded.len() >= MOST {
            return;
        }
        // Often where another one was.
        let is_free = |at: &u64| self.loaded.iter().all(|image| image.address != *at);
        let first = chance.below(4);
        let place = (first..).map(|index| FIRST + index * APART).find(is_free);
        self.loaded.push(Image {
            serial,
            address: place.unwrap_or(FIRST),
        });
        self.changed_ns = now;
    }

    pub(crate) fn unload(&mut self, used: &[u64], now: u64) {
        // The first is the program's own.
        let unused = self
            .loaded
            .iter()
            .skip(1)
            .position(|image| !used.contains(&image.serial));
        if let Some(index) = unused {
            self.loaded.remove(index + 1);
            self.changed_ns = now;
        }
    }

    /// The serial of any image.
    pub(crate) fn any(&self, chance: &mut Chance) -> u64 {
        let index = chance.below(self.loaded.len() as u64) as usize;
        self.loaded.get(index).map_or(0, |image| image.serial)
    }

    /// Where an image is.
    pub(crate) fn address(&self, serial: u64) -> u64 {
        let found = self.loaded.iter().find(|image| image.serial == serial);
        found.or(self.loaded.first()).map_or(FIRST, |image| image.address)
    }

    /// Fills a buffer from the memory of the list, the paths and the images. `None`: something there can't be read.
    pub(crate) fn read(&self, address: u64, buffer: &mut [u8], now: u64) -> Option<()> {
        let (start, bytes) = match address {
            LIST.. if address < ENTRIES => (LIST, self.list(now)),
            ENTRIES.. if address < PATHS => (ENTRIES, self.entries()),
            PATHS.. => self.path(address)?,
            _ => {
                let image = self
                    .loaded
                    .iter()
                    .find(|image| (image.address..image.address + TEXT).contains(&address))?;
                (image.address, header(image))
            }
        };
        let from = usize::try_from(address - start).ok()?;
        buffer.copy_from_slice(bytes.get(from..from + buffer.len())?);
        Some(())
    }

    fn list(&self, now: u64) -> Vec<u8> {
        let mut bytes = vec![0; 200];
        let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        let is_changing = now < self.changed_ns + CHANGE_NS;
        let count = self.program.as_ref().map_or(self.loaded.len(), |_| 1);
        put(0, 17 | (count as u64) << 32);
        put(8, if is_changing { 0 } else { ENTRIES });
        put(184, self.changed_ns);
        bytes
    }

    fn entries(&self) -> Vec<u8> {
        let entry = |image: &Image| [image.address, PATHS + image.serial * 256, 0];
        let numbers = match &self.program {
            Some(program) => program.entry().to_vec(),
            None => self.loaded.iter().flat_map(entry).collect(),
        };
        numbers.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn path(&self, address: u64) -> Option<(u64, Vec<u8>)> {
        if let Some(program) = &self.program {
            return Some(program.path());
        }
        let serial = (address - PATHS) / 256;
        let image = self.loaded.iter().find(|image| image.serial == serial)?;
        let mut path = format!("/lib/{}", image.serial).into_bytes();
        path.resize(256, 0);
        Some((PATHS + serial * 256, path))
    }
}

/// A header with a `__TEXT` segment and a UUID, as `mach-o/loader.h` has them. Its pages are code.
fn header(image: &Image) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut words = |words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    words(&[0xfeed_facf, 0x0100_000c, 0, 6, 2, 72 + 24, 0, 0]);
    words(&[
        0x19,
        72,
        u32::from_le_bytes(*b"__TE"),
        u32::from_le_bytes(*b"XT\0\0"),
        0,
        0,
    ]);
    words(&[0, 0, TEXT as u32, 0, 0, 0, TEXT as u32, 0, 5, 5, 0, 0]);
    words(&[0x1b, 24, image.serial as u32, (image.serial >> 32) as u32, 7, 7]);
    bytes.resize(TEXT as usize, 0);
    bytes
}
