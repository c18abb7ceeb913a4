//! Answers to programs that ask for patches of their allocator, and the outcomes.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::ReadCache;
use recording::event::Pid;
use recording::heap::HeapPatches;
use recording::regular_file;

use super::patch::{LeftOut, PatchAddresses, PatchPlan, SLOT_BYTES};
use super::program;
use super::wire::{Answer, Outcome, PATCH_CODE_BYTES, PATCH_STEPS, Question, WRITE_WORDS};

/// Executables whose plan is kept.
const MOST_PLANS: usize = 256;
/// What a program says by leaving.
pub(super) const NO_ANSWER: Outcome = refused(3);
const TOO_FAR: Outcome = refused(2);
const TOO_MANY: Outcome = refused(6);

const fn refused(refused_step: u32) -> Outcome {
    Outcome { refused_step, error: 0 }
}

/// The plans of executables that have asked. Computed once for each file.
#[derive(Debug)]
pub struct PatchAnswers {
    patches: HeapPatches,
    /// By device, inode, time of change in ns, and length. `None`: there is no allocator in it.
    plans: HashMap<(u64, u64, i128, u64), Option<Arc<PatchPlan>>>,
}

/// An executable with an allocator, which a process runs.
#[derive(Clone, Debug)]
pub struct PatchedExecutable {
    pid: i32,
    path: PathBuf,
    plan: Arc<PatchPlan>,
}

/// The patched code of a process.
#[derive(Clone, Debug)]
pub(super) struct PatchedProcess {
    pub(super) pid: Pid,
    /// When it asked.
    pub(super) time_ns: u64,
    code: u64,
    bias: u64,
    plan: Arc<PatchPlan>,
}

/// What became of the patches of a process.
#[derive(Debug)]
pub(super) struct PatchOutcome {
    pub(super) pid: Pid,
    /// The executable.
    pub(super) path: PathBuf,
    pub(super) plan: Arc<PatchPlan>,
    /// Why it was not patched.
    pub(super) refused: Option<String>,
}

impl PatchAnswers {
    /// Answers of a recording that changes the code of these allocators.
    pub fn new(patches: HeapPatches) -> PatchAnswers {
        PatchAnswers {
            patches,
            plans: HashMap::new(),
        }
    }

    /// Computes the plan of an executable before a process asks, which waits for
    /// [`SEND_MS`](super::wire::SEND_MS) at most.
    pub fn prepare(&mut self, path: &Path) {
        self.plan(path);
    }

    /// The bytes of the answer, and the executable, if it has an allocator. An outcome is beside it where the answer
    /// has no patches: the program then sends none.
    pub fn answer(&mut self, pid: i32, question: &Question) -> (Vec<u8>, Option<(PatchedExecutable, Option<Outcome>)>) {
        let Some(executable) = self.executable(pid) else {
            return (start(0, 0), None);
        };
        match bytes(&executable.plan, question) {
            Ok(answer) => (answer, Some((executable, None))),
            Err(refused) => (start(0, 0), Some((executable, Some(refused)))),
        }
    }

    /// The executable of a process, if it has an allocator.
    pub(super) fn executable(&mut self, pid: i32) -> Option<PatchedExecutable> {
        let link = PathBuf::from(format!("/proc/{pid}/exe"));
        let plan = self.plan(&link)?;
        Some(PatchedExecutable {
            pid,
            path: std::fs::read_link(&link).unwrap_or(link),
            plan,
        })
    }

    /// The plan of a file, if it has an allocator.
    pub(super) fn plan(&mut self, path: &Path) -> Option<Arc<PatchPlan>> {
        let file = regular_file::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let changed_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let key = (metadata.dev(), metadata.ino(), changed_ns, metadata.len());
        if self.plans.len() >= MOST_PLANS && !self.plans.contains_key(&key) {
            self.plans.clear();
        }
        let patches = self.patches;
        self.plans.entry(key).or_insert_with(|| plan(file, patches)).clone()
    }
}

