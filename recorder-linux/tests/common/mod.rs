//! Writes small perf.data files, record by record.
#![allow(dead_code, reason = "each test file uses a part")]

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
