//! What is read of them.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use names::symbol::{AddressInfo, SymbolSource};
use serde_json::{Value, json};
use symbolicator::{SymbolError, api};

use super::*;
use crate::common::{have, source, symbolicator};

/// `name file:line` of each frame, the innermost first; the function alone where there are no frames.
fn frames(info: &AddressInfo) -> Vec<String> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "?".to_owned());
    if info.frames.is_empty() {
        return info.function.iter().map(|function| function.name.clone()).collect();
    }
    let frame = |frame: &names::symbol::SourceFrame| {
        format!(
            "{} {}:{}",
            text(&frame.function),
            text(&frame.file),
            frame.line.unwrap_or(0)
        )
    };
    info.frames.iter().map(frame).collect()
}

#[test]
fn breakpad_files_have_functions_inlined_functions_and_lines() {
    let inner = "hg:hg.mozilla.org/mozilla-central:src/inner.h:0123abcd";
    let expected: [(u64, &[&str]); 8] = [
        (0xfff, &[]),
        (0x1000, &["work(int) /src/app.c:19"]),
        (0x1010, &["middle(int) /src/app.c:10", "work(int) /src/app.c:20"]),
        (
            0x101f,
            &[
                &format!("inner(int) {inner}:5"),
                "middle(int) /src/app.c:11",
                "work(int) /src/app.c:20",
            ],
        ),
        (0x103f, &["work(int) /src/app.c:21"]),
        (0x1040, &[]),
        (0x1050, &["app::other(int) ?:0"]),
        (0x1080, &["exported"]),
    ];
    for (module, name, sym) in [
        (library("app.pdb", 1), "app.pdb", "app.sym"),
        (library("/data/app/libapp.so", 0), "libapp.so", "libapp.so.sym"),
        (library("/Applications/App.app/App", 0), "App", "App.sym"),
    ] {
        let id = module.breakpad_id();
        for path in [format!("{name}/{id}/{sym}"), sym.to_owned()] {
            let dir = tempfile::tempdir().unwrap();
            write(&dir.path().join(&path), breakpad(&id));
            let symbolicator = symbolicator(&[Path::new("/nowhere"), dir.path()]);
            let infos = symbolicator
                .lookup(&module, &expected.map(|(address, _)| address))
                .unwrap();
            for (info, (address, expected)) in infos.iter().zip(expected) {
                assert_eq!(frames(info), expected, "{path} {address:#x}");
            }
            let work = infos[1].function.as_ref().unwrap();
            assert_eq!((work.start, work.size, work.is_named), (0x1000, Some(0x40), true));
            assert!(matches!(symbolicator.looked_up_in(&module), SymbolSource::Files { .. }));
        }
    }
}

#[test]
fn a_file_with_another_id_or_without_the_right_name_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let ask = |module: &Module| {
        symbolicator(&[dir.path()])
            .lookup(module, &[0x1000])
            .map(|infos| frames(&infos[0]))
    };
    let module = library("app.pdb", 2);
    let found = ask(&module);
    assert!(
        matches!(&found, Err(SymbolError::NotFound { tried, .. }) if tried.len() == 4),
        "{found:?}"
    );
    // The age differs.
    let path = dir.path().join(format!("app.pdb/{GUID}2/app.sym"));
    write(&path, breakpad(&format!("{GUID}1")));
    let found = ask(&module);
    assert!(matches!(found, Err(SymbolError::Replaced { .. })), "{found:?}");
    // The next place has the right file.
    write(&dir.path().join("app.sym"), breakpad(&format!("{GUID}2")));
    assert_eq!(ask(&module).unwrap(), ["work(int) /src/app.c:19"]);
    // No path leaves the folder, and without an id no file is known to be the right one.
    write(&dir.path().join("folder/app.sym"), "");
    for path in ["..", "/", "folder/.."] {
        assert!(
            matches!(ask(&library(path, 2)), Err(SymbolError::NotFound { .. })),
            "{path}"
        );
    }
    let without_id = Module {
        build_id: None,
        ..library("app.pdb", 2)
    };
    assert!(matches!(ask(&without_id), Err(SymbolError::NotFound { .. })));
}

