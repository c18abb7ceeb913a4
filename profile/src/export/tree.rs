//! Samples summed by call path, by function name: the tree of flame graphs and folded stacks.

use std::io;

use rustc_hash::FxHashMap;

use super::Picked;
use super::label::{self, FrameColor, FrameColors};
use crate::data::NO_STACK_LABEL;
use crate::data::{Data, NONE, Thread};

/// Most nodes: a gigabyte. Real profiles have hundreds of thousands.
const MAX_NODES: usize = 1 << 24;

/// In a tree of two profiles: the parent of call paths that only the first one has. The last of its siblings.
pub(super) const GONE: &str = "[gone]";

/// How samples form a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TreeShape {
    /// Merges equal call paths from the root; siblings are sorted by name.
    #[default]
    Merged,
    /// Merges equal call paths from the leaf, to show the callers of hot functions.
    Reverse,
    /// Keeps time order, thread after thread. Merges only neighbours.
    TimeOrder,
}

/// The tree. Node 0 is the root, and children come after their parents.
pub(super) struct CallPathTree {
    pub(super) nodes: Vec<CallPathNode>,
    labels: Vec<Box<str>>,
}

/// A call path.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPathNode {
    /// See [`CallPathTree::label`].
    pub(super) label: u32,
    pub(super) parent: u32,
    /// Weight of the samples that end here.
    pub(super) own: u64,
    /// Weight of samples that end here or below.
    pub(super) total: u64,
    pub(super) kind: FrameColor,
    /// True if every sample has it inlined.
    pub(super) inlined: bool,
    pub(super) first_child: u32,
    pub(super) next_sibling: u32,
}

impl CallPathTree {
    /// Sums the samples below their process, and with `threads` below their thread.
    pub(super) fn from_picked(picked: &Picked<'_>, shape: TreeShape, threads: bool) -> io::Result<CallPathTree> {
        let mut growing = GrowingTree::default();
        let places = ThreadPlaces {
            threads: threads.then_some(label::thread),
            ..ThreadPlaces::default()
        };
        growing.add(picked, shape, places)?;
        Ok(growing.finish(shape))
    }

    pub(super) fn label(&self, node: &CallPathNode) -> &str {
        &self.labels[node.label as usize]
    }

    /// Calls `visit` with each node and its depth (0 for the root), parents first, siblings in order. If `visit`
    /// returns false, the descendants are skipped.
    pub(super) fn walk(&self, mut visit: impl FnMut(u32, usize) -> io::Result<bool>) -> io::Result<()> {
        let mut next = 0;
        let mut path: Vec<u32> = Vec::new();
        loop {
            if next != NONE {
                let below = visit(next, path.len())?;
                path.push(next);
                next = if below {
                    self.nodes[next as usize].first_child
                } else {
                    NONE
                };
            } else if let Some(done) = path.pop() {
                next = self.nodes[done as usize].next_sibling;
            } else {
                return Ok(());
            }
        }
    }

    fn add_up(&mut self) {
        for node in (0..self.nodes.len()).rev() {
            let CallPathNode { own, total, parent, .. } = self.nodes[node];
            let sum = total.saturating_add(own);
            self.nodes[node].total = sum;
            if let Some(parent) = self.nodes.get_mut(parent as usize) {
                parent.total = parent.total.saturating_add(sum);
            }
        }
    }

    /// Links siblings in this order of their labels; equal siblings stay in order of creation.
    fn link(&mut self, order: impl Fn(&str, &str) -> std::cmp::Ordering) {
        let mut nodes: Vec<u32> = (1..self.nodes.len() as u32).collect();
        let label = |node: u32| &*self.labels[self.nodes[node as usize].label as usize];
        nodes.sort_by(|a, b| order(label(*a), label(*b)));
        for node in nodes.into_iter().rev() {
            let parent = self.nodes[node as usize].parent as usize;
            self.nodes[node as usize].next_sibling = self.nodes[parent].first_child;
            self.nodes[parent].first_child = node;
        }
    }
}

/// The place of threads in the tree.
#[derive(Clone, Copy, Default)]
pub(super) struct ThreadPlaces<'a> {
    /// Replaces the process's own name.
    pub(super) process: Option<&'a str>,
    /// The label of a thread below its process; `None`: threads of a process are summed.
    pub(super) threads: Option<fn(&Thread) -> String>,
}

