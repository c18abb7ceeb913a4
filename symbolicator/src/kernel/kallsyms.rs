//! The running kernel's functions, from /proc/kallsyms.
//!
//! Relative address 0 of the kernel is its symbol `_text`, or `_stext` where kallsyms has no `_text`: absolute kernel
//! addresses exceed 2^53, and a profile's numbers are JSON. Modules lie above, at addresses that change with each boot.

use std::path::Path;

use names::symbol::{AddressInfo, FunctionSymbol};
use recording::module::{BuildId, Module};
use recording::proc::KernelSymbol;

use crate::cache::Cache;
use crate::error::SymbolError;
use crate::objects::extent::{self, EndEvidence};

const KALLSYMS: &str = "/proc/kallsyms";

/// ELF notes of the running kernel, its build id among them (Documentation/ABI/testing/sysfs-kernel-notes).
const NOTES: &str = "/sys/kernel/notes";

/// Largest table in bytes. A distribution kernel with all its modules loaded has about 12 MB.
const MAX_BYTES: u64 = 256 << 20;

/// The address that is relative address 0 of the kernel module of a recording.
///
/// `None` if the kernel hides its addresses from this user (kptr_restrict) or has no /proc/kallsyms.
pub fn kernel_text_base() -> Option<u64> {
    base_of_running().map(|(_, address)| address)
}

/// The symbol at relative address 0 of the running kernel.
pub(crate) fn base_symbol() -> Option<&'static str> {
    base_of_running().map(|(name, _)| name)
}

fn base_of_running() -> Option<(&'static str, u64)> {
    use std::io::BufRead;
    let file = std::fs::File::open(KALLSYMS).ok()?;
    let lines = std::io::BufReader::new(file)
        .lines()
        .take(100_000)
        .map_while(Result::ok);
    base(lines)
}

/// `_text`, or `_stext`: Debian's kernel for arm64, built without CONFIG_KALLSYMS_ALL, has only symbols from `_stext`
/// to `_etext`.
fn base(lines: impl Iterator<Item = impl AsRef<str>>) -> Option<(&'static str, u64)> {
    let mut start_of_code = None;
    for line in lines {
        let Some(symbol) = KernelSymbol::parse(line.as_ref()) else {
            continue;
        };
        match symbol.name {
            "_text" => return Some(("_text", symbol.address)).filter(|(_, base)| *base != 0),
            "_stext" => start_of_code = Some(symbol.address).filter(|base| *base != 0),
            // `_text` is not above `_stext`, and the kernel's own symbols are in order: the rest needs no look.
            _ if start_of_code.is_some_and(|start| symbol.address > start) => break,
            _ => {}
        }
    }
    Some(("_stext", start_of_code?))
}

/// The functions of the running kernel that `classify` accepts by name: (first address, end address, answer of
/// `classify`), absolute addresses. Empty if the kernel hides its addresses from this user, or kallsyms can't be read.
pub fn kernel_functions<T>(classify: impl Fn(&str) -> Option<T>) -> Vec<(u64, u64, T)> {
    read().map_or_else(|_| Vec::new(), |text| functions_of(&text, classify))
}

fn functions_of<T>(text: &str, classify: impl Fn(&str) -> Option<T>) -> Vec<(u64, u64, T)> {
    let is_code = |line: &KernelSymbol<'_>| line.is_function && line.address != 0;
    let mut lines: Vec<KernelSymbol<'_>> = text.lines().filter_map(KernelSymbol::parse).filter(is_code).collect();
    lines.sort_unstable_by_key(|line| line.address);
    let known = lines.iter().enumerate().filter_map(|(at, line)| {
        let what = classify(line.name)?;
        let next = lines[at..].iter().find(|next| next.address > line.address);
        let end = end(line.address, line.module, next.map(|next| (next.address, next.module)));
        Some((line.address, end, what))
    });
    known.collect()
}

/// One past the last address of a function, which kallsyms does not say. The list has all functions of the kernel and
/// of its modules, but a module's last one is followed by code and data of others.
fn end(start: u64, module: Option<&str>, next: Option<(u64, Option<&str>)>) -> u64 {
    let evidence = match next {
        Some((_, of_next)) if of_next == module => EndEvidence::AllFunctionsListed,
        _ => EndEvidence::Nothing,
    };
    extent::end(start, next.map_or(u64::MAX, |(next, _)| next), evidence)
}

