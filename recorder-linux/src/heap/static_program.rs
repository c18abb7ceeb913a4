//! Loads the library into a static program, which has no loader: while ptrace holds it at its first instruction.
//!
//! 1. The program is made to map the library's file, so that its mappings have a name as in other programs.
//! 2. Threads need `THREAD_BYTES` for the library. libc gives each thread a copy of the image that the program header
//!    `PT_TLS` describes, and reads that header from memory after this. So the header is changed to another image: room
//!    for the library, then the program's own. Code finds its thread variables from the end of them, which stays.
//! 3. The library is relocated. The program runs its `sprof_heap_start`, which asks for patches as in other programs.
//! 4. The program goes on from its first instruction with all of its registers.
//!
//! A static-pie relocates itself when it runs, its image of thread variables as well. The other image is relocated
//! here: in glibc's, the locale is a pointer.
//!
//! Only programs of x86_64 have patches, so this is for them alone.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use object::elf::{
    DT_RELA, DT_RELASZ, DT_RELR, DT_RELRSZ, PF_W, PF_X, PT_GNU_STACK, PT_INTERP, PT_LOAD, PT_TLS, ProgramHeader64,
    R_X86_64_RELATIVE, R_X86_64_TPOFF64,
};
use object::read::elf::{ElfFile64, ProgramHeader as _};
use object::{LittleEndian, Object as _, ObjectSymbol as _, ReadCache, RelocationFlags};
use recording::event::Pid;
use recording::regular_file;

use super::PRELOAD;
use super::patch::PatchPlan;
use super::patch_answers::PatchOutcome;
use super::program::{self, Elf};
use super::socket::ProgramMessage;
use crate::processes::launch::ExecStop;
use crate::sys::process::{Child, HeldProcess, Signal, Stopped};
use crate::sys::ptrace::{self, RegisterWords, Stop};

/// What the library has in each thread (`preload/sys/machine/mod.rs`), and its alignment.
const THREAD_BYTES: u64 = 64;
const PAGE: u64 = 4096;
/// Longer images and tables of relocations are not copied.
const MAX_PART: u64 = 16 << 20;
/// Functions of glibc and musl that read `PT_TLS` from memory. Of another libc, that is not known.
const LIBC_STARTS: [&str; 2] = ["__libc_setup_tls", "__init_tls"];

/// Indexes in `struct user_regs_struct` of x86_64.
const R9: usize = 8;
const R8: usize = 9;
const R10: usize = 7;
const RAX: usize = 10;
const RDX: usize = 12;
const RSI: usize = 13;
const RDI: usize = 14;
const ORIG_RAX: usize = 15;
const RIP: usize = 16;
const RSP: usize = 19;
/// asm/unistd_64.h.
const OPEN: u64 = 2;
const CLOSE: u64 = 3;
const MMAP: u64 = 9;
/// `syscall` and `int3`.
const CALL: [u8; 3] = [0x0f, 0x05, 0xcc];

/// A child that waits for its exec.
#[derive(Debug)]
pub struct StaticProgram {
    stop: ExecStop,
}

/// How a static program that sprof launches gets the library.
#[derive(Debug)]
pub(crate) struct StaticStart {
    library: PathBuf,
    /// Its executable, and what can be patched there.
    path: PathBuf,
    plan: Arc<PatchPlan>,
    messages: SyncSender<ProgramMessage>,
}

impl StaticStart {
    pub(super) fn new(
        library: PathBuf,
        path: &Path,
        plan: Arc<PatchPlan>,
        messages: SyncSender<ProgramMessage>,
    ) -> StaticStart {
        StaticStart {
            library,
            path: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            plan,
            messages,
        }
    }

    /// Lets the program start, as [`Stopped::start`] does.
    pub(crate) fn start(self, stopped: Stopped) -> io::Result<Child> {
        let pid = stopped.pid();
        let seized = StaticProgram::seize(pid);
        stopped.start_and(|| {
            let loaded = seized.and_then(|program| program.load(&self.library));
            self.note(pid, loaded);
        })
    }

