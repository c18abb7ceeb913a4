//! What ELF files and their debug info say, against programs whose lines are known.

use crate::common::{self, build, function, have, module, run, symbolicator};
use names::symbol::{AddressInfo, FunctionSymbol, SourceFrame};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use symbolicator::SymbolError;

fn all_addresses((start, size): (u64, u64)) -> Vec<u64> {
    (start..start + size).collect()
}

/// What is known of a function without symbols.
fn unnamed((start, size): (u64, u64)) -> AddressInfo {
    AddressInfo {
        function: Some(FunctionSymbol::unnamed(&(start..start + size))),
        frames: Vec::new(),
    }
}

/// (function, line) of each frame, innermost first.
fn shape(info: &AddressInfo) -> Vec<(String, u32)> {
    let shape = |frame: &SourceFrame| (frame.function.clone().unwrap_or_default(), frame.line.unwrap_or(0));
    info.frames.iter().map(shape).collect()
}

fn assert_c_inlines(flags: &[&str]) {
    assert_c_inlines_in(&build("inline.c", flags), flags);
}

fn assert_c_inlines_in(built: &common::Built, flags: &[&str]) {
    let outer = function(&built.path, "_outer");
    let infos = symbolicator(&[])
        .lookup(&module(&built.path), &all_addresses(outer))
        .unwrap();
    // inline.c: `innermost` (line 7) is inlined into `middle` at line 12, that into `_outer` at line 17.
    let expected = [("innermost", 7), ("middle", 12), ("_outer", 17)].map(|(name, line)| (name.to_owned(), line));
    let deepest = infos.iter().find(|info| info.frames.len() == 3);
    let deepest = deepest.unwrap_or_else(|| panic!("no inline frames with {flags:?}: {infos:?}"));
    assert_eq!(shape(deepest), expected, "{flags:?}");
    for frame in &deepest.frames {
        assert_eq!(frame.file.as_deref(), common::source("inline.c").to_str(), "{flags:?}");
    }
    for info in &infos {
        let function = info.function.as_ref().unwrap();
        assert_eq!(
            (function.name.as_str(), function.start, function.size),
            ("_outer", outer.0, Some(outer.1))
        );
        assert_eq!(info.frames.last().unwrap().function.as_deref(), Some("_outer"));
    }
}

#[test]
fn c_inline_frames_from_dwarf_4() {
    assert_c_inlines(&["-O2", "-gdwarf-4"]);
}

#[test]
fn c_inline_frames_from_dwarf_5() {
    assert_c_inlines(&["-O2", "-gdwarf-5"]);
}

#[test]
fn c_inline_frames_from_compressed_sections() {
    assert_c_inlines(&["-O2", "-g", "-gz=zlib"]);
    assert_c_inlines(&["-O2", "-g", "-gz=zlib-gnu"]);
}

