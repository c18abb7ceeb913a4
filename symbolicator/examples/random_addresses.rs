//! CPU time of look-ups at random addresses: `random_addresses FILE [COUNT [CACHE]]`. Measures a fresh symbolicator.
//! With a folder for its cache, the second start finds the answers of the first. `random_addresses FILE COUNT - print`
//! prints the addresses instead, for other tools; `random_addresses FILE COUNT - answers` prints what is found, to
//! compare two builds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use object::{Object, ObjectSection};
use recording::module::{BuildId, Module, ModuleKind};
use symbolicator::{SymbolOptions, Symbolicator};

/// On-CPU time of this thread: the first field of schedstat, in ns (Documentation/scheduler/sched-stats). `taskset -c
/// 0` leaves the look-ups to this thread; else others help.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    text.split_whitespace().next().unwrap().parse().unwrap()
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = std::path::PathBuf::from(args.next().expect("the path of an ELF file"));
    let count: usize = args.next().map_or(10_000, |count| count.parse().expect("a count"));
    let (module, base, text) = {
        // The headers alone: other tools read no more than they need.
        let headers = object::ReadCache::new(std::fs::File::open(&path).unwrap());
        let object = object::File::parse(&headers).unwrap();
        let text = object.section_by_name(".text").unwrap();
        let module = Module {
            kind: ModuleKind::File,
            path,
            readable_path: None,
            build_id: object.build_id().unwrap().map(|id| BuildId(id.to_vec())),
            arch: None,
        };
        let base = object.relative_address_base();
        (module, base, (text.address() - base, text.size()))
    };
    // xorshift: the same addresses in every run.
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let addresses: Vec<u64> = (0..count)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            text.0 + state % text.1
        })
        .collect();
    let cache = args.next().filter(|cache| cache != "-").map(std::path::PathBuf::from);
    let printed = args.next();
    if printed.as_deref() == Some("print") {
        addresses.iter().for_each(|address| println!("{:#x}", address + base));
        return;
    }
    let symbolicator = Symbolicator::new(SymbolOptions {
        cache,
        ..SymbolOptions::default()
    });
    let start = cpu_ns();
    let infos = symbolicator.lookup(&module, &addresses).unwrap();
    let spent = cpu_ns() - start;
    if printed.as_deref() == Some("answers") {
        let answers = addresses.iter().zip(&infos);
        answers.for_each(|(address, info)| println!("{:#x} {info:?}", address + base));
        return;
    }
    let frames: usize = infos.iter().map(|info| info.frames.len()).sum();
    let named = infos.iter().filter(|info| info.function.is_some()).count();
    println!(
        "{count} addresses: {:.3} s CPU, {named} with a function, {frames} frames",
        spent as f64 / 1e9
    );
    for note in symbolicator.notes(&module) {
        println!("note: {note}");
    }
}
