//! Reads what `tests/fixtures/mach-o/make.py` writes.

use std::io::Read;
use std::path::Path;

use recording::stack::Registers;

/// The bytes that every fixture begins with.
const MAGIC: &[u8] = b"sprof mach-o trace 1\n";

/// A file of code, and where its `__TEXT` was loaded.
#[derive(Clone)]
pub(crate) struct LoadedImage {
    pub(crate) name: String,
    pub(crate) base: u64,
    pub(crate) file: Vec<u8>,
}

/// A caller, as the emulated processor went there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// It goes on at this address after a call.
    Called(u64),
    /// A signal interrupted it before this instruction.
    Interrupted(u64),
}

/// A thread before an instruction.
pub(crate) struct State<'a> {
    pub(crate) registers: Registers,
    /// From the stack pointer to the end of the stack.
    pub(crate) stack: &'a [u8],
    /// Root first.
    pub(crate) callers: &'a [Caller],
}

/// The run of a program.
pub(crate) struct Trace {
    is_aarch64: bool,
    pub(crate) images: Vec<LoadedImage>,
    stack_top: u64,
    events: Vec<u8>,
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    fn difference(&mut self, last: &mut u64) {
        let value = self.varint();
        let sign = (value & 1).wrapping_neg();
        *last = last.wrapping_add(value >> 1 ^ sign);
    }
}

impl Trace {
    pub(crate) fn read(path: &Path) -> Trace {
        let mut bytes = Vec::new();
        let packed = std::fs::File::open(path).unwrap();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let mut bytes = Bytes(bytes.strip_prefix(MAGIC).unwrap());
        let is_aarch64 = bytes.byte() == 1;
        let mut images = Vec::new();
        for _ in 0..bytes.byte() {
            let len = bytes.byte().into();
            let name = String::from_utf8(bytes.take(len).to_vec()).unwrap();
            let base = bytes.u64();
            let len = u32::from_le_bytes(bytes.take(4).try_into().unwrap()) as usize;
            let file = bytes.take(len).to_vec();
            images.push(LoadedImage { name, base, file });
        }
        Trace {
            is_aarch64,
            images,
            stack_top: bytes.u64(),
            events: bytes.0.to_vec(),
        }
    }

    /// Calls `each` for all states, in order.
    pub(crate) fn states(&self, mut each: impl FnMut(State<'_>)) {
        let mut stack = vec![0; 1 << 16];
        let mut callers = Vec::new();
        let (mut pc, mut sp, mut fp, mut lr) = (0, self.stack_top, 0, 0);
        let mut events = Bytes(&self.events);
        loop {
            match events.byte() {
                0 => return,
                1 => {
                    let at = stack.len() - events.varint() as usize * 8;
                    stack[at..at + 8].copy_from_slice(&events.varint().to_le_bytes());
                }
                2 => callers.push(Caller::Called(events.varint())),
                3 => assert!(matches!(callers.pop(), None | Some(Caller::Called(_)))),
                4 => callers.push(Caller::Interrupted(events.varint())),
                5 => while matches!(callers.pop(), Some(Caller::Called(_))) {},
                6 => {
                    events.difference(&mut pc);
                    events.difference(&mut sp);
                    events.difference(&mut fp);
                    events.difference(&mut lr);
                    each(State {
                        registers: match self.is_aarch64 {
                            true => Registers::Aarch64 { pc, sp, fp, lr },
                            false => Registers::X86_64 { ip: pc, sp, bp: fp },
                        },
                        stack: &stack[stack.len() - (self.stack_top - sp) as usize..],
                        callers: &callers,
                    });
                }
                tag => panic!("event {tag}"),
            }
        }
    }
}
