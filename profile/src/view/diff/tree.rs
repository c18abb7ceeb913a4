//! The places of samples as a tree, and sums over it in linear time: a chain of 10,000 functions with a sample at each
//! depth took 10 s when each sample was added to each function above it.

use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use super::Compared;
use super::keys::ComparedKeys;
use crate::data::{Data, NONE};

/// A tree of places. A sample at a place counts for the keys of the place and of all places above it.
pub(super) struct PlaceTree {
    /// For each place: its parent, an index less than its own; [`NONE`] for a root.
    parents: Vec<u32>,
    depths: Vec<u32>,
    /// For each place: an ancestor further up, for [`PlaceTree::common`].
    jumps: Vec<u32>,
    /// For each place: its key; [`NONE`] if a place above has the key, so that a recursive function counts once.
    keys: Vec<u32>,
    /// Further keys of a place: groups of functions.
    groups: FxHashMap<u32, Vec<u32>>,
}

impl PlaceTree {
    /// Each node is a key of its own. `parents` holds each node's parent, an index less than its own.
    pub(super) fn of_nodes(parents: &[u32]) -> PlaceTree {
        PlaceTree::new(parents.to_vec(), (0..parents.len() as u32).collect())
    }

    /// The places of a recording, and the place of each stack. `of_frame` holds the key of each frame.
    pub(super) fn of_stacks(
        data: &Data,
        what: Compared,
        of_frame: &[u32],
        keys: &mut ComparedKeys,
    ) -> (PlaceTree, Vec<u32>) {
        if what == Compared::Total {
            return PlaceTree::of_callers(data, of_frame, keys);
        }
        let mut place_of: Vec<u32> = Vec::with_capacity(data.stacks.len());
        for stack in &data.stacks {
            let key = of_frame[stack.frame as usize];
            let above = place_of.get(stack.prefix as usize).copied();
            place_of.push(match (what, above) {
                (Compared::Own, Some(above)) if data.frames[stack.frame as usize].is_inlined() => above,
                (Compared::Paths, _) => keys.path(above.unwrap_or(NONE), key),
                _ => key,
            });
        }
        // A sample has one key, which is its place.
        let number = keys.len();
        let mut tree = PlaceTree::new(vec![NONE; number], (0..number as u32).collect());
        for key in 0..number as u32 {
            if !keys.groups(key).is_empty() {
                tree.groups.insert(key, keys.groups(key).to_vec());
            }
        }
        (tree, place_of)
    }

    /// Call paths of keys, so that calls from several lines of a function are one place.
    fn of_callers(data: &Data, of_frame: &[u32], keys: &ComparedKeys) -> (PlaceTree, Vec<u32>) {
        let mut children: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let (mut parents, mut key_of) = (Vec::new(), Vec::new());
        let mut place_of: Vec<u32> = Vec::with_capacity(data.stacks.len());
        for stack in &data.stacks {
            let parent = place_of.get(stack.prefix as usize).copied().unwrap_or(NONE);
            let key = of_frame[stack.frame as usize];
            let place = *children.entry((parent, key)).or_insert_with(|| {
                parents.push(parent);
                key_of.push(key);
                parents.len() as u32 - 1
            });
            place_of.push(place);
        }
        let mut tree = PlaceTree::new(parents, key_of);
        tree.keep_outermost(keys);
        (tree, place_of)
    }

    fn new(parents: Vec<u32>, keys: Vec<u32>) -> PlaceTree {
        let (mut depths, mut jumps) = (Vec::<u32>::new(), Vec::<u32>::new());
        for &parent in &parents {
            let jump_of = |place: u32| jumps.get(place as usize).copied().unwrap_or(NONE);
            let depth_of = |place: u32| depths.get(place as usize).map_or(0, |depth| depth + 1);
            let (first, second) = (jump_of(parent), jump_of(jump_of(parent)));
            // Two jumps of one length become one of twice the length, so any ancestor is some log(depth) jumps away.
            let is_even = depth_of(parent) - depth_of(first) == depth_of(first) - depth_of(second);
            let (depth, jump) = (depth_of(parent), if is_even { second } else { parent });
            depths.push(depth);
            jumps.push(jump);
        }
        PlaceTree {
            parents,
            depths,
            jumps,
            keys,
            groups: FxHashMap::default(),
        }
    }

    /// Removes keys that a place above has, and finds the places of groups.
    fn keep_outermost(&mut self, keys: &ComparedKeys) {
        let number = self.parents.len();
        let (mut first_child, mut next_sibling) = (vec![NONE; number], vec![NONE; number]);
        let mut first_root = NONE;
        for place in (0..number).rev() {
            let first = first_child
                .get_mut(self.parents[place] as usize)
                .unwrap_or(&mut first_root);
            next_sibling[place] = std::mem::replace(first, place as u32);
        }
        // The number of open places of each key and group.
        let mut open: FxHashMap<u32, u32> = FxHashMap::default();
        let mut path: Vec<(u32, u32)> = Vec::new();
        let mut next = first_root;
        loop {
            if next != NONE {
                let key = self.keys[next as usize];
                let is_first = enter(&mut open, key);
                for group in keys.groups(key) {
                    if enter(&mut open, *group) {
                        self.groups.entry(next).or_default().push(*group);
                    }
                }
                if !is_first {
                    self.keys[next as usize] = NONE;
                }
                path.push((next, key));
                next = first_child[next as usize];
                continue;
            }
            let Some((place, key)) = path.pop() else { return };
            for key in std::iter::once(key).chain(keys.groups(key).iter().copied()) {
                *open.entry(key).or_default() -= 1;
            }
            next = next_sibling[place as usize];
        }
    }