    /// Loads the library into the program, which this thread traces, at its exec.
    pub(crate) fn load(self, pid: i32) {
        let loaded = load(pid, &self.library);
        self.note(pid, loaded);
    }

    fn note(self, pid: i32, loaded: Result<(), String>) {
        let Err(reason) = loaded else { return };
        let outcome = PatchOutcome {
            pid: Pid(pid),
            path: self.path,
            plan: self.plan,
            refused: Some(format!(
                "its start can't be changed ({reason}); linked dynamically, it is seen"
            )),
        };
        // The recorder takes them each round.
        let _ = self.messages.try_send(ProgramMessage::PatchOutcome(outcome));
    }
}

impl StaticProgram {
    /// Takes hold of a child that waits for its exec.
    ///
    /// # Errors
    ///
    /// The system refuses ptrace(2).
    pub fn seize(pid: i32) -> Result<StaticProgram, String> {
        let stop = ExecStop::seize(pid).map_err(|error| format!("ptrace: {error}"))?;
        Ok(StaticProgram { stop })
    }

    /// Waits for the exec, loads the library, and lets the program run. From the thread that has seized it.
    ///
    /// # Errors
    ///
    /// Why the library is not loaded. The program runs without it.
    pub fn load(self, library: &Path) -> Result<(), String> {
        let loaded = self.stop.at_exec(|pid| load(pid, library));
        loaded.map_err(|error| format!("waitid: {error}"))?.unwrap_or(Ok(()))
    }
}

/// Loads the library into a program that is stopped at its exec, and leaves it stopped. Whatever fails, the program
/// then goes on from its first instruction.
///
/// # Errors
///
/// Why the library is not loaded.
pub(crate) fn load(pid: i32, library: &Path) -> Result<(), String> {
    let executable = regular_file::open(Path::new(&format!("/proc/{pid}/exe")));
    let cache = ReadCache::new(executable.map_err(|error| format!("/proc/{pid}/exe: {error}"))?);
    let elf = program::parse(&cache).ok_or("its file can't be read")?;
    let has_known_libc = elf
        .symbols()
        .any(|symbol| symbol.name().is_ok_and(|name| LIBC_STARTS.contains(&name)));
    if !has_known_libc {
        return Err("its C library is neither glibc nor musl".to_owned());
    }
    let loaded = StoppedProgram::new(pid).and_then(|program| program.load(&elf, library));
    loaded.map_err(|error| format!("at its first instruction: {error}"))
}

/// A program at its first instruction. When this is dropped, it has the code and the registers that it had.
struct StoppedProgram {
    pid: i32,
    memory: File,
    registers: RegisterWords,
    /// What [`CALL`] stands in place of.
    code: [u8; CALL.len()],
    signal_mask: u64,
}

/// The thread variables of a program, with those of the library.
struct ThreadVariables {
    /// Address of the header in memory.
    header_at: u64,
    header: ProgramHeader64<LittleEndian>,
    image: Vec<u8>,
    /// Bytes of the library before the thread pointer.
    offset: u64,
}

impl StoppedProgram {
    /// A program at its exec.
    fn new(pid: i32) -> io::Result<StoppedProgram> {
        let mut memory = OpenOptions::new();
        let memory = memory.read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        // Before, execve would still write its result into a register.
        ptrace::finish_call(pid)?;
        wait_for_trap(pid)?;
        let registers = ptrace::register_words(pid)?.ok_or(io::ErrorKind::Unsupported)?;
        let mut code = [0; CALL.len()];
        memory.read_exact_at(&mut code, registers[RIP])?;
        // Signals wait; the kernel never lets SIGKILL and SIGSTOP. `int3` is a SIGTRAP.
        let signal_mask = ptrace::set_signal_mask(pid, !(1 << (libc::SIGTRAP - 1)))?;
        let program = StoppedProgram {
            pid,
            memory,
            registers,
            code,
            signal_mask,
        };
        program.write(registers[RIP], &CALL)?;
        Ok(program)
    }

