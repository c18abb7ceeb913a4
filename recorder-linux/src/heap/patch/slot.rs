//! The code for one entry: see [`super::SLOT_BYTES`].

use super::displaced::Displaced;
use super::functions::{CallClass, CallSignature, KnownFunction};
use super::{PatchAddresses, SLOT_BYTES};
use crate::heap::wire;

/// Where the entry without the counting is in a slot.
pub(super) const CONTINUATION: usize = 128;
const STUB: usize = 192;
const DESCRIPTOR: usize = 224;
/// mov [rsp - 8], rax; mov [rsp - 16], r11: at a function's entry nothing is there.
const SAVE: [u8; 10] = [0x48, 0x89, 0x44, 0x24, 0xf8, 0x4c, 0x89, 0x5c, 0x24, 0xf0];
/// Numbers of rdi, rsi, rdx, rcx, r8 and r9 in instructions.
const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
/// In a descriptor: no argument.
const NO_ARGUMENT: u8 = 255;

/// A slot for any place.
#[derive(Clone, Debug)]
pub(super) struct PatchSlot {
    code: Vec<u8>,
    /// What depends on the place.
    references: Vec<SlotReference>,
    /// Offsets in the slot, ascending, and the instruction of the function that has the same stack.
    originals: Vec<(usize, u64)>,
}

/// Bytes of a slot that depend on the place.
#[derive(Clone, Copy, Debug)]
struct SlotReference {
    /// Offset in the slot.
    at: usize,
    to: SlotValue,
}

#[derive(Clone, Copy, Debug)]
enum SlotValue {
    /// The offset of the countdown, 4 bytes.
    Countdown,
    /// The address of the slow path, 8 bytes.
    SlowPath,
    /// The address of the filter, 8 bytes.
    Filter,
    /// The address of this offset in the slot, 8 bytes.
    InSlot(usize),
    /// The distance to an address in the file, from the end of the instruction: that many bytes follow these 4.
    File(usize, u64),
    /// The distance from the end of these 4 bytes to the continuation of another slot.
    Continuation(usize),
}

impl PatchSlot {
    /// The slot of a function. `slot_of` has the slots of entries. `None`: the instructions have no room.
    pub(super) fn new(
        function: &KnownFunction,
        call: CallSignature,
        displaced: &Displaced,
        slot_of: impl Fn(u64) -> Option<usize>,
    ) -> Option<PatchSlot> {
        let mut slot = PatchSlot {
            code: Vec::with_capacity(SLOT_BYTES),
            references: Vec::new(),
            originals: vec![(0, displaced.start)],
        };
        slot.count(call);
        slot.go_on(displaced, &slot_of);
        slot.fill_to(CONTINUATION)?;
        slot.go_on(displaced, &slot_of);
        slot.fill_to(STUB)?;
        slot.originals.push((STUB, displaced.start));
        if !uses_registers(call) {
            slot.push(&SAVE);
        }
        // mov r11, descriptor; mov rax, slow; jmp rax
        slot.push(&[0x49, 0xbb]);
        slot.refer(SlotValue::InSlot(DESCRIPTOR), 8);
        slot.push(&[0x48, 0xb8]);
        slot.refer(SlotValue::SlowPath, 8);
        slot.push(&[0xff, 0xe0]);
        slot.fill_to(DESCRIPTOR)?;
        slot.refer(SlotValue::InSlot(CONTINUATION), 8);
        slot.push(&[
            call.class as u8,
            call.size,
            call.multiplier.unwrap_or(NO_ARGUMENT),
            call.pointer,
        ]);
        slot.push(&(wire::FUNCTIONS.len() as u32 + function.index).to_le_bytes());
        slot.push(&[0; 16]);
        (slot.code.len() == SLOT_BYTES).then_some(slot)
    }

    /// Counts as the entries of the library do, and goes to the stub where that ends.
    fn count(&mut self, call: CallSignature) {
        if uses_registers(call) {
            self.push(&SAVE);
        }
        let register = |argument: u8| ARGUMENTS.get(usize::from(argument)).copied().unwrap_or_default();
        if call.class != CallClass::Free {
            let mut size = register(call.size);
            if let Some(multiplier) = call.multiplier.map(register) {
                // mov r11, size; imul r11, multiplier
                self.push(&[0x49 | (size >> 3) << 2, 0x89, 0xc3 | (size & 7) << 3]);
                self.push(&[0x4c | multiplier >> 3, 0x0f, 0xaf, 0xd8 | multiplier & 7]);
                size = 11;
            }
            // sub fs:[countdown], size; jbe stub; js stub
            self.push(&[0x64, 0x48 | (size >> 3) << 2, 0x29, 0x04 | (size & 7) << 3, 0x25]);
            self.refer(SlotValue::Countdown, 4);
            self.jump_to_stub(0x86);
            self.jump_to_stub(0x88);
        }
        if [CallClass::Free, CallClass::Reallocate].contains(&call.class) {
            let pointer = register(call.pointer);
            // As `FILTER_SHIFTS` of the library (`preload/live.rs`).
            // mov rax, pointer; shr rax, 6; mov r11, pointer; shr r11, 15; xor eax, r11d; movzx eax, ax
            self.push(&[0x48 | (pointer >> 3) << 2, 0x89, 0xc0 | (pointer & 7) << 3]);
            self.push(&[0x48, 0xc1, 0xe8, 6]);
            self.push(&[0x49 | (pointer >> 3) << 2, 0x89, 0xc3 | (pointer & 7) << 3]);
            self.push(&[0x49, 0xc1, 0xeb, 15, 0x44, 0x31, 0xd8, 0x0f, 0xb7, 0xc0]);
            // mov r11, filter; cmp byte [r11 + rax], 0; jne stub
            self.push(&[0x49, 0xbb]);
            self.refer(SlotValue::Filter, 8);
            self.push(&[0x41, 0x80, 0x3c, 0x03, 0]);
            self.jump_to_stub(0x85);
        }
        if uses_registers(call) {
            // mov rax, [rsp - 8]; mov r11, [rsp - 16]
            self.push(&[0x48, 0x8b, 0x44, 0x24, 0xf8, 0x4c, 0x8b, 0x5c, 0x24, 0xf0]);
        }
    }

