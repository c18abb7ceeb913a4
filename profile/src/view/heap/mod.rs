//! The sampled heap: the blocks of memory that a program took.
//!
//! A [`Measure`] makes samples of the blocks, so that every view shows them; [`heap_sites`] is the table by the code
//! that wanted the memory.

mod measure;
mod sites;

pub use measure::{Measure, NoMeasure};
pub use sites::{GROWTH_MOMENTS, HeapEstimate, HeapSite, HeapSites, SiteSums, heap_sites};
