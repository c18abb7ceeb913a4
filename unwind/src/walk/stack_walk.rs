//! One walk with what it needs, and what counts as a root.

use crate::address::FrameAddress;

use crate::arch::Arch;
use crate::tables::mappings::{ANONYMOUS, Mappings, Region};
use crate::tables::modules::Modules;
use crate::walk::code_cache::CodeCache;
use crate::walk::outcome::FramePoint;
use crate::walk::reuse::Reuse;
use crate::walk::stack_memory::StackMemory;
use recording::address::Avma;
use recording::clock::Timestamp;
use recording::quality::Quality;
use recording::stack::{Frame, FurtherRegisters};

/// Bytes above a frame that seems to have no caller in which a return address is searched for.
const ROOT_SCAN: u64 = 2048;

/// One walk, with what it needs.
pub(crate) struct StackWalk<'a, 'f> {
    pub(crate) space: &'a Mappings,
    /// The region that was looked up last. Most callers are in the same region.
    pub(crate) region: Option<Region>,
    pub(crate) modules: &'a mut Modules<'f>,
    pub(crate) code_cache: &'a mut CodeCache,
    /// When the sample was taken.
    pub(crate) time: Timestamp,
    pub(crate) quality: &'a mut Quality,
    pub(crate) stack: StackMemory<'a>,
    /// Registers of the leaf that few rules need.
    pub(crate) further: FurtherRegisters<'a>,
    /// The thread's last walk.
    pub(crate) reuse: Reuse<'a>,
    /// The stack pointer of the frame that was found last is a lower bound.
    pub(crate) sp_is_bound: bool,
    /// The result, leaf first, without the frames that stay.
    pub(crate) points: &'a mut Vec<FramePoint>,
    /// Number of rootmost frames that this walk shares with the thread's last one.
    pub(crate) shared_rootmost: usize,
    pub(crate) max_frames: usize,
}

impl<'f> StackWalk<'_, 'f> {
    pub(crate) fn find(&mut self, address: u64) -> Option<Region> {
        if !self
            .region
            .is_some_and(|region| (region.start..region.end).contains(&address))
        {
            self.region = self.space.find(Avma(address)).copied();
        }
        self.region
    }

    /// True if the caller's stack pointer follows from the frame pointer of the function at this address.
    pub(crate) fn record_tops_frame(&self, address: FrameAddress) -> bool {
        let region = self.space.find(Avma(address.address_for_lookup()));
        region.is_some_and(|region| self.modules.records_top_frames(region.module))
    }

    pub(crate) fn is_code(&mut self, address: u64) -> bool {
        self.find(address.wrapping_sub(1)).is_some()
    }

    pub(crate) fn is_made_up_at<A: Arch>(&mut self, return_address: u64) -> bool {
        let address = FrameAddress::from_return_address(return_address);
        let region = self.find(return_address.wrapping_sub(1));
        let (Some(region), Some(address)) = (region, address) else {
            return false;
        };
        self.is_made_up::<A>(&region, address)
    }

    /// True if code without rules ends its thread where its callee returns to: what started the thread needs no caller.
    pub(crate) fn never_returns<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        region.module != ANONYMOUS
            && self
                .code_at(region, address.address())
                .is_some_and(|code| A::never_returns(&code.next))
    }

    /// True for a return address that is the first byte of a function with no call before it: who started the stack put
    /// it there. glibc's `makecontext` has the coroutine return to `__start_context`.
    pub(crate) fn is_made_up<A: Arch>(&mut self, region: &Region, address: FrameAddress) -> bool {
        let relative = address.address().wrapping_sub(region.base);
        let rules = self.modules.tables_for::<A>(region.module, self.quality);
        address.is_return_address()
            && rules.is_some_and(|rules| rules.begins_function::<A>(relative))
            && !self.has_called::<A>(address.address())
    }

    /// True if a frame in code without rules, with a frame pointer of 0, is the root. Start code sets the frame pointer
    /// to 0 to mark the root. Code that uses the register for something else may have a 0 in it as well: then a return
    /// address into code with rules lies above. A return address of 0 is decided in the same way: a wrong rule may find
    /// one. `above`: where the frame of a caller would begin.
    pub(crate) fn is_last<A: Arch>(&mut self, above: u64) -> bool {
        let (dump, space) = (self.stack.copy, self.space);
        let from = above.saturating_sub(dump.start);
        let words = usize::try_from(from)
            .ok()
            .and_then(|from| dump.bytes.get(from..))
            .unwrap_or_default();
        for word in words.chunks_exact(8).take((ROOT_SCAN / 8) as usize) {
            let word = word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            let Some(region) = space.find(Avma(word.wrapping_sub(1))) else {
                continue;
            };
            if let Some(tables) = self.modules.tables(region.module, self.quality)
                && let Some(rules) = tables.of::<A>()
                && rules.is_inside_function::<A>(word.wrapping_sub(region.base))
                && self.has_called::<A>(word)
            {
                return false;
            }
        }
        true
    }
}

pub(crate) fn frame(address: FrameAddress) -> Frame {
    match address {
        FrameAddress::InstructionPointer(address) => Frame::InstructionPointer(Avma(address)),
        FrameAddress::ReturnAddress(address) => Frame::ReturnAddress(Avma(address.get())),
    }
}

pub(crate) fn relative(address: FrameAddress, base: u64) -> Option<FrameAddress> {
    let relative = address.address().checked_sub(base)?;
    if address.is_return_address() {
        FrameAddress::from_return_address(relative)
    } else {
        Some(FrameAddress::InstructionPointer(relative))
    }
}
