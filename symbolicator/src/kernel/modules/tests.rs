//! A module is made as the kernel's are: relocatable, of two files, with a build id. addr2line reads the same file by
//! section and offset.

use std::collections::BTreeMap;
use std::process::Command;

use names::symbol::SourceFrame;
use object::SectionKind;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

mod limits;

/// Where the kernel runs, and where it has loaded the sections of the module, one after the other.
const RUNS: u64 = 0xffff_ffff_a3c0_0000;
const LOADED: u64 = 0xffff_ffff_c020_1000;
const SECTION_BYTES: u64 = 0x10_0000;

/// A system's root with a loaded module whose debug info is installed.
pub(crate) struct System {
    pub(crate) root: TempDir,
    file: PathBuf,
    /// (name, size, relative address) of each function, and where it lies in the file: (section, offset).
    pub(crate) functions: Vec<(String, u64, u64, (String, u64))>,
}

fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let done = Command::new(program).args(arguments).output().ok()?;
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {errors}");
    Some(String::from_utf8(done.stdout).unwrap())
}

/// `None` where the compiler is not installed.
pub(crate) fn system(compiler: &str, linker: &str, flags: &[&str]) -> Option<System> {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name).display().to_string();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/kernel_module.c");
    for (define, object) in [("-DFIRST", "first.o"), ("-DSECOND", "second.o")] {
        let own = [
            "-O2",
            "-fno-pic",
            "-fno-ipa-cp",
            define,
            "-c",
            source,
            "-o",
            &path(object),
        ];
        run(compiler, &[&own, flags].concat())?;
    }
    let folder = root.path().join("usr/lib/debug/lib/modules/6.1.0-9/kernel/net");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("made-up.ko");
    let ko = file.to_str().unwrap();
    run(
        linker,
        &["-r", "--build-id", &path("first.o"), &path("second.o"), "-o", ko],
    )?;
    if flags.contains(&"-gz=zlib") {
        // `ld -r` has unpacked the sections.
        run("objcopy", &["--compress-debug-sections=zlib", ko])?;
    }
    let bytes = std::fs::read(&file).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let notes = root.path().join("sys/module/made_up/notes");
    std::fs::create_dir_all(&notes).unwrap();
    let note = object.section_by_name(".note.gnu.build-id").unwrap().data().unwrap();
    std::fs::write(notes.join(".note.gnu.build-id"), note).unwrap();
    std::fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
    std::fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.1.0-9\n").unwrap();
    let functions = object.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
    let functions = functions.map(|symbol| {
        let section = symbol.section_index().unwrap();
        let name = object.section_by_index(section).unwrap().name().unwrap().to_owned();
        let start = LOADED - RUNS + section.0 as u64 * SECTION_BYTES + symbol.address();
        let place = (name, symbol.address());
        (symbol.name().unwrap().to_owned(), symbol.size(), start, place)
    });
    let functions = functions.collect();
    Some(System { root, file, functions })
}

impl System {
    pub(crate) fn running(&self) -> KernelSymbols {
        self.running_with(&[("made_up", 0)])
    }

    /// With modules that have the same functions, each so far behind the loaded one.
    fn running_with(&self, modules: &[(&str, u64)]) -> KernelSymbols {
        let mut text = format!("{RUNS:x} T _text\n{:x} T _etext\n", RUNS + 0x1000);
        for (module, moved) in modules {
            for (name, _, start, _) in &self.functions {
                text.push_str(&format!("{:x} t {name}\t[{module}]\n", RUNS + start + moved));
            }
        }
        KernelSymbols::from_text(&text).unwrap()
    }

    fn modules(&self) -> KernelModules {
        KernelModules::new(self.root.path(), &SymbolOptions::default())
    }

    /// The answers for all bytes of a function.
    fn look_up(&self, modules: &mut KernelModules, start: u64, size: u64) -> Vec<AddressInfo> {
        let addresses: Vec<u64> = (start..start + size).collect();
        let mut running = self.running();
        let mut infos = running.lookup(&addresses);
        modules.add_to(&mut infos, &addresses, &running);
        infos
    }

    fn all(&self, modules: &mut KernelModules) -> Vec<AddressInfo> {
        let functions = self.functions.iter();
        functions
            .flat_map(|(_, size, start, _)| self.look_up(modules, *start, *size))
            .collect()
    }
}

