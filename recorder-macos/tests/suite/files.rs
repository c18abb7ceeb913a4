//! Files and memory of targets, on the simulated kernel.

use recorder_macos::files::{MachFiles, MachMemory};
use recording::event::{Mapping, Pid};
use recording::module::BuildId;
use recording::sink::{ModuleFiles, ModuleMiss, TargetMemory};

use crate::xnu::Xnu;
use crate::xnu::fault::Faults;
use crate::xnu::machine::{Behaviour, Machine};

const ASLEEP: Behaviour = Behaviour {
    run_ns: (1000, 1000),
    wait_ns: (1 << 50, 1 << 50),
    waits: 100,
    calls: 0,
    changes: 0,
    holes: 0,
};

/// A process, its program's address, and that program's UUID.
fn process() -> (Xnu, Pid, u64, BuildId) {
    let mut machine = Machine::new(7, 2);
    machine.start(None, 1, ASLEEP);
    let serial = machine.threads[0].image;
    let address = machine.processes[0].images.address(serial);
    let pid = Pid(machine.processes[0].pid);
    let id = (u128::from(serial) | u128::from(7u64 | 7 << 32) << 64).to_le_bytes();
    (Xnu::new(machine, Faults::default()), pid, address, BuildId::of_uuid(id))
}

fn mapping(start: u64, path: &[u8], build_id: Option<BuildId>) -> Mapping<'_> {
    Mapping {
        start,
        len: 0x8000,
        file_offset: 0,
        path,
        build_id,
        inode: None,
    }
}

#[test]
fn what_is_in_no_file_is_read_from_memory() {
    let (xnu, pid, address, id) = process();
    let mut files = MachFiles::new(xnu);
    let gone = mapping(address, b"/usr/lib/libgone.dylib", Some(id.clone()));
    let file = files.open(pid, &gone).unwrap_or_else(|miss| panic!("{miss:?}"));
    let mut start = [0; 4];
    file.bytes.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(u32::from_le_bytes(start), 0xfeed_facf);
    assert_eq!(
        recorder_macos::codesign::builds(&*file.bytes).unwrap(),
        std::slice::from_ref(&id)
    );
    // Another image is there by now.
    let other = mapping(address, b"/usr/lib/libgone.dylib", Some(BuildId(vec![9; 16])));
    assert_eq!(files.open(pid, &other).err(), Some(ModuleMiss::NotFound));
    let without = mapping(address, b"/usr/lib/libgone.dylib", None);
    assert_eq!(files.open(pid, &without).err(), Some(ModuleMiss::NotFound));
    assert_eq!(
        files.open(pid, &mapping(address, b"//anon", None)).err(),
        Some(ModuleMiss::Anonymous)
    );
}

#[test]
fn a_file_of_the_same_build_is_opened_and_another_one_is_not() {
    let (xnu, pid, _, _) = process();
    let mut files = MachFiles::new(xnu);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    // A Mach-O file with a UUID and nothing else.
    let uuid: [u8; 16] = std::array::from_fn(|index| index as u8);
    let header: [u32; 8] = [0xfeed_facf, 0x0100_000c, 0, 2, 1, 24, 0, 0];
    let words = header.into_iter().chain([0x1b, 24]).flat_map(u32::to_le_bytes);
    std::fs::write(&path, words.chain(uuid).collect::<Vec<u8>>()).unwrap();
    let path = path.to_str().unwrap().as_bytes().to_vec();
    let same = mapping(0x1000, &path, Some(BuildId::of_uuid(uuid)));
    assert_eq!(
        files
            .open(pid, &same)
            .unwrap_or_else(|miss| panic!("{miss:?}"))
            .bytes
            .len(),
        56
    );
    let other = mapping(0x1000, &path, Some(BuildId(vec![4; 16])));
    assert_eq!(files.open(pid, &other).err(), Some(ModuleMiss::Replaced));
}

#[test]
fn memory_is_read_up_to_the_first_page_that_cannot_be_read() {
    let (xnu, pid, address, _) = process();
    let mut memory = MachMemory::new(xnu);
    assert_eq!(memory.read(pid, address, &mut [0; 0x2000]), 0x2000);
    assert_eq!(memory.read(pid, address + 0x6100, &mut [0; 0x9000]), 0x1f00);
    assert_eq!(memory.read(pid, address + 0x8000, &mut [0; 16]), 0);
    assert_eq!(memory.read(Pid(9999), address, &mut [0; 16]), 0);
}
