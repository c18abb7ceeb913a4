//! Keeps the samples of one event: samples of different events cannot be added up.

use super::diff::rules::matches;
use crate::data::{Data, Thread, WeightUnit};

/// The file does not count the requested event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} `{asked}`; it has {}", absence(.was_recorded), .has.join(", "))]
pub struct NoSuchEvent {
    /// The requested name.
    pub asked: String,
    /// The event was recorded and never happened.
    pub was_recorded: bool,
    /// The file's events, its default first.
    pub has: Vec<String>,
}

fn absence(was_recorded: &bool) -> &'static str {
    match was_recorded {
        true => "it was recorded that there was no",
        false => "nothing in it counts",
    }
}

impl Data {
    /// Keeps the samples of one event: the named one, or the event of the first thread with samples. Returns the names
    /// of the other events, whose samples are dropped. A pattern (`syscalls:sys_enter_open*`) keeps all that it
    /// matches, where these count how often something happened.
    ///
    /// In a file of sprof, each further event has a track beside the thread in which it happened; the reader makes such
    /// tracks of markers of point events. Markers stay: they move to the thread's track that stays, or else to the
    /// process's first thread that stays.
    ///
    /// # Errors
    ///
    /// The profile has no event of this name, and none that the pattern matches.
    pub fn keep_event(&mut self, asked: Option<&str>) -> Result<Vec<String>, NoSuchEvent> {
        let mut has = self.events();
        let kept: Vec<String> = match asked {
            Some(asked) => {
                let kept = self.asked_for(asked, &has);
                if kept.is_empty() {
                    return Err(NoSuchEvent {
                        asked: asked.to_owned(),
                        was_recorded: !self.asked_for(asked, &self.point_events).is_empty(),
                        has,
                    });
                }
                kept
            }
            None => has.first().cloned().into_iter().collect(),
        };
        let Some(first) = kept.first().cloned() else {
            return Ok(Vec::new());
        };
        has.retain(|name| !kept.contains(name));
        let is_kept: Vec<bool> = (self.threads.iter())
            .map(|thread| {
                let is_other =
                    !thread.samples.is_empty() && !kept.contains(&self.event_of(thread.event.as_deref(), thread.unit));
                !is_other
            })
            .collect();
        self.drop_threads(&is_kept);
        self.unit = WeightUnit::default();
        if let Some(thread) = self.threads.iter().find(|thread| !thread.samples.is_empty()) {
            self.unit = thread.unit;
        }
        if self.unit == WeightUnit::Counts {
            for thread in &mut self.threads {
                if thread.event.as_ref().is_some_and(|event| kept.contains(event))
                    && let Some(name) = thread.event_of.take()
                {
                    thread.name = name;
                }
            }
            self.event = Some(match (&kept[..], asked) {
                ([_, _, ..], Some(asked)) => asked.to_owned(),
                _ => first,
            });
        }
        Ok(has)
    }

    /// Those of the events that the user means: by the event's name, by the name under which it was recorded, or by a
    /// pattern.
    fn asked_for(&self, asked: &str, events: &[String]) -> Vec<String> {
        if let Some(event) = events.iter().find(|event| *event == asked) {
            return vec![event.clone()];
        }
        let recorded = self
            .recorded
            .as_ref()
            .map_or(&[][..], |recorded| &recorded.asked_events);
        let is_asked = |event: &String| {
            (recorded.iter())
                .any(|known| known.event == *event && without_options(&known.asked) == without_options(asked))
        };
        let is_meant = |event: &&String| is_asked(event) || matches(asked, event);
        let is_count = |event: &String| {
            let mut threads = self.threads.iter();
            threads.any(|thread| thread.event.as_ref() == Some(event) && thread.unit == WeightUnit::Counts)
        };
        let meant: Vec<String> = events.iter().filter(is_meant).cloned().collect();
        // Time and counts have no sum.
        match meant.len() > 1 && !meant.iter().all(is_count) {
            true => meant.into_iter().take(1).collect(),
            false => meant,
        }
    }

    /// The names of all events with samples, the file's default first.
    pub fn events(&self) -> Vec<String> {
        let mut has: Vec<String> = Vec::new();
        for thread in self.threads.iter().filter(|thread| !thread.samples.is_empty()) {
            let name = self.event_of(thread.event.as_deref(), thread.unit);
            if !has.contains(&name) {
                has.push(name);
            }
        }
        has
    }

    /// Calls `each` with the data of each event, as [`keep_event`](Data::keep_event) leaves them, but for names of
    /// threads and without markers' threads. The threads are in another order afterwards.
    pub(crate) fn for_each_event(&mut self, mut each: impl FnMut(&Data)) {
        let events = self.events();
        let is_several = events.len() > 1;
        let before = (self.unit, self.event.take());
        let mut rest = std::mem::take(&mut self.threads);
        let mut done = Vec::with_capacity(rest.len());
        for event in events {
            let is_of = |thread: &Thread| {
                !thread.samples.is_empty() && self.event_of(thread.event.as_deref(), thread.unit) == event
            };
            let (of_event, others): (Vec<Thread>, Vec<Thread>) = rest.into_iter().partition(is_of);
            rest = others;
            // A file of another profiler has one event, and its threads have no unit of their own.
            if is_several {
                self.unit = of_event.first().map_or(self.unit, |thread| thread.unit);
            }
            self.event = match &before.1 {
                None => (self.unit == WeightUnit::Counts).then_some(event),
                known => known.clone(),
            };
            self.threads = of_event;
            each(self);
            done.append(&mut self.threads);
        }
        done.append(&mut rest);
        (self.threads, self.unit, self.event) = (done, before.0, before.1);
    }

