//! Folded stacks: a line for each call path, `process;function;function weight`, for inferno and FlameGraph.
//!
//! There is no specification. In names, the separator `;` becomes `:`, as in FlameGraph's stackcollapse-perf.pl.

use std::io::{self, BufWriter, Write};

use super::Picked;
use super::tree::{CallPathTree, TreeShape};
use crate::text::one_line;

/// Options of the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct FoldedOptions {
    /// With the thread after the process. Default: threads of a process are added up.
    pub threads: bool,
}

/// Writes the samples as folded stacks, sorted by name. Weights are those of [`Picked::counted`].
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, options: FoldedOptions, out: impl Write) -> io::Result<()> {
    let tree = CallPathTree::from_picked(picked, TreeShape::Merged, options.threads)?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    // The path to the current node, and the length of the path to each of its ancestors.
    let mut line: Vec<u8> = Vec::new();
    let mut lens: Vec<usize> = Vec::new();
    tree.walk(|id, depth| {
        let node = &tree.nodes[id as usize];
        lens.truncate(depth);
        line.truncate(lens.last().copied().unwrap_or(0));
        // The root has no name.
        if depth > 0 {
            if depth > 1 {
                line.push(b';');
            }
            put_name(&mut line, tree.label(node));
        }
        lens.push(line.len());
        if node.own > 0 {
            out.write_all(&line)?;
            writeln!(out, " {}", node.own)?;
        }
        Ok(true)
    })?;
    out.flush()
}

fn put_name(line: &mut Vec<u8>, name: &str) {
    line.extend(
        one_line(name)
            .bytes()
            .map(|byte| if byte == b';' { b':' } else { byte }),
    );
}
