//! Memory that modules take at most.

use object::CompressionFormat;

use super::*;

#[test]
fn sections_unpack_to_so_many_bytes_in_all() {
    let Some(system) = system("cc", "ld", &["-g", "-gz=zlib"]) else {
        return;
    };
    let file = ObjectFile::open(&system.file).unwrap();
    let laid_out = relocatable::lay_out(&file, u64::MAX).unwrap();
    let unpacked = |name: &str| laid_out.section(name).unwrap().len() as u64;
    let object = file.object().unwrap();
    let packed = object
        .sections()
        .filter(|section| section.compressed_data().unwrap().format != CompressionFormat::None);
    let sizes: Vec<u64> = packed.map(|section| unpacked(section.name().unwrap())).collect();
    assert!(sizes.iter().filter(|size| **size > 0).count() >= 3, "{sizes:?}");
    let all = sizes.iter().sum();
    assert!(relocatable::lay_out(&file, all).is_ok());
    let error = relocatable::lay_out(&file, all - 1).err().unwrap().to_string();
    assert!(error.contains("unpacks to more, with those before it"), "{error}");
}

#[test]
fn modules_used_longest_ago_are_dropped_and_opened_again() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    // The same module under another name.
    let notes = system.root.path().join("sys/module/other/notes");
    std::fs::create_dir_all(&notes).unwrap();
    let note = ".note.gnu.build-id";
    let own = system.root.path().join("sys/module/made_up/notes").join(note);
    std::fs::copy(own, notes.join(note)).unwrap();
    std::fs::copy(&system.file, system.file.with_file_name("other.ko")).unwrap();
    let mut running = system.running_with(&[("made_up", 0), ("other", 0x100_0000)]);
    let addresses: Vec<u64> = system.functions.iter().map(|function| function.2).collect();
    let others: Vec<u64> = addresses.iter().map(|address| address + 0x100_0000).collect();
    let mut look_up = |modules: &mut KernelModules, addresses: &[u64]| {
        let mut infos = running.lookup(addresses);
        modules.add_to(&mut infos, addresses, &running);
        let opened: Vec<String> = modules.modules().map(|module| module.name.to_string()).collect();
        (infos, opened)
    };
    let lines = |infos: &[AddressInfo]| infos.iter().map(|info| info.frames[0].line).collect::<Vec<_>>();
    let expected = lines(&look_up(&mut system.modules(), &addresses).0);
    for (limit, both) in [(0, &["other"][..]), (MAX_HELD_BYTES, &["made_up", "other"])] {
        let mut modules = KernelModules::within(limit, system.root.path(), &SymbolOptions::default());
        let all = [&addresses[..], &others].concat();
        assert_eq!(look_up(&mut modules, &all).1, both);
        for (asked, name) in [(&addresses, "made_up"), (&others, "other")] {
            let (infos, opened) = look_up(&mut modules, asked);
            assert_eq!(lines(&infos), expected);
            assert!(opened.iter().any(|opened| opened == name) && opened.len() == both.len());
        }
    }
}

#[test]
fn damage_of_a_dropped_module_is_said_once() {
    let Some(system) = system("cc", "ld", &["-g"]) else {
        return;
    };
    let mut bytes = std::fs::read(&system.file).unwrap();
    let (info, _) = parts(&bytes)[".debug_info"];
    // The version, behind the length: DWARF 5, 7.5.1.
    bytes[info as usize + 4] = 99;
    std::fs::write(&system.file, bytes).unwrap();
    let mut modules = KernelModules::within(0, system.root.path(), &SymbolOptions::default());
    system.all(&mut modules);
    let damage = modules.damage();
    assert_eq!(damage.len(), 1, "{damage:?}");
    for _ in 0..2 {
        modules.used(&Arc::new("another".to_owned()), 1);
        assert_eq!(modules.modules().count(), 0);
        assert_eq!(modules.notes(), damage);
        system.all(&mut modules);
        assert_eq!(modules.notes(), damage);
    }
}