/// gcc 12 has no `-gz=zstd`; binutils 2.40 has.
#[test]
fn c_inline_frames_from_sections_compressed_with_zstd() {
    let built = build("inline.c", &["-O2", "-g3"]);
    common::run("objcopy", &[&"--compress-debug-sections=zstd", &built.path]);
    let bytes = std::fs::read(&built.path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let mut sections = object.sections().filter_map(|section| section.compressed_data().ok());
    let is_zstd = |data: object::CompressedData| data.format == object::CompressionFormat::Zstandard;
    assert!(sections.any(is_zstd), "objcopy compressed nothing");
    assert_c_inlines_in(&built, &["-g3", "zstd"]);
}

#[test]
fn c_inline_frames_in_a_program_at_a_fixed_address() {
    assert_c_inlines(&["-O2", "-g", "-no-pie", "-static"]);
}

#[test]
fn c_inline_frames_from_split_dwarf() {
    assert_c_inlines(&["-O2", "-gdwarf-5", "-gsplit-dwarf"]);
    assert_c_inlines(&["-O2", "-gdwarf-4", "-gsplit-dwarf"]);
}

#[test]
fn a_function_without_a_name_is_known_by_its_unwind_rules() {
    let built = build("inline.c", &["-O2"]);
    let (start, size) = function(&built.path, "_outer");
    common::run("strip", &[&built.path]);
    let symbols = symbolicator(&[]);
    let infos = symbols
        .lookup(
            &module(&built.path),
            &[start, start + size - 1, start + size, start - 1],
        )
        .unwrap();
    let [first, last, next, before] = infos.as_slice() else {
        panic!("{infos:?}")
    };
    let symbol = first.function.as_ref().unwrap();
    assert_eq!(
        (symbol.name.as_str(), symbol.start, symbol.size),
        (format!("fun_{start:x}").as_str(), start, Some(size))
    );
    assert!(!first.is_named());
    assert_eq!(first, last);
    assert_ne!(first, next);
    assert_ne!(first, before);
}

#[test]
fn a_symbol_without_a_size_names_its_own_code_alone() {
    if !cfg!(target_arch = "x86_64") {
        return common::skip("the program is of assembly for x86_64");
    }
    let built = build("sizeless.s", &["-shared", "-nostdlib"]);
    let bytes = std::fs::read(&built.path).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    let start = |name: &str| {
        let mut symbols = object.symbols();
        symbols.find(|symbol| symbol.name() == Ok(name)).unwrap().address()
    };
    let (tiny, branches, table) = (start("tiny_exported"), start("with_branches"), start("by_table"));
    let (behind, end, after) = (start("behind_branches"), start("at_the_end"), start("after"));
    let local = start("local_loop");
    assert!(
        object
            .symbols()
            .all(|symbol| symbol.size() == 0 || symbol.name() == Ok("after"))
    );
    common::run("strip", &[&built.path]);
    let at = [
        tiny,
        tiny + 5,
        tiny + 6,
        tiny + 17,
        local,
        local + 4,
        branches,
        branches + 5003,
        behind - 1,
        behind,
        table,
        table + 1801,
        end + 5,
        after,
    ];
    let infos = symbolicator(&[]).lookup(&module(&built.path), &at).unwrap();
    let names: Vec<String> = infos.iter().map(|info| info.function.clone().unwrap().name).collect();
    let fun = |start: u64| format!("fun_{start:x}");
    let expected = [
        "tiny_exported",
        "tiny_exported",
        &fun(tiny + 6),
        &fun(tiny + 12),
        &fun(local),
        &fun(local),
        "with_branches",
        "with_branches",
        "with_branches",
        &fun(behind),
        "by_table",
        "by_table",
        "at_the_end",
        &fun(after),
    ];
    assert_eq!(names, expected);
    for (info, name) in infos.iter().zip(names) {
        assert_eq!(info.is_named(), !name.starts_with("fun_"), "{name}");
    }
    // In any order, and each by itself.
    for (address, info) in at.iter().zip(&infos).rev() {
        assert_eq!(
            symbolicator(&[]).lookup(&module(&built.path), &[*address]).unwrap()[0],
            *info
        );
    }
}

/// As `sstrip` and `strip --strip-section-headers` leave a file: what a loader needs, and no section headers.
#[test]
fn without_section_headers_exported_functions_have_names() {
    for style in ["sysv", "gnu"] {
        let hash = format!("-Wl,--hash-style={style}");
        let built = build("inline.c", &["-O2", "-shared", "-fPIC", &hash]);
        let (start, size) = function(&built.path, "_outer");
        let mut bytes = std::fs::read(&built.path).unwrap();
        let whole = module(&built.path);
        // e_shoff, e_shnum, e_shstrndx of `Elf64_Ehdr`.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        let end = object::File::parse(&*bytes).unwrap();
        let end = end
            .segments()
            .map(|segment| segment.file_range())
            .map(|(offset, size)| offset + size)
            .max();
        bytes.truncate(end.unwrap() as usize);
        std::fs::write(&built.path, &bytes).unwrap();
        let module = module(&built.path);
        assert!(module.build_id.is_some() && module.build_id == whole.build_id);
        let infos = symbolicator(&[])
            .lookup(&module, &[start, start + size - 1, start + size])
            .unwrap();
        let names = infos
            .iter()
            .map(|info| info.function.as_ref().map(|function| &*function.name));
        let names: Vec<Option<&str>> = names.collect();
        assert_eq!(names[..2], [Some("_outer"); 2], "{style}");
        assert_ne!(names[2], Some("_outer"), "{style}");
    }
}

#[test]
fn cpp_names_come_from_linkage_names() {
    let built = build("inline.cc", &["-O2", "-g"]);
    let outer = function(&built.path, "5outer");
    let infos = symbolicator(&[])
        .lookup(&module(&built.path), &all_addresses(outer))
        .unwrap();
    // inline.cc: `Box<long>::put` (line 10) is inlined into `outer` at line 16.
    let deepest = infos.iter().find(|info| info.frames.len() == 2).unwrap();
    let expected = [
        ("space::Box<long>::put(int) const".to_owned(), 10),
        ("space::outer(int, space::Box<long> const&)".to_owned(), 16),
    ];
    assert_eq!(shape(deepest), expected);
}

#[test]
fn rust_names_have_generics_and_no_hash() {
    for mangling in ["legacy", "v0"] {
        let mangling_flag = format!("-Csymbol-mangling-version={mangling}");
        let built = build("inline.rs", &["-O", "-g", "-Zunstable-options", &mangling_flag]);
        let outer = function(&built.path, "5outer");
        let infos = symbolicator(&[])
            .lookup(&module(&built.path), &all_addresses(outer))
            .unwrap();
        // inline.rs: `Bag<u32>::weigh` (line 9) is inlined into `outer` at line 16. Functions of `core` may be inlined
        // below.
        let weigh = match mangling {
            "v0" => "inline::Bag<u32>::weigh",
            _ => "inline::Bag<T>::weigh",
        };
        let expected = [(weigh.to_owned(), 9), ("inline::outer".to_owned(), 16)];
        assert!(
            infos.iter().any(|info| shape(info).ends_with(&expected)),
            "{mangling}: {:?}",
            infos.iter().map(shape).collect::<Vec<_>>()
        );
        // Functions of `core` that are inlined here are of `core`, by their symbol and by their source.
        let frames = || infos.iter().flat_map(|info| &info.frames);
        for frame in frames() {
            let name = frame.function.as_deref().unwrap();
            let expected = if name.starts_with("inline::") { "inline" } else { "core" };
            assert_eq!(frame.krate.as_deref(), Some(expected), "{mangling}: {name}");
        }
        assert!(frames().any(|frame| frame.krate.as_deref() == Some("core")));
        let function = infos[0].function.as_ref().unwrap();
        assert_eq!(function.krate.as_deref(), Some("inline"));
    }
}

#[test]
fn rust_functions_have_their_path_with_any_debug_info() {
    // The beginning of the symbol and a part of it, and the name.
    let legacy = [
        ("_ZN", "5merge17h", "paths::Table<T>::merge"),
        ("_ZN", "2go17h", "<u32 as paths::Work>::go"),
        ("_ZN", "7generic17h", "paths::generic"),
        // The state machine of an `async fn`, a block in it, and a closure.
        ("_ZN5paths5fetch28_$u7b$$u7b$closure$u7d$$u7d$17h", "", "paths::fetch"),
        (
            "_ZN5paths5fetch28_$u7b$$u7b$closure$u7d$$u7d$28_",
            "",
            "paths::fetch::{closure}::{async_block}",
        ),
        (
            "_ZN5paths4main28_$u7b$$u7b$closure$u7d$$u7d$17h",
            "",
            "paths::main::{closure}",
        ),
    ];
    let v0 = [
        ("_RNvM", "5merge", "paths::Table<u32>::merge"),
        ("_RNvX", "2go", "<u32 as paths::Work>::go"),
        ("_RINv", "5paths7generic", "paths::generic<u32>"),
        ("_RNCNv", "5fetch0", "paths::fetch"),
        ("_RNCNCNv", "5fetch00", "paths::fetch::{closure#0}::{async_block#0}"),
        ("_RNCNv", "4main0", "paths::main::{closure#0}"),
    ];
    for (mangling, expected) in [("legacy", legacy), ("v0", v0)] {
        for debug_info in ["line-tables-only", "limited", "full"] {
            let mangling_flag = format!("-Csymbol-mangling-version={mangling}");
            let debug_flag = format!("-Cdebuginfo={debug_info}");
            let flags = [
                "--edition=2024",
                "-Copt-level=1",
                "-Zunstable-options",
                &mangling_flag,
                &debug_flag,
            ];
            let built = build("paths.rs", &flags);
            let bytes = std::fs::read(&built.path).unwrap();
            let object = object::File::parse(&*bytes).unwrap();
            let base = object.relative_address_base();
            for (begin, part, name) in expected {
                let is_it = |symbol: &str| symbol.starts_with(begin) && symbol.contains(part);
                let symbol = object.symbols().find(|symbol| symbol.name().is_ok_and(is_it)).unwrap();
                let start = symbol.address() - base;
                let infos = symbolicator(&[]).lookup(&module(&built.path), &[start]).unwrap();
                let found = infos[0].frames.last().and_then(|frame| frame.function.as_deref());
                assert_eq!(found, Some(name), "{mangling}, {debug_info}");
            }
        }
    }
}

#[test]
fn without_debug_info_the_symbol_table_names_functions() {
    let built = build("inline.c", &["-O2", "-g0"]);
    let outer = function(&built.path, "_outer");
    let infos = symbolicator(&[])
        .lookup(&module(&built.path), &[outer.0 + 1, outer.0 + outer.1, u64::MAX])
        .unwrap();
    let function = infos[0].function.as_ref().unwrap();
    assert_eq!((function.name.as_str(), function.size), ("_outer", Some(outer.1)));
    assert!(infos[0].frames.is_empty());
    // One past the end is padding, and no address is no function.
    assert_eq!(infos[1].function, None);
    assert_eq!(infos[2], AddressInfo::default());
}

#[test]
fn linkage_stubs_are_named_after_their_function() {
    let built = build("inline.c", &["-O2", "-g0"]);
    let main = function(&built.path, "main");
    // Every address below main in .plt and .plt.sec: one of them is the stub of puts.
    let infos = symbolicator(&[])
        .lookup(&module(&built.path), &(0..main.0).step_by(8).collect::<Vec<_>>())
        .unwrap();
    let names: Vec<_> = infos.iter().filter_map(|info| info.function.as_ref()).collect();
    assert!(names.iter().any(|function| function.name == "puts@plt"), "{names:?}");
}

/// The relocations of such stubs have no symbol, but the address of the function's resolver (R_X86_64_IRELATIVE,
/// R_AARCH64_IRELATIVE).
#[test]
fn linkage_stubs_of_functions_that_are_chosen_at_start_have_their_name() {
    for flags in [
        &["-O1"][..],
        &["-O1", "-Wl,-z,now"],
        &["-O1", "-no-pie"],
        &["-O1", "-static"],
        &["-O1", "-static-pie"],
        &["-O1", "-fcf-protection=full", "-Wl,-z,ibtplt"],
    ] {
        if cfg!(not(target_arch = "x86_64")) && flags.len() == 3 {
            continue;
        }
        let built = build("resolved.c", flags);
        let bytes = std::fs::read(&built.path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let base = object.segments().map(|segment| segment.address()).min().unwrap();
        let sections = object
            .sections()
            .filter(|section| section.name().unwrap().contains("plt"));
        let sections = sections.filter(|section| !section.name().unwrap().contains("got.plt"));
        let addresses = sections.filter(|section| section.address() > 0).flat_map(|section| {
            let start = section.address() - base;
            start..start + section.size()
        });
        let addresses: Vec<u64> = addresses.collect();
        let infos = symbolicator(&[]).lookup(&module(&built.path), &addresses).unwrap();
        let mut stubs: Vec<_> = infos.into_iter().filter_map(|info| info.function).collect();
        stubs.dedup();
        for name in ["chosen@plt", "chosen_here@plt"] {
            let found = stubs.iter().filter(|stub| stub.name == name).count();
            assert_eq!(found, 1, "{name}, {flags:?}: {stubs:?}");
        }
        // The resolver itself keeps its name.
        let resolver = function(&built.path, "pick");
        let infos = symbolicator(&[]).lookup(&module(&built.path), &[resolver.0]).unwrap();
        assert_eq!(infos[0].function.as_ref().unwrap().name, "pick", "{flags:?}");
    }
}

#[test]
fn a_rebuilt_program_is_refused_with_both_ids() {
    let built = build("inline.c", &["-O2", "-g"]);
    let recorded = module(&built.path);
    common::build_at("inline.c", &["-O1", "-g"], &built.path);
    let found = module(&built.path);
    let error = symbolicator(&[]).lookup(&recorded, &[0x1000]).unwrap_err();
    assert!(matches!(error, SymbolError::Replaced { .. }), "{error}");
    let text = error.to_string();
    for part in [
        recorded.build_id.unwrap().to_hex(),
        found.build_id.unwrap().to_hex(),
        built.path.display().to_string(),
    ] {
        assert!(text.contains(&part), "{part} is in: {text}");
    }
}

#[test]
fn a_program_rebuilt_between_two_look_ups_is_noticed() {
    let built = build("inline.c", &["-O2", "-g"]);
    let recorded = module(&built.path);
    let outer = function(&built.path, "_outer");
    let symbolicator = symbolicator(&[]);
    assert!(symbolicator.lookup(&recorded, &[outer.0]).is_ok());
    // Written in place, as `cp` does: same inode, other bytes.
    let other = build("inline.cc", &["-O2", "-g"]);
    std::fs::write(&built.path, std::fs::read(&other.path).unwrap()).unwrap();
    let error = symbolicator.lookup(&recorded, &[outer.0]).unwrap_err();
    assert!(matches!(error, SymbolError::Replaced { .. }), "{error}");
}

#[test]
fn the_old_file_in_a_symbol_folder_is_used() {
    let built = build("inline.c", &["-O2", "-g"]);
    let recorded = module(&built.path);
    let outer = function(&built.path, "_outer");
    let kept = tempfile::tempdir().unwrap();
    std::fs::copy(&built.path, kept.path().join("program")).unwrap();
    common::build_at("inline.c", &["-O1", "-g"], &built.path);
    let infos = symbolicator(&[kept.path()]).lookup(&recorded, &[outer.0]).unwrap();
    assert_eq!(infos[0].function.as_ref().unwrap().name, "_outer");
}

#[test]
fn a_file_that_is_gone_is_an_error_with_the_paths_tried() {
    let built = build("inline.c", &["-O2", "-g"]);
    let recorded = module(&built.path);
    std::fs::remove_file(&built.path).unwrap();
    let error = symbolicator(&[]).lookup(&recorded, &[0x1000]).unwrap_err();
    assert!(error.to_string().contains(built.path.to_str().unwrap()), "{error}");
    assert!(error.to_string().contains("--symbol-dir"), "{error}");
}

/// Strips a program; its debug info goes to `debug`.
fn separate(built: &common::Built, debug: &std::path::Path) {
    std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
    common::run("objcopy", &[&"--only-keep-debug", &built.path, &debug]);
    common::run("strip", &[&"--strip-all", &built.path]);
}

fn assert_separate_debug_file_is_used(built: &common::Built, outer: (u64, u64), dirs: &[&std::path::Path]) {
    let infos = symbolicator(dirs)
        .lookup(&module(&built.path), &all_addresses(outer))
        .unwrap();
    assert!(infos.iter().any(|info| info.frames.len() == 3), "{infos:?}");
    assert_eq!(infos[0].function.as_ref().unwrap().name, "_outer");
}

#[test]
fn separate_debug_info_by_debug_link() {
    if !common::have("objcopy") {
        return;
    }
    let built = build("inline.c", &["-O2", "-g"]);
    let outer = function(&built.path, "_outer");
    let debug = built.dir.path().join(".debug").join("elsewhere.debug");
    separate(&built, &debug);
    common::run(
        "objcopy",
        &[&format!("--add-gnu-debuglink={}", debug.display()), &built.path],
    );
    assert_separate_debug_file_is_used(&built, outer, &[]);
}

#[test]
fn separate_debug_info_by_build_id() {
    if !common::have("objcopy") {
        return;
    }
    let built = build("inline.c", &["-O2", "-g"]);
    let outer = function(&built.path, "_outer");
    let id = module(&built.path).build_id.unwrap().to_hex();
    let dir = tempfile::tempdir().unwrap();
    let debug = dir
        .path()
        .join(".build-id")
        .join(&id[..2])
        .join(format!("{}.debug", &id[2..]));
    separate(&built, &debug);
    assert_separate_debug_file_is_used(&built, outer, &[dir.path()]);
}

/// As Fedora's find-debuginfo does: what `.dynsym` lacks, without debug info, packed by xz.
#[test]
fn functions_of_mini_debug_info_have_names() {
    if !have("objcopy") || !have("xz") {
        return;
    }
    let stripped = |flags: &[&str]| {
        let built = build("inline.c", &[&["-O2", "-g"], flags].concat());
        let inner = function(&built.path, "_outer");
        let mini = built.dir.path().join("mini");
        run("objcopy", &[&"-S", &"--keep-symbol=_outer", &built.path, &mini]);
        run("xz", &[&mini]);
        let packed = built.dir.path().join("mini.xz");
        let add = format!("--add-section=.gnu_debugdata={}", packed.display());
        run("objcopy", &[&"-S", &built.path]);
        (built, inner, packed, add)
    };
    for flags in [&[][..], &["-no-pie"]] {
        let (built, outer, _, add) = stripped(flags);
        let name = |built: &common::Built| {
            let symbolicator = symbolicator(&[]);
            let infos = symbolicator.lookup(&module(&built.path), &[outer.0 + 1]).unwrap();
            let function = infos[0].function.clone().unwrap();
            (function.name, symbolicator.notes(&module(&built.path)))
        };
        assert!(name(&built).0.starts_with("fun_"), "stripped");
        run("objcopy", &[&add, &built.path]);
        assert_eq!(name(&built), ("_outer".to_owned(), vec![]), "{flags:?}");
    }
    // Damaged anywhere: a note, and no wrong name.
    let (built, outer, packed, add) = stripped(&[]);
    let whole = std::fs::read(&packed).unwrap();
    let bare = std::fs::read(&built.path).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 30) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&packed, &damaged).unwrap();
        std::fs::write(&built.path, &bare).unwrap();
        run("objcopy", &[&add, &built.path]);
        let symbolicator = symbolicator(&[]);
        let infos = symbolicator.lookup(&module(&built.path), &[outer.0 + 1]).unwrap();
        let notes = symbolicator.notes(&module(&built.path)).join("\n");
        let name = infos[0].function.clone().unwrap().name;
        assert!(
            name.starts_with("fun_") && notes.contains(".gnu_debugdata"),
            "{at}: {name}, {notes}"
        );
    }
}