    fn load(&self, elf: &Elf<'_>, library: &Path) -> io::Result<()> {
        let own = ElfFile64::<LittleEndian>::parse(PRELOAD).map_err(io::Error::other)?;
        let mut symbols = own.dynamic_symbols();
        let start = symbols.find(|symbol| symbol.name() == Ok("sprof_heap_start"));
        let start = start.ok_or(io::ErrorKind::NotFound)?.address();
        let [headers, entry] = self.auxiliary([libc::AT_PHDR, libc::AT_ENTRY])?;
        let bias = entry.wrapping_sub(elf.elf_header().e_entry.get(LittleEndian));
        let mut variables = self.thread_variables(elf, bias, headers)?;
        let [base, image] = self.map(&own, library, variables.image.len() as u64)?;
        self.relocate(&own, base, variables.offset)?;
        self.write(image, &variables.image)?;
        variables.header.p_vaddr.set(LittleEndian, image.wrapping_sub(bias));
        self.write(variables.header_at, object::pod::bytes_of(&variables.header))?;
        // Below what the kernel has put on the stack. It returns to `int3`.
        let [own_stack, returns_to] = [self.registers[RSP], self.registers[RIP] + 2];
        let stack = ((own_stack - PAGE) & !15) - 8;
        self.write(stack, &returns_to.to_le_bytes())?;
        self.run(&[(RIP, base + start), (RSP, stack), (RDI, own_stack), (RSI, bias)])?;
        Ok(())
    }

    /// Maps the library, and room behind it for the image. Returns the addresses of both.
    fn map(&self, own: &ElfFile64<'_, LittleEndian>, library: &Path, image: u64) -> io::Result<[u64; 2]> {
        let headers = own.elf_program_headers().iter();
        let segments = headers.filter(|header| header.p_type(LittleEndian) == PT_LOAD);
        let ends = segments
            .clone()
            .map(|part| part.p_vaddr(LittleEndian) + part.p_memsz(LittleEndian));
        let end = ends.max().unwrap_or(0).next_multiple_of(PAGE);
        let map = |at: u64, bytes: u64, protection: i32, how: i32, file: u64, offset: u64| {
            let [protection, how] = [protection, libc::MAP_PRIVATE | how].map(|flags| flags as u64);
            self.call(MMAP, [at, bytes, protection, how, file, offset])
        };
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        let base = map(0, end + image, read_write, libc::MAP_ANONYMOUS, u64::MAX, 0)?;
        let path_at = self.registers[RSP] - 2 * PAGE;
        let path = CString::new(library.as_os_str().as_bytes())?;
        self.write(path_at, path.as_bytes_with_nul())?;
        let file = self.call(OPEN, [path_at, (libc::O_RDONLY | libc::O_CLOEXEC) as u64, 0, 0, 0, 0])?;
        for segment in segments {
            let (at, in_file) = (segment.p_vaddr(LittleEndian), segment.p_filesz(LittleEndian));
            let (start, file_end) = (at & !(PAGE - 1), at + in_file);
            let offset = segment.p_offset(LittleEndian) & !(PAGE - 1);
            let flags = segment.p_flags(LittleEndian);
            let protection = if flags.contains(PF_W) {
                read_write
            } else {
                libc::PROT_READ
            } | if flags.contains(PF_X) { libc::PROT_EXEC } else { 0 };
            map(
                base + start,
                file_end - start,
                protection,
                libc::MAP_FIXED,
                file,
                offset,
            )?;
            if segment.p_memsz(LittleEndian) > in_file {
                let rest = file_end.next_multiple_of(PAGE) - file_end;
                self.write(base + file_end, &vec![0; rest as usize])?;
            }
        }
        self.call(CLOSE, [file, 0, 0, 0, 0, 0])?;
        Ok([base, base + end])
    }

