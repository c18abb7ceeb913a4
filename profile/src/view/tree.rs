//! Call trees by function: top down from the roots, bottom up from the leaves.

use rustc_hash::FxHashMap;

use super::callees::Callees;
use super::cost::Cost;
use super::select::Selection;
use crate::data::NONE;

/// A call tree. Its first node is the root of all and no function.
#[derive(Clone, Debug)]
pub struct CallTree {
    /// The nodes. A node comes after its parent.
    pub nodes: Vec<CallNode>,
}

/// A function in a tree.
#[derive(Clone, Debug)]
pub struct CallNode {
    /// The function; [`NONE`] for the first node.
    pub func: u32,
    /// Cost of stacks that end here. Top down: the self cost. Bottom up: cost without a further caller.
    pub own: Cost,
    /// Cost including all nodes below.
    pub total: Cost,
    /// Indices of child nodes, sorted by total, largest first, then by name.
    pub children: Vec<u32>,
}

impl CallNode {
    fn new(func: u32) -> CallNode {
        CallNode {
            func,
            own: Cost::default(),
            total: Cost::default(),
            children: Vec::new(),
        }
    }
}

/// Limits of a bottom-up tree, which can be larger than the profile.
#[derive(Clone, Copy, Debug)]
pub struct TreeLimits {
    /// Nodes below this weight have no children.
    pub min_weight: f64,
    /// Levels below the first node.
    pub depth: usize,
}

/// Functions below their callers, from the roots. The first node's total is that of all selected samples.
pub fn top_down(selection: &Selection<'_>) -> CallTree {
    let mut tree = downwards(selection, |_| false, true);
    tree.nodes[0].own = selection.without_stack;
    tree.nodes[0].total += selection.without_stack;
    tree
}

/// Like [`top_down`], without the subtrees whose total fails `matters`: most of a large profile's tree.
pub fn top_down_where(selection: &Selection<'_>, matters: impl Fn(Cost) -> bool) -> CallTree {
    let totals = selection.totals();
    let callees = Callees::new(&selection.stacks);
    let mut nodes = vec![CallNode::new(NONE)];
    nodes[0].own = selection.without_stack;
    // Nodes to visit, with the first stack of each list of their callees.
    let mut open = vec![(0u32, vec![callees.first_root()])];
    while let Some((at, lists)) = open.pop() {
        let mut groups: FxHashMap<u32, (CallNode, Vec<u32>)> = FxHashMap::default();
        for stack in lists.iter().flat_map(|first| callees.and_next(*first)) {
            let total = totals[stack as usize];
            if total.is_zero() {
                continue;
            }
            let func = selection.func(stack);
            let (node, lists) = groups.entry(func).or_insert_with(|| (CallNode::new(func), Vec::new()));
            node.own += selection.own[stack as usize];
            node.total += total;
            lists.push(callees.first(stack));
        }
        if at == 0 {
            let roots: Cost = groups.values().map(|(node, _)| node.total).sum();
            nodes[0].total = selection.without_stack;
            nodes[0].total += roots;
        }
        for (node, lists) in groups.into_values().filter(|(node, _)| matters(node.total)) {
            let child = nodes.len() as u32;
            nodes.push(node);
            nodes[at as usize].children.push(child);
            open.push((child, lists));
        }
    }
    sort_children(selection, &mut nodes);
    CallTree { nodes }
}

/// The callees of any of these functions, and their callees in turn. The first node is the function. For recursion, the
/// innermost call counts, so the function is nowhere below.
pub fn callees(selection: &Selection<'_>, funcs: &[u32]) -> CallTree {
    downwards(selection, |func| funcs.contains(&func), false)
}