#[test]
fn a_file_that_changes_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let (module, path) = (library("app.pdb", 1), dir.path().join("app.sym"));
    let text = breakpad(&module.breakpad_id());
    write(&path, &text);
    let symbolicator = symbolicator(&[dir.path()]);
    let ask = || symbolicator.lookup(&module, &[0x1000]).map(|infos| frames(&infos[0]));
    assert_eq!(ask().unwrap(), ["work(int) /src/app.c:19"]);
    write(&path, text.replace("work(int)", "work_of_today(int)"));
    assert_eq!(ask().unwrap(), ["work_of_today(int) /src/app.c:19"]);
    write(&path, "");
    assert!(matches!(ask(), Err(SymbolError::Unreadable { .. })));
}

/// A program of Windows with its PDB file, built here by clang and the linker that Rust comes with.
struct Windows {
    dir: tempfile::TempDir,
    module: Module,
    /// Relative address and size of its code.
    code: (u64, u64),
}

fn windows() -> Option<Windows> {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output()
        .unwrap();
    let libraries = PathBuf::from(String::from_utf8(libraries.stdout).unwrap().trim());
    let linker = libraries.with_file_name("bin").join("rust-lld");
    if !have("clang") || !have("llvm-symbolizer") || !have(linker.to_str().unwrap()) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let run = |command: &mut Command| {
        let output = command.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    // The same code with DWARF is the truth about lines: of the lines of inlined functions in a PDB file, LLVM 14 gives
    // the next one.
    let program = |debug_info: &str, name: &str, options: &[&str]| {
        let object = format!("{name}.obj");
        run(Command::new("clang")
            .args([
                "--target=x86_64-pc-windows-msvc",
                "-O1",
                "-g",
                debug_info,
                "-ffreestanding",
                "-c",
                "-o",
                &object,
            ])
            .arg(source("windows.c")));
        run(Command::new(&linker)
            .args(["-flavor", "link", "/nodefaultlib", "/entry:start", "/subsystem:console"])
            .args([&format!("/out:{name}.exe"), &object])
            .args(options));
    };
    program("-gcodeview", "app", &["/debug", "/pdb:app.pdb"]);
    program("-gdwarf-4", "dwarf", &["/debug:dwarf"]);
    let exe = fs::read(dir.path().join("app.exe")).unwrap();
    let after = |mark: &[u8]| &exe[exe.windows(mark.len()).position(|bytes| bytes == mark).unwrap() + mark.len()..];
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
    // The record of the PDB file (PDB 7.0): GUID, age. The section header (winnt.h, IMAGE_SECTION_HEADER): size in
    // memory, relative address.
    let (pdb, text) = (after(b"RSDS"), after(b".text\0\0\0"));
    let module = Module {
        build_id: Some(BuildId(pdb[..16].to_vec())),
        ..library("app.pdb", number(&pdb[16..]))
    };
    let code = (number(&text[4..]).into(), number(text).into());
    Some(Windows { module, code, dir })
}

/// Where lld links programs of 64 bits to be loaded.
const IMAGE_BASE: u64 = 0x1_4000_0000;

impl Windows {
    /// The frames by LLVM's reader of DWARF.
    fn by_llvm(&self, addresses: &[u64]) -> Vec<Vec<String>> {
        let mut llvm = Command::new("llvm-symbolizer")
            .arg("--obj=dwarf.exe")
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked: String = addresses
            .iter()
            .map(|address| format!("{:#x}\n", IMAGE_BASE + address))
            .collect();
        let mut stdin = llvm.stdin.take().unwrap();
        std::thread::spawn(move || stdin.write_all(asked.as_bytes()).unwrap());
        let answer = llvm.wait_with_output().unwrap();
        let text = String::from_utf8(answer.stdout).unwrap();
        let frames = |block: &str| {
            let lines: Vec<&str> = block.lines().collect();
            let place = |place: &str| place.rsplit_once(':').map_or(place, |(place, _)| place).to_owned();
            lines
                .chunks(2)
                .map(|frame| format!("{} {}", frame[0], place(frame[1])))
                .collect()
        };
        text.trim_end().split("\n\n").map(frames).collect()
    }
}

#[test]
fn pdb_files_have_what_llvm_finds_in_them() {
    let Some(app) = windows() else { return };
    let (start, size) = app.code;
    let addresses: Vec<u64> = (start..start + size).collect();
    let expected = app.by_llvm(&addresses);
    assert_eq!(expected.len(), addresses.len());
    let id = app.module.breakpad_id();
    let stored = tempfile::tempdir().unwrap();
    fs::create_dir_all(stored.path().join("app.pdb").join(&id)).unwrap();
    fs::copy(
        app.dir.path().join("app.pdb"),
        stored.path().join("app.pdb").join(&id).join("app.pdb"),
    )
    .unwrap();
    for dir in [app.dir.path(), stored.path()] {
        let symbolicator = symbolicator(&[dir]);
        let found = symbolicator.lookup(&app.module, &addresses).unwrap();
        let mut inlined = 0;
        for ((address, info), expected) in addresses.iter().zip(&found).zip(&expected) {
            // Padding between functions belongs to none of them, or to the one before.
            let Some(function) = &info.function else { continue };
            assert!(
                function.start <= *address && function.name == info.frames.last().unwrap().function.clone().unwrap()
            );
            // DWARF of C has no parameters in names.
            let found: Vec<String> = frames(info)
                .iter()
                .map(|frame| frame.replace("(int)", "").replace("()", ""))
                .collect();
            assert_eq!(&found, expected, "{address:#x}");
            inlined += usize::from(found.len() == 3);
        }
        let unnamed = found.iter().filter(|info| info.function.is_none()).count();
        assert!(
            inlined >= 5 && unnamed < 16,
            "{inlined} addresses in three functions, {unnamed} in none"
        );
    }
}

#[test]
fn the_case_of_a_debug_ids_digits_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let module = library("app.pdb", 0x1a);
    let id = module.breakpad_id();
    assert!(id.ends_with("F1a"), "{id}");
    write(&dir.path().join("app.sym"), breakpad(&id));
    let symbolicator = symbolicator(&[dir.path()]);
    symbolicator.add_module(&module);
    for id in [id.to_uppercase(), id.to_lowercase(), id] {
        let request = json!({"memoryMap": [["app.pdb", id]], "stacks": [[[0, 0x1000]]]});
        let answer = api::handle(&symbolicator, "/symbolicate/v5", request.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(
            answer["results"][0]["stacks"][0][0]["function"], "work(int)",
            "{answer}"
        );
    }
}

#[test]
fn the_front_end_gets_them_too() {
    let Some(app) = windows() else { return };
    let symbolicator = symbolicator(&[app.dir.path()]);
    symbolicator.add_module(&app.module);
    let start = app.code.0;
    let addresses: Vec<u64> = (start..start + app.code.1).collect();
    let by_llvm = app.by_llvm(&addresses);
    let deepest = start + by_llvm.iter().position(|frames| frames.len() == 3).unwrap() as u64;
    let request = json!({"memoryMap": [["app.pdb", app.module.breakpad_id()]], "stacks": [[[0, deepest]]]});
    let answer = api::handle(&symbolicator, "/symbolicate/v5", request.to_string().as_bytes());
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    let frame = &answer["results"][0]["stacks"][0][0];
    assert_eq!(frame["function"], "outer(int)", "{answer}");
    assert_eq!(frame["function_offset"], format!("{:#x}", deepest - start));
    let inlined: Vec<&str> = frame["inlines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| frame["function"].as_str().unwrap())
        .collect();
    assert_eq!(inlined, ["inner(int)", "middle(int)"]);
    assert_eq!(frame["file"], source("windows.c").to_str().unwrap());
}

/// Numbers that look like chance, the same in each run (Steele, Lea, Flood: SplitMix).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) % limit as u64) as usize
    }
}