/// The functions of the running kernel with one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFunctions {
    /// How many: several files and modules may have functions of the same name.
    pub count: usize,
    /// Size of the only one; `None` if the kernel hides its addresses.
    pub size_bytes: Option<u64>,
    /// A few names that contain the name: `name.isra.0`, `__name`.
    pub similar: Vec<String>,
}

const MAX_SIMILAR: usize = 5;

/// Looks up a function of the running kernel by name.
///
/// # Errors
///
/// /proc/kallsyms can't be read.
pub fn find_kernel_function(name: &str) -> Result<KernelFunctions, SymbolError> {
    Ok(named(&read()?, name))
}

fn named(text: &str, name: &str) -> KernelFunctions {
    let (same, others): (Vec<KernelSymbol<'_>>, Vec<KernelSymbol<'_>>) = text
        .lines()
        .filter_map(KernelSymbol::parse)
        .filter(|line| line.is_function && line.name.contains(name))
        .partition(|line| line.name == name);
    let mut similar: Vec<&str> = others.iter().map(|line| line.name).collect();
    similar.sort_unstable_by_key(|name| (name.len(), *name));
    similar.dedup();
    let range = functions_of(text, |found| (found == name).then_some(()))
        .into_iter()
        .next();
    KernelFunctions {
        count: same.len(),
        size_bytes: range.map(|(start, end, ())| end - start),
        similar: similar.into_iter().take(MAX_SIMILAR).map(str::to_owned).collect(),
    }
}

/// Reads kallsyms.
fn read() -> Result<String, SymbolError> {
    let mut text = String::new();
    std::fs::File::open(KALLSYMS)
        .and_then(|file| std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_BYTES), &mut text))
        .map_err(|error| SymbolError::unreadable(KALLSYMS, error))?;
    Ok(text)
}

/// The build id of the running kernel. `None` if it has none, or hides it from this user.
pub fn kernel_build_id() -> Option<BuildId> {
    build_id_in(&std::fs::read(NOTES).ok()?)
}

/// The build id among ELF notes.
pub(crate) fn build_id_in(notes: &[u8]) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let mut rest = notes;
    // Elf_Nhdr: three words (sizes of name and descriptor, type), then both, each padded to 4 bytes.
    while let Some((header, after)) = rest.split_first_chunk::<12>() {
        let word = |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (name_bytes, desc_bytes) = (word(0) as usize, word(4) as usize);
        let desc_at = name_bytes.checked_next_multiple_of(4)?;
        let name = after.get(..name_bytes)?;
        let desc = after.get(desc_at..desc_at.checked_add(desc_bytes)?)?;
        if word(8) == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return Some(BuildId(desc.to_vec()));
        }
        rest = after.get(desc_at.checked_add(desc_bytes.checked_next_multiple_of(4)?)?..)?;
    }
    None
}

struct KallsymsEntry {
    address: u64,
    /// (start, length) of the name in `names`, with ` [module]`.
    name: (u32, u32),
}

/// (function, module) of `nf_hook [nf_tables]`. Names of the kernel have no spaces.
fn parts(name: &str) -> Option<(&str, &str)> {
    let (name, module) = name.split_once(' ')?;
    Some((name, module.strip_prefix('[')?.strip_suffix(']')?))
}

/// The functions of the kernel and its modules.
pub(crate) struct KernelSymbols {
    /// By address, relative to `_text`.
    symbols: Vec<KallsymsEntry>,
    names: String,
    /// The end of the kernel's own code (`_etext`). What is below is the same at each boot of a build; modules and BPF
    /// programs come and go. 0 if it is not known.
    own_end: u64,
    /// False if only the kernel's own functions are here, and the others were not looked for.
    is_whole: bool,
}

impl KernelSymbols {
    /// Reads the functions, if the running kernel is the recorded one. It takes the kernel 50 ms to write its list: its
    /// own functions are kept in the cache.
    pub(crate) fn open(module: &Module, cache: Option<&Path>) -> Result<KernelSymbols, SymbolError> {
        let found = kernel_build_id();
        if let (Some(recorded), Some(found)) = (&module.build_id, &found)
            && recorded != found
        {
            return Err(SymbolError::Replaced {
                path: NOTES.into(),
                recorded: recorded.to_hex(),
                found: found.to_hex(),
            });
        }
        let entry = found.map(|id| format!("kernel-{}", id.to_hex()));
        let Some((cache, entry)) = cache.map(Cache::new).zip(entry) else {
            return KernelSymbols::from_text(&read()?);
        };
        if let Some(own) = cache.get(&entry).and_then(|bytes| KernelSymbols::from_entry(&bytes)) {
            return Ok(own);
        }
        let symbols = KernelSymbols::from_text(&read()?)?;
        if let Some(bytes) = symbols.entry() {
            // Without it the next start reads the list again.
            let _ = cache.put(&entry, &bytes);
        }
        Ok(symbols)
    }

