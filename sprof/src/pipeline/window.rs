//! The events of the last seconds, built into a profile when one is wanted: with `--last` nothing else is kept, and
//! `top` shows them.

use std::sync::Arc;

use recording::address::Avma;
use recording::clock::{ClockReference, Timestamp};
use recording::event::{Event, Mapping, Pid};
use recording::info::RecordingInfo;
use recording::module::Image;
use recording::quality::Quality;
use recording::sink::{Completion, EventSink, ModuleFile, ModuleFiles, ModuleMiss, NoMemory};
use recording::wait::WaitReason;

use profile::builder::{BuildOptions, Builder};
use profile::text::numbers::seconds;
use profile::window::{EventWindow, WindowSnapshot};
use unwind::{UnwindOptions, Unwinder};

use super::spool::Spool;
use super::window_copies::WindowCopies;

/// The last stage of a recording.
pub(super) struct EventStore {
    /// All events become the profile. `None`: those of the last seconds do.
    pub(super) whole: Option<Builder>,
    /// The events of the last seconds, if anyone wants them.
    pub(super) last: Option<LastEvents>,
}

impl EventStore {
    /// The copy on disk of the last seconds, if it has one.
    pub(super) fn take_copy(&mut self) -> Option<Spool> {
        self.last.as_mut()?.copies.take().map(WindowCopies::finish)
    }
}

impl EventSink for EventStore {
    fn on_event(&mut self, event: &Event<'_>) {
        if let Some(builder) = &mut self.whole {
            builder.on_event(event);
        }
        if let Some(LastEvents { window, copies }) = &mut self.last {
            window.on_event(event);
            copies.iter_mut().for_each(|copies| copies.on_event(event));
        }
    }

    fn end_round(&mut self, until: Timestamp) -> Completion {
        if let Some(LastEvents { window, copies }) = &mut self.last {
            copies.iter_mut().for_each(|copies| copies.end_round(until, window));
            let _ = window.end_round(until);
        }
        self.whole
            .as_mut()
            .map_or_else(Completion::default, |builder| builder.end_round(until))
    }
}

/// The events of the last seconds, in memory and on disk.
pub(super) struct LastEvents {
    pub(super) window: EventWindow,
    /// `None`: only in memory.
    pub(super) copies: Option<WindowCopies>,
}

/// A trigger that came: when, and its words.
pub(super) type TriggerMoment = (Timestamp, Arc<str>);

/// How a builder begins.
pub(super) struct BuilderStart {
    pub(super) clock: ClockReference,
    pub(super) options: BuildOptions,
    pub(super) kernel: Option<Image>,
    pub(super) wait_reasons: Option<Vec<(Avma, Avma, WaitReason)>>,
}

impl BuilderStart {
    /// A builder of a profile that begins at this time; `None`: with the recording.
    pub(super) fn builder(&self, from: Option<Timestamp>) -> Builder {
        let mut builder = Builder::new(self.clock, self.options);
        if let Some(from) = from {
            builder.begin_at(from);
        }
        if let Some(kernel) = self.kernel.clone() {
            builder.set_kernel(kernel);
        }
        if let Some(wait_reasons) = self.wait_reasons.clone() {
            builder.set_wait_reasons(wait_reasons);
        }
        builder
    }

    /// A builder with the events of a window, and how these were recorded. `whole`: the quality of the whole recording.
    pub(super) fn build(
        &self,
        window: &WindowSnapshot,
        triggers: &[TriggerMoment],
        whole: &Quality,
    ) -> (Builder, Quality) {
        let builder = self.builder(window.from());
        // Stacks are frames by now: it counts what was cut or not verified.
        let mut counted = Unwinder::new(builder, NoMemory, NoFiles, UnwindOptions::default());
        window.send(&mut counted);
        let (mut builder, quality) = counted.finish();
        for (time, words) in triggers {
            if window.from().is_none_or(|from| *time >= from) {
                builder.mark_trigger(*time, words);
            }
        }
        let quality = Quality {
            module_misses: whole.module_misses.clone(),
            span_file_misses: whole.span_file_misses.clone(),
            asked_rate_hz: whole.asked_rate_hz,
            ..quality
        };
        (builder, quality)
    }
}

/// Leaves out of the facts what is known of the whole recording alone. Returns what part of it the window is.
pub(super) fn narrow(info: &mut RecordingInfo, window: &WindowSnapshot) -> Option<String> {
    let from = window.from()?;
    let kept = seconds(info.end.nanos_since(from));
    let all = seconds(info.end.nanos_since(info.clock.timestamp));
    info.events.iter_mut().for_each(|event| event.counts = None);
    info.whole_runs = Some(false);
    Some(format!("the last {kept} of {all}"))
}

/// No module is read: modules come with the events.
struct NoFiles;

impl ModuleFiles for NoFiles {
    fn open(&mut self, _: Pid, _: &Mapping<'_>) -> Result<ModuleFile, ModuleMiss> {
        Err(ModuleMiss::NotFound)
    }
}
