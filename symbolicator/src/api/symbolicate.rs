//! `/symbolicate/v5`: <https://tecken.readthedocs.io/en/latest/symbolication.html>, with inline frames.

use std::collections::BTreeMap;

use names::source_path;
use names::symbol::{AddressInfo, SourceFrame};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::body::RequestError;
use crate::{ModuleKey, Symbolicator};

/// Most modules in a request. The UI sends at most 10.
const MAX_MODULES: usize = 10_000;

/// Most frames in a request, over all jobs and stacks. The UI sends at most 10,000.
const MAX_FRAMES: usize = 500_000;

/// Most bytes in an answer, before JSON. Debug info decides how many inlined functions an address has and how long
/// their names are, so a short request may have a long answer.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Addresses that are looked up before the size of their answers is checked.
const ADDRESSES_AT_ONCE: usize = 10_000;

#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum SymbolicateRequest {
    Jobs { jobs: Vec<Job> },
    // Older clients send a single job without a list.
    Single(Job),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Job {
    memory_map: Vec<(String, String)>,
    stacks: Vec<Vec<FrameAddress>>,
}

/// (index into the memory map, -1 for none; relative address)
#[derive(Clone, Copy, Deserialize)]
struct FrameAddress(i64, u64);

#[derive(Serialize)]
pub(super) struct SymbolicateAnswer {
    results: Vec<JobAnswer>,
}

#[derive(Serialize)]
struct JobAnswer {
    /// `name/id` -> whether there are symbols; `null` if no address is in the module.
    found_modules: BTreeMap<String, Option<bool>>,
    /// Why a module was not found, for people. The UI ignores it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    module_errors: BTreeMap<String, String>,
    stacks: Vec<Vec<FrameAnswer>>,
}

#[derive(Default, Serialize)]
struct FrameAnswer {
    frame: usize,
    module: String,
    module_offset: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_offset: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_size: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    /// Innermost first; the outer function is the frame itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlines: Vec<InlinedFrameAnswer>,
}

#[derive(Serialize)]
struct InlinedFrameAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
}

pub(super) fn answer(
    symbolicator: &Symbolicator,
    request: &SymbolicateRequest,
) -> Result<SymbolicateAnswer, RequestError> {
    let jobs = match request {
        SymbolicateRequest::Jobs { jobs } => jobs.as_slice(),
        SymbolicateRequest::Single(job) => std::slice::from_ref(job),
    };
    let modules: usize = jobs.iter().map(|job| job.memory_map.len()).sum();
    let frames: usize = jobs.iter().flat_map(|job| &job.stacks).map(Vec::len).sum();
    if modules > MAX_MODULES || frames > MAX_FRAMES {
        return Err(RequestError::new(format_args!(
            "the request has {modules} modules and {frames} frames, at most {MAX_MODULES} and {MAX_FRAMES} are \
             answered; ask in several requests"
        )));
    }
    let mut size = AnswerSize::default();
    let results = jobs
        .iter()
        .map(|job| answer_job(symbolicator, job, &mut size))
        .collect::<Result<_, _>>()?;
    Ok(SymbolicateAnswer { results })
}

/// The size of an answer, known before the answer is made.
#[derive(Default)]
struct AnswerSize {
    bytes: usize,
}

impl AnswerSize {
    fn add(&mut self, info: &AddressInfo) -> Result<(), RequestError> {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let inlined = info.frames.iter();
        let inlined = inlined.map(|frame| size_of::<InlinedFrameAnswer>() + text(&frame.function) + text(&frame.file));
        let function = info.function.as_ref().map_or(0, |function| function.name.len());
        self.bytes = inlined.fold(self.bytes + size_of::<FrameAnswer>() + function, usize::saturating_add);
        if self.bytes <= MAX_ANSWER_BYTES {
            Ok(())
        } else {
            Err(RequestError::new(format_args!(
                "the answer has more than {MAX_ANSWER_BYTES} bytes, as many functions are inlined; ask in several requests"
            )))
        }
    }
}

