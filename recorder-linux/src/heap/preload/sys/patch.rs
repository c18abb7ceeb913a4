//! Patches of the allocator that is linked into the executable: the recorder computes them, and this file writes them.
//!
//! All of them are written, or none: an allocation without its free, or the other way round, would be wrong. There is
//! one thread, and its signals are blocked, so nobody runs what is half written.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::link_map::Library;
use super::machine::{slow_path, thread_offset};
use super::system::{READ_EXECUTE, READ_WRITE_EXECUTE};
use super::{connect, machine, system};
use crate::live::FILTER;
use crate::wire::{ANSWER_WORDS, Answer, Outcome, PATCH_CODE_BYTES, Question, WRITE_WORDS};

/// Segments of the executable with code, at most.
const MOST_SEGMENTS: usize = 4;
/// Distance of places where memory for code is tried: a power of two.
const STEP: usize = 16 << 20;
/// Nearer than 2 GiB, by what the largest executables have.
const MOST_STEPS: usize = 112;
/// Steps that are left free above an executable at a low address: there its heap grows (brk(2)).
const HEAP_STEPS: usize = 32;

/// Indexes in `wire::PATCH_STEPS`.
const THREADS: u32 = 1;
const NO_MEMORY: u32 = 2;
const NO_ANSWER: u32 = 3;
const BAD_ANSWER: u32 = 4;
const NOT_WRITTEN: u32 = 5;
const OTHER_CODE: u32 = 7;

/// The executable's file, as far as it matters here.
struct Executable {
    /// Start, length and protection of the code in memory; 0 if there is no more.
    code: [[usize; 3]; MOST_SEGMENTS],
    has_symbols: bool,
}

/// A write as the recorder sends it.
#[repr(C)]
struct Write {
    address: usize,
    bytes: usize,
    /// What to write, and what is there. Once it is written, the other way round.
    content: [u8; 8],
    before: [u8; 8],
}

const _: () = assert!(size_of::<Write>() == 8 * WRITE_WORDS);

/// Asks the recorder for patches of the executable, if there may be something to patch, and writes them. Returns
/// whether the executable is patched. A static executable is no `library`.
pub(super) fn patch_executable(library: Option<&Library>, bias: usize, has_allocator: bool) -> bool {
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    if !cfg!(target_arch = "x86_64") || IS_DONE.swap(true, Relaxed) {
        return false;
    }
    let Ok(file) = system::open(c"/proc/self/exe", false) else {
        return false;
    };
    let executable = Executable::read(file, library, bias);
    system::close(file);
    let Some(executable) = executable.filter(|executable| executable.has_symbols || has_allocator) else {
        return false;
    };
    let mask = system::set_signal_mask(u64::MAX);
    let is_patched = executable.patch(bias);
    system::set_signal_mask(mask);
    is_patched
}

