//! Keeps the samples of one event: samples of different events cannot be added up.

use crate::data::{Data, Thread, Unit};

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
    /// Keeps the samples of one event: the named one, or that of the first thread with samples. Returns the names of the other events,
    /// whose samples are dropped.
    ///
    /// In a file of sprof, each further event has a track beside the thread in which it happened; the reader makes such tracks of markers
    /// of point events. Markers stay: they move to the process's first thread that stays.
    pub fn keep_event(&mut self, asked: Option<&str>) -> Result<Vec<String>, NoSuchEvent> {
        let mut has = self.events();
        let kept = match asked {
            Some(asked) if !has.iter().any(|name| name == asked) => {
                return Err(NoSuchEvent {
                    asked: asked.to_owned(),
                    was_recorded: self.point_events.iter().any(|event| event == asked),
                    has,
                });
            }
            Some(asked) => asked.to_owned(),
            None => match has.first() {
                Some(first) => first.clone(),
                None => return Ok(Vec::new()),
            },
        };
        has.retain(|name| *name != kept);
        let is_kept: Vec<bool> = (self.threads.iter())
            .map(|thread| {
                let is_other =
                    !thread.samples.is_empty() && self.event_of(thread.event.as_deref(), thread.unit) != kept;
                !is_other
            })
            .collect();
        self.drop_threads(&is_kept);
        self.unit = Unit::default();
        if let Some(thread) = self.threads.iter().find(|thread| !thread.samples.is_empty()) {
            self.unit = thread.unit;
        }
        if self.unit == Unit::Counts {
            for thread in &mut self.threads {
                if thread.event.as_ref() == Some(&kept)
                    && let Some(name) = thread.event_of.take()
                {
                    thread.name = name;
                }
            }
            self.event = Some(kept);
        }
        Ok(has)
    }

    /// The names of all events with samples, the file's default first.
    fn events(&self) -> Vec<String> {
        let mut has: Vec<String> = Vec::new();
        for thread in self.threads.iter().filter(|thread| !thread.samples.is_empty()) {
            let name = self.event_of(thread.event.as_deref(), thread.unit);
            if !has.contains(&name) {
                has.push(name);
            }
        }
        has
    }

    /// Calls `each` with the data of each event, as [`keep_event`](Data::keep_event) leaves them, but for names of threads and without markers'
    /// threads. The threads are in another order afterwards.
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
                None => (self.unit == Unit::Counts).then_some(event),
                known => known.clone(),
            };
            self.threads = of_event;
            each(self);
            done.append(&mut self.threads);
        }
        done.append(&mut rest);
        (self.threads, self.unit, self.event) = (done, before.0, before.1);
    }

    /// The file's own name of the weights, if they are neither time nor samples.
    pub fn counted_name(&self) -> Option<&str> {
        let imported = self.weights.as_ref().map(|weights| weights.name.as_str());
        imported.or(self.event.as_deref())
    }

    fn drop_threads(&mut self, is_kept: &[bool]) {
        let mut is_kept = is_kept.iter();
        let (mut kept, dropped): (Vec<_>, Vec<_>) = std::mem::take(&mut self.threads)
            .into_iter()
            .partition(|_| *is_kept.next().unwrap_or(&true));
        for thread in dropped {
            if let Some(home) = kept.iter_mut().find(|kept| kept.pid == thread.pid) {
                home.markers.extend(thread.markers);
            }
        }
        self.threads = kept;
    }

    /// The name of the samples' event or unit.
    fn event_of(&self, event: Option<&str>, unit: Unit) -> String {
        if let Some(event) = event {
            return event.to_owned();
        }
        let own = self.recorded.as_ref().map(|recorded| recorded.event.as_str());
        match (unit, own) {
            (Unit::Samples | Unit::Milliseconds, Some(own)) => own,
            (Unit::Samples, None) => "samples",
            (Unit::Milliseconds, None) => "time",
            (Unit::Bytes, _) => "bytes",
            (Unit::Counts, _) => "counts",
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Marker, Samples};

    fn thread(name: &str, event: Option<&str>, unit: Unit, weights: &[f64]) -> Thread {
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
        let mut main = thread("main", None, Unit::Samples, &[1.0, 1.0]);
        main.markers.push(Marker::spanning(0, 1.0, 2.0));
        Data {
            threads: vec![
                main,
                Thread {
                    event_of: Some("main".to_owned()),
                    ..thread("main · faults", Some("faults"), Unit::Counts, &[16.0, 16.0, 16.0])
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
        assert_eq!((data.unit, data.event), (Unit::Samples, None));
    }

    #[test]
    fn an_event_that_is_asked_for_has_the_name_of_its_thread_and_the_markers() {
        let mut data = two_events();
        assert_eq!(data.keep_event(Some("faults")), Ok(vec!["samples".to_owned()]));
        let [thread] = &data.threads[..] else {
            panic!("{data:?}")
        };
        assert_eq!((thread.name.as_str(), thread.markers.len()), ("main", 1));
        assert_eq!(data.unit, Unit::Counts);
        assert_eq!(data.counted_name(), Some("faults"));
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