    pub(crate) fn from_text(text: &str) -> Result<KernelSymbols, SymbolError> {
        let (_, base) = base(text.lines()).ok_or(SymbolError::KernelAddressesHidden)?;
        let mut own_end = 0;
        let mut functions: Vec<KernelSymbol<'_>> = text
            .lines()
            .filter_map(KernelSymbol::parse)
            .inspect(|line| {
                if line.name == "_etext" && line.module.is_none() {
                    own_end = line.address.saturating_sub(base);
                }
            })
            .filter(|line| line.is_function && line.address >= base)
            .collect();
        // Several names of an address: a global function before local and weak ones, then few leading underscores
        // (`_text` and `_stext` mark sections), then the shorter.
        let by_name = |line: &KernelSymbol<'_>| {
            let underscores = line.name.bytes().take_while(|byte| *byte == b'_').count();
            (!line.is_global, underscores, line.name.len())
        };
        // Stable: the kernel's own functions are in order, as one run.
        functions.sort_by(|a, b| {
            let by_address = a.address.cmp(&b.address);
            by_address.then_with(|| by_name(a).cmp(&by_name(b)).then(a.name.cmp(b.name)))
        });
        functions.dedup_by_key(|line| line.address);
        let mut names = String::new();
        let mut symbols = Vec::with_capacity(functions.len());
        for line in functions {
            let start = names.len();
            names.push_str(line.name);
            if let Some(module) = line.module {
                names.push(' ');
                names.push_str(module);
            }
            symbols.push(KallsymsEntry {
                address: line.address - base,
                // MAX_BYTES fits in 32 bits.
                name: (start as u32, (names.len() - start) as u32),
            });
        }
        Ok(KernelSymbols {
            symbols,
            names,
            own_end,
            is_whole: true,
        })
    }

    /// The kernel's own functions: their end, their number, then (address, length of the name) of each, and all names.
    fn entry(&self) -> Option<Vec<u8>> {
        let own = &self.symbols[..self.symbols.partition_point(|symbol| symbol.address < self.own_end)];
        let mut bytes = self.own_end.to_le_bytes().to_vec();
        bytes.extend(u32::try_from(own.len()).ok().filter(|count| *count > 0)?.to_le_bytes());
        for symbol in own {
            bytes.extend(u32::try_from(symbol.address).ok()?.to_le_bytes());
            bytes.extend(symbol.name.1.to_le_bytes());
        }
        for symbol in own {
            bytes.extend(self.name(symbol)?.as_bytes());
        }
        Some(bytes)
    }

    fn from_entry(bytes: &[u8]) -> Option<KernelSymbols> {
        let (own_end, rest) = bytes.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (table, names) = rest.split_at_checked(count.checked_mul(8)?)?;
        let (mut start, mut symbols) = (0u32, Vec::with_capacity(count));
        for row in table.as_chunks::<8>().0 {
            let (address, len) = row.split_first_chunk::<4>()?;
            let len = u32::from_le_bytes(len.try_into().ok()?);
            symbols.push(KallsymsEntry {
                address: u64::from(u32::from_le_bytes(*address)),
                name: (start, len),
            });
            start = start.checked_add(len)?;
        }
        let names = String::from_utf8(names.to_vec()).ok()?;
        let is_sorted = symbols.is_sorted_by_key(|symbol| symbol.address);
        (is_sorted && names.len() == start as usize).then_some(KernelSymbols {
            symbols,
            names,
            own_end: u64::from_le_bytes(*own_end),
            is_whole: false,
        })
    }

    /// Looks up relative addresses.
    pub(crate) fn lookup(&mut self, addresses: &[u64]) -> Vec<AddressInfo> {
        if !self.is_whole && addresses.iter().any(|address| *address >= self.own_end) {
            match read().and_then(|text| KernelSymbols::from_text(&text)) {
                Ok(whole) => *self = whole,
                // The list can no longer be read. The kernel's own functions still have names.
                Err(_) => self.is_whole = true,
            }
        }
        let info = |address: &u64| AddressInfo {
            function: self.find(*address),
            frames: Vec::new(),
        };
        addresses.iter().map(info).collect()
    }

    fn name(&self, symbol: &KallsymsEntry) -> Option<&str> {
        let (start, len) = (symbol.name.0 as usize, symbol.name.1 as usize);
        self.names.get(start..start.checked_add(len)?)
    }

    /// The module of a relative address, and the start of the function there.
    pub(crate) fn in_module(&self, address: u64) -> Option<(&str, u64)> {
        let symbol = self.symbol_at(address)?;
        let (_, module) = parts(self.name(symbol)?)?;
        Some((module, symbol.address))
    }

    /// The functions of a module: names and relative addresses.
    pub(crate) fn functions_in_module(&self, module: &str) -> impl Iterator<Item = (&str, u64)> {
        let own = self.symbols.partition_point(|symbol| symbol.address < self.own_end);
        self.symbols[own..].iter().filter_map(move |symbol| {
            let (name, its) = parts(self.name(symbol)?)?;
            (its == module).then_some((name, symbol.address))
        })
    }

    fn symbol_at(&self, address: u64) -> Option<&KallsymsEntry> {
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let symbol = self.symbols.get(after.checked_sub(1)?)?;
        let module_of = |symbol: &KallsymsEntry| parts(self.name(symbol)?).map(|(_, module)| module);
        let next = self.symbols.get(after).map(|next| (next.address, module_of(next)));
        // Of the kernel's own functions alone, the next one is `_etext`.
        let next = next.or((!self.is_whole).then_some((self.own_end, None)));
        (address < end(symbol.address, module_of(symbol), next)).then_some(symbol)
    }

    fn find(&self, address: u64) -> Option<FunctionSymbol> {
        let symbol = self.symbol_at(address)?;
        let name = self.name(symbol)?.to_owned();
        Some(FunctionSymbol::named(name, symbol.address, None))
    }
}