/// `restarts` is true for a function whose stacks start a new tree.
fn downwards(selection: &Selection<'_>, restarts: impl Fn(u32) -> bool, from_roots: bool) -> CallTree {
    let totals = selection.totals();
    let mut nodes = vec![CallNode::new(NONE)];
    let mut node_of = vec![NONE; selection.stacks.len()];
    let mut children: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    for (stack, frame) in selection.stacks.iter().enumerate() {
        if totals[stack].is_zero() {
            continue;
        }
        let func = selection.func(stack as u32);
        let parent = match frame.prefix {
            NONE if from_roots => 0,
            NONE => NONE,
            prefix => node_of[prefix as usize],
        };
        let node = if restarts(func) {
            0
        } else if parent == NONE {
            continue;
        } else {
            *children.entry((parent, func)).or_insert_with(|| {
                let node = nodes.len() as u32;
                nodes.push(CallNode::new(func));
                nodes[parent as usize].children.push(node);
                node
            })
        };
        node_of[stack] = node;
        nodes[node as usize].own += selection.own[stack];
    }
    finish(selection, nodes)
}

/// Functions by self cost, each with its callers below. The first node's total is that of all selected samples with a
/// stack.
pub fn bottom_up(selection: &Selection<'_>, limits: TreeLimits) -> CallTree {
    let leaves = selection.own.iter().enumerate().filter(|(_, cost)| !cost.is_zero());
    let leaves = leaves.map(|(stack, cost)| (stack as u32, *cost)).collect();
    upwards(selection, leaves, limits)
}

/// The callers of any of these functions, and their callers in turn. The first node is the function, with its total
/// cost. For recursion, the outermost call counts, so the function is nowhere below.
pub fn callers(selection: &Selection<'_>, funcs: &[u32], limits: TreeLimits) -> CallTree {
    let totals = selection.totals();
    let mut below = vec![false; selection.stacks.len()];
    let mut calls: Vec<(u32, Cost)> = Vec::new();
    for (stack, frame) in selection.stacks.iter().enumerate() {
        let is_below = frame.prefix != NONE && below[frame.prefix as usize];
        let is_call = funcs.contains(&selection.func(stack as u32));
        below[stack] = is_below || is_call;
        if is_call && !is_below && !totals[stack].is_zero() {
            calls.push((frame.prefix, totals[stack]));
        }
    }
    upwards(selection, calls, limits)
}

/// Groups the paths from these stacks to their roots.
fn upwards(selection: &Selection<'_>, starts: Vec<(u32, Cost)>, limits: TreeLimits) -> CallTree {
    let mut nodes = vec![CallNode::new(NONE)];
    let mut open = vec![(0u32, starts, 0usize)];
    while let Some((node, paths, depth)) = open.pop() {
        let total: Cost = paths.iter().map(|(_, cost)| *cost).sum();
        nodes[node as usize].total = total;
        let goes_on = depth < limits.depth && total.weight >= limits.min_weight;
        let mut groups: FxHashMap<u32, Vec<(u32, Cost)>> = FxHashMap::default();
        for (stack, cost) in paths {
            if stack == NONE {
                nodes[node as usize].own += cost;
            } else if goes_on {
                let func = selection.func(stack);
                let prefix = selection.stacks[stack as usize].prefix;
                groups.entry(func).or_default().push((prefix, cost));
            }
        }
        for (func, paths) in groups {
            let child = nodes.len() as u32;
            nodes.push(CallNode::new(func));
            nodes[node as usize].children.push(child);
            open.push((child, paths, depth + 1));
        }
    }
    sort_children(selection, &mut nodes);
    CallTree { nodes }
}

fn finish(selection: &Selection<'_>, mut nodes: Vec<CallNode>) -> CallTree {
    for at in (0..nodes.len()).rev() {
        let below: Cost = nodes[at]
            .children
            .iter()
            .map(|child| nodes[*child as usize].total)
            .sum();
        nodes[at].total = nodes[at].own;
        nodes[at].total += below;
        // A node without samples is on no path to the function.
        let mut children = std::mem::take(&mut nodes[at].children);
        children.retain(|child| !nodes[*child as usize].total.is_zero());
        nodes[at].children = children;
    }
    sort_children(selection, &mut nodes);
    CallTree { nodes }
}

fn sort_children(selection: &Selection<'_>, nodes: &mut [CallNode]) {
    for at in 0..nodes.len() {
        let mut children = std::mem::take(&mut nodes[at].children);
        let key = |child: &u32| {
            let node = &nodes[*child as usize];
            (node.total.weight, selection.name(node.func), node.func)
        };
        children.sort_by(|a, b| {
            let (a, b) = (key(a), key(b));
            b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2)))
        });
        nodes[at].children = children;
    }
}