/// A tree to which profiles are added.
pub(super) struct GrowingTree {
    pub(super) tree: CallPathTree,
    label_ids: FxHashMap<Box<str>, u32>,
    children: FxHashMap<(u32, u32), u32>,
}

/// For each thread of a profile, the nodes of its stacks.
pub(super) type StackLeaves = Vec<FxHashMap<u32, u32>>;

impl Default for GrowingTree {
    fn default() -> GrowingTree {
        let root = CallPathNode {
            label: 0,
            parent: NONE,
            own: 0,
            total: 0,
            kind: FrameColor::Place,
            inlined: false,
            first_child: NONE,
            next_sibling: NONE,
        };
        GrowingTree {
            tree: CallPathTree {
                nodes: vec![root],
                labels: vec!["all".into()],
            },
            label_ids: [("all".into(), 0)].into_iter().collect(),
            children: FxHashMap::default(),
        }
    }
}

impl GrowingTree {
    /// Adds the samples of a profile. Samples in time order have no leaves.
    pub(super) fn add(
        &mut self,
        picked: &Picked<'_>,
        shape: TreeShape,
        places: ThreadPlaces<'_>,
    ) -> io::Result<StackLeaves> {
        let mut building = TreeBuilder {
            picked,
            data: picked.data,
            kinds: FrameColors::new(picked.data),
            places,
            growing: self,
            func_labels: vec![NONE; picked.data.funcs.len()],
        };
        let threads = picked.data.threads.iter();
        threads
            .map(|thread| match shape {
                TreeShape::Merged => building.merge(thread),
                TreeShape::Reverse => building.merge_reverse(thread),
                TreeShape::TimeOrder => building.append(thread).map(|()| FxHashMap::default()),
            })
            .collect()
    }

    /// The tree, with totals and links.
    pub(super) fn finish(self, shape: TreeShape) -> CallPathTree {
        let mut tree = self.tree;
        tree.add_up();
        match shape {
            TreeShape::TimeOrder => tree.link(|_, _| std::cmp::Ordering::Equal),
            TreeShape::Merged | TreeShape::Reverse => {
                tree.link(|a, b| (a == GONE).cmp(&(b == GONE)).then_with(|| a.cmp(b)))
            }
        }
        tree
    }

    pub(super) fn label(&mut self, text: &str) -> u32 {
        if let Some(label) = self.label_ids.get(text) {
            return *label;
        }
        let label = self.tree.labels.len() as u32;
        self.tree.labels.push(text.into());
        self.label_ids.insert(text.into(), label);
        label
    }

    fn child(&mut self, parent: u32, step: PathStep) -> io::Result<u32> {
        if let Some(node) = self.children.get(&(parent, step.label)) {
            self.tree.nodes[*node as usize].inlined &= step.inlined;
            return Ok(*node);
        }
        let node = self.push(parent, step)?;
        self.children.insert((parent, step.label), node);
        Ok(node)
    }

    pub(super) fn push(&mut self, parent: u32, step: PathStep) -> io::Result<u32> {
        if self.tree.nodes.len() >= MAX_NODES {
            return Err(io::Error::other(format!(
                "there are more than {MAX_NODES} call paths; record a shorter time"
            )));
        }
        let node = self.tree.nodes.len() as u32;
        self.tree.nodes.push(CallPathNode {
            label: step.label,
            parent,
            own: 0,
            total: 0,
            kind: step.kind,
            inlined: step.inlined,
            first_child: NONE,
            next_sibling: NONE,
        });
        Ok(node)
    }
}

/// Adds a profile to a tree.
struct TreeBuilder<'a> {
    picked: &'a Picked<'a>,
    data: &'a Data,
    kinds: FrameColors,
    places: ThreadPlaces<'a>,
    growing: &'a mut GrowingTree,
    func_labels: Vec<u32>,
}

/// A step of a path.
#[derive(Clone, Copy)]
pub(super) struct PathStep {
    pub(super) label: u32,
    pub(super) kind: FrameColor,
    pub(super) inlined: bool,
}