impl Executable {
    /// `None`: the file is not what runs here, as when the loader was given the name of the program, or it is damaged.
    fn read(file: usize, library: Option<&Library>, bias: usize) -> Option<Executable> {
        // elf.h: `PT_LOAD` with `PF_R | PF_X` and maybe `PF_W`, `PT_DYNAMIC`, `SHT_SYMTAB`. The lower half of a word
        // comes first.
        const CODE: u32 = 1;
        const DYNAMIC: u32 = 2;
        const FLAGS: u32 = 5;
        const WRITE: u32 = 2;
        const SYMBOLS: u32 = 2;
        const ELF64_LITTLE_ENDIAN: u64 = u64::from_le_bytes(*b"\x7fELF\x02\x01\0\0");
        /// Headers that are read at once, and in all.
        const AT_ONCE: usize = 32;
        const MOST: usize = 512;
        let mut room = MaybeUninit::<[u64; 8]>::uninit();
        let header = system::read_words(file, &mut room, 0).first_chunk()?;
        let [magic, _, _, _, segments_at, sections_at, sizes, counts] = *header;
        let halves = |word: u64| [word, word >> 16, word >> 32, word >> 48].map(|half| usize::from(half as u16));
        let ([_, _, _, segment_bytes], [segments, section_bytes, sections, _]) = (halves(sizes), halves(counts));
        if magic & 0xffff_ffff_ffff != ELF64_LITTLE_ENDIAN || segment_bytes != 56 || segments > AT_ONCE {
            return None;
        }
        let mut room = MaybeUninit::<[u64; 7 * AT_ONCE]>::uninit();
        let table = system::read_words(file, &mut room, segments_at);
        let mut code = [[0; 3]; MOST_SEGMENTS];
        let mut places = code.iter_mut();
        let mut is_own = library.is_none();
        for segment in table.as_chunks().0.iter().take(segments) {
            let [kind, _, address, _, _, bytes, _] = *segment;
            let (kind, flags) = (kind as u32, (kind >> 32) as u32);
            let address = bias.wrapping_add(address as usize);
            if kind == DYNAMIC {
                is_own = library.is_none_or(|library| library.has_dynamic_section(address));
            } else if kind == CODE && flags & FLAGS == FLAGS {
                let is_writable = flags & WRITE != 0;
                let protection = if is_writable { READ_WRITE_EXECUTE } else { READ_EXECUTE };
                *places.next()? = [address, bytes as usize, protection];
            }
        }
        let mut has_symbols = false;
        if section_bytes == 64 {
            for first in (0..sections.min(MOST)).step_by(AT_ONCE) {
                let mut room = MaybeUninit::<[u64; 8 * AT_ONCE]>::uninit();
                let table = system::read_words(file, &mut room, sections_at.saturating_add(64 * first as u64));
                let headers = table.as_chunks::<8>().0.iter().take(sections - first);
                has_symbols |= headers
                    .map(|[kind, ..]| (kind >> 32) as u32)
                    .any(|kind| kind == SYMBOLS);
            }
        }
        is_own.then_some(Executable { code, has_symbols })
    }

    fn patch(&self, bias: usize) -> bool {
        let Some(socket) = connect::open_socket() else {
            return false;
        };
        let patched = if system::threads() == Some(1) {
            self.ask_and_write(socket, bias)
        } else {
            Err((THREADS, 0))
        };
        // Where there is nothing to patch, nobody waits for an outcome.
        if patched != Ok(false) {
            let (refused_step, error) = patched.err().unwrap_or_default();
            let words = Outcome { refused_step, error }.to_words();
            system::send(socket, &words, None);
        }
        system::close(socket);
        patched == Ok(true)
    }

    /// Returns whether there was something to patch. An error is a step of `wire::PATCH_STEPS` with its error number.
    fn ask_and_write(&self, socket: usize, bias: usize) -> Result<bool, (u32, u32)> {
        let memory = self.map_near().ok_or((NO_MEMORY, 0))?;
        let writes = memory + PATCH_CODE_BYTES;
        let result = match ask(socket, bias, memory, writes) {
            Ok(Answer { code_bytes: 0, .. }) => Ok(false),
            Ok(answer) => self.write(memory, writes, answer.writes as usize).map(|()| true),
            Err(error) => Err(error),
        };
        match result {
            Ok(true) => system::unmap(writes, PATCH_CODE_BYTES),
            _ => system::unmap(memory, 2 * PATCH_CODE_BYTES),
        }
        result
    }

    /// Maps memory for code and for writes.
    fn map_near(&self) -> Option<usize> {
        let [code, ..] = self.code.first()?;
        let code = code & !(STEP - 1);
        let below = (1..=MOST_STEPS).map(|steps| code.checked_sub(steps * STEP));
        let above = (HEAP_STEPS..=MOST_STEPS)
            .rev()
            .map(|steps| code.checked_add(steps * STEP));
        let mut places = below.chain(above).flatten();
        places.find_map(|place| system::map_at(place, 2 * PATCH_CODE_BYTES))
    }