    /// The lowest place that is above both, or one of them. [`NONE`] if they have no common root.
    fn common(&self, mut a: u32, mut b: u32) -> u32 {
        let depth = |place: u32| self.depths[place as usize];
        if depth(a) < depth(b) {
            std::mem::swap(&mut a, &mut b);
        }
        while depth(a) > depth(b) {
            let jump = self.jumps[a as usize];
            let is_too_far = jump == NONE || depth(jump) < depth(b);
            a = if is_too_far { self.parents[a as usize] } else { jump };
        }
        while a != b && a != NONE && b != NONE {
            let (up_a, up_b) = (self.jumps[a as usize], self.jumps[b as usize]);
            (a, b) = if up_a == up_b {
                (self.parents[a as usize], self.parents[b as usize])
            } else {
                (up_a, up_b)
            };
        }
        if a == b { a } else { NONE }
    }
}

/// True if the key was not open.
fn enter(open: &mut FxHashMap<u32, u32>, key: u32) -> bool {
    let number = open.entry(key).or_default();
    *number += 1;
    *number == 1
}

/// What samples at a place, or below it, add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PlaceSum {
    pub(super) weight: f64,
    pub(super) samples: u64,
    /// See [`RunAmount::variance`](super::amounts::RunAmount::variance).
    pub(super) variance: f64,
    /// The part of the weight that is of kernel code.
    pub(super) kernel: f64,
    /// See [`RunAmount::edges`](super::amounts::RunAmount::edges).
    pub(super) edges: f64,
}

impl AddAssign for PlaceSum {
    fn add_assign(&mut self, other: PlaceSum) {
        self.weight += other.weight;
        self.samples += other.samples;
        self.variance += other.variance;
        self.kernel += other.kernel;
        self.edges += other.edges;
    }
}

/// Adds samples up, place by place.
pub(super) struct PlaceSums<'a> {
    tree: &'a PlaceTree,
    sums: Vec<PlaceSum>,
    is_touched: Vec<bool>,
    touched: Vec<u32>,
}

impl PlaceSums<'_> {
    pub(super) fn new(tree: &PlaceTree) -> PlaceSums<'_> {
        PlaceSums {
            tree,
            sums: vec![PlaceSum::default(); tree.parents.len()],
            is_touched: vec![false; tree.parents.len()],
            touched: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, place: u32, sum: PlaceSum) {
        if let Some(known) = self.sums.get_mut(place as usize) {
            *known += sum;
        }
        let mut place = place;
        while let Some(is_touched @ false) = self.is_touched.get_mut(place as usize) {
            *is_touched = true;
            self.touched.push(place);
            place = self.tree.parents[place as usize];
        }
    }

    /// Adds a change from one place to another between two samples.
    pub(super) fn add_edge(&mut self, from: u32, to: u32, edges: f64) {
        let number = self.sums.len();
        let add = |sums: &mut Self, place, edges| {
            let sum = PlaceSum {
                edges,
                ..PlaceSum::default()
            };
            sums.add(place, sum);
        };
        add(self, from, edges);
        add(self, to, edges);
        // Nothing changes for the places above both.
        if (from as usize) < number && (to as usize) < number {
            add(self, self.tree.common(from, to), -2.0 * edges);
        }
    }

    /// Calls `each` with the sums of each key, several times if several places have the key. Empties the sums.
    pub(super) fn take(&mut self, mut each: impl FnMut(u32, PlaceSum)) {
        self.touched.sort_unstable();
        for place in self.touched.drain(..).rev() {
            let sum = std::mem::take(&mut self.sums[place as usize]);
            self.is_touched[place as usize] = false;
            if let Some(parent) = self.sums.get_mut(self.tree.parents[place as usize] as usize) {
                *parent += sum;
            }
            let key = self.tree.keys[place as usize];
            if key != NONE {
                each(key, sum);
            }
            if let Some(groups) = self.tree.groups.get(&place) {
                groups.iter().for_each(|group| each(*group, sum));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_edges_reach_all_places_above() {
        // 0 > 1 > 2 > 3, 1 > 4; 5 is another root.
        let tree = PlaceTree::of_nodes(&[NONE, 0, 1, 2, 1, NONE]);
        let mut sums = PlaceSums::new(&tree);
        for place in [3, 4, 4, 0] {
            let sum = PlaceSum {
                weight: 1.0,
                samples: 1,
                ..PlaceSum::default()
            };
            sums.add(place, sum);
        }
        sums.add_edge(3, 4, 0.5);
        sums.add_edge(0, 5, 0.5);
        let mut found = vec![(0, 0.0); 6];
        sums.take(|key, sum| found[key as usize] = (sum.samples, sum.edges));
        assert_eq!(found, [(4, 0.5), (3, 0.0), (1, 0.5), (1, 0.5), (2, 0.5), (0, 0.5)]);
        sums.take(|key, _| panic!("{key} is left"));
    }

    #[test]
    fn the_common_place_is_found_at_any_depth() {
        // Two chains of 1000 places that part at 500.
        let parents: Vec<u32> = (0..1500u32)
            .map(|place| match place {
                0 => NONE,
                1000 => 500,
                _ => place - 1,
            })
            .collect();
        let tree = PlaceTree::of_nodes(&parents);
        for (a, b, common) in [
            (999, 1499, 500),
            (3, 1499, 3),
            (700, 700, 700),
            (501, 1000, 500),
            (0, 999, 0),
        ] {
            assert_eq!((tree.common(a, b), tree.common(b, a)), (common, common), "{a} {b}");
        }
    }
}
