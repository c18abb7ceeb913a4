//! `/tmp/perf-PID.map`: lines of `START SIZE name`, in hexadecimal, without times. See tools/perf/Documentation/
//! jit-interface.txt in the Linux sources.

use names::symbol::{AddressInfo, FunctionSymbol};
use recording::sink::ReadAt;

use super::timeline::{self, PlacedCode, Timeline};

/// Functions that are read at most; a large JavaScript server has some 100,000.
const MAX_FUNCTIONS: usize = 2_000_000;
/// Bytes that are read at most.
const MAX_BYTES: u64 = 512 << 20;

/// A perf map in memory.
pub(super) struct PerfMap {
    text: Vec<u8>,
    /// In the order of the file: a later function replaces an earlier one at its addresses.
    functions: Vec<PerfMapFunction>,
    /// Parts of functions that no later function replaced, by address: (first byte, one past the last, index).
    live: Vec<(u64, u64, u32)>,
    left_out: u64,
}

struct PerfMapFunction {
    start: u64,
    size: u64,
    /// Start and end in the text.
    name: (u32, u32),
}

impl PerfMap {
    /// Reads the map up to the limits.
    pub(super) fn read(file: &dyn ReadAt) -> Result<PerfMap, String> {
        let len = file.len();
        if len > MAX_BYTES {
            return Err(format!("{len} bytes, at most {MAX_BYTES} are read"));
        }
        let mut text = vec![0; usize::try_from(len).unwrap_or_default()];
        file.read_exact_at(&mut text, 0).map_err(|error| error.to_string())?;
        let mut functions = Vec::new();
        let mut left_out = 0;
        let mut at = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let parsed = parse(line).filter(|_| functions.len() < MAX_FUNCTIONS);
            match parsed {
                Some((start, size, name)) => functions.push(PerfMapFunction {
                    start,
                    size,
                    // MAX_BYTES fits in 32 bits.
                    name: ((at + name) as u32, (at + line.len()) as u32),
                }),
                None => left_out += u64::from(!line.is_empty()),
            }
            at += line.len() + 1;
        }
        let live = live(&functions);
        Ok(PerfMap {
            text,
            functions,
            live,
            left_out,
        })
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn timelines(&self, addresses: &[u64]) -> Vec<Timeline> {
        let placed = self.functions.iter().map(|function| PlacedCode {
            from_ns: 0,
            start: function.start,
            size: function.size,
            relative: function.start,
            moved_from: None,
        });
        timeline::timelines(placed, addresses)
    }

    /// Looks up an address.
    pub(super) fn find(&self, address: u64) -> Option<AddressInfo> {
        let after = self.live.partition_point(|(start, _, _)| *start <= address);
        let (_, end, index) = *self.live.get(after.checked_sub(1)?)?;
        let function = self.functions.get(index as usize).filter(|_| address < end)?;
        let name = self.text.get(function.name.0 as usize..function.name.1 as usize)?;
        Some(AddressInfo {
            function: Some(FunctionSymbol::named(
                String::from_utf8_lossy(name).into_owned(),
                function.start,
                Some(function.size),
            )),
            frames: Vec::new(),
        })
    }
}

/// (start, size, where the name starts).
fn parse(line: &[u8]) -> Option<(u64, u64, usize)> {
    let mut at = 0;
    let mut number = || {
        let rest = line.get(at..)?;
        let word = rest.split(|byte| *byte == b' ').next()?;
        at += word.len() + 1;
        let digits = word.strip_prefix(b"0x").unwrap_or(word);
        let digits = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.starts_with('+'))?;
        u64::from_str_radix(digits, 16).ok()
    };
    let (start, size) = (number()?, number()?);
    // 2^53: the numbers of a profile are JSON. User space ends below.
    let fits = size > 0 && start.checked_add(size)? <= 1 << 53;
    (fits && line.len() > at).then_some((start, size, at))
}

/// The parts of each function that no later function replaced.
fn live(functions: &[PerfMapFunction]) -> Vec<(u64, u64, u32)> {
    // From the last function to the first, each gets the addresses that are free: `taken` maps starts to ends and never
    // overlaps.
    let mut taken: std::collections::BTreeMap<u64, (u64, u32)> = Default::default();
    let mut new = Vec::new();
    for (index, function) in functions.iter().enumerate().rev() {
        let (mut at, end) = (function.start, function.start + function.size);
        if let Some((_, (reaches, _))) = taken.range(..=at).next_back() {
            at = at.max(*reaches);
        }
        new.clear();
        // Only a hostile file has a function with thousands of holes: its first parts suffice.
        for (start, (reaches, _)) in taken.range(at..end.max(at)).take(64) {
            if *start > at {
                new.push((at, *start));
            }
            at = *reaches;
        }
        if at < end && new.len() < 64 {
            new.push((at, end.min(taken.range(at..).next().map_or(end, |(start, _)| *start))));
        }
        taken.extend(new.iter().map(|(start, end)| (*start, (*end, index as u32))));
    }
    taken
        .into_iter()
        .map(|(start, (end, index))| (start, end, index))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use recording::sink::InMemory;

    use super::*;

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        Some(map.find(address)?.function?.name)
    }

    #[test]
    fn names_have_spaces_and_later_entries_win() {
        let text = b"1000 100 JS:*first /a b.js:1:2\n0x1080 10 second\n2000 8 third\ngarbage\n3000 10 unfinis";
        let map = PerfMap::read(&InMemory(text)).unwrap();
        assert_eq!(name(&map, 0x1000).as_deref(), Some("JS:*first /a b.js:1:2"));
        assert_eq!(name(&map, 0x1080).as_deref(), Some("second"));
        assert_eq!(name(&map, 0x1090).as_deref(), Some("JS:*first /a b.js:1:2"));
        assert_eq!(name(&map, 0x1100), None);
        assert_eq!(name(&map, 0x2007).as_deref(), Some("third"));
        assert_eq!(map.left_out(), 1);
        let found = map.timelines(&[0x1000, 0x1085, 0x1100]);
        assert_eq!(found[1].last().unwrap().relative, Some(0x1085));
        assert!(found[2].is_empty());
    }

    proptest! {
        // The same cases in each run.
        #![proptest_config(ProptestConfig {
            rng_seed: proptest::test_runner::RngSeed::Fixed(1),
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_text_is_read_without_panic(text in "[0-9a-fx \\n+é]{0,400}", address: u64) {
            let map = PerfMap::read(&InMemory(text.as_bytes())).unwrap();
            map.find(address);
            map.timelines(&[address]);
        }

        #[test]
        fn of_any_functions_the_last_that_holds_an_address_is_found(
            ranges in prop::collection::vec((0u64..64, 1u64..16), 1..40),
        ) {
            let text: String =
                ranges.iter().enumerate().map(|(at, (start, size))| format!("{start:x} {size:x} f{at}\n")).collect();
            let map = PerfMap::read(&InMemory(text.as_bytes())).unwrap();
            for address in 0..80 {
                let last = ranges.iter().rposition(|(start, size)| (*start..start + size).contains(&address));
                prop_assert_eq!(name(&map, address), last.map(|at| format!("f{at}")), "{}", address);
            }
        }
    }
}