    fn write(&self, code: usize, writes: usize, count: usize) -> Result<(), (u32, u32)> {
        // SAFETY: the answer has that many words there, any bytes are a `Write`, and nobody else knows the place.
        let writes = unsafe { core::slice::from_raw_parts_mut(writes as *mut Write, count) };
        if !writes.iter().all(|write| self.protection_at(write).is_some()) {
            return Err((BAD_ANSWER, 0));
        }
        // A breakpoint of a debugger, which later puts back what it took, or a change by another tool.
        if !writes.iter().all(Write::is_as_in_file) {
            return Err((OTHER_CODE, 0));
        }
        system::protect(code, PATCH_CODE_BYTES, READ_EXECUTE).map_err(|error| (NOT_WRITTEN, error))?;
        // Pages that are both written and executed are not allowed everywhere, and neither is this file.
        let file = system::open(c"/proc/self/mem", true).ok();
        let mut written = Ok(());
        let mut done = 0;
        for write in writes.iter_mut() {
            // SAFETY: it is in the executable's code.
            written = unsafe { write.exchange(file, self.protection_at(write).unwrap_or(READ_EXECUTE)) };
            if written.is_err() {
                break;
            }
            done += 1;
        }
        if written.is_err() {
            for write in writes.iter_mut().take(done) {
                // SAFETY: the same.
                let _ = unsafe { write.exchange(file, self.protection_at(write).unwrap_or(READ_EXECUTE)) };
            }
        }
        if let Some(file) = file {
            system::close(file);
        }
        written.map_err(|error| (NOT_WRITTEN, error))
    }

    /// The protection of the code that a write changes. `None`: it would change something else.
    fn protection_at(&self, write: &Write) -> Option<usize> {
        let has = |[start, length, _]: &&[usize; 3]| {
            let offset = write.address.wrapping_sub(*start);
            offset < *length && write.bytes <= length - offset
        };
        let is_possible = (1..=size_of_val(&write.content)).contains(&write.bytes);
        let [.., protection] = self.code.iter().filter(|_| is_possible).find(has)?;
        Some(*protection)
    }
}

impl Write {
    /// Whether nobody has changed the place, which is code of the executable.
    fn is_as_in_file(&self) -> bool {
        let mut now = [0; 8];
        // SAFETY: code can be read, and the place has at most 8 bytes.
        unsafe { machine::copy(self.address as *const u8, now.as_mut_ptr(), self.bytes) };
        now.iter()
            .zip(&self.before)
            .take(self.bytes)
            .all(|(now, before)| now == before)
    }

    /// Writes the content. Its page then has the protection that it has without this.
    ///
    /// # Safety
    ///
    /// The place is code that nobody runs, and the content is code as well.
    unsafe fn exchange(&mut self, memory_file: Option<usize>, protection: usize) -> Result<(), u32> {
        let content = self.content.get(..self.bytes).unwrap_or_default();
        let write = |file| system::write_bytes(file, content, self.address) == Ok(self.bytes);
        if !memory_file.is_some_and(write) {
            // Never without the right to execute: this thread may run in the same page.
            system::protect(self.address, self.bytes, READ_WRITE_EXECUTE)?;
            // SAFETY: the place can be written now.
            unsafe { machine::copy(content.as_ptr(), self.address as *mut u8, self.bytes) };
            let _ = system::protect(self.address, self.bytes, protection);
        }
        core::mem::swap(&mut self.content, &mut self.before);
        Ok(())
    }
}

/// Asks for the code and the writes, which come into `memory` and `writes`.
fn ask(socket: usize, bias: usize, memory: usize, writes: usize) -> Result<Answer, (u32, u32)> {
    let question = Question {
        bias: bias as u64,
        code: memory as u64,
        countdown: thread_offset() as i64,
        slow: slow_path as *const () as u64,
        filter: FILTER.as_ptr() as u64,
    };
    // SAFETY: there is room for what `Answer::from_words` lets pass.
    let receive = |to: usize, words| unsafe { words == 0 || system::receive(socket, to as *mut u64, words) };
    let mut start = [0; ANSWER_WORDS];
    let has_start =
        system::send(socket, &question.to_words(), None) && receive(start.as_mut_ptr() as usize, ANSWER_WORDS);
    if !has_start {
        return Err((NO_ANSWER, 0));
    }
    let answer = Answer::from_words(start).ok_or((BAD_ANSWER, 0))?;
    let (code_words, write_words) = (answer.code_bytes as usize / 8, answer.writes as usize * WRITE_WORDS);
    match receive(memory, code_words) && receive(writes, write_words) {
        true => Ok(answer),
        false => Err((NO_ANSWER, 0)),
    }
}
