//! The bytes of one thread's stack: those in the sample first, the target's memory as it is now for the rest.

use crate::arch::Unreadable;
use recording::event::Pid;
use recording::sink::TargetMemory;

/// The smallest live reading, and an alignment that no mapping's end cuts.
const PAGE: usize = 4096;
/// The largest. A system call costs as much as copying a few pages, so readings that follow each other grow.
const MAX_BLOCK: usize = 64 << 10;
/// Live bytes read for one sample, at most. Stacks are 8 MiB by default.
const MAX_BYTES: usize = 16 << 20;
/// Memory kept from sample to sample.
const KEPT_BYTES: usize = 1 << 20;

/// What was read live for the current sample. Keeps its memory from sample to sample.
#[derive(Default)]
pub(crate) struct LiveBlocks {
    blocks: Vec<Block>,
    bytes: Vec<u8>,
}

/// A piece of target memory: `bytes[at..at + len]`, of `size` that were asked for.
#[derive(Clone, Copy)]
struct Block {
    address: u64,
    at: usize,
    len: usize,
    size: usize,
}

impl LiveBlocks {
    /// Forgets what was read for the sample before.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        if self.bytes.len() > KEPT_BYTES {
            self.bytes.truncate(KEPT_BYTES);
            self.bytes.shrink_to(KEPT_BYTES);
        }
    }

    /// The bytes from an address to the end of its block; none if it can't be read.
    fn from(&mut self, memory: &mut impl TargetMemory, pid: Pid, address: u64) -> &[u8] {
        let holds = |block: &Block| {
            address
                .checked_sub(block.address)
                .is_some_and(|into| into < block.size as u64)
        };
        // Unwinding goes rootwards: the block that was read last is nearly always the one.
        let block = match self.blocks.iter().rfind(|block| holds(block)) {
            Some(block) => *block,
            None => self.read(memory, pid, address - address % PAGE as u64),
        };
        let into = (address - block.address) as usize;
        self.bytes
            .get(block.at + into..block.at + block.len)
            .unwrap_or_default()
    }

    fn read(&mut self, memory: &mut impl TargetMemory, pid: Pid, address: u64) -> Block {
        let last = self.blocks.last().copied();
        let at = last.map_or(0, |last| last.at + last.size);
        let follows = last.filter(|last| last.address.checked_add(last.size as u64) == Some(address));
        let wanted = follows.map_or(PAGE, |last| (last.size * 2).min(MAX_BLOCK));
        let size = if at + wanted > MAX_BYTES { 0 } else { wanted };
        if self.bytes.len() < at + size {
            self.bytes.resize(at + size, 0);
        }
        let len = memory.read(pid, address, &mut self.bytes[at..at + size]).min(size);
        // Even a failed reading is remembered, for its page: the next one would fail, too.
        let block = Block {
            address,
            at,
            len,
            size: size.max(PAGE),
        };
        if size > 0 {
            self.blocks.push(block);
        }
        block
    }
}

/// The stack of one sample.
pub(crate) struct StackMemory<'a, M> {
    pub(crate) pid: Pid,
    pub(crate) dump: &'a [u8],
    pub(crate) dump_start: u64,
    pub(crate) memory: &'a mut M,
    pub(crate) live: &'a mut LiveBlocks,
    /// No frame has data below its stack pointer: what lies there has been overwritten since.
    pub(crate) floor: u64,
    /// True once bytes were used that were read after the sample.
    pub(crate) used_live: bool,
}

impl<M: TargetMemory> StackMemory<'_, M> {
    /// The 8 bytes at an address.
    pub(crate) fn read(&mut self, address: u64) -> Result<u64, Unreadable> {
        if let Some(word) = self.in_sample(address) {
            return Ok(word);
        }
        if address < self.floor {
            return Err(Unreadable(address));
        }
        self.read_live(address).ok_or(Unreadable(address))
    }

    /// The same, if the sample has them.
    pub(crate) fn in_sample(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.dump_start)?).ok()?;
        Some(u64::from_le_bytes(*self.dump.get(offset..)?.first_chunk()?))
    }

    fn read_live(&mut self, address: u64) -> Option<u64> {
        let block = self.live.from(self.memory, self.pid, address);
        let bytes = match block.first_chunk() {
            Some(bytes) => *bytes,
            None => {
                let mut bytes = [0; 8];
                self.copy_live(address, &mut bytes)?;
                bytes
            }
        };
        self.used_live = true;
        Some(u64::from_le_bytes(bytes))
    }

    /// Copies target memory, without calling it part of the stack.
    pub(crate) fn copy_live(&mut self, address: u64, out: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < out.len() {
            let bytes = self.live.from(self.memory, self.pid, address.checked_add(done as u64)?);
            let count = bytes.len().min(out.len() - done);
            if count == 0 {
                return None;
            }
            out[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
        }
        Some(())
    }
}
