//! Both sides as one tree of call paths, with the weight and the change of each.

use rustc_hash::FxHashMap;

use super::keys::{ComparedKeys, of_frames};
use super::nodes::{ComparedNodes, nodes};
use super::samples::RecordingSamples;
use super::{Compared, DiffLimits};
use crate::data::{Data, NONE};

/// The tree. Node 0 is the root; a node comes after its parent.
pub(crate) struct ComparedPaths {
    /// For each node: its parent; [`NONE`] for the root.
    pub(crate) parents: Vec<u32>,
    /// For each node: an index of `functions`; [`NONE`] for the root.
    pub(crate) func: Vec<u32>,
    /// True if the function is inlined in all of its frames.
    pub(crate) inlined: Vec<bool>,
    /// Name and library of each function.
    pub(crate) functions: Vec<(String, Option<String>)>,
    /// A frame of each function: its recording, those from before first, and the index of the frame.
    pub(crate) frame_of: Vec<(usize, u32)>,
    /// For each side, before and after, and each node: the weight of samples that end there, and their number.
    pub(crate) own: [Vec<(f64, u64)>; 2],
    pub(crate) nodes: ComparedNodes,
}

/// Compares call paths of functions, as [`diff`](super::diff) compares functions.
pub(crate) fn paths(base: &[Data], new: &[Data], limits: DiffLimits) -> ComparedPaths {
    let mut growing = GrowingPaths::default();
    let mut own = [vec![(0.0, 0)], vec![(0.0, 0)]];
    let mut recordings = [Vec::new(), Vec::new()];
    for (at, data) in base.iter().chain(new).enumerate() {
        let side = usize::from(at >= base.len());
        let nodes = growing.add(at, data);
        let recording = RecordingSamples::of_running_at(data, |stack| nodes.get(stack as usize).copied().unwrap_or(0));
        let own = &mut own[side];
        own.resize(growing.parents.len(), (0.0, 0));
        for sample in recording.runs().flatten() {
            let (weight, samples) = &mut own[sample.place as usize];
            *weight += sample.weight;
            *samples += recording.count_of(sample);
        }
        recordings[side].push(recording);
    }
    own.iter_mut()
        .for_each(|own| own.resize(growing.parents.len(), (0.0, 0)));
    let nodes = nodes(&growing.parents, &recordings[0], &recordings[1], limits);
    let name = |key: usize| {
        (
            growing.keys.function(key).to_owned(),
            growing.keys.lib(key).map(str::to_owned),
        )
    };
    ComparedPaths {
        functions: (0..growing.keys.len()).map(name).collect(),
        frame_of: growing.frame_of,
        parents: growing.parents,
        func: growing.func,
        inlined: growing.inlined,
        own,
        nodes,
    }
}

struct GrowingPaths {
    keys: ComparedKeys,
    parents: Vec<u32>,
    func: Vec<u32>,
    inlined: Vec<bool>,
    frame_of: Vec<(usize, u32)>,
    children: FxHashMap<(u32, u32), u32>,
}

impl Default for GrowingPaths {
    fn default() -> GrowingPaths {
        GrowingPaths {
            keys: ComparedKeys::default(),
            parents: vec![NONE],
            func: vec![NONE],
            inlined: vec![false],
            frame_of: Vec::new(),
            children: FxHashMap::default(),
        }
    }
}

impl GrowingPaths {
    /// Adds the call paths of all samples of a recording. Returns the node of each stack, 0 for unused ones.
    fn add(&mut self, recording: usize, data: &Data) -> Vec<u32> {
        let of_frames = of_frames(data, Compared::Inlined, &mut self.keys);
        for (frame, key) in (0..).zip(&of_frames) {
            if *key as usize >= self.frame_of.len() {
                self.frame_of.push((recording, frame));
            }
        }
        let mut used = vec![false; data.stacks.len()];
        for stack in data.threads.iter().flat_map(|thread| &thread.samples.stack) {
            if let Some(used) = used.get_mut(*stack as usize) {
                *used = !data.is_wait(*stack);
            }
        }
        // A caller comes before its callees.
        for stack in (0..used.len()).rev() {
            if let (true, Some(caller)) = (used[stack], used.get_mut(data.stacks[stack].prefix as usize)) {
                *caller = true;
            }
        }
        let mut nodes = vec![0; data.stacks.len()];
        for (at, stack) in data.stacks.iter().enumerate().filter(|(at, _)| used[*at]) {
            let parent = nodes.get(stack.prefix as usize).copied().unwrap_or(0);
            let key = of_frames[stack.frame as usize];
            let is_inlined = data.frames[stack.frame as usize].is_inlined();
            let node = *self.children.entry((parent, key)).or_insert_with(|| {
                self.parents.push(parent);
                self.func.push(key);
                self.inlined.push(true);
                self.parents.len() as u32 - 1
            });
            self.inlined[node as usize] &= is_inlined;
            nodes[at] = node;
        }
        nodes
    }
}
