//! Joins samples with user call chains that the kernel wrote later (`perf record --call-graph fp,defer`, Linux 6.19).
//!
//! The call chain of such a sample ends with PERF_CONTEXT_USER_DEFERRED and a cookie. The user part is in the
//! PERF_RECORD_CALLCHAIN_DEFERRED of the same thread with the same cookie, written when the thread returns to user
//! space. All samples of one entry to the kernel share a cookie. A sample between that record and the return comes
//! after the record (`unwind_deferred_request` in kernel/unwind/deferred.c). A thread may sleep for hours before it
//! returns, so its samples and switches wait here, and other records do not.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use recording::stack::StackMark;

use super::attr::Attr;
use super::sample;
use crate::abi::{context, misc, record_type};
use crate::decode::{HEADER_BYTES, Reader, Record, RecordHeader};
use crate::marks;

/// Bytes kept at most. With more, the samples that wait are passed on without their user part.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// The user part of a sample's call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UserChain<'a> {
    /// The sample has it, or no call chain at all.
    InSample,
    /// A later record has it: addresses of 8 bytes, leaf first.
    InRecord(&'a [u8]),
    /// The file does not have it.
    NotInFile,
}

impl UserChain<'_> {
    /// Puts the user part in place of PERF_CONTEXT_USER_DEFERRED and the cookie, or a mark if the file does not have
    /// it. `None` if the call chain has no such end.
    pub(super) fn complete(self, call_chain: &[u8]) -> Option<Vec<u8>> {
        cookie(call_chain)?;
        let user = context::USER.to_ne_bytes();
        let mark = marks::address(StackMark::TruncatedDeferred)
            .unwrap_or_default()
            .to_ne_bytes();
        let chain = match self {
            // The kernel writes an empty one where the thread had given up its memory.
            UserChain::InRecord(chain) if !chain.is_empty() => chain,
            _ => &mark,
        };
        let (kernel, _) = call_chain.split_at(call_chain.len() - END_BYTES);
        Some([kernel, &user, chain].concat())
    }
}

/// PERF_CONTEXT_USER_DEFERRED and the cookie.
const END_BYTES: usize = 16;

/// The cookie at the end of a call chain whose user part comes later.
fn cookie(call_chain: &[u8]) -> Option<u64> {
    let (_, end) = call_chain.split_last_chunk::<END_BYTES>()?;
    let mut end = Reader(end);
    end.u64().filter(|mark| *mark == context::USER_DEFERRED)?;
    end.u64()
}

/// Process and thread.
type TaskIds = (i32, i32);

/// Time, index of the event, record, and the user part of a sample.
type Deliver<'a> = dyn FnMut(u64, usize, &[u8], UserChain<'_>) + 'a;

/// Samples whose call chains are not complete, and what comes after them in the same thread.
#[derive(Debug)]
pub(super) struct DeferredChains {
    /// False for a file without such samples.
    is_used: bool,
    threads: BTreeMap<TaskIds, ThreadChains>,
    kept_bytes: usize,
    max_kept_bytes: usize,
}

#[derive(Debug, Default)]
struct ThreadChains {
    /// Samples and switches in time order. The first one is a sample without its user part.
    waiting: Vec<WaitingRecord>,
    /// The last user part and its cookie.
    last: Option<(u64, Box<[u8]>)>,
}

#[derive(Debug)]
struct WaitingRecord {
    time: u64,
    event: usize,
    record: Box<[u8]>,
    /// The cookie of a sample whose user part comes later.
    cookie: Option<u64>,
}

impl WaitingRecord {
    fn bytes(&self) -> usize {
        self.record.len() + size_of::<WaitingRecord>()
    }
}

impl ThreadChains {
    fn bytes(&self) -> usize {
        let waiting: usize = self.waiting.iter().map(WaitingRecord::bytes).sum();
        let last = self.last.as_ref().map_or(0, |(_, chain)| chain.len());
        waiting + last + size_of::<(TaskIds, ThreadChains)>()
    }

    /// Passes on what waits. `returned`: cookie and user part of the thread's return to user space, if that was
    /// recorded.
    fn pass_on(&mut self, returned: Option<(u64, &[u8])>, deliver: &mut Deliver<'_>) {
        for waiting in self.waiting.drain(..) {
            let chain = match (waiting.cookie, returned) {
                (None, _) => UserChain::InSample,
                (Some(cookie), Some((returned, chain))) if cookie == returned => UserChain::InRecord(chain),
                (Some(_), _) => UserChain::NotInFile,
            };
            deliver(waiting.time, waiting.event, &waiting.record, chain);
        }
    }
}

impl DeferredChains {
    /// For a file with these events.
    pub(super) fn new(attrs: &[Attr]) -> DeferredChains {
        DeferredChains {
            is_used: attrs.iter().any(Attr::defers_user_chains),
            threads: BTreeMap::new(),
            kept_bytes: 0,
            max_kept_bytes: MAX_KEPT_BYTES,
        }
    }