    /// Does what was displaced, and goes back.
    fn go_on(&mut self, displaced: &Displaced, slot_of: &impl Fn(u64) -> Option<usize>) {
        for instruction in &displaced.instructions {
            let start = self.code.len();
            self.originals.push((start, instruction.address));
            self.push(&instruction.bytes);
            if let Some((at, address)) = instruction.refers_to {
                let behind = instruction.bytes.len() - at - 4;
                let to = match slot_of(address).filter(|_| instruction.is_jump) {
                    Some(slot) => SlotValue::Continuation(slot),
                    None => SlotValue::File(behind, address),
                };
                self.references.push(SlotReference { at: start + at, to });
            }
        }
        self.originals.push((self.code.len(), displaced.end));
        self.push(&[0xe9]);
        self.refer(SlotValue::File(0, displaced.end), 4);
    }

    fn push(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }

    fn refer(&mut self, to: SlotValue, bytes: usize) {
        let at = self.code.len();
        self.references.push(SlotReference { at, to });
        self.code.resize(at + bytes, 0);
    }

    /// A conditional jump (the second byte of its opcode) to the stub.
    fn jump_to_stub(&mut self, opcode: u8) {
        let distance = STUB as i32 - (self.code.len() as i32 + 6);
        self.push(&[0x0f, opcode]);
        self.push(&distance.to_le_bytes());
    }

    /// Nothing runs to there.
    fn fill_to(&mut self, offset: usize) -> Option<()> {
        // int3
        (self.code.len() <= offset).then(|| self.code.resize(offset, 0xcc))
    }

    /// The code at its place. `None`: it is too far from something.
    pub(super) fn place(&self, index: usize, at: &PatchAddresses) -> Option<Vec<u8>> {
        let start = slot_address(index, at);
        let mut code = self.code.clone();
        for reference in &self.references {
            let place = start + reference.at as u64;
            let bytes = match reference.to {
                SlotValue::Countdown => at.countdown.to_le_bytes().to_vec(),
                SlotValue::SlowPath => at.slow.to_le_bytes().to_vec(),
                SlotValue::Filter => at.filter.to_le_bytes().to_vec(),
                SlotValue::InSlot(offset) => (start + offset as u64).to_le_bytes().to_vec(),
                SlotValue::File(behind, address) => {
                    let end = place + 4 + behind as u64;
                    distance(end, address.wrapping_add(at.bias))?.to_vec()
                }
                SlotValue::Continuation(slot) => distance(place + 4, continuation_address(slot, at))?.to_vec(),
            };
            code.get_mut(reference.at..reference.at + bytes.len())?
                .copy_from_slice(&bytes);
        }
        Some(code)
    }

    /// The address in the file of the instruction with the same stack.
    pub(super) fn original(&self, offset: usize) -> Option<u64> {
        let after = self.originals.partition_point(|(at, _)| *at <= offset);
        Some(self.originals.get(after.checked_sub(1)?)?.1)
    }
}

/// Whether the counting uses rax and r11. The caller may want them back.
fn uses_registers(call: CallSignature) -> bool {
    call.class != CallClass::Allocate && call.class != CallClass::PosixMemalign || call.multiplier.is_some()
}

/// Where a slot is.
pub(super) fn slot_address(index: usize, at: &PatchAddresses) -> u64 {
    at.code.wrapping_add((SLOT_BYTES * index) as u64)
}

/// Where a slot's entry without the counting is.
pub(super) fn continuation_address(index: usize, at: &PatchAddresses) -> u64 {
    slot_address(index, at).wrapping_add(CONTINUATION as u64)
}

/// What a jump states that ends at `end`.
pub(super) fn distance(end: u64, target: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(target.wrapping_sub(end).cast_signed()).ok()?;
    Some(distance.to_le_bytes())
}
