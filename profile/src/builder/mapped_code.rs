//! Mappings of a process, and the frames of the addresses that were looked up.

use recording::module::Images;
use recording::stack::Frame;

use crate::recorded::tables::FrameId;

/// Mappings of a process, and the frames of its addresses.
#[derive(Clone, Default)]
pub(super) struct MappedCode {
    pub(super) images: Images,
    /// Frames of looked-up addresses; valid for the images as they are.
    pub(super) resolved: ResolvedFrames,
    /// True if a stack of the process has frames in code without a file.
    pub(super) has_nameless_code: bool,
}

/// A hash table with open addressing. A slot has 16 bytes, so a look-up costs one cache miss, and those of a stack
/// overlap.
#[derive(Clone, Default)]
pub(super) struct ResolvedFrames {
    slots: Vec<FrameSlot>,
    len: usize,
}

#[derive(Clone, Copy, Default)]
struct FrameSlot {
    address: u64,
    id: u32,
    /// The kind of the address; 0 in an empty slot.
    kind: u32,
}

const FIRST_SLOTS: usize = 64;

impl ResolvedFrames {
    /// The remembered id of a frame; `None` if the frame was not looked up.
    pub(super) fn get(&self, frame: Frame) -> Option<FrameId> {
        let (address, kind) = parts(frame)?;
        let mask = self.slots.len().checked_sub(1)?;
        let mut at = slot_of(address, mask);
        loop {
            let slot = &self.slots[at];
            if (slot.address, slot.kind) == (address, kind) {
                return Some(FrameId(slot.id));
            }
            if slot.kind == 0 {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// Remembers a frame that was not looked up before, unless it is a mark.
    pub(super) fn insert(&mut self, frame: Frame, id: FrameId) {
        let Some((address, kind)) = parts(frame) else { return };
        // A third of the slots is empty: then a look-up tries 2 on average (linear probing: Knuth, TAOCP 6.4).
        if (self.len + 1) * 3 > self.slots.len() * 2 {
            let size = (self.slots.len() * 2).max(FIRST_SLOTS);
            let old = std::mem::replace(&mut self.slots, vec![FrameSlot::default(); size]);
            old.into_iter()
                .filter(|slot| slot.kind > 0)
                .for_each(|slot| self.put(slot));
        }
        self.len += 1;
        self.put(FrameSlot {
            address,
            id: id.0,
            kind,
        });
    }

    fn put(&mut self, slot: FrameSlot) {
        let mask = self.slots.len() - 1;
        let mut at = slot_of(slot.address, mask);
        while self.slots[at].kind > 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }
}

fn parts(frame: Frame) -> Option<(u64, u32)> {
    match frame {
        Frame::InstructionPointer(at) => Some((at.0, 1)),
        Frame::ReturnAddress(at) => Some((at.0, 2)),
        Frame::KernelInstructionPointer(at) => Some((at.0, 3)),
        Frame::KernelReturnAddress(at) => Some((at.0, 4)),
        Frame::Mark(_) => None,
    }
}

/// The upper half of a product by 2^64 / golden ratio (Knuth, TAOCP 6.4).
fn slot_of(address: u64, mask: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

#[cfg(test)]
mod tests {
    use recording::address::Avma;
    use recording::stack::StackMark;

    use super::*;

    #[test]
    fn each_frame_has_its_own_id() {
        let mut resolved = ResolvedFrames::default();
        let frames: Vec<Frame> = (0..5000)
            .flat_map(|at| {
                let at = Avma(at * 3);
                [
                    Frame::InstructionPointer(at),
                    Frame::ReturnAddress(at),
                    Frame::KernelInstructionPointer(at),
                    Frame::KernelReturnAddress(at),
                ]
            })
            .collect();
        for (id, frame) in (0..).zip(&frames) {
            assert!(resolved.get(*frame).is_none());
            resolved.insert(*frame, FrameId(id));
        }
        for (id, frame) in (0..).zip(&frames) {
            assert!(resolved.get(*frame).is_some_and(|found| found.0 == id));
        }
        let mark = Frame::Mark(StackMark::Unverified);
        resolved.insert(mark, FrameId(1));
        assert!(resolved.get(mark).is_none());
    }
}