fn answer_job(symbolicator: &Symbolicator, job: &Job, size: &mut AnswerSize) -> Result<JobAnswer, RequestError> {
    let mut asked: Vec<Vec<u64>> = vec![Vec::new(); job.memory_map.len()];
    for FrameAddress(module, address) in job.stacks.iter().flatten() {
        if let Ok(index) = usize::try_from(*module) {
            let addresses = asked.get_mut(index).ok_or_else(|| {
                RequestError::new(format_args!(
                    "a frame names module {index}, the memoryMap has {}",
                    job.memory_map.len()
                ))
            })?;
            addresses.push(*address);
        }
    }

    let mut found_modules = BTreeMap::new();
    let mut module_errors = BTreeMap::new();
    let mut infos: Vec<FxHashMap<u64, AddressInfo>> = Vec::with_capacity(asked.len());
    for ((debug_name, debug_id), mut addresses) in job.memory_map.iter().zip(asked) {
        let label = format!("{debug_name}/{debug_id}");
        let mut known = FxHashMap::default();
        if addresses.is_empty() {
            found_modules.entry(label).or_insert(None);
        } else {
            addresses.sort_unstable();
            addresses.dedup();
            let key = ModuleKey {
                debug_name: debug_name.clone(),
                debug_id: debug_id.clone(),
            };
            let mut looked_up = AnswerSize::default();
            let mut found = true;
            for addresses in addresses.chunks(ADDRESSES_AT_ONCE) {
                match symbolicator.ask_all(&key, |module| symbolicator.lookup(module, addresses)) {
                    Ok(answers) => {
                        answers.iter().try_for_each(|info| looked_up.add(info))?;
                        known.extend(addresses.iter().copied().zip(answers));
                    }
                    Err(error) => {
                        module_errors.insert(label.clone(), error.to_string());
                        found = false;
                        break;
                    }
                }
            }
            found_modules.insert(label, Some(found));
        }
        infos.push(known);
    }

    for FrameAddress(module, address) in job.stacks.iter().flatten() {
        let known = usize::try_from(*module).ok().and_then(|module| infos.get(module));
        if let Some(info) = known.and_then(|known| known.get(address)) {
            size.add(info)?;
        }
    }

    let frame = |(index, FrameAddress(module, address)): (usize, &FrameAddress)| {
        let module = usize::try_from(*module).ok();
        let info = module.and_then(|module| infos[module].get(address));
        FrameAnswer {
            frame: index,
            module: module.map_or_else(String::new, |module| job.memory_map[module].0.clone()),
            module_offset: format!("{address:#x}"),
            ..info.map(|info| describe(*address, info)).unwrap_or_default()
        }
    };
    let stacks = job
        .stacks
        .iter()
        .map(|stack| stack.iter().enumerate().map(frame).collect())
        .collect();
    Ok(JobAnswer {
        found_modules,
        module_errors,
        stacks,
    })
}

fn describe(address: u64, info: &AddressInfo) -> FrameAnswer {
    let function = info.function.as_ref();
    let (outer, inner) = match info.frames.split_last() {
        Some((outer, inner)) => (Some(outer), inner),
        None => (None, &[][..]),
    };
    let name = outer
        .and_then(|outer| outer.function.clone())
        .or_else(|| function.map(|function| function.name.clone()));
    FrameAnswer {
        // The UI drops a name without an offset, so an unknown function start is replaced by the address.
        function_offset: name.is_some().then(|| {
            format!(
                "{:#x}",
                function.map_or(0, |function| address.saturating_sub(function.start))
            )
        }),
        function_size: function
            .and_then(|function| function.size)
            .map(|size| format!("{size:#x}")),
        function: name,
        file: outer.and_then(in_profile),
        line: outer.and_then(line_in_its_file),
        column: outer.and_then(|outer| outer.column.filter(|_| outer.declared_in.is_none())),
        inlines: inner
            .iter()
            .map(|frame| InlinedFrameAnswer {
                function: frame.function.clone(),
                file: in_profile(frame),
                line: line_in_its_file(frame),
                column: frame.column.filter(|_| frame.declared_in.is_none()),
            })
            .collect(),
        ..FrameAnswer::default()
    }
}

/// The file of the function: the UI makes a function of each pair of name and file. The UI puts the answer into the
/// profile.
fn in_profile(frame: &SourceFrame) -> Option<String> {
    Some(source_path::in_profile(frame.function_file()?).into_owned())
}

/// The answer has one file for the function and its line: a line of another file is left out.
fn line_in_its_file(frame: &SourceFrame) -> Option<u32> {
    frame.line.filter(|_| frame.declared_in.is_none())
}
