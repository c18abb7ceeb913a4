//! Jitdump files for the tests of all that read them: records as tools/perf/util/jitdump.h has them, of a process 77 on
//! x86_64.

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
    let size = body.len() as u32 + 16;
    [
        &kind.to_le_bytes()[..],
        &size.to_le_bytes(),
        &time_ns.to_le_bytes(),
        body,
    ]
    .concat()
}

/// The header of a dump that was created at 5 ns. Flag 1: the times are the processor's own counter.
pub(crate) fn header(flags: u64) -> Vec<u8> {
    let halves = [0x4A69_5444_u32, 1, 40, 62, 0, 77];
    [halves.map(u32::to_le_bytes).concat(), words(&[5, flags])].concat()
}

/// `JIT_CODE_LOAD`. The code begins 57 bytes and a name after the record.
pub(crate) fn load(time_ns: u64, start: u64, index: u64, name: &str, code: &[u8]) -> Vec<u8> {
    let fields = words(&[77 | 77 << 32, start, start, code.len() as u64, index]);
    record(0, time_ns, &[&fields, name.as_bytes(), &[0], code].concat())
}

/// `JIT_CODE_MOVE` of a function to another address.
pub(crate) fn moved(time_ns: u64, from: u64, to: u64, size: u64, index: u64) -> Vec<u8> {
    record(1, time_ns, &words(&[77 | 77 << 32, to, from, to, size, index]))
}

/// `JIT_CODE_DEBUG_INFO`: address, line and file of the function that is loaded next.
pub(crate) fn lines(start: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
    let mut body = words(&[start, entries.len() as u64]);
    for (address, line, file) in entries {
        body.extend(words(&[*address, u64::from(*line) | 3 << 32]));
        body.extend(*file);
        body.push(0);
    }
    record(2, 0, &body)
}

/// `JIT_CODE_UNWINDING_INFO`: the `.eh_frame` of the function that is loaded next.
pub(crate) fn unwinding(time_ns: u64, eh_frame: &[u8]) -> Vec<u8> {
    record(
        4,
        time_ns,
        &[&words(&[eh_frame.len() as u64, 0, 0])[..], eh_frame].concat(),
    )
}
