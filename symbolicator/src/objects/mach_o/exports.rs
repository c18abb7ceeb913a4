//! The exports trie: names that other images may use. A stripped image has no others, and most images of the shared
//! cache neither.
//!
//! The reader in `object` visits a node as often as edges lead to it, which in a hostile file is exponential in its
//! size.

use object::macho;
use recording::varint;

/// Longest name that is read.
const MAX_NAME_BYTES: usize = 1 << 20;

/// Limits for the bytes of all names: per byte of the trie (names share their beginnings, and names of C++ are long),
/// and in all.
const MAX_NAMES_RATIO: usize = 32;
const MAX_NAMES_BYTES: usize = 128 << 20;

/// Least bytes of a node: the size of its export, and how many children it has.
const NODE_BYTES: usize = 2;

/// Least bytes of an edge, beside its text: the end of the text, and where it leads.
const EDGE_BYTES: usize = 2;

/// Calls `each` with address, relative to the image, and name of each export that is code or data of the image itself.
/// Ends where the trie is damaged.
pub(super) fn for_each(trie: &[u8], mut each: impl FnMut(u64, &[u8])) {
    // In a valid trie each node and each edge is read once.
    let mut left = trie.len();
    let mut bytes_left = trie.len().saturating_mul(MAX_NAMES_RATIO).min(MAX_NAMES_BYTES);
    let mut name: Vec<u8> = Vec::new();
    // (rest of the children, how many, length of the name of the node)
    let mut around: Vec<(&[u8], u8, usize)> = Vec::new();
    let mut next = Some(0);
    loop {
        if let Some(offset) = next.take() {
            let Some(node) = trie.get(offset..).and_then(TrieNode::parse) else {
                return;
            };
            let Some(rest) = left.checked_sub(NODE_BYTES) else {
                return;
            };
            left = rest;
            if let Some(address) = node.address {
                let Some(left) = bytes_left.checked_sub(name.len()) else {
                    return;
                };
                bytes_left = left;
                each(address, &name);
            }
            around.push((node.children, node.count, name.len()));
        }
        let Some((children, count, len)) = around.last_mut() else {
            return;
        };
        name.truncate(*len);
        if *count == 0 {
            around.pop();
            continue;
        }
        *count -= 1;
        let Some((edge, rest)) = memchr::memchr(0, children).map(|end| (&children[..end], &children[end + 1..])) else {
            return;
        };
        let Some(unread) = left.checked_sub(EDGE_BYTES + edge.len()) else {
            return;
        };
        left = unread;
        *children = rest;
        let Some(child) = varint::take(children) else { return };
        let Some(offset) = usize::try_from(child)
            .ok()
            .filter(|_| name.len() + edge.len() <= MAX_NAME_BYTES)
        else {
            return;
        };
        name.extend_from_slice(edge);
        next = Some(offset);
    }
}

struct TrieNode<'a> {
    /// `None` for a node that only leads on, and for an export that is in another image or no address.
    address: Option<u64>,
    children: &'a [u8],
    count: u8,
}

impl TrieNode<'_> {
    /// `mach-o/loader.h`, comment above `EXPORT_SYMBOL_FLAGS_KIND_MASK`.
    fn parse(mut bytes: &[u8]) -> Option<TrieNode<'_>> {
        let size = varint::take(&mut bytes)?;
        let (export, children) = bytes.split_at_checked(usize::try_from(size).ok()?)?;
        let (count, children) = children.split_first()?;
        Some(TrieNode {
            address: address(export),
            children,
            count: *count,
        })
    }
}

fn address(mut export: &[u8]) -> Option<u64> {
    let flags = varint::take(&mut export)?;
    // A resolver has two addresses; the first one is the stub that calls it.
    let is_regular =
        flags & macho::EXPORT_SYMBOL_FLAGS_KIND_MASK == u64::from(macho::EXPORT_SYMBOL_FLAGS_KIND_REGULAR.0);
    let is_here = is_regular && flags & macho::EXPORT_SYMBOL_FLAGS_REEXPORT.0 == 0;
    varint::take(&mut export).filter(|_| is_here)
}

#[cfg(test)]
mod tests {
    use super::for_each;

    fn all(trie: &[u8]) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        for_each(trie, |address, name| {
            found.push((address, String::from_utf8_lossy(name).into_owned()));
        });
        found
    }

    #[test]
    fn names_are_put_together_from_the_edges() {
        // Root: one edge `_a` to 6. There: an export at 0x80 and the edge `b` to 14, an export at 5.
        let trie = [0, 1, b'_', b'a', 0, 6, 3, 0, 0x80, 1, 1, b'b', 0, 14, 2, 0, 5, 0];
        assert_eq!(all(&trie), [(0x80, "_a".to_owned()), (5, "_ab".to_owned())]);
        for end in 0..trie.len() {
            all(&trie[..end]);
        }
    }

    #[test]
    fn exports_of_other_images_have_no_address_here() {
        // EXPORT_SYMBOL_FLAGS_REEXPORT, then EXPORT_SYMBOL_FLAGS_KIND_ABSOLUTE.
        for flags in [8, 2] {
            assert_eq!(all(&[0, 1, b'a', 0, 5, 2, flags, 1, 0]), []);
        }
    }

    #[test]
    fn nodes_that_lead_to_each_other_end() {
        // A node that is its own child, and 100 nodes with two edges each to the next one.
        assert_eq!(all(&[0, 1, b'a', 0, 0]), []);
        let mut trie = Vec::new();
        for node in 1..100u8 {
            let next = node % 16 * 8;
            trie.extend([0, 2, b'a', 0, next, b'b', 0, next]);
        }
        all(&trie);
    }

    #[test]
    fn a_long_edge_that_many_nodes_lead_to_is_followed_once() {
        // Two edges to each next node, 2 to the power of 20 ways in all, and an edge of 100,000 bytes behind them.
        const NODES: usize = 20;
        let mut trie = Vec::new();
        for node in 1..=NODES {
            let at = node * 10;
            let (low, high) = (at as u8 | 0x80, (at >> 7) as u8);
            trie.extend([0, 2, b'a', 0, low, high, b'b', 0, low, high]);
        }
        let leaf = trie.len() + 2 + 100_000 + 1 + 3;
        let to_leaf = [leaf as u8 | 0x80, (leaf >> 7) as u8 | 0x80, (leaf >> 14) as u8];
        trie.extend([0, 1].into_iter().chain([b'c'; 100_000]).chain([0]).chain(to_leaf));
        trie.extend([2, 0, 5, 0]);
        assert_eq!(all(&trie).len(), 1);
    }
}
