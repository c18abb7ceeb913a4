//! Writes small perf.data files, record by record.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod damage;

use proptest::prelude::*;

/// cpu-clock at 1000 Hz.
pub(crate) const CPU_CLOCK: u64 = 0;
pub(crate) const PAGE_FAULTS: u64 = 2;

pub(crate) const IP: u64 = 1;
pub(crate) const TID: u64 = 1 << 1;
pub(crate) const TIME: u64 = 1 << 2;
pub(crate) const CALLCHAIN: u64 = 1 << 5;
pub(crate) const CPU: u64 = 1 << 7;
pub(crate) const PERIOD: u64 = 1 << 8;
pub(crate) const IDENTIFIER: u64 = 1 << 16;
/// IDENTIFIER, IP, TID, TIME, CPU, PERIOD, CALLCHAIN.
pub(crate) const SAMPLE_TYPE: u64 = IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN;

pub(crate) const FINISHED_ROUND: u32 = 68;

pub(crate) fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Two 32-bit fields in one word.
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from_ne_bytes([low.to_ne_bytes(), high.to_ne_bytes()].concat().try_into().unwrap())
}

pub(crate) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend((body.len() as u16 + 8).to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// 128 bytes: PERF_ATTR_SIZE_VER7, type software, `freq` and `sample_id_all`.
pub(crate) fn attr(config: u64) -> Vec<u8> {
    let flags = 1 << 10 | 1 << 18;
    let mut attr = words(&[pair(1, 128), config, 1000, SAMPLE_TYPE, 0, flags]);
    attr.resize(128, 0);
    attr
}

/// pid, tid, time, cpu, identifier.
pub(crate) fn sample_id(time: u64, id: u64) -> Vec<u8> {
    words(&[pair(7, 7), time, 0, id])
}

pub(crate) fn sample(time: u64, id: u64) -> Vec<u8> {
    let user = -512i64 as u64;
    record(
        9,
        2,
        &words(&[id, 0x1010, pair(7, 7), time, 0, 1_000_000, 3, user, 0x1010, 0x1020]),
    )
}

pub(crate) fn comm(time: u64, name: &[u8; 8]) -> Vec<u8> {
    record(
        3,
        1 << 13,
        &[words(&[pair(7, 7)]), name.to_vec(), sample_id(time, 1)].concat(),
    )
}

pub(crate) fn lost(time: u64, count: u64) -> Vec<u8> {
    record(2, 0, &[words(&[1, count]), sample_id(time, 1)].concat())
}

pub(crate) fn round() -> Vec<u8> {
    record(FINISHED_ROUND, 0, &[])
}

/// A file with its events in the header: cpu-clock with the id 1, page-faults with 2.
pub(crate) fn normal_file(records: &[Vec<u8>]) -> Vec<u8> {
    let attrs: Vec<u8> = [(CPU_CLOCK, 1u64), (PAGE_FAULTS, 2)]
        .iter()
        .enumerate()
        // Each with the section of its one id.
        .flat_map(|(index, (config, _))| [attr(*config), words(&[104 + 8 * index as u64, 8])].concat())
        .collect();
    let data = records.concat();
    let data_at = 104 + 16 + attrs.len() as u64;
    let header = words(&[
        104,
        144,
        120,
        attrs.len() as u64,
        data_at,
        data.len() as u64,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    [b"PERFILE2".to_vec(), header, words(&[1, 2]), attrs, data].concat()
}

/// A file with its events among the records: cpu-clock with the id 1, page-faults with 2.
pub(crate) fn pipe_file(records: &[Vec<u8>]) -> Vec<u8> {
    pipe_file_of(&[(attr(CPU_CLOCK), 1), (attr(PAGE_FAULTS), 2)], records)
}

/// The same with other events, each with its id.
pub(crate) fn pipe_file_of(attrs: &[(Vec<u8>, u64)], records: &[Vec<u8>]) -> Vec<u8> {
    let attrs: Vec<u8> = (attrs.iter())
        .flat_map(|(attr, id)| record(64, 0, &[attr.clone(), words(&[*id])].concat()))
        .collect();
    [b"PERFILE2".to_vec(), words(&[16]), attrs, records.concat()].concat()
}

/// A file with its events in the header, each with its id, and with feature sections, by ascending number.
pub(crate) fn file_with_features(
    attrs: &[(Vec<u8>, u64)],
    records: &[Vec<u8>],
    features: &[(u64, Vec<u8>)],
) -> Vec<u8> {
    let ids: Vec<u8> = attrs.iter().flat_map(|(_, id)| id.to_ne_bytes()).collect();
    let attrs_at = 104 + ids.len() as u64;
    let sections: Vec<u8> = (attrs.iter().enumerate())
        .flat_map(|(index, (attr, _))| [attr.clone(), words(&[104 + 8 * index as u64, 8])].concat())
        .collect();
    let data = records.concat();
    let data_at = attrs_at + sections.len() as u64;
    let mut at = data_at + data.len() as u64 + 16 * features.len() as u64;
    let (mut bits, mut table, mut bodies) = ([0u64; 4], Vec::new(), Vec::new());
    for (number, body) in features {
        bits[*number as usize / 64] |= 1 << (number % 64);
        table.extend(words(&[at, body.len() as u64]));
        at += body.len() as u64;
        bodies.extend(body);
    }
    let header = words(&[
        104,
        144,
        attrs_at,
        sections.len() as u64,
        data_at,
        data.len() as u64,
        0,
        0,
    ]);
    [
        b"PERFILE2".to_vec(),
        header,
        words(&bits),
        ids,
        sections,
        data,
        table,
        bodies,
    ]
    .concat()
}

/// The sections of Android's simpleperf, and the records of its own.
pub(crate) mod simpleperf {

    pub(crate) const FILE: u64 = 128;
    pub(crate) const META_INFO: u64 = 129;
    pub(crate) const FILE2: u64 = 132;
    pub(crate) const INIT_MAP: u64 = 134;

    pub(crate) const KERNEL: u32 = 0;
    pub(crate) const ELF: u32 = 2;
    pub(crate) const DEX: u32 = 3;

    pub(crate) fn meta_info(facts: &[(&str, &str)]) -> Vec<u8> {
        facts
            .iter()
            .flat_map(|(key, value)| format!("{key}\0{value}\0").into_bytes())
            .collect()
    }

    /// An entry of FILE: path, type, lowest address, its offset in the file, functions.
    pub(crate) fn file(path: &str, kind: u32, lowest: u64, offset: u64, functions: &[(u64, u32, &str)]) -> Vec<u8> {
        let mut body = format!("{path}\0").into_bytes();
        body.extend(kind.to_ne_bytes());
        body.extend(lowest.to_ne_bytes());
        body.extend((functions.len() as u32).to_ne_bytes());
        for (start, len, name) in functions {
            body.extend(start.to_ne_bytes());
            body.extend(len.to_ne_bytes());
            body.extend(format!("{name}\0").bytes());
        }
        if kind == ELF {
            body.extend(offset.to_ne_bytes());
        }
        sized(body)
    }

    /// The same as an entry of FILE2.
    pub(crate) fn file2(path: &str, kind: u32, lowest: u64, offset: u64, functions: &[(u64, u32, &str)]) -> Vec<u8> {
        let mut body = Vec::new();
        bytes_field(&mut body, 1, path.as_bytes());
        number_field(&mut body, 2, u64::from(kind));
        number_field(&mut body, 3, lowest);
        for (start, len, name) in functions {
            let mut symbol = Vec::new();
            number_field(&mut symbol, 1, *start);
            number_field(&mut symbol, 2, u64::from(*len));
            bytes_field(&mut symbol, 3, name.as_bytes());
            bytes_field(&mut body, 4, &symbol);
        }
        if kind == ELF {
            let mut elf = Vec::new();
            number_field(&mut elf, 1, offset);
            bytes_field(&mut body, 6, &elf);
        }
        sized(body)
    }

    /// A record of simpleperf's own: its size has 32 bits.
    pub(crate) fn own_record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = body.len() as u32 + 8;
        let halves = [(size >> 16) as u16, size as u16];
        [
            kind.to_ne_bytes().to_vec(),
            halves.iter().flat_map(|half| half.to_ne_bytes()).collect(),
            body.to_vec(),
        ]
        .concat()
    }

    fn sized(body: Vec<u8>) -> Vec<u8> {
        [(body.len() as u32).to_ne_bytes().to_vec(), body].concat()
    }

    fn number_field(out: &mut Vec<u8>, field: u8, number: u64) {
        if number != 0 {
            out.push(field << 3);
            varint(out, number);
        }
    }

    fn bytes_field(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
        out.push(field << 3 | 2);
        varint(out, bytes.len() as u64);
        out.extend(bytes);
    }

    fn varint(out: &mut Vec<u8>, mut number: u64) {
        while number > 0x7f {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
}

/// MMAP2 of process 7 without inode: path, first address, length, file offset, protection.
pub(crate) fn mmap2(time: u64, path: &str, start: u64, len: u64, offset: u64, protection: u32) -> Vec<u8> {
    let mut path = format!("{path}\0").into_bytes();
    path.resize(path.len().next_multiple_of(8), 0);
    let fields = [pair(7, 7), start, len, offset, 0, 0, 0, pair(protection, 2)];
    record(10, 2, &[words(&fields), path, sample_id(time, 1)].concat())
}

/// A file that is damaged.
pub(crate) fn damaged(file: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (file, damage::damage(1..8)).prop_map(|(file, damage)| damage.anywhere(&file))
}