/// (function, file, line), innermost first.
type Frames = Vec<(String, String, Option<u32>)>;

/// What addr2line finds for offsets in a section.
fn expected(addr2line: &str, file: &Path, section: &str, offsets: impl Iterator<Item = u64>) -> Vec<Frames> {
    let offsets: Vec<String> = offsets.map(|offset| format!("{offset:#x}")).collect();
    let mut arguments = vec!["-a", "-f", "-i", "-e", file.to_str().unwrap(), "-j", section];
    arguments.extend(offsets.iter().map(String::as_str));
    let text = run(addr2line, &arguments).unwrap();
    let mut all: Vec<Frames> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        // `file.c:7 (discriminator 2)`; the line is `?` for the compiler's own code.
        let place = lines.next().unwrap().split(" (").next().unwrap();
        let (file, row) = place.rsplit_once(':').unwrap();
        all.last_mut()
            .unwrap()
            .push((line.to_owned(), file.to_owned(), row.parse().ok()));
    }
    all
}

fn found(frames: &[SourceFrame]) -> Frames {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let frames = frames.iter();
    frames
        .map(|frame| {
            (
                text(&frame.function).replace(" [made_up]", ""),
                text(&frame.file),
                frame.line,
            )
        })
        .collect()
}

#[test]
fn frames_of_modules_are_those_of_addr2line() {
    let function_sections = "-ffunction-sections";
    for (compiler, prefix, flags) in [
        ("cc", "", &["-gdwarf-5"][..]),
        ("cc", "", &["-gdwarf-4", function_sections]),
        ("cc", "", &["-g", "-gz=zlib"]),
        ("clang", "", &["-gdwarf-5", function_sections]),
        ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-", &["-gdwarf-5"]),
        ("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-", &["-gdwarf-4"]),
    ] {
        let Some(system) = system(compiler, &format!("{prefix}ld"), flags) else {
            println!("skipped: no {compiler}");
            continue;
        };
        let mut modules = system.modules();
        let mut with_inlined = 0;
        for (name, size, start, (section, offset)) in &system.functions {
            let infos = system.look_up(&mut modules, *start, *size);
            let whole_name = format!("{name} [made_up]");
            assert!(
                infos
                    .iter()
                    .all(|info| info.function.as_ref().unwrap().name == whole_name)
            );
            let offsets = *offset..offset + size;
            let addr2line = format!("{prefix}addr2line");
            for (at, (info, expected)) in infos
                .iter()
                .zip(expected(&addr2line, &system.file, section, offsets))
                .enumerate()
            {
                // Both functions of this name are in the section: nothing else shows where the section lies.
                if name == "twice" && flags.contains(&function_sections) {
                    assert_eq!(info.frames, []);
                    continue;
                }
                let mut expected = expected;
                expected.last_mut().unwrap().0.clone_from(name);
                assert_eq!(found(&info.frames), expected, "{compiler} {flags:?} {name}+{at:#x}");
                with_inlined += usize::from(expected.len() == 3);
            }
        }
        assert_eq!(modules.notes(), [""; 0]);
        assert!(with_inlined > 5 && modules.held_bytes() > 1000, "{with_inlined}");
    }
}

#[test]
fn a_module_of_another_build_is_not_used() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let note = system.root.path().join("sys/module/made_up/notes/.note.gnu.build-id");
    let mut bytes = std::fs::read(&note).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&note, bytes).unwrap();
    let mut modules = system.modules();
    assert!(system.all(&mut modules).iter().all(|info| info.frames.is_empty()));
    let notes = modules.notes().concat();
    assert!(notes.contains("made-up.ko is not the loaded module"), "{notes}");
    assert_eq!(modules.damage(), [""; 0]);
    // The kernel does not say which build it has loaded.
    std::fs::remove_file(&note).unwrap();
    let mut modules = system.modules();
    assert!(system.all(&mut modules).iter().all(|info| info.frames.is_empty()));
}

/// A copy of a file as a program packs it.
fn pack(program: &str, suffix: &str, file: &Path) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    std::fs::copy(file, &copy).unwrap();
    run(program, &["-q", copy.to_str().unwrap()])?;
    Some(std::fs::read(copy.with_extension(suffix)).unwrap())
}

