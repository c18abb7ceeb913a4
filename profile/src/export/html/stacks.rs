//! Call chains as one tree of functions, and the lines of each call chain.
//!
//! A node is a call path of functions. A stack is a node with a line for each of its functions: the nodes' sums need no
//! lines, and only the view of sources needs stacks. Node 0 is the root, stack 0 stands for samples without a stack.

use rustc_hash::FxHashMap;

use super::columns::PageColumns;
use crate::data::NONE;
use crate::view::annotate::machine_function;
use crate::view::arcs;
use crate::view::select::Selection;

/// The tree of all used stacks. Nodes are in depth-first order.
pub(super) struct PageStacks {
    /// For each node but the root: its depth, from 1.
    depth: Vec<u32>,
    /// Its function: an index of `funcs`.
    func: Vec<u32>,
    inlined: Vec<bool>,
    /// How many stacks it has.
    count: Vec<u32>,
    /// For each stack but the first, by node: its line, or 0.
    line: Vec<u32>,
    /// The line's file as an index of a text, where that is not the function's, or [`NONE`].
    pub(super) line_file: Vec<u32>,
    /// Which of the stacks of its node's parent its caller is.
    variant: Vec<u32>,
    /// The functions of the data, those of most nodes first.
    pub(super) funcs: Vec<u32>,
    /// For each stack of the data: the number of the stack of its samples, or 0.
    numbers: Vec<u32>,
    /// For each stack but the first, by node: the instruction of its innermost function. Empty for a page without
    /// addresses.
    pub(super) places: Vec<Option<PageInstruction>>,
}

/// An instruction that was sampled, or that called what was.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PageInstruction {
    /// Index of a library of the data.
    pub(super) lib: u32,
    /// Relative to the library.
    pub(super) address: u64,
    /// The function whose machine code it is: an index of the data's functions.
    pub(super) machine: u32,
}

/// A node while the tree grows.
struct PageNode {
    func: u32,
    parent: u32,
    inlined: bool,
    first_child: u32,
    next: u32,
}

/// A stack while the tree grows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GrowingStack {
    node: u32,
    line: u32,
    line_file: u32,
    caller: u32,
    place: Option<PageInstruction>,
}

impl PageStacks {
    /// The tree of the stacks that are `used` by samples, and of their callers; `with_places` keeps different
    /// instructions apart.
    pub(super) fn new(selection: &Selection<'_>, mut used: Vec<bool>, with_places: bool) -> PageStacks {
        let data = selection.data;
        // A caller comes before its callees.
        for stack in (0..data.stacks.len()).rev() {
            let prefix = data.stacks[stack].prefix;
            if used[stack] && prefix != NONE {
                used[prefix as usize] = true;
            }
        }
        let (mut nodes, variants, variant_of) = grow(selection, &used, with_places);
        link(selection, &mut nodes);
        Self::ordered(selection, &nodes, &variants, variant_of)
    }

    /// The number of a stack of the data.
    pub(super) fn number(&self, stack: u32) -> u32 {
        self.numbers.get(stack as usize).copied().unwrap_or(0)
    }

    /// Appends the columns. `func` maps a function of the data to the page's number.
    pub(super) fn write(&self, columns: &mut PageColumns) -> serde_json::Value {
        let plain = |column: &[u32]| column.iter().map(|number| u64::from(*number)).collect::<Vec<_>>();
        serde_json::json!({
            "depth": columns.deltas(plain(&self.depth)),
            "func": columns.plain(plain(&self.func)),
            "inlined": columns.plain(self.inlined.iter().map(|is| u64::from(*is))),
            "stacks": columns.plain(plain(&self.count)),
            "line": columns.plain(plain(&self.line)),
            "caller": columns.plain(plain(&self.variant)),
        })
    }

    fn ordered(
        selection: &Selection<'_>,
        nodes: &[PageNode],
        variants: &[GrowingStack],
        variant_of: Vec<u32>,
    ) -> PageStacks {
        // The place of each node in depth-first order; the root is 0.
        let mut place = vec![0u32; nodes.len()];
        let mut order: Vec<u32> = Vec::with_capacity(nodes.len());
        let mut depth = Vec::with_capacity(nodes.len());
        let mut path: Vec<u32> = Vec::new();
        let mut next = nodes[0].first_child;
        loop {
            if next != NONE {
                order.push(next);
                place[next as usize] = order.len() as u32;
                path.push(next);
                depth.push(path.len() as u32);
                next = nodes[next as usize].first_child;
            } else if let Some(done) = path.pop() {
                next = nodes[done as usize].next;
            } else {
                break;
            }
        }
        let (funcs, number_of) = by_use(selection, nodes);
        // Counting sort of the stacks by node. The root has the stack of samples without one.
        let mut count = vec![0u32; nodes.len()];
        variants[1..]
            .iter()
            .for_each(|variant| count[place[variant.node as usize] as usize] += 1);
        let mut first = Vec::with_capacity(nodes.len());
        let mut sum = 1;
        for count in &count {
            first.push(sum);
            sum += count;
        }
        first[0] = 0;
        let (mut free, mut renumbered) = (first.clone(), vec![0u32; variants.len()]);
        for (variant, number) in variants.iter().zip(&mut renumbered).skip(1) {
            let free = &mut free[place[variant.node as usize] as usize];
            *number = *free;
            *free += 1;
        }
        let mut line = vec![0; variants.len()];
        let mut line_file = vec![NONE; variants.len()];
        let mut caller = vec![0; variants.len()];
        let has_places = variants.iter().any(|variant| variant.place.is_some());
        let mut places = vec![None; if has_places { variants.len() } else { 1 }];
        for (variant, number) in variants.iter().zip(&renumbered).skip(1) {
            if has_places {
                places[*number as usize] = variant.place;
            }
            let parent = nodes[variant.node as usize].parent;
            line[*number as usize] = variant.line;
            line_file[*number as usize] = variant.line_file;
            caller[*number as usize] = renumbered[variant.caller as usize] - first[place[parent as usize] as usize];
        }
        PageStacks {
            depth,
            func: (order.iter())
                .map(|node| number_of[nodes[*node as usize].func as usize])
                .collect(),
            inlined: order.iter().map(|node| nodes[*node as usize].inlined).collect(),
            count: count.split_off(1),
            line: line.split_off(1),
            line_file: line_file.split_off(1),
            variant: caller.split_off(1),
            funcs,
            numbers: (variant_of.into_iter())
                .map(|variant| renumbered[variant as usize])
                .collect(),
            places: places.split_off(1),
        }
    }
}

