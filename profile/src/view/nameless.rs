//! Samples in code without a name.

use names::symbol::is_nameless;

use crate::data::Data;

/// Samples of running threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamelessSamples {
    /// Those whose innermost function has no name: its file has no symbols, or nobody knows the code.
    pub nameless: u64,
    /// All of them.
    pub of: u64,
}

impl NamelessSamples {
    /// Of all samples. `None` for counts that are of no samples.
    pub fn count(data: &Data) -> Option<NamelessSamples> {
        let is_nameless: Vec<bool> = (0..data.funcs.len() as u32)
            .map(|func| is_nameless(data.func_name(func)))
            .collect();
        let is_nameless = |stack: u32| {
            let frame = data.stacks.get(stack as usize).map(|stack| stack.frame);
            frame.is_some_and(|frame| is_nameless[data.frames[frame as usize].func as usize])
        };
        let mut found = NamelessSamples::default();
        for samples in data.threads.iter().map(|thread| &thread.samples) {
            for (at, (_, stack, weight)) in samples.iter().enumerate() {
                let number = if data.is_wait(stack) {
                    0
                } else {
                    data.count_of(samples, at, weight)
                };
                found.of += number;
                if is_nameless(stack) {
                    found.nameless += number;
                }
            }
        }
        data.has_samples().then_some(found)
    }
}