    fn relocate(&self, own: &ElfFile64<'_, LittleEndian>, base: u64, thread_offset: u64) -> io::Result<()> {
        for (at, relocation) in own.dynamic_relocations().into_iter().flatten() {
            let addend = relocation.addend().cast_unsigned();
            let RelocationFlags::Elf { r_type } = relocation.flags() else {
                continue;
            };
            let value = match r_type {
                R_X86_64_RELATIVE => base.wrapping_add(addend),
                R_X86_64_TPOFF64 => addend.wrapping_sub(thread_offset),
                // The others are variables of loaders, which this program lacks.
                _ => 0,
            };
            self.write(base + at, &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// `headers_at`: address of the program headers in memory.
    fn thread_variables(&self, elf: &Elf<'_>, bias: u64, headers_at: u64) -> io::Result<ThreadVariables> {
        let unusual = || io::Error::other("its variables of threads are unusual");
        let headers = elf.elf_program_headers();
        let is = |kind| move |header: &ProgramHeader64<LittleEndian>| header.p_type(LittleEndian) == kind;
        if headers.iter().any(is(PT_INTERP)) {
            return Err(io::Error::other("it is not static any more"));
        }
        // musl's programs may have none. musl reads `PT_GNU_STACK` only for the size of stacks.
        let is_unused = |header: &_| is(PT_GNU_STACK)(header) && header.p_memsz(LittleEndian) == 0;
        let index = headers
            .iter()
            .position(is(PT_TLS))
            .or_else(|| headers.iter().position(is_unused));
        let index = index.ok_or_else(unusual)?;
        let header_at = headers_at + (size_of::<ProgramHeader64<LittleEndian>>() * index) as u64;
        let mut header = headers[index];
        let is_in_memory = self.read(header_at, size_of_val(&header))? == object::pod::bytes_of(&header);
        if !is(PT_TLS)(&header) {
            header.p_type.set(LittleEndian, PT_TLS);
            header.p_align.set(LittleEndian, THREAD_BYTES);
        }
        let (at, bytes, in_file) = (
            header.p_vaddr(LittleEndian),
            header.p_memsz(LittleEndian),
            header.p_filesz(LittleEndian),
        );
        let alignment = header.p_align(LittleEndian).max(1);
        let is_usual = alignment.is_power_of_two() && alignment <= PAGE && at.is_multiple_of(alignment);
        if !is_in_memory || !is_usual || in_file > bytes || bytes > MAX_PART {
            return Err(unusual());
        }
        // What the program has below the thread pointer, with the library below that.
        let used = bytes.next_multiple_of(alignment);
        let offset = (used + THREAD_BYTES).next_multiple_of(THREAD_BYTES);
        let more = (offset - used).next_multiple_of(alignment);
        let mut image = vec![0; more as usize];
        image.extend(self.relocated(elf, bias, at, in_file)?);
        header.p_memsz.set(LittleEndian, bytes + more);
        header.p_filesz.set(LittleEndian, in_file + more);
        Ok(ThreadVariables {
            header_at,
            header,
            image,
            offset,
        })
    }

    /// The bytes at an address of the file, as they are once the program has relocated itself.
    fn relocated(&self, elf: &Elf<'_>, bias: u64, at: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let mut image = self.read(bias.wrapping_add(at), bytes as usize)?;
        let Ok(dynamic) = elf.elf_dynamic_table() else {
            return Ok(image);
        };
        let value = |tag| dynamic.iter().find(|entry| entry.tag == tag).map(|entry| entry.val);
        let table = |table, bytes| match (value(table), value(bytes)) {
            (Some(table), Some(bytes)) => {
                let table = self.read(bias.wrapping_add(table), bytes.min(MAX_PART) as usize)?;
                Ok(words(&table))
            }
            _ => io::Result::Ok(Vec::new()),
        };
        let mut relocations = Vec::new();
        for &[offset, kind, addend] in table(DT_RELA, DT_RELASZ)?.as_chunks().0 {
            relocations.push((offset, Some((kind, addend))));
        }
        // A word with an address, or with a bit for each of the 63 words that follow.
        let mut next = 0_u64;
        for word in table(DT_RELR, DT_RELRSZ)? {
            if word & 1 == 0 {
                relocations.push((word, None));
                next = word.wrapping_add(8);
            } else {
                let bits = (1..64).filter(|bit| word >> bit & 1 == 1);
                relocations.extend(bits.map(|bit| (next.wrapping_add(8 * (bit - 1)), None)));
                next = next.wrapping_add(8 * 63);
            }
        }
        for (offset, relocation) in relocations {
            let first = offset.wrapping_sub(at);
            // It may begin before.
            if first >= bytes && first.wrapping_add(7) >= bytes {
                continue;
            }
            let word = image.get_mut(first as usize..).and_then(|rest| rest.first_chunk_mut());
            let stated = match (relocation, &word) {
                (None, Some(word)) => Some(u64::from_le_bytes(**word)),
                (Some((kind, addend)), _) if kind == u64::from(R_X86_64_RELATIVE.0) => Some(addend),
                _ => None,
            };
            let (Some(stated), Some(word)) = (stated, word) else {
                return Err(io::Error::other("its variables of threads have unusual relocations"));
            };
            *word = stated.wrapping_add(bias).to_le_bytes();
        }
        Ok(image)
    }

    /// Values of the auxiliary vector (getauxval(3)).
    fn auxiliary<const COUNT: usize>(&self, kinds: [u64; COUNT]) -> io::Result<[u64; COUNT]> {
        let vector = words(&fs::read(format!("/proc/{}/auxv", self.pid))?);
        let pairs = vector.as_chunks().0.iter();
        Ok(kinds.map(|kind| {
            let pair = pairs.clone().find(|[found, _]| *found == kind);
            pair.map_or(0, |[_, value]| *value)
        }))
    }

    fn read(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut read = vec![0; bytes];
        self.memory.read_exact_at(&mut read, at)?;
        Ok(read)
    }

    /// Also where the program itself may not write.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.memory.write_all_at(bytes, at)
    }

    /// Lets the program make a system call.
    fn call(&self, number: u64, args: [u64; 6]) -> io::Result<u64> {
        let registers = [RDI, RSI, RDX, R10, R8, R9].into_iter().zip(args);
        let registers = Vec::from_iter(registers.chain([(RAX, number)]));
        let result = self.run(&registers)?;
        match i32::try_from(result.wrapping_neg()) {
            Ok(error @ 1..4096) => Err(io::Error::from_raw_os_error(error)),
            _ => Ok(result),
        }
    }

    /// Lets the program run with these registers, and else with its own, up to `int3`. Returns rax.
    fn run(&self, changed: &[(usize, u64)]) -> io::Result<u64> {
        let mut registers = self.registers;
        // This is no system call that may have to be repeated.
        registers[ORIG_RAX] = u64::MAX;
        for (register, value) in changed {
            registers[*register] = *value;
        }
        ptrace::set_register_words(self.pid, &registers)?;
        ptrace::resume(self.pid, 0)?;
        wait_for_trap(self.pid)?;
        let registers = ptrace::register_words(self.pid)?.ok_or(io::ErrorKind::Unsupported)?;
        Ok(registers[RAX])
    }
}

impl Drop for StoppedProgram {
    fn drop(&mut self) {
        // It fails where the program was killed.
        let _ = self.write(self.registers[RIP], &self.code);
        let _ = ptrace::set_register_words(self.pid, &self.registers);
        let _ = ptrace::set_signal_mask(self.pid, self.signal_mask);
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.as_chunks().0.iter();
    words.map(|word| u64::from_le_bytes(*word)).collect()
}

/// Waits for a SIGTRAP.
fn wait_for_trap(pid: i32) -> io::Result<()> {
    let mut is_to_stop = false;
    let result = loop {
        match ptrace::wait_for_stop(pid)? {
            Some(Stop::Signal(libc::SIGTRAP)) => break Ok(()),
            Some(Stop::Signal(libc::SIGSTOP)) => is_to_stop = true,
            Some(Stop::Signal(signal)) => break Err(io::Error::other(format!("signal {signal}"))),
            Some(Stop::Trap | Stop::Group) => {}
            _ => break Err(io::Error::other("it was killed")),
        }
        ptrace::resume(pid, 0)?;
    };
    if is_to_stop && let Some(process) = HeldProcess::open(pid) {
        // Later.
        process.signal(Signal::STOP);
    }
    result
}