#[cfg(test)]
mod tests {
    use recording::module::{Module, ModuleKind};

    use super::KernelSymbols;

    const TEXT: &str = "\
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81000100 t helper
ffffffff81000200 D data
ffffffffc0201000 t nf_hook\t[nf_tables]
";

    fn name(symbols: &KernelSymbols, address: u64) -> Option<String> {
        symbols.find(address).map(|function| function.name)
    }

    #[test]
    fn the_kernels_own_functions_are_the_same_from_the_cache() {
        let text = format!("{TEXT}ffffffff81800000 T _etext\nffffffff81000300 T last\n");
        let whole = KernelSymbols::from_text(&text).unwrap();
        let bytes = whole.entry().unwrap();
        let own = KernelSymbols::from_entry(&bytes).unwrap();
        assert!(!own.is_whole && own.own_end == 0x80_0000);
        for address in [0, 0x100, 0x210, 0x300, 0x10_0000] {
            assert_eq!(name(&own, address), name(&whole, address), "{address:#x}");
        }
        assert_eq!(name(&own, 0x3f20_1004), None, "modules are looked up anew");
        for len in 0..bytes.len() {
            assert!(KernelSymbols::from_entry(&bytes[..len]).is_none(), "cut at {len}");
        }
        // Where the kernel's code ends is not known.
        assert!(KernelSymbols::from_text(TEXT).unwrap().entry().is_none());
    }