#[test]
fn damaged_files_give_errors_or_fewer_names() {
    let dir = tempfile::tempdir().unwrap();
    let mut files = vec![(
        "app.sym",
        library("app.pdb", 1),
        breakpad(&format!("{GUID}1")).into_bytes(),
        0x1000,
    )];
    if let Some(app) = windows() {
        files.push((
            "app.pdb",
            app.module.clone(),
            fs::read(app.dir.path().join("app.pdb")).unwrap(),
            app.code.0,
        ));
    }
    for (name, module, whole, start) in files {
        let path = dir.path().join(name);
        let addresses: Vec<u64> = (0..0x90).step_by(8).map(|offset| start + offset).collect();
        let mut chance = Chance(7);
        let mut outcomes = [0, 0];
        for round in 0..120 {
            let mut damaged = whole.clone();
            match round % 3 {
                0 => damaged.truncate(chance.below(whole.len())),
                // Most of a PDB file is room.
                1 => (0..8).for_each(|_| {
                    let at = chance.below(whole.len());
                    damaged[at] ^= 1 << chance.below(8);
                }),
                _ => {
                    let at = (0..1000)
                        .map(|_| chance.below(whole.len()))
                        .find(|at| whole[*at] != 0)
                        .unwrap();
                    damaged[at] = 0xff;
                }
            }
            write(&path, &damaged);
            let found = symbolicator(&[dir.path()]).lookup(&module, &addresses);
            outcomes[usize::from(found.is_ok())] += 1;
        }
        assert!(outcomes[0] > 10 && outcomes[1] > 10, "{name}: {outcomes:?}");
        fs::remove_file(path).unwrap();
    }
}

