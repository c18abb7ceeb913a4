//! Symbols by address, sorted only where look-ups ask.

use std::ops::Range;
use std::sync::Arc;

use super::symbol::{NameRank, Symbol, SymbolNames};

/// Symbols of a bucket on average. More are sorted for a look-up, fewer make more buckets.
const IN_BUCKET: usize = 8;

/// The symbols of a module in order of their addresses, the best one for each address.
///
/// They are put into buckets of equal parts of the addresses. A bucket is sorted, and its names are compared, when it
/// is first needed: to sort all 118,000 symbols of a program of 182 MB and read their names takes 20 ms, as much as all
/// else of 100 look-ups.
pub(super) struct ByAddress {
    names: Arc<SymbolNames>,
    /// Bucket after bucket.
    symbols: Vec<Symbol>,
    buckets: Vec<Bucket>,
    /// The lowest address, and how many low bits of an offset from it the addresses of a bucket differ in.
    base: u64,
    shift: u32,
}

/// A part of the symbols.
#[derive(Clone, Copy, Default)]
struct Bucket {
    first: usize,
    len: usize,
    is_sorted: bool,
}

/// The place of a symbol.
#[derive(Clone, Copy, Debug)]
pub(super) struct SymbolPosition {
    bucket: usize,
    symbol: usize,
}

impl ByAddress {
    /// `code` is where most symbols are; those outside are in the first and last bucket.
    pub(super) fn new(names: SymbolNames, found: &[Symbol], code: Range<u64>) -> ByAddress {
        let span = code.end.saturating_sub(code.start);
        let count = (found.len() / IN_BUCKET).max(1) as u64;
        let shift = (span / count).checked_ilog2().unwrap_or(0);
        let mut by_address = ByAddress {
            names: Arc::new(names),
            symbols: found.to_vec(),
            buckets: vec![Bucket::default(); usize::try_from(span >> shift).unwrap_or(0) + 1],
            base: code.start,
            shift,
        };
        // A counting sort: sizes, then places.
        for symbol in found {
            let bucket = by_address.bucket(symbol.start);
            by_address.buckets[bucket].len += 1;
        }
        let mut first = 0;
        for bucket in &mut by_address.buckets {
            bucket.first = first;
            first += std::mem::take(&mut bucket.len);
        }
        for symbol in found {
            let bucket = by_address.bucket(symbol.start);
            let bucket = &mut by_address.buckets[bucket];
            by_address.symbols[bucket.first + bucket.len] = *symbol;
            bucket.len += 1;
        }
        by_address
    }

    /// Heap bytes.
    pub(super) fn held_bytes(&self) -> usize {
        size_of_val(&*self.symbols) + size_of_val(&*self.buckets) + self.names.held_bytes()
    }

    pub(super) fn names(&self) -> &Arc<SymbolNames> {
        &self.names
    }

    pub(super) fn get(&self, place: SymbolPosition) -> Symbol {
        self.symbols[place.symbol]
    }

    /// The last symbol that starts at or below the address.
    pub(super) fn last_until(&mut self, address: u64) -> Option<SymbolPosition> {
        let bucket = self.bucket(address);
        let symbols = self.sorted(bucket);
        let until = self.symbols[symbols.clone()].partition_point(|symbol| symbol.start <= address);
        self.before(SymbolPosition {
            bucket,
            symbol: symbols.start + until,
        })
    }

    /// The symbol before a place.
    pub(super) fn before(&mut self, place: SymbolPosition) -> Option<SymbolPosition> {
        let mut bucket = place.bucket;
        if place.symbol > self.buckets[bucket].first {
            let symbol = place.symbol - 1;
            return Some(SymbolPosition { bucket, symbol });
        }
        loop {
            bucket = bucket.checked_sub(1)?;
            if let Some(symbol) = self.sorted(bucket).last() {
                return Some(SymbolPosition { bucket, symbol });
            }
        }
    }

    /// The symbol behind a place.
    pub(super) fn behind(&mut self, place: SymbolPosition) -> Option<SymbolPosition> {
        let mut from = place.symbol + 1;
        for bucket in place.bucket..self.buckets.len() {
            let symbols = self.sorted(bucket);
            from = from.max(symbols.start);
            if symbols.contains(&from) {
                return Some(SymbolPosition { bucket, symbol: from });
            }
        }
        None
    }

    /// All symbols, by address.
    pub(super) fn all(&mut self) -> impl Iterator<Item = Symbol> {
        (0..self.buckets.len()).for_each(|bucket| {
            self.sorted(bucket);
        });
        let buckets = self.buckets.iter();
        let symbols = buckets.flat_map(|bucket| &self.symbols[bucket.first..bucket.first + bucket.len]);
        symbols.copied()
    }

    fn bucket(&self, address: u64) -> usize {
        let bucket = address.saturating_sub(self.base) >> self.shift;
        usize::try_from(bucket)
            .unwrap_or(usize::MAX)
            .min(self.buckets.len() - 1)
    }

    /// The symbols of a bucket, in order, the best one for each address.
    fn sorted(&mut self, bucket: usize) -> Range<usize> {
        let bucket = &mut self.buckets[bucket];
        let symbols = &mut self.symbols[bucket.first..bucket.first + bucket.len];
        if !std::mem::replace(&mut bucket.is_sorted, true) {
            let ranked = symbols
                .iter()
                .filter_map(|symbol| Some((*symbol, symbol.rank(self.names.text(symbol))?)));
            let mut ranked: Vec<(Symbol, NameRank<'_>)> = ranked.collect();
            ranked.sort_unstable_by_key(|(symbol, rank)| (symbol.start, *rank));
            ranked.dedup_by_key(|(symbol, _)| symbol.start);
            bucket.len = ranked.len();
            symbols
                .iter_mut()
                .zip(ranked)
                .for_each(|(symbol, (best, _))| *symbol = best);
        }
        bucket.first..bucket.first + bucket.len
    }
}