    #[test]
    fn the_running_kernel_has_the_same_names_from_the_cache() {
        if super::kernel_text_base().is_none() {
            println!("skipped: the kernel hides its addresses from this user");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let module = Module {
            kind: ModuleKind::Kernel,
            path: "[kernel.kallsyms]".into(),
            readable_path: None,
            build_id: super::kernel_build_id(),
            arch: None,
        };
        let mut bare = KernelSymbols::open(&module, None).unwrap();
        let own_end = bare.own_end;
        assert!(own_end > 1 << 20, "{own_end:#x}");
        let addresses: Vec<u64> = (0..own_end).step_by(4099).collect();
        let expected = bare.lookup(&addresses);
        let mut first = KernelSymbols::open(&module, Some(dir.path())).unwrap();
        assert!(first.is_whole && first.lookup(&addresses) == expected);
        let mut second = KernelSymbols::open(&module, Some(dir.path())).unwrap();
        assert!(second.lookup(&addresses) == expected);
        assert!(!second.is_whole, "it was not read again");
        let above = [own_end + 0x1000];
        assert_eq!(second.lookup(&above), bare.lookup(&above));
        assert!(second.is_whole);
    }

    #[test]
    fn functions_are_relative_to_text_and_modules_are_named() {
        let symbols = KernelSymbols::from_text(TEXT).unwrap();
        assert_eq!(name(&symbols, 0).as_deref(), Some("startup_64"));
        assert_eq!(name(&symbols, 0x210).as_deref(), Some("helper"));
        assert_eq!(name(&symbols, 0x3f20_1004).as_deref(), Some("nf_hook [nf_tables]"));
        // Far from any symbol: no guess.
        assert_eq!(name(&symbols, 0x2000_0000), None);
    }

    /// The first lines of Debian's 6.1 for arm64.
    #[test]
    fn a_kernel_without_text_begins_with_its_code() {
        let text = "ffffa59073810000 t bcm2835_handle_irq\nffffa59073810000 T _stext\n\
                    ffffa59073810000 T __irqentry_text_start\nffffa59073810050 t bcm2836_arm_irqchip_handle_irq\n";
        assert_eq!(super::base(text.lines()), Some(("_stext", 0xffff_a590_7381_0000)));
        let symbols = KernelSymbols::from_text(text).unwrap();
        assert_eq!(name(&symbols, 0x60).as_deref(), Some("bcm2836_arm_irqchip_handle_irq"));
        // Whichever of the two comes first at one address.
        let both = "ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000100 t helper\n";
        assert_eq!(super::base(both.lines()), Some(("_text", 0xffff_ffff_8100_0000)));
        assert_eq!(super::base("0000000000000000 T _stext\n".lines()), None);
    }

    #[test]
    fn functions_that_someone_knows_by_name_reach_to_the_next_symbol() {
        let known = |name: &str| (name == "helper" || name == "nf_hook").then_some(name.len());
        let (start, far) = (0xffff_ffff_8100_0100, 0xffff_ffff_c020_1000);
        // A module's last function has a few KiB: what is behind it is not on the list.
        assert_eq!(
            super::functions_of(TEXT, known),
            [(start, start + 4096, 6), (far, far + 4096, 7)]
        );
        let last = "ffffffff81800000 T _etext\nffffffffc0201800 t nf_last\t[nf_tables]\n";
        assert_eq!(
            super::functions_of(&format!("{TEXT}{last}"), known),
            [(start, start + (1 << 20), 6), (far, far + 0x800, 7)]
        );
        assert_eq!(super::functions_of("0000000000000000 T helper\n", known), []);
    }

    #[test]
    fn functions_are_counted_by_their_whole_name() {
        let found = |name: &str| super::named(TEXT, name);
        assert_eq!((found("helper").count, found("helper").size_bytes), (1, Some(4096)));
        assert_eq!(found("startup_64").size_bytes, Some(0x100));
        assert_eq!(
            (found("data").count, found("hook").count),
            (0, 0),
            "not code, not the whole name"
        );
        assert_eq!(found("hook").similar, ["nf_hook"]);
        let twice = format!("{TEXT}ffffffffc0300000 t helper\t[other]\n0000000000000000 t hidden\n");
        assert_eq!(super::named(&twice, "helper").count, 2);
        let hidden = super::named(&twice, "hidden");
        assert_eq!((hidden.count, hidden.size_bytes), (1, None));
    }

    #[test]
    fn hidden_addresses_are_an_error_that_names_the_setting() {
        let hidden = TEXT
            .replace("ffffffff81000", "0000000000000")
            .replace("ffffffffc0201", "0000000000000");
        let error = KernelSymbols::from_text(&hidden).err().unwrap().to_string();
        assert!(error.contains("kptr_restrict"), "{error}");
    }

    #[test]
    fn the_running_kernel_has_a_system_call_entry() {
        let Some(base) = super::kernel_text_base() else {
            println!("skipped: the kernel hides its addresses from this user");
            return;
        };
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap();
        let line = text.lines().find(|line| line.ends_with(" do_sys_openat2")).unwrap();
        let address = u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
        let symbols = KernelSymbols::from_text(&text).unwrap();
        assert_eq!(name(&symbols, address - base + 1).as_deref(), Some("do_sys_openat2"));
    }
}
