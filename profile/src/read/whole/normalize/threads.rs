//! Threads, with their samples and markers.

use super::super::columns::{Addresses, NumberColumn};
use super::super::extent::{FieldChoice, KeptField, MarkerData};
use super::super::meta::RawCause;
use super::super::raw::{RawAllocations, RawMarkers, RawSamples, RawThread};
use super::{IndexColumn, Normalizer, TableFault, beyond, id};
use crate::data::facts::without_event;
use crate::data::{Allocations, Marker, MarkerPhase, NONE, Samples, Thread, WeightUnit, map_stacks_of_js_allocations};

impl Normalizer {
    pub(super) fn thread<E: FieldChoice>(
        &mut self,
        raw: RawThread<E>,
        texts: &[u32],
        first_stack: usize,
        at: &str,
    ) -> Result<(), TableFault> {
        let unit = match raw.samples.weight_type.as_deref() {
            Some("tracing-ms") => WeightUnit::Milliseconds,
            Some("bytes") => WeightUnit::Bytes,
            _ if raw.event.is_some() => WeightUnit::Counts,
            _ => WeightUnit::Samples,
        };
        let samples = self.samples(raw.samples, first_stack, at)?;
        let markers = self.markers(raw.markers, texts, first_stack, at)?;
        let allocations = raw.native_allocations;
        let allocations = allocations
            .map(|raw| self.allocations(raw, first_stack, at))
            .transpose()?;
        let mut rest = raw.rest.take();
        // Its texts refer to a table that is rebuilt here.
        rest.remove("jsTracer");
        map_stacks_of_js_allocations(&mut rest, |stack| stack.saturating_add(first_stack as u32));
        let counted = raw.event.as_deref().filter(|_| raw.event_of.is_none());
        let name = counted
            .and_then(|event| without_event(&raw.name, event))
            .map(str::to_owned);
        self.data.threads.push(Thread {
            process_name: raw.process_name.unwrap_or_default(),
            pid: raw.pid.into_text(),
            tid: raw.tid.into_text(),
            is_main: raw.is_main_thread || raw.name == "GeckoMain",
            name: name.unwrap_or(raw.name),
            event: raw.event,
            event_of: raw.event_of,
            unit,
            samples,
            markers,
            allocations,
            rest,
        });
        Ok(())
    }

    fn markers<E: FieldChoice>(
        &self,
        raw: RawMarkers<E>,
        texts: &[u32],
        first_stack: usize,
        at: &str,
    ) -> Result<Vec<Marker>, TableFault> {
        let names = IndexColumn(at, "markers.name", &raw.name.0);
        let (phases, categories) = (raw.phase.take(), raw.category.take());
        let (phases, categories) = (
            IndexColumn(at, "markers.phase", &phases.0),
            IndexColumn(at, "markers.category", &categories.0),
        );
        let time = |times: &[f64], index: usize| times.get(index).copied().filter(|time| !time.is_nan());
        let stacks = self.data.stacks.len() - first_stack;
        let mut data = raw.data.into_iter();
        (0..names.2.len())
            .map(|index| {
                let (start, end) = (time(&raw.start_time.0, index), time(&raw.end_time.0, index));
                let phase = match phases.get(index) {
                    1 => MarkerPhase::Interval,
                    2 => MarkerPhase::Start,
                    3 => MarkerPhase::End,
                    NONE if end.is_some_and(|end| start.is_none_or(|start| start <= end)) => MarkerPhase::Interval,
                    _ => MarkerPhase::Instant,
                };
                // Firefox writes 0 for the time that the phase lacks.
                let (start, end) = match phase {
                    MarkerPhase::Interval => (start.or(end), end.or(start)),
                    MarkerPhase::Instant | MarkerPhase::Start => (start.or(end), start.or(end)),
                    MarkerPhase::End => (end.or(start), end.or(start)),
                };
                let (used, fields) = data.next().flatten().map_or_else(Default::default, MarkerData::split);
                let (stack, weight) = match used.cause {
                    RawCause::Stack { stack, weight } => (stack.unwrap_or(NONE), weight),
                    RawCause::Other(_) | RawCause::None => (NONE, None),
                };
                if stack != NONE && stack as usize >= stacks {
                    let place = format!("{at}.markers.data[{index}].cause.stack");
                    return Err(beyond(&place, stack, stacks, "stacks"));
                }
                Ok(Marker {
                    name: id(texts, names.required(index, texts.len(), "texts")?),
                    start_ms: start.unwrap_or(0.0),
                    end_ms: end.unwrap_or(0.0),
                    phase,
                    category: match categories.get(index) {
                        NONE => 0,
                        category => category,
                    },
                    stack: if stack == NONE {
                        NONE
                    } else {
                        stack + first_stack as u32
                    },
                    weight,
                    is_own: used.is_own,
                    is_async: used.is_async,
                    is_cut: used.is_cut,
                    fields: fields.map(|mut fields| {
                        self.text_fields.map(&mut fields, |text| id(texts, text));
                        Box::new(fields)
                    }),
                })
            })
            .collect()
    }

