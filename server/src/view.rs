//! The view in a link: processes in the order of their starts.
//!
//! The UI orders processes by the CPU use of their main threads, so a shell would stand below its children. A link with
//! an order must also name hidden tracks: the UI then hides nothing by itself.

use std::collections::{HashMap, HashSet};

use profile::Tracks;

use super::address::{VERSION, encode_index};

/// Longest link: a terminal does not show longer ones whole.
const LONGEST: usize = 4000;

/// The view as a part of a link's query; `None` for one process, whose default view is right, or if the link would be
/// too long.
pub(super) fn query(tracks: &Tracks) -> Option<String> {
    let Tracks { threads, visible } = tracks;
    let selected = visible.first()?;
    let shown: HashSet<usize> = visible.iter().copied().collect();
    // The UI numbers processes in the order of their first threads, and the other threads of each process.
    let mut processes: Vec<Process<'_>> = Vec::new();
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    for (index, thread) in threads.iter().enumerate() {
        let number = *numbers.entry(&thread.pid).or_insert(processes.len());
        if number == processes.len() {
            processes.push(Process {
                pid: &thread.pid,
                ..Process::default()
            });
        }
        let process = &mut processes[number];
        process.is_shown |= shown.contains(&index);
        if !thread.is_main {
            if !shown.contains(&index) {
                process.hidden.push(process.locals);
            }
            process.locals += 1;
        }
    }
    // The UI cannot escape other characters.
    let is_plain = |pid: &str| pid.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    if processes.len() < 2 || !processes.iter().all(|process| is_plain(process.pid)) {
        return None;
    }
    let mut query = format!(
        "thread={}&globalTrackOrder={}",
        encode_index(*selected),
        encode_indexes(0..processes.len())
    );
    let hidden = (0..processes.len()).filter(|process| !processes[*process].is_shown);
    let hidden = encode_indexes(hidden);
    if !hidden.is_empty() {
        query.push_str(&format!("&hiddenGlobalTracks={hidden}"));
    }
    let partly = processes
        .iter()
        .filter(|process| process.is_shown && !process.hidden.is_empty());
    let partly: Vec<String> = partly
        .map(|process| format!("{}-{}", process.pid, encode_indexes(process.hidden.iter().copied())))
        .collect();
    if !partly.is_empty() {
        query.push_str(&format!("&hiddenLocalTracksByPid={}", partly.join("~")));
    }
    // Without it, links of this version show graphs without CPU use.
    query.push_str(&format!("&timelineType=cpu-category&v={VERSION}"));
    (query.len() <= LONGEST).then_some(query)
}

/// A process in the timeline, with its threads below it.
#[derive(Default)]
struct Process<'a> {
    pid: &'a str,
    is_shown: bool,
    /// Number of threads below.
    locals: usize,
    /// Indexes of the threads that are hidden at first.
    hidden: Vec<usize>,
}

/// Encodes ascending numbers for the UI: of consecutive numbers the first and, after a `w`, the last.
fn encode_indexes(indexes: impl Iterator<Item = usize>) -> String {
    let mut text = String::new();
    let mut indexes = indexes.peekable();
    while let Some(first) = indexes.next() {
        let mut last = first;
        while let Some(next) = indexes.next_if_eq(&(last + 1)) {
            last = next;
        }
        text.push_str(&encode_index(first));
        if last > first {
            text.push_str(if last > first + 1 { "w" } else { "" });
            text.push_str(&encode_index(last));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::Track;

    fn tracks(threads: &[(&str, bool)], visible: &[usize]) -> Tracks {
        let track = |(pid, is_main): &(&str, bool)| Track {
            pid: (*pid).to_owned(),
            is_main: *is_main,
        };
        Tracks {
            threads: threads.iter().map(track).collect(),
            visible: visible.to_vec(),
        }
    }

    #[test]
    fn numbers_are_written_as_the_ui_reads_them() {
        for (indexes, expected) in [
            (vec![], ""),
            (vec![0], "0"),
            (vec![9, 10], "9a"),
            (vec![3, 4, 5, 6, 40], "3w6x8"),
            (vec![31, 32, 33, 34, 35], "vwx3"),
        ] {
            assert_eq!(encode_indexes(indexes.iter().copied()), expected, "{indexes:?}");
        }
    }

    #[test]
    fn several_processes_are_in_order_and_what_is_hidden_stays_hidden() {
        let threads = [
            ("1", true),
            ("1", false),
            ("1", false),
            ("2", true),
            ("3", true),
            ("3", false),
        ];
        assert_eq!(
            query(&tracks(&threads, &[5, 4, 0, 2])).unwrap(),
            "thread=5&globalTrackOrder=0w2&hiddenGlobalTracks=1&hiddenLocalTracksByPid=1-0&timelineType=cpu-category&v=6"
        );
        assert_eq!(query(&tracks(&threads[..3], &[0])), None);
        assert_eq!(query(&tracks(&threads, &[])), None);
        assert_eq!(query(&tracks(&[("1", true), ("2&x=", true)], &[0])), None);
        // Of a file that is wrong.
        assert!(query(&tracks(&threads, &[99])).is_some());
    }
}