#[test]
fn modules_are_found_where_distributions_and_users_have_them() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let expected = system.all(&mut system.modules());
    assert!(expected.iter().all(|info| !info.frames.is_empty()));
    let bytes = std::fs::read(&system.file).unwrap();
    let packed = |program, suffix| Some((suffix, pack(program, suffix, &system.file)?));
    let packed: Vec<(&str, Vec<u8>)> = [packed("gzip", "gz"), packed("xz", "xz"), packed("zstd", "zst")]
        .into_iter()
        .flatten()
        .collect();
    std::fs::remove_file(&system.file).unwrap();
    let root = system.root.path();
    let installed = root.join("lib/modules/6.1.0-9/extra");
    std::fs::create_dir_all(&installed).unwrap();
    let id = ObjectFile::from_bytes(Path::new("made-up.ko"), bytes.clone()).unwrap();
    let hex = id.build_id().unwrap().to_hex();
    let by_id = root.join(format!("own/.build-id/{}", &hex[..2]));
    std::fs::create_dir_all(&by_id).unwrap();
    let options = SymbolOptions {
        symbol_dirs: vec![root.join("own")],
        ..SymbolOptions::default()
    };
    let plain = [
        installed.join("made_up.ko"),
        root.join("own/made_up.ko.debug"),
        by_id.join(format!("{}.debug", &hex[2..])),
    ];
    let packed = packed
        .iter()
        .map(|(suffix, bytes)| (installed.join(format!("made-up.ko.{suffix}")), bytes));
    for (file, bytes) in plain.into_iter().map(|file| (file, &bytes)).chain(packed) {
        std::fs::write(&file, bytes).unwrap();
        let mut modules = KernelModules::new(root, &options);
        let found = system.all(&mut modules);
        // Sources have the same paths.
        assert!(found == expected, "{}", file.display());
        std::fs::remove_file(&file).unwrap();
    }
    assert!(
        system
            .all(&mut KernelModules::new(root, &options))
            .iter()
            .all(|info| info.frames.is_empty())
    );
}

/// Unpacking takes 20 ms for each module of a distribution, which has no debug info.
#[test]
fn a_packed_module_without_debug_info_is_unpacked_once() {
    let Some(system) = system("cc", "ld", &["-g0"]) else {
        return;
    };
    let Some(bytes) = pack("gzip", "gz", &system.file) else {
        return;
    };
    let packed = system.file.with_extension("ko.gz");
    std::fs::write(&packed, bytes).unwrap();
    let cache = tempfile::tempdir().unwrap();
    let options = SymbolOptions {
        cache: Some(cache.path().to_owned()),
        ..SymbolOptions::default()
    };
    let modules = || KernelModules::new(system.root.path(), &options);
    let entries = || std::fs::read_dir(cache.path()).unwrap().count();
    assert!(system.all(&mut modules()).iter().all(|info| info.frames.is_empty()));
    assert_eq!(entries(), 1);
    let id = ObjectFile::open(&system.file).unwrap().build_id().cloned().unwrap();
    assert!(modules().read(&packed, &id).unwrap().is_none());
    // Another file at its place is read.
    std::fs::write(&packed, "no module").unwrap();
    assert!(modules().read(&packed, &id).is_err());
}

#[test]
fn a_module_with_debug_info_in_a_form_that_is_not_read_hides_no_other() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let expected = system.all(&mut system.modules());
    let installed = system.root.path().join("lib/modules/6.1.0-9");
    std::fs::create_dir_all(&installed).unwrap();
    std::fs::copy(&system.file, installed.join("made-up.ko")).unwrap();
    let rename = [
        "--rename-section",
        ".debug_info=.zdebug_info",
        system.file.to_str().unwrap(),
    ];
    if run("objcopy", &rename).is_none() {
        return;
    }
    let id = ObjectFile::open(&system.file).unwrap().build_id().cloned().unwrap();
    assert!(system.modules().read(&system.file, &id).unwrap().is_none());
    assert!(system.all(&mut system.modules()) == expected);
}