#[cfg(feature = "symbol-servers")]
#[test]
fn a_pdb_file_comes_from_a_server() {
    use std::sync::Arc;
    use symbolicator::{SymbolOptions, SymbolServers, Symbolicator};

    let Some(app) = windows() else { return };
    let name = format!("/app.pdb/{}/app.pdb", app.module.breakpad_id());
    let pdb = fs::read(app.dir.path().join("app.pdb")).unwrap();
    let server = scripted::Scripted::start(move |path| match path == name {
        true => scripted::Answer::File(pdb.clone()),
        false => scripted::Answer::NotFound,
    });
    let cache = tempfile::tempdir().unwrap();
    let ask = |url: &str, module: &Module| {
        let servers = SymbolServers::new(&[url.to_owned()], cache.path().join("symbols"), Box::new(|_| true)).unwrap();
        let options = SymbolOptions {
            symbol_servers: Some(Arc::new(servers)),
            ..SymbolOptions::default()
        };
        let found = Symbolicator::new(options).lookup(module, &[app.code.0]);
        found.map(|found| frames(&found[0]))
    };
    let expected = [format!("outer(int) {}:16", source("windows.c").display())];
    assert_eq!(ask(&server.url, &app.module).unwrap(), expected);
    // The compressed file (`.pd_`) is asked for at the same time, and may be noted after the answer.
    let asked = || {
        server
            .asked()
            .into_iter()
            .filter(|path| !path.ends_with(".pd_"))
            .collect::<Vec<_>>()
    };
    let asked_first = asked();
    assert_eq!(ask(&server.url, &app.module).unwrap(), expected);
    // What is no name, or has no id, is not asked for.
    let without_id = Module {
        build_id: None,
        ..library("other.pdb", 1)
    };
    // Nor is what would leave the server's folder.
    let names = ["..", "..\\..\\x.pdb", "%2e%2e", "x?y=.pdb", "x#.pdb", "x\n.pdb"];
    for module in names.map(|name| library(name, 1)).into_iter().chain([without_id]) {
        assert!(matches!(ask(&server.url, &module), Err(SymbolError::NotFound { .. })));
    }
    assert_eq!(asked(), asked_first);
}

#[cfg(feature = "symbol-servers")]
#[path = "../../../sprof/tests/suite/support/scripted.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod scripted;