/// Nodes and stacks in the order in which they were found; a caller comes first. Both begin with the root. And the new
/// stack of each stack.
fn grow(selection: &Selection<'_>, used: &[bool], with_places: bool) -> (Vec<PageNode>, Vec<GrowingStack>, Vec<u32>) {
    let data = selection.data;
    let new = |func, parent, inlined| PageNode {
        func,
        parent,
        inlined,
        first_child: NONE,
        next: NONE,
    };
    let mut nodes = vec![new(NONE, NONE, false)];
    let mut variants = vec![GrowingStack {
        node: 0,
        line: 0,
        line_file: NONE,
        caller: 0,
        place: None,
    }];
    let mut variant_of = vec![0u32; data.stacks.len()];
    let (mut node_of_path, mut variant_of_path) = (FxHashMap::default(), FxHashMap::default());
    for (at, stack) in data.stacks.iter().enumerate().filter(|(at, _)| used[*at]) {
        let frame = &data.frames[stack.frame as usize];
        let caller = match stack.prefix {
            NONE => 0,
            prefix => variant_of[prefix as usize],
        };
        let parent = variants[caller as usize].node;
        let func = selection.representative(frame.func);
        let node = *node_of_path.entry((parent, func)).or_insert_with(|| {
            let node = nodes.len() as u32;
            nodes.push(new(func, parent, true));
            node
        });
        nodes[node as usize].inlined &= frame.is_inlined();
        let place = frame.address.filter(|_| with_places && frame.lib != NONE);
        let variant = GrowingStack {
            node,
            line: if frame.line == NONE { 0 } else { frame.line },
            line_file: frame.line_file,
            caller,
            place: place.map(|address| PageInstruction {
                lib: frame.lib,
                address,
                machine: selection.representative(machine_function(selection, at)),
            }),
        };
        variant_of[at] = *variant_of_path.entry(variant).or_insert_with(|| {
            variants.push(variant);
            variants.len() as u32 - 1
        });
    }
    (nodes, variants, variant_of)
}

/// Links siblings in the order of their names, as in other flame graphs.
fn link(selection: &Selection<'_>, nodes: &mut [PageNode]) {
    let mut by_name: Vec<u32> = (0..selection.data.funcs.len() as u32).collect();
    by_name.sort_unstable_by_key(|func| (selection.name(*func), *func));
    let mut rank = vec![0u32; by_name.len()];
    for (at, func) in (0..).zip(&by_name) {
        rank[*func as usize] = at;
    }
    let mut order: Vec<u32> = (1..nodes.len() as u32).collect();
    order.sort_by_key(|node| rank[nodes[*node as usize].func as usize]);
    for node in order.into_iter().rev() {
        let parent = nodes[node as usize].parent as usize;
        nodes[node as usize].next = std::mem::replace(&mut nodes[parent].first_child, node);
    }
}

/// The functions, those of most nodes first: they get the shortest numbers. And each function's number.
fn by_use(selection: &Selection<'_>, nodes: &[PageNode]) -> (Vec<u32>, Vec<u32>) {
    let data = selection.data;
    let mut uses = vec![0u32; data.funcs.len()];
    nodes[1..].iter().for_each(|node| uses[node.func as usize] += 1);
    // Without call paths, a function that only calls others is on no stack.
    let arcs = arcs::sums(selection).unwrap_or_default();
    arcs.into_keys()
        .flat_map(|(caller, callee)| [caller, callee])
        .for_each(|func| uses[func as usize] += 1);
    let mut funcs: Vec<u32> = (0..data.funcs.len() as u32)
        .filter(|func| uses[*func as usize] > 0)
        .collect();
    funcs.sort_by_key(|func| std::cmp::Reverse(uses[*func as usize]));
    let mut number_of = vec![NONE; data.funcs.len()];
    for (number, func) in (0..).zip(&funcs) {
        number_of[*func as usize] = number;
    }
    (funcs, number_of)
}
