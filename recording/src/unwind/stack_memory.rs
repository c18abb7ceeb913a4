//! The bytes of one thread's stack: those in the sample first, the target's memory as it is now for the rest.

use super::arch::Unreadable;
use crate::event::Pid;
use crate::sink::TargetMemory;

/// The unit of live reading, and an alignment that no mapping's end cuts.
const PAGE: usize = 4096;
/// Live bytes read for one sample, at most. Stacks are 8 MiB by default.
const MAX_PAGES: usize = 4096;

/// Pages read live for the current sample. Keeps its memory from sample to sample.
#[derive(Default)]
pub(super) struct LivePages {
    pages: Vec<LivePage>,
    used: usize,
}

struct LivePage {
    address: u64,
    len: usize,
    bytes: Box<[u8; PAGE]>,
}

impl LivePages {
    /// Forgets what was read for the sample before.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        // A sample with a stack of megabytes must not keep them for ever.
        self.pages.truncate(256);
    }

    fn page(&mut self, memory: &mut impl TargetMemory, pid: Pid, address: u64) -> Option<&LivePage> {
        // Unwinding goes rootwards: the page that was read last is nearly always the one.
        let found = self.pages[..self.used].iter().rposition(|page| page.address == address);
        let at = match found {
            Some(at) => at,
            None if self.used < MAX_PAGES => {
                if self.used == self.pages.len() {
                    self.pages.push(LivePage {
                        address: 0,
                        len: 0,
                        bytes: Box::new([0; PAGE]),
                    });
                }
                let page = self.pages.get_mut(self.used)?;
                page.address = address;
                page.len = memory.read(pid, address, &mut page.bytes[..]).min(PAGE);
                self.used += 1;
                self.used - 1
            }
            None => return None,
        };
        self.pages.get(at)
    }
}

/// The stack of one sample.
pub(super) struct StackMemory<'a, M> {
    pub(super) pid: Pid,
    pub(super) dump: &'a [u8],
    pub(super) dump_start: u64,
    pub(super) memory: &'a mut M,
    pub(super) pages: &'a mut LivePages,
    /// No frame has data below its stack pointer: what lies there has been overwritten since.
    pub(super) floor: u64,
    /// True once bytes were used that were read after the sample.
    pub(super) used_live: bool,
}

impl<M: TargetMemory> StackMemory<'_, M> {
    /// The 8 bytes at an address.
    pub(super) fn read(&mut self, address: u64) -> Result<u64, Unreadable> {
        let from_dump = address
            .checked_sub(self.dump_start)
            .and_then(|offset| self.dump.get(usize::try_from(offset).ok()?..)?.first_chunk());
        if let Some(bytes) = from_dump {
            return Ok(u64::from_le_bytes(*bytes));
        }
        if address < self.floor {
            return Err(Unreadable(address));
        }
        self.read_live(address).ok_or(Unreadable(address))
    }

    fn read_live(&mut self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.copy_live(address, &mut bytes)?;
        self.used_live = true;
        Some(u64::from_le_bytes(bytes))
    }

    /// Copies target memory, without calling it part of the stack.
    pub(super) fn copy_live(&mut self, address: u64, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let at = address.checked_add(done as u64)?;
            let offset = at as usize % PAGE;
            let page = self.pages.page(self.memory, self.pid, at - offset as u64)?;
            let bytes = page.bytes.get(offset..page.len).filter(|bytes| !bytes.is_empty())?;
            let count = bytes.len().min(out.len() - done);
            out[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
        }
        Some(())
    }
}