#[test]
fn the_entry_of_a_stripped_program_has_a_name() {
    for flags in [&["-O2"][..], &["-O2", "-no-pie"], &["-O2", "-static"]] {
        let built = build("inline.c", flags);
        common::run("strip", &[&built.path]);
        let bytes = std::fs::read(&built.path).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let base = object.segments().map(|segment| segment.address()).min().unwrap();
        let start = object.entry() - base;
        let infos = symbolicator(&[])
            .lookup(&module(&built.path), &[start + 1, start - 1])
            .unwrap();
        let [entry, before] = infos.as_slice() else {
            panic!("{infos:?}")
        };
        let symbol = entry.function.as_ref().unwrap();
        let found = (symbol.name.as_str(), symbol.start, symbol.is_named);
        assert_eq!(found, ("EntryPoint", start, true), "{flags:?}");
        assert_ne!(before.function.as_ref(), Some(symbol));
    }
}

#[test]
fn separate_debug_info_of_another_build_is_not_used() {
    if !common::have("objcopy") {
        return;
    }
    let built = build("inline.c", &["-O2", "-g"]);
    let outer = function(&built.path, "_outer");
    let debug = built.dir.path().join("program.debug");
    separate(&built, &debug);
    let other = build("inline.c", &["-O1", "-g"]);
    common::run("objcopy", &[&"--only-keep-debug", &other.path, &debug]);
    let infos = symbolicator(&[]).lookup(&module(&built.path), &[outer.0]).unwrap();
    assert_eq!(infos[0], unnamed(outer));
}

