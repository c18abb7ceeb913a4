//! Attributes of the events beside the first one, for perf_event_open.

use recording::info::SampleBy;

use super::breakpoints;
use super::sampling_event::{SharedSettings, core_type};
use super::scope::FLOOD_STACK_BYTES;
use crate::open::events::{Counter, Point, PointSource};
use crate::sys::perf_event::{Attr, flag};
use perf_data::decode::{RegisterSet, SAMPLE_CALLCHAIN, SAMPLE_PERIOD, SAMPLE_RAW, SampleLayout};
use perf_data::events::{CountedCode, names};

/// The fields of samples of a counting event.
pub(super) fn counter_layout(counter: &Counter, common: &SharedSettings) -> SampleLayout {
    SampleLayout {
        registers: RegisterSet::NATIVE,
        call_chain: common.choice.may_sample_kernel,
        stack_bytes: match counter.may_flood() {
            true => common.stack_bytes.min(FLOOD_STACK_BYTES),
            false => common.stack_bytes,
        },
        period: counter.period_unsaid(),
        raw: false,
    }
}

/// The fields of samples of a point event.
pub(super) fn point_layout(point: &Point, common: &SharedSettings) -> SampleLayout {
    SampleLayout {
        registers: RegisterSet::NATIVE,
        call_chain: common.choice.may_sample_kernel,
        stack_bytes: common.stack_bytes.min(FLOOD_STACK_BYTES),
        // See `Counter::period_unsaid`.
        period: match point.sample_by {
            SampleBy::Period(period @ 2..) => Some(period),
            _ => None,
        },
        raw: matches!(point.source, PointSource::Tracepoint(_)),
    }
}

/// The fields of samples at calls.
pub(super) const CALL_LAYOUT: SampleLayout = SampleLayout {
    registers: RegisterSet::NATIVE,
    call_chain: false,
    stack_bytes: 0,
    period: None,
    raw: false,
};

/// The attributes of a counting event; `None` if the CPU lacks the event.
pub(super) fn counter_attr(
    counter: &Counter,
    layout: &SampleLayout,
    common: &SharedSettings,
    cpu: u32,
) -> Option<Attr> {
    if counter.cpus.as_ref().is_some_and(|cpus| !cpus.contains(&cpu)) {
        return None;
    }
    let core_type = match counter.wants_core_type() {
        true => core_type(&common.core_types, cpu),
        false => 0,
    };
    let [config, config1, config2] = counter.configs;
    let sides = CountedCode {
        kernel: counter.sides.kernel && common.choice.may_sample_kernel,
        ..counter.sides
    };
    Some(Attr {
        kind: counter.kind,
        config: config | core_type,
        config1,
        config2,
        ..attr(sides, counter.sample_by, layout, common)
    })
}

/// The attributes of a point event. `address`: of a breakpoint in the process.
pub(super) fn point_attr(point: &Point, layout: &SampleLayout, common: &SharedSettings, address: u64) -> Attr {
    let attr = attr(point.sides, point.sample_by, layout, common);
    match &point.source {
        PointSource::Tracepoint(tracepoint) => Attr {
            kind: names::TRACEPOINT,
            config: tracepoint.id,
            ..attr
        },
        PointSource::Breakpoint(_) => breakpoints::attr(attr, address),
    }
}

fn attr(sides: CountedCode, sample_by: SampleBy, layout: &SampleLayout, common: &SharedSettings) -> Attr {
    let base = common.choice.common_attr(common.scope, layout.stack_bytes);
    let (mut flags, mut sample_type) = (base.flags, base.sample_type);
    if layout.call_chain {
        flags |= flag::EXCLUDE_CALLCHAIN_USER;
        sample_type |= SAMPLE_CALLCHAIN;
    }
    if layout.raw {
        sample_type |= SAMPLE_RAW;
    }
    if layout.period.is_some() {
        sample_type &= !SAMPLE_PERIOD;
    }
    if !sides.kernel {
        flags |= flag::EXCLUDE_KERNEL;
    }
    if !sides.user {
        flags |= flag::EXCLUDE_USER;
    }
    let sample_period_or_freq = match sample_by {
        SampleBy::Period(period) => period,
        SampleBy::Frequency(rate_hz) => {
            flags |= flag::FREQ;
            rate_hz
        }
    };
    Attr {
        sample_period_or_freq,
        sample_type,
        flags,
        ..base
    }
}