    /// Takes the next record of the file, and passes on all records that need not wait.
    pub(super) fn record(&mut self, time: u64, event: usize, attr: &Attr, record: &[u8], deliver: &mut Deliver<'_>) {
        let header = record.first_chunk().map(RecordHeader::parse).filter(|_| self.is_used);
        let task = attr.task(record).unwrap_or((-1, -1));
        match header.map(|header| (header.kind, header.misc)) {
            // Written in any thread, about a wait of another.
            Some((record_type::SAMPLE, _)) if attr.is_off_cpu_time() => {}
            Some((record_type::SAMPLE | record_type::SWITCH | record_type::SWITCH_CPU_WIDE, _)) => {
                let cookie = cookie_of_sample(record, attr);
                let thread = self.threads.get(&task);
                let is_first = thread.is_none_or(|thread| thread.waiting.is_empty());
                let last = thread.and_then(|thread| thread.last.as_ref()).filter(|_| is_first);
                match (cookie, last) {
                    (None, _) if is_first => {}
                    (Some(cookie), Some((returned, chain))) if cookie == *returned => {
                        return deliver(time, event, record, UserChain::InRecord(chain));
                    }
                    _ => {
                        return self.wait(task, (time, event, record), cookie, deliver);
                    }
                }
            }
            Some((record_type::CALLCHAIN_DEFERRED, _)) => {
                if let Some((cookie, chain)) = deferred_chain(record, attr) {
                    return self.thread_returns(task, cookie, chain, deliver);
                }
            }
            // A task that ends does not return to user space.
            Some((record_type::EXIT, _)) => self.end(task..=task, deliver),
            // exec(2) returns to another program, and the thread may have another number from here on.
            Some((record_type::COMM, misc)) if misc & misc::COMM_EXEC != 0 => {
                self.end((task.0, i32::MIN)..=(task.0, i32::MAX), deliver);
            }
            _ => {}
        }
        deliver(time, event, record, UserChain::InSample);
    }

    /// Passes on all that waits.
    pub(super) fn finish(&mut self, deliver: &mut Deliver<'_>) {
        self.kept_bytes = 0;
        for mut thread in std::mem::take(&mut self.threads).into_values() {
            thread.pass_on(None, deliver);
        }
    }

    fn wait(
        &mut self,
        task: TaskIds,
        (time, event, record): (u64, usize, &[u8]),
        cookie: Option<u64>,
        deliver: &mut Deliver<'_>,
    ) {
        let record = record.into();
        let waiting = WaitingRecord {
            time,
            event,
            record,
            cookie,
        };
        self.kept_bytes += waiting.bytes();
        self.thread(task).waiting.push(waiting);
        self.limit(deliver);
    }

    fn thread_returns(&mut self, task: TaskIds, cookie: u64, chain: &[u8], deliver: &mut Deliver<'_>) {
        let thread = self.thread(task);
        let before = thread.bytes();
        thread.pass_on(Some((cookie, chain)), deliver);
        thread.last = Some((cookie, chain.into()));
        let after = thread.bytes();
        self.kept_bytes = self.kept_bytes + after - before;
        self.limit(deliver);
    }

    fn thread(&mut self, task: TaskIds) -> &mut ThreadChains {
        self.threads.entry(task).or_insert_with(|| {
            let thread = ThreadChains::default();
            self.kept_bytes += thread.bytes();
            thread
        })
    }

    fn limit(&mut self, deliver: &mut Deliver<'_>) {
        if self.kept_bytes > self.max_kept_bytes {
            self.finish(deliver);
        }
    }

    /// Forgets threads. Their samples that wait are passed on.
    fn end(&mut self, tasks: RangeInclusive<TaskIds>, deliver: &mut Deliver<'_>) {
        let ended: Vec<TaskIds> = self.threads.range(tasks).map(|(task, _)| *task).collect();
        for mut thread in ended.iter().filter_map(|task| self.threads.remove(task)) {
            self.kept_bytes -= thread.bytes();
            thread.pass_on(None, deliver);
        }
    }
}

/// The cookie of a sample whose user part is in another record.
fn cookie_of_sample(record: &[u8], attr: &Attr) -> Option<u64> {
    if !attr.defers_user_chains() {
        return None;
    }
    match sample::decode(record, attr, None) {
        Ok(Record::Sample(sample)) => cookie(sample.call_chain),
        _ => None,
    }
}

/// PERF_RECORD_CALLCHAIN_DEFERRED (include/uapi/linux/perf_event.h): u64 cookie, nr, ips\[nr\].
fn deferred_chain<'a>(record: &'a [u8], attr: &Attr) -> Option<(u64, &'a [u8])> {
    let body = record.get(HEADER_BYTES..)?;
    let mut body = Reader(&body[..body.len().checked_sub(attr.sample_id_bytes())?]);
    let cookie = body.u64()?;
    sample::read_call_chain(&mut body).map(|chain| (cookie, chain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::sample_type;

    const RECORDS: u64 = 1000;

    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend(0u16.to_ne_bytes());
        bytes.extend((HEADER_BYTES as u16 + words.len() as u16 * 8).to_ne_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes
    }

    /// A thread that is sampled a thousand times in one system call, and threads that never return.
    #[test]
    fn what_waits_has_a_limit() {
        let flags = 1u64 << 38;
        let sample_type = sample_type::TID | sample_type::CALLCHAIN;
        let words = [1, 0, 0, sample_type, 0, flags, 0, 0];
        let attr: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_ne_bytes()).collect();
        let attr = Attr::parse(&attr).unwrap();
        for is_one_thread in [true, false] {
            let mut deferred = DeferredChains::new(std::slice::from_ref(&attr));
            deferred.max_kept_bytes = 16 << 10;
            let mut seen = Vec::new();
            let mut deliver = |time: u64, _: usize, _: &[u8], user: UserChain<'_>| {
                seen.push((time, user == UserChain::NotInFile));
            };
            for time in 0..RECORDS {
                let task = if is_one_thread { 7 } else { time };
                let sample = record(record_type::SAMPLE, &[task, 2, context::USER_DEFERRED, 5]);
                deferred.record(time, 0, &attr, &sample, &mut deliver);
                assert!(deferred.kept_bytes <= deferred.max_kept_bytes);
            }
            deferred.finish(&mut deliver);
            assert_eq!(deferred.kept_bytes, 0);
            seen.sort_unstable();
            assert_eq!(seen, (0..RECORDS).map(|time| (time, true)).collect::<Vec<_>>());
        }
    }
}