    /// The file's own name of the weights; `None` if they are time or samples.
    pub fn counted_name(&self) -> Option<&str> {
        let imported = self.weights.as_ref().map(|weights| weights.name.as_str());
        imported.or(self.event.as_deref())
    }

    pub(super) fn drop_threads(&mut self, is_kept: &[bool]) {
        let mut is_kept = is_kept.iter();
        let (mut kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(&mut self.threads)
            .into_iter()
            .partition(|_| *is_kept.next().unwrap_or(&true));
        for thread in dropped {
            let is_same = |kept: &Thread| kept.pid == thread.pid && kept.tid == thread.tid;
            let home = kept.iter().position(is_same);
            let home = home.or_else(|| kept.iter().position(|kept| kept.pid == thread.pid));
            if let Some(home) = home.and_then(|home| kept.get_mut(home)) {
                home.markers.extend(thread.markers);
            }
        }
        self.threads = kept;
    }

    /// The name of the samples' event or unit.
    fn event_of(&self, event: Option<&str>, unit: WeightUnit) -> String {
        if let Some(event) = event {
            return event.to_owned();
        }
        let own = self.recorded.as_ref().map(|recorded| recorded.event.as_str());
        match (unit, own) {
            (WeightUnit::Samples | WeightUnit::Milliseconds, Some(own)) => own,
            (WeightUnit::Samples, None) => "samples",
            (WeightUnit::Milliseconds, None) => "time",
            (WeightUnit::Bytes, _) => "bytes",
            (WeightUnit::Counts, _) => "counts",
        }
        .to_owned()
    }
}

/// `syscalls:sys_enter_read/period=10/` without what stands between the slashes.
fn without_options(event: &str) -> &str {
    let options = event.strip_suffix('/').and_then(|rest| rest.rsplit_once('/'));
    options
        .filter(|(_, options)| options.contains('='))
        .map_or(event, |(event, _)| event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{AskedEvent, Marker, RecordingFacts, Samples};

    fn thread(name: &str, event: Option<&str>, unit: WeightUnit, weights: &[f64]) -> Thread {
        Thread {
            name: name.to_owned(),
            pid: "7".to_owned(),
            event: event.map(str::to_owned),
            unit,
            samples: Samples {
                time_ms: vec![0.0; weights.len()],
                stack: vec![0; weights.len()],
                weight: Some(weights.to_vec()),
                ..Samples::default()
            },
            ..Thread::default()
        }
    }

    fn two_events() -> Data {
        let mut main = thread("main", None, WeightUnit::Samples, &[1.0, 1.0]);
        main.markers.push(Marker::spanning(0, 1.0, 2.0));
        Data {
            threads: vec![
                main,
                Thread {
                    event_of: Some("main".to_owned()),
                    ..thread("main · faults", Some("faults"), WeightUnit::Counts, &[16.0, 16.0, 16.0])
                },
            ],
            ..Data::default()
        }
    }

    #[test]
    fn samples_of_different_events_are_never_added_up() {
        let mut data = two_events();
        assert_eq!(data.keep_event(None), Ok(vec!["faults".to_owned()]));
        assert_eq!(data.threads.len(), 1);
        assert_eq!((data.unit, data.event), (WeightUnit::Samples, None));
    }

    #[test]
    fn an_event_that_is_asked_for_has_the_name_of_its_thread_and_the_markers() {
        let mut data = two_events();
        assert_eq!(data.keep_event(Some("faults")), Ok(vec!["samples".to_owned()]));
        let [thread] = &data.threads[..] else {
            panic!("{data:?}")
        };
        assert_eq!((thread.name.as_str(), thread.markers.len()), ("main", 1));
        assert_eq!(data.unit, WeightUnit::Counts);
        assert_eq!(data.counted_name(), Some("faults"));
    }

    #[test]
    fn an_event_has_the_name_under_which_it_was_recorded_too_and_a_pattern_is_all_of_its_events() {
        let recorded = |event: &str, asked: &str| AskedEvent {
            event: event.to_owned(),
            asked: asked.to_owned(),
        };
        let probed = |name: &str| thread("main", Some(name), WeightUnit::Counts, &[1.0]);
        let mut data = two_events();
        data.threads
            .extend(["uprobe:malloc", "s:enter_open", "s:enter_openat"].map(probed));
        data.recorded = Some(RecordingFacts {
            asked_events: vec![
                recorded("uprobe:malloc", "uprobe:libc:malloc/period=10/"),
                recorded("s:enter_open", "s:enter_open*"),
                recorded("s:enter_openat", "s:enter_open*"),
            ],
            ..RecordingFacts::default()
        });
        for (asked, threads) in [
            ("uprobe:malloc", 1),
            ("uprobe:libc:malloc", 1),
            ("uprobe:libc:malloc/period=10/", 1),
            ("s:enter_open", 1),
            ("s:enter_open*", 2),
            ("s:*at", 1),
            // Time and counts have no sum.
            ("*", 1),
        ] {
            let mut data = data.clone();
            data.keep_event(Some(asked)).unwrap();
            assert_eq!(data.threads.len(), threads, "{asked}");
        }
        assert!(data.keep_event(Some("uprobe:libm:malloc")).is_err());
        data.keep_event(Some("s:enter_open*")).unwrap();
        assert_eq!(data.counted_name(), Some("s:enter_open*"));
    }

    #[test]
    fn what_the_file_does_not_count_is_an_error_that_names_what_it_does() {
        let error = two_events().keep_event(Some("cycles")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "nothing in it counts `cycles`; it has samples, faults"
        );
    }
}