#[test]
fn debug_info_that_dwz_moved_is_followed() {
    if !common::have("dwz") {
        return;
    }
    let built = build("shared.cc", &["-O2", "-g"]);
    let other = built.dir.path().join("other");
    common::build_at("shared.cc", &["-O1", "-g"], &other);
    let (main, recorded) = (function(&built.path, "main"), module(&built.path));
    let expected = symbolicator(&[]).lookup(&recorded, &all_addresses(main)).unwrap();
    assert!(expected.iter().any(|info| info.frames.len() > 3));

    let common_file = built.dir.path().join("common.debug");
    common::run("dwz", &[&"-m", &common_file, &built.path, &other]);
    let with_common = symbolicator(&[]);
    assert_eq!(with_common.lookup(&recorded, &all_addresses(main)).unwrap(), expected);
    assert_eq!(with_common.notes(&recorded), [""; 0]);

    std::fs::remove_file(&common_file).unwrap();
    let without = symbolicator(&[]);
    without.lookup(&recorded, &[main.0]).unwrap();
    assert!(
        without.notes(&recorded)[0].contains("common.debug"),
        "{:?}",
        without.notes(&recorded)
    );
}

#[test]
fn without_build_id_a_debug_link_must_have_the_right_checksum() {
    if !common::have("objcopy") {
        return;
    }
    let built = build("inline.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let outer = function(&built.path, "_outer");
    let debug = built.dir.path().join("program.debug");
    separate(&built, &debug);
    common::run(
        "objcopy",
        &[&format!("--add-gnu-debuglink={}", debug.display()), &built.path],
    );
    assert_separate_debug_file_is_used(&built, outer, &[]);
    let other = build("inline.c", &["-O1", "-g", "-Wl,--build-id=none"]);
    common::run("objcopy", &[&"--only-keep-debug", &other.path, &debug]);
    let infos = symbolicator(&[]).lookup(&module(&built.path), &[outer.0]).unwrap();
    assert_eq!(infos[0], unnamed(outer));
}

#[test]
fn without_build_id_a_file_written_after_the_recording_is_refused() {
    let built = build("inline.c", &["-O2", "-g", "-Wl,--build-id=none"]);
    let outer = function(&built.path, "_outer");
    let written = std::fs::metadata(&built.path).unwrap().modified().unwrap();
    let at = |recorded_at| {
        symbolicator::Symbolicator::new(symbolicator::SymbolOptions {
            recorded_at: Some(recorded_at),
            ..Default::default()
        })
    };
    let second = std::time::Duration::from_secs(1);
    assert!(at(written + second).lookup(&module(&built.path), &[outer.0]).is_ok());
    let error = at(written - second)
        .lookup(&module(&built.path), &[outer.0])
        .unwrap_err();
    assert!(matches!(error, SymbolError::Changed { .. }), "{error}");
}

#[test]
fn a_symbolicator_is_shared_between_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<symbolicator::Symbolicator>();
}