#[test]
fn names_of_several_functions_are_decided_by_the_others_of_their_section() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let twice = || system.functions.iter().filter(|function| function.0 == "twice");
    assert_eq!(twice().count(), 2);
    // The same list as if the section lay elsewhere for one function: nothing is known of the section.
    let file = relocatable::lay_out(&ObjectFile::open(&system.file).unwrap(), 0).unwrap();
    let mut listed: Vec<(&str, u64)> = system
        .functions
        .iter()
        .map(|function| (&*function.0, function.2))
        .collect();
    let known = functions(&file, listed.clone());
    assert_eq!(known.len(), listed.len());
    assert_ne!(
        known[&twice().next().unwrap().2],
        known[&twice().next_back().unwrap().2]
    );
    let other = listed.iter_mut().find(|function| function.0 == "other").unwrap();
    other.1 += 8;
    let contradicted = functions(&file, listed);
    let code = |place: &(String, u64)| place.0 == ".text";
    for (_, _, start, place) in &system.functions {
        assert_eq!(contradicted.contains_key(start), !code(place));
    }
}

/// (file offset, bytes) of the parts that say where code is, without the build id.
fn parts(bytes: &[u8]) -> BTreeMap<String, (u64, u64)> {
    let object = object::File::parse(bytes).unwrap();
    let is_part = |name: &str| [".rela.debug", ".debug", "tab"].iter().any(|part| name.contains(part));
    let mut parts: BTreeMap<String, (u64, u64)> = object
        .sections()
        .filter(|section| section.kind() != SectionKind::UninitializedData)
        .filter_map(|section| Some((section.name().unwrap().to_owned(), section.file_range()?)))
        .filter(|(name, (_, size))| is_part(name) && *size > 0)
        .collect();
    // sh_name to sh_entsize of all sections: e_shoff in elf(5).
    let headers = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
    parts.insert("headers".to_owned(), (headers, bytes.len() as u64 - headers));
    parts
}

#[test]
fn relocations_that_cannot_be_are_damage_of_their_module() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let bytes = std::fs::read(&system.file).unwrap();
    let (rela, _) = parts(&bytes)[".rela.debug_info"];
    let rela = rela as usize;
    // Elf64_Rela: r_offset, then type and symbol, then r_addend.
    for (at, with, why) in [
        (rela, 0xffff_ffff_u64.to_le_bytes(), "is outside of its section"),
        (rela, u64::MAX.to_le_bytes(), "is outside of its section"),
        (
            rela + 8,
            (0xffff_u64 << 32 | 10).to_le_bytes(),
            "is to a symbol that does not exist",
        ),
        // R_X86_64_GOTPCREL.
        (rela + 8, (1_u64 << 32 | 9).to_le_bytes(), "is of an unknown kind"),
        (rela + 16, i64::MIN.to_le_bytes(), "has a value of more than 32 bits"),
    ] {
        let mut damaged = bytes.clone();
        damaged[at..at + 8].copy_from_slice(&with);
        std::fs::write(&system.file, damaged).unwrap();
        let mut modules = system.modules();
        let infos = system.all(&mut modules);
        assert!(
            infos
                .iter()
                .all(|info| info.frames.is_empty() && info.function.is_some())
        );
        let damage = modules.damage().concat();
        assert!(
            damage.contains("made-up.ko: section .debug_info: the relocation") && damage.contains(why),
            "{damage}"
        );
    }
}

proptest! {
    // The same cases in each run.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(300)
    })]

    /// Names stay; frames are less, or of other lines. A file of 9 KB does not make much more of itself.
    #[test]
    fn damaged_modules_cost_no_more_than_their_frames(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        static SYSTEM: std::sync::OnceLock<Option<(System, Vec<u8>)>> = std::sync::OnceLock::new();
        let made = SYSTEM.get_or_init(|| {
            let system = system("cc", "ld", &["-g", "-ffunction-sections"])?;
            let bytes = std::fs::read(&system.file).unwrap();
            Some((system, bytes))
        });
        let Some((system, bytes)) = made else { return Ok(()) };
        let parts: Vec<(u64, u64)> = parts(bytes).into_values().collect();
        let mut damaged = bytes.clone();
        for (part, at, value) in damage {
            let (start, size) = *part.get(&parts);
            damaged[start as usize + at.index(size as usize)] = value;
        }
        if let Some(cut) = cut {
            damaged.truncate(cut.index(damaged.len()));
        }
        std::fs::write(&system.file, damaged).unwrap();
        let mut modules = system.modules();
        for info in system.all(&mut modules) {
            prop_assert!(info.function.is_some_and(|function| function.name.ends_with(" [made_up]")));
        }
        prop_assert!(modules.held_bytes() < 4 << 20, "{}", modules.held_bytes());
    }
}
