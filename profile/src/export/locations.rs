//! Call paths as lists of locations, which pprof and OpenTelemetry share: a location is an address with the functions
//! inlined there.

use rustc_hash::FxHashMap;

use crate::data::{Data, Frame, NONE};

/// Pages between two libraries.
const PAGE: u64 = 0x1000;

/// A library's place in an artificial address space: a profile has only offsets in libraries.
#[derive(Clone, Copy)]
pub(super) struct LibRange {
    pub(super) start: u64,
    pub(super) limit: u64,
}

/// The locations of the paths that were asked for.
pub(super) struct Locations<'a> {
    data: &'a Data,
    /// By library.
    mappings: Vec<LibRange>,
    /// The location of the frames at one address, by the location of the outer frames and the frame inlined into them.
    chains: FxHashMap<(u32, u32), u32>,
    /// Each location as the location that it extends, and its innermost frame.
    rows: Vec<(u32, u32)>,
}

impl<'a> Locations<'a> {
    pub(super) fn new(data: &'a Data) -> Self {
        Locations {
            data,
            mappings: lay_out(data),
            chains: FxHashMap::default(),
            rows: Vec::new(),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.rows.len() as u32
    }

    /// By library.
    pub(super) fn mappings(&self) -> &[LibRange] {
        &self.mappings
    }

    /// Locations of a stack, leaf first. A sample without a stack has one location, without a frame.
    pub(super) fn path(&mut self, mut stack: u32) -> Vec<u32> {
        let mut frames = Vec::new();
        while stack != NONE {
            let node = self.data.stacks[stack as usize];
            frames.push(node.frame);
            stack = node.prefix;
        }
        if frames.is_empty() {
            // Stands for the frame of a sample without a stack.
            frames.push(NONE);
        }
        let mut path: Vec<u32> = Vec::new();
        let mut outer = NONE;
        for frame in frames.into_iter().rev() {
            let is_inlined = self
                .data
                .frames
                .get(frame as usize)
                .is_some_and(|frame| frame.is_inlined());
            let extends = if is_inlined { outer } else { NONE };
            let next = self.rows.len() as u32;
            let location = *self.chains.entry((extends, frame)).or_insert(next);
            if location == next {
                self.rows.push((extends, frame));
            }
            if extends != NONE {
                path.pop();
            }
            path.push(location);
            outer = location;
        }
        path.reverse();
        path
    }

    /// The frames of a location, innermost first; `None` stands for the frame of a sample without a stack.
    pub(super) fn frames(&self, location: u32) -> impl Iterator<Item = Option<&'a Frame>> + '_ {
        let first = self.rows.get(location as usize);
        let rows = std::iter::successors(first, |(outer, _)| self.rows.get(*outer as usize));
        rows.map(|(_, frame)| self.data.frames.get(*frame as usize))
    }

    /// The library of a location, and its address in the artificial address space.
    pub(super) fn address(&self, location: u32) -> Option<(u32, u64)> {
        let frame = self.frames(location).next()??;
        let mapping = self.mappings.get(frame.lib as usize)?;
        Some((frame.lib, mapping.start.saturating_add(frame.address.unwrap_or(0))))
    }
}

/// Assigns an address range to each library.
fn lay_out(data: &Data) -> Vec<LibRange> {
    let mut sizes = vec![0u64; data.libs.len()];
    for frame in &data.frames {
        if let (Some(size), Some(address)) = (sizes.get_mut(frame.lib as usize), frame.address) {
            *size = (*size).max(address);
        }
    }
    let mut start = 0x10_0000u64;
    let ranges = sizes.into_iter().map(|size| {
        let limit = start.saturating_add(size).saturating_add(PAGE) & !(PAGE - 1);
        let mapping = LibRange { start, limit };
        start = limit.saturating_add(PAGE);
        mapping
    });
    ranges.collect()
}