impl<'a> TreeBuilder<'a> {
    fn merge(&mut self, thread: &Thread) -> io::Result<FxHashMap<u32, u32>> {
        let place = self.place(thread);
        let mut top = None;
        // The node of each stack of this process or thread.
        let mut nodes: FxHashMap<u32, u32> = FxHashMap::default();
        let mut path = Vec::new();
        for (stack, weight) in self.per_stack(thread) {
            let top = match top {
                Some(top) => top,
                None => *top.insert(place.iter().try_fold(0, |node, step| self.growing.child(node, *step))?),
            };
            let mut node = top;
            let mut next = stack;
            path.clear();
            while next != NONE {
                if let Some(known) = nodes.get(&next) {
                    node = *known;
                    break;
                }
                path.push(next);
                next = self.data.stacks[next as usize].prefix;
            }
            if stack == NONE {
                let step = self.no_stack();
                node = self.growing.child(node, step)?;
                nodes.insert(NONE, node);
            }
            for stack in path.drain(..).rev() {
                let step = self.step(stack);
                node = self.growing.child(node, step)?;
                nodes.insert(stack, node);
            }
            self.add(node, weight);
        }
        Ok(nodes)
    }

    fn merge_reverse(&mut self, thread: &Thread) -> io::Result<FxHashMap<u32, u32>> {
        let place = self.place(thread);
        let mut nodes = FxHashMap::default();
        for (stack, weight) in self.per_stack(thread) {
            let mut node = 0;
            for step in self.steps(stack) {
                node = self.growing.child(node, step)?;
            }
            for step in place.iter().rev() {
                node = self.growing.child(node, *step)?;
            }
            nodes.insert(stack, node);
            self.add(node, weight);
        }
        Ok(nodes)
    }

    fn append(&mut self, thread: &Thread) -> io::Result<()> {
        let place = self.place(thread);
        // The path of the previous sample, from the root.
        let mut open: Vec<(u32, u32)> = Vec::new();
        for sample in self.picked.samples(thread).filter(|sample| sample.weight > 0) {
            let mut steps = self.steps(sample.stack);
            steps.extend(place.iter().rev());
            let same = (steps.iter().rev().zip(&open)).take_while(|(step, (label, _))| step.label == *label);
            let same = same.count();
            open.truncate(same);
            for step in steps.into_iter().rev().skip(same) {
                let parent = open.last().map_or(0, |(_, node)| *node);
                open.push((step.label, self.growing.push(parent, step)?));
            }
            let leaf = open.last().map_or(0, |(_, node)| *node);
            self.add(leaf, sample.weight);
        }
        Ok(())
    }

    /// The weight of each stack of a thread, in the order of the stacks.
    fn per_stack(&self, thread: &Thread) -> Vec<(u32, u64)> {
        let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
        for sample in self.picked.samples(thread) {
            let sum = sums.entry(sample.stack).or_default();
            *sum = sum.saturating_add(sample.weight);
        }
        let mut sums: Vec<(u32, u64)> = sums.into_iter().filter(|(_, weight)| *weight > 0).collect();
        sums.sort_unstable();
        sums
    }

    fn add(&mut self, node: u32, weight: u64) {
        let own = &mut self.growing.tree.nodes[node as usize].own;
        *own = own.saturating_add(weight);
    }

    /// Leaf first.
    fn steps(&mut self, mut stack: u32) -> Vec<PathStep> {
        let mut steps = Vec::new();
        if stack == NONE {
            steps.push(self.no_stack());
        }
        while stack != NONE {
            steps.push(self.step(stack));
            stack = self.data.stacks[stack as usize].prefix;
        }
        steps
    }

    fn step(&mut self, stack: u32) -> PathStep {
        let frame = self.data.frames[self.data.stacks[stack as usize].frame as usize];
        let mut label = self.func_labels[frame.func as usize];
        if label == NONE {
            label = self.growing.label(&label::function(self.data, frame.func));
            self.func_labels[frame.func as usize] = label;
        }
        PathStep {
            label,
            kind: self.kinds.kind(self.data, &frame),
            inlined: frame.is_inlined(),
        }
    }

    fn no_stack(&mut self) -> PathStep {
        PathStep {
            label: self.growing.label(NO_STACK_LABEL),
            kind: FrameColor::Mark,
            inlined: false,
        }
    }

    /// Root first.
    fn place(&mut self, thread: &Thread) -> Vec<PathStep> {
        let process = self.places.process.map_or_else(|| label::process(thread), Into::into);
        let mut labels = vec![self.growing.label(&process)];
        if let Some(name) = self.places.threads {
            labels.push(self.growing.label(&name(thread)));
        }
        let step = |label| PathStep {
            label,
            kind: FrameColor::Place,
            inlined: false,
        };
        labels.into_iter().map(step).collect()
    }
}
