//! What is kept of a profile: its head, its hottest functions and a small flame graph.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use profile::data::Data;
use profile::export::svg::{self, SvgOptions};
use profile::export::{Picked, PickedTime};
use profile::read::ReadLimits;
use profile::view::cost::Cost;
use profile::view::cost_scale::CostScale;
use profile::view::functions::functions;
use profile::view::select::{Filter, select};

use super::reader::{ProfileReader, ReadProfile};

/// Functions of a profile that are kept by self cost, and as many by total cost.
const FUNCTIONS: usize = 100;

/// Bytes of a name that are kept. Names of C++ templates reach kilobytes.
const NAME_BYTES: usize = 1000;

/// Pixels of the small flame graph, and the narrowest frame in it.
const WIDTH: u32 = 320;
const MIN_WIDTH: f64 = 1.5;

/// Bytes of a small flame graph at most, packed; a larger one has no narrow frames.
const PICTURE_BYTES: usize = 24 << 10;

/// The head of a profile, and where its time went. The figures are those of `sprof report`.
#[derive(Debug)]
pub(super) struct Summary {
    pub(super) program: Arc<str>,
    pub(super) commit: Option<String>,
    /// Operating system and processor.
    pub(super) machine: Arc<str>,
    pub(super) recorded_by: String,
    /// Unix time of the start, ms, if the file says it.
    pub(super) start_ms: Option<f64>,
    pub(super) length_ms: Option<f64>,
    pub(super) scale: CostScale,
    /// By self cost, the largest first.
    pub(super) functions: Vec<Function>,
    /// Functions that are not kept.
    pub(super) more_functions: usize,
    /// SVG, gzip; `None` if there is nothing to draw.
    pub(super) picture: Option<Vec<u8>>,
    pub(super) notes: Vec<String>,
}

/// A function of a profile.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) name: Arc<str>,
    /// File name of its library, or nothing.
    pub(super) lib: Arc<str>,
    pub(super) own: Cost,
    pub(super) total: Cost,
}

/// Names that profiles share, kept once.
#[derive(Default)]
pub(super) struct NameTable(HashSet<Arc<str>>);

impl NameTable {
    fn kept(&mut self, name: &str) -> Arc<str> {
        let name = &name[..name.floor_char_boundary(NAME_BYTES)];
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let new: Arc<str> = name.into();
        self.0.insert(new.clone());
        new
    }

    /// Drops the names that no profile has any more.
    pub(super) fn prune(&mut self) {
        self.0.retain(|name| Arc::strong_count(name) > 1);
    }
}

impl Summary {
    /// The summary of a file of any kind that sprof reads.
    ///
    /// # Errors
    ///
    /// Why the file can't be read.
    pub(super) fn read(
        path: &Path,
        reader: &dyn ProfileReader,
        limits: ReadLimits,
        names: &mut NameTable,
    ) -> Result<Summary, String> {
        guarded(|| {
            let ReadProfile { data, notes, .. } = reader.read(path, limits)?;
            let selection = select(&data, &Filter::default()).map_err(|error| error.to_string())?;
            let rows = functions(&selection);
            // Each list ends where the other goes on: a function that calls all others has no self cost.
            let mut by_total: Vec<usize> = (0..rows.len()).collect();
            by_total.sort_by(|a, b| rows[*b].total.weight.total_cmp(&rows[*a].total.weight));
            let mut kept: Vec<usize> = by_total.into_iter().take(FUNCTIONS).collect();
            kept.extend(0..rows.len().min(FUNCTIONS));
            kept.sort_unstable();
            kept.dedup();
            let functions = kept.iter().map(|row| {
                let row = &rows[*row];
                Function {
                    name: names.kept(selection.name(row.func)),
                    lib: names.kept(data.lib_name(row.func).unwrap_or_default()),
                    own: row.own,
                    total: row.total,
                }
            });
            Ok(Summary {
                functions: functions.collect(),
                more_functions: rows.len() - kept.len(),
                program: names.kept(&data.product),
                commit: data.commit().map(str::to_owned),
                machine: names.kept(&machine(&data)),
                recorded_by: data.imported_from.clone(),
                start_ms: Some(data.start_ms).filter(|start| start.is_finite() && *start > 0.0),
                length_ms: data.length_ms(),
                scale: CostScale::new(&data, selection.total),
                picture: picture(&data),
                notes: notes.into_iter().take(20).collect(),
            })
        })
    }

    /// The cost of a function; `None` if it is not among those that are kept. Instances of one name are added up.
    pub(super) fn cost_of(&self, name: &str, lib: Option<&str>) -> Option<(Cost, Cost)> {
        let is_it = |function: &&Function| &*function.name == name && lib.is_none_or(|lib| lib == &*function.lib);
        let found = self.functions.iter().filter(is_it);
        found
            .map(|function| (function.own, function.total))
            .reduce(|sum, more| {
                let mut sum = sum;
                sum.0 += more.0;
                sum.1 += more.1;
                sum
            })
    }

    /// Functions with the largest totals first.
    pub(super) fn by_total(&self) -> Vec<&Function> {
        let mut all: Vec<&Function> = self.functions.iter().collect();
        all.sort_by(|a, b| b.total.weight.total_cmp(&a.total.weight));
        all
    }
}

/// Turns a panic into an error: a file from outside must not end the server.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err("sprof failed while it read the file; this is a bug, its terminal shows more".to_owned())
    })
}

fn machine(data: &Data) -> String {
    let parts = [data.os.as_str(), data.cpu.as_str()];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

fn picture(data: &Data) -> Option<Vec<u8>> {
    let picked = Picked::new(data, PickedTime::Cpu);
    if picked.totals().weight == 0 {
        return None;
    }
    let drawn = |min_width: f64| {
        let options = SvgOptions {
            width: WIDTH,
            min_width,
            is_bare: true,
            ..SvgOptions::default()
        };
        let mut svg = Vec::new();
        svg::write(&picked, &options, &mut svg).ok()?;
        gzip(&svg).ok()
    };
    // The wider the narrowest frame, the fewer there are: at 48 pixels, at most 6 in a row.
    [MIN_WIDTH, 6.0, 48.0]
        .into_iter()
        .filter_map(drawn)
        .find(|svg| svg.len() <= PICTURE_BYTES)
}

pub(super) fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(bytes)?;
    gz.finish()
}

/// Values with the number of profiles that have them.
pub(super) fn counted<'a>(values: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    counts
}
