//! Circles in a directed graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// From each node to others.
pub(crate) type Arrows = BTreeMap<String, BTreeSet<String>>;

/// For each set of nodes that reach each other: its shortest circle, begun and ended at one node.
pub(crate) fn circles(arrows: &Arrows) -> Vec<Vec<String>> {
    let mut circles = Vec::new();
    let mut done = BTreeSet::new();
    for start in arrows.keys() {
        if done.contains(start) {
            continue;
        }
        let reached = reachable(arrows, start);
        let together: BTreeSet<&String> = reached
            .iter()
            .copied()
            .filter(|node| reachable(arrows, node).contains(start))
            .collect();
        if let Some(shortest) = together
            .iter()
            .filter_map(|node| way_back(arrows, node))
            .min_by_key(Vec::len)
        {
            circles.push(shortest);
        }
        done.extend(together.into_iter().cloned());
    }
    circles
}

fn reachable<'a>(arrows: &'a Arrows, start: &str) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = arrows.get(start).into_iter().flatten().collect();
    while let Some(node) = open.pop() {
        if reached.insert(node) {
            open.extend(arrows.get(node).into_iter().flatten());
        }
    }
    reached
}

/// The shortest way from a node to itself, or `None` if it is in no circle.
fn way_back(arrows: &Arrows, start: &str) -> Option<Vec<String>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(node) = open.pop_front() {
        for next in arrows.get(node).into_iter().flatten() {
            if next == start {
                let mut way = vec![start.to_owned(), node.to_owned()];
                let mut node = node;
                while let Some(earlier) = before.get(node) {
                    way.push((*earlier).to_owned());
                    node = earlier;
                }
                if way.len() == 2 && node == start {
                    way.truncate(1);
                    way.push(start.to_owned());
                }
                way.reverse();
                return Some(way);
            }
            if !before.contains_key(&**next) {
                before.insert(next, node);
                open.push_back(next);
            }
        }
    }
    None
}