    fn allocations<E: FieldChoice>(
        &self,
        raw: RawAllocations<E>,
        first_stack: usize,
        at: &str,
    ) -> Result<Allocations, TableFault> {
        let count = raw.weight.0.len();
        let same_length = |length: usize, column: &str| match length == count {
            true => Ok(()),
            false => Err(format!(
                "{at}.nativeAllocations.{column} has {length} values, but there are {count} weights"
            )),
        };
        let mut stack = raw.stack.0;
        self.move_stacks(&mut stack, first_stack, &format!("{at}.nativeAllocations.stack"))?;
        let allocations = Allocations {
            time_ms: raw.time.0,
            weight: raw.weight.0,
            stack,
            address: raw.memory_address.map(|Addresses(addresses)| addresses),
            thread: raw.thread_id.map(|NumberColumn(threads)| threads),
            size: raw.size.map(|Addresses(sizes)| sizes),
            end_ms: raw.end,
            rest: raw.rest.take(),
        };
        same_length(raw.length.unwrap_or(count as u64) as usize, "length")?;
        same_length(allocations.time_ms.len(), "time")?;
        same_length(allocations.stack.len(), "stack")?;
        same_length(allocations.address.as_ref().map_or(count, Vec::len), "memoryAddress")?;
        same_length(allocations.thread.as_ref().map_or(count, Vec::len), "threadId")?;
        same_length(allocations.size.as_ref().map_or(count, Vec::len), "size")?;
        Ok(allocations)
    }

    /// Makes stacks of a file, or of a thread of the file, those of the data.
    fn move_stacks(&self, stacks: &mut [u32], first_stack: usize, at: &str) -> Result<(), TableFault> {
        let count = self.data.stacks.len() - first_stack;
        for (index, stack) in stacks.iter_mut().enumerate().filter(|(_, stack)| **stack != NONE) {
            if *stack as usize >= count {
                return Err(beyond(&format!("{at}[{index}]"), *stack, count, "stacks"));
            }
            *stack += first_stack as u32;
        }
        Ok(())
    }

    fn samples<E: FieldChoice>(
        &mut self,
        raw: RawSamples<E>,
        first_stack: usize,
        at: &str,
    ) -> Result<Samples, TableFault> {
        let mut stack = raw.stack.0;
        let count = stack.len();
        if raw.length.is_some_and(|length| length != count as u64) {
            return Err(format!(
                "{at}.samples.length is {}, but {count} stacks are listed",
                raw.length.unwrap_or(0)
            ));
        }
        self.move_stacks(&mut stack, first_stack, &format!("{at}.samples.stack"))?;
        let mut time_ms = raw.time.0;
        if time_ms.is_empty() {
            time_ms = raw.time_deltas.0;
            let mut now = 0.0;
            for time in &mut time_ms {
                now += *time;
                *time = now;
            }
            // For a thread without samples, the front end writes one difference: `null`.
            if count == 0 {
                time_ms.clear();
            }
        }
        let same_length = |length: usize, column: &str| match length == count {
            true => Ok(()),
            false => Err(format!(
                "{at}.samples.{column} has {length} values, but there are {count} samples"
            )),
        };
        same_length(time_ms.len(), "time")?;
        let weight = Some(raw.weight.0).filter(|weights| !weights.is_empty());
        if let Some(weights) = &weight {
            same_length(weights.len(), "weight")?;
        }
        let own_count = Some(raw.count.0).filter(|counts| !counts.is_empty());
        if let Some(counts) = &own_count {
            same_length(counts.len(), "count")?;
        }
        let cpu_delta = raw.thread_cpu_delta.take().map(|NumberColumn(deltas)| deltas);
        Ok(Samples {
            variance: None,
            cpu_delta: cpu_delta.filter(|deltas| deltas.len() == count),
            rest: raw.rest.take(),
            time_ms,
            stack,
            weight,
            count: own_count.map(|counts| counts.into_iter().map(|count| count as u64).collect()),
        })
    }
}