/// Reads what it needs of the file, which is not mapped: a program that changes its file can't end the recorder.
fn plan(file: File, patches: HeapPatches) -> Option<Arc<PatchPlan>> {
    let cache = ReadCache::new(file);
    program::parse(&cache)?;
    let mut plan = PatchPlan::new(&cache).ok()?;
    if patches != HeapPatches::All {
        plan = plan.of_known_allocators();
    }
    (!plan.is_empty() || plan.refused().is_some()).then(|| Arc::new(plan))
}

/// The answer of a plan, or why it has none.
pub(super) fn bytes(plan: &PatchPlan, question: &Question) -> Result<Vec<u8>, Outcome> {
    let at = PatchAddresses {
        bias: question.bias,
        code: question.code,
        countdown: i32::try_from(question.countdown).map_err(|_| TOO_FAR)?,
        slow: question.slow,
        filter: question.filter,
    };
    // Where a program can have code.
    let is_possible = question.code.is_multiple_of(SLOT_BYTES as u64) && question.code < 1 << 47;
    let placed = is_possible.then(|| plan.place(&at)).flatten().ok_or(TOO_FAR)?;
    let count = placed.writes.len();
    if placed.code.len() > PATCH_CODE_BYTES || count > PATCH_CODE_BYTES / (8 * WRITE_WORDS) {
        return Err(TOO_MANY);
    }
    let mut answer = start(placed.code.len() as u32, count as u32);
    answer.extend(placed.code);
    for write in placed.writes {
        answer.extend(
            [write.address, write.content.len() as u64]
                .map(u64::to_ne_bytes)
                .concat(),
        );
        for mut bytes in [write.content, write.before] {
            bytes.resize(8, 0);
            answer.extend(bytes);
        }
    }
    Ok(answer)
}

fn start(code_bytes: u32, writes: u32) -> Vec<u8> {
    let words = Answer { code_bytes, writes }.to_words();
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

impl PatchedExecutable {
    pub(super) fn process(&self, pid: i32, question: &Question, time_ns: u64) -> PatchedProcess {
        PatchedProcess {
            pid: Pid(pid),
            time_ns,
            code: question.code,
            bias: question.bias,
            plan: Arc::clone(&self.plan),
        }
    }

    pub(super) fn outcome(self, outcome: Outcome) -> PatchOutcome {
        let by_plan = self.plan.refused().map(|(name, reason)| match reason {
            LeftOut::Inlined => format!("{} ({name} calls them)", reason.label()),
            LeftOut::OwnMalloc => reason.label().to_owned(),
            reason => format!(
                "{name} can't be changed ({}): without it, all blocks would look as if they were never freed",
                reason.label()
            ),
        });
        let by_program = (outcome.refused_step > 0).then(|| {
            let step = PATCH_STEPS.get(outcome.refused_step as usize);
            let step = step.copied().unwrap_or("the program does not say why");
            match outcome.error {
                0 => step.to_owned(),
                error => format!("{step}: {}", std::io::Error::from_raw_os_error(error as i32)),
            }
        });
        PatchOutcome {
            pid: Pid(self.pid),
            path: self.path,
            plan: self.plan,
            refused: by_plan.or(by_program),
        }
    }
}

impl PatchOutcome {
    /// The names of the allocators.
    pub(super) fn allocators(&self) -> String {
        self.plan.allocators().collect::<Vec<_>>().join(" and ")
    }

    /// The number of functions that are patched.
    pub(super) fn functions(&self) -> u64 {
        self.plan.entries() as u64
    }

    /// The functions that are not, each with the reason.
    pub(super) fn left_out(&self) -> Vec<String> {
        let left_out = self.plan.left_out().iter();
        left_out
            .map(|(name, reason)| format!("{name}, {}", reason.label()))
            .collect()
    }
}

impl PatchedProcess {
    /// The address in the executable that stands for one in the patched code. `None`: it is elsewhere.
    pub(super) fn original(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.code)?;
        let is_inside = offset < self.plan.code_bytes() as u64;
        let stated = is_inside.then(|| self.plan.original(offset)).flatten()?;
        Some(stated.wrapping_add(self.bias))
    }
}
