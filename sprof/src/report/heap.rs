//! The tables of the heap.

use profile::data::NONE;
use profile::text::numbers::{bytes, counts, number_json, time};
use profile::view::heap::{GROWTH_MOMENTS, HeapEstimate, HeapSite, HeapSites, SiteSums, heap_sites};
use profile::view::select::Selection;
use serde_json::{Value, json};

use super::{ReportRow, Table};
use crate::args::Sort;

/// The sums of a row: key in JSON, heading, sum.
type HeapColumn = (&'static str, &'static str, fn(&SiteSums) -> HeapEstimate);

const BYTES: [HeapColumn; 5] = [
    ("allocated", "allocated", |sums| sums.allocated),
    ("retained", "retained", |sums| sums.retained),
    ("leaked", "leaked", |sums| sums.leaked),
    ("at_peak", "at the peak", |sums| sums.at_peak),
    ("temporary", "temporary", |sums| sums.temporary),
];

/// Headings of the bytes that live at [`GROWTH_MOMENTS`].
const LIVE: [&str; GROWTH_MOMENTS.len()] = ["live at 10 %", "at 30 %", "at 50 %", "at 70 %", "at 90 %"];

/// The blocks by site, and the sites that grow: at most `rows` rows of each.
pub(super) fn tables(selection: &Selection<'_>, sort: Sort, rows: usize) -> Vec<Table> {
    let mut heap = heap_sites(selection);
    let growth = growth(selection, &heap, sort, rows);
    let sites = &mut heap.sites;
    match sort {
        Sort::Own => {}
        Sort::Total => sites.sort_by(|a, b| b.sums.at_peak.sum.total_cmp(&a.sums.at_peak.sum)),
        Sort::Name => sites.sort_by_key(|site| name(selection, site)),
    }
    let title = match heap.peak_ms {
        Some(ms) => format!("Heap by the code that took it, with its peak at {}", time(ms)),
        None => "Heap by the code that took it".to_owned(),
    };
    let headings = BYTES.iter().map(|(_, heading, _)| *heading);
    let headings = headings.chain(["blocks", "median life"]).collect();
    let by_site = table("heap", title, headings, row(&heap.total, f64::NAN), |all| {
        let made = heap.sites.iter().take(rows);
        all.extend(made.map(|site| named(selection, site, row(&site.sums, site.median_life_ms))));
        heap.sites.len().saturating_sub(rows)
    });
    [by_site].into_iter().chain(growth).collect()
}

/// The sites whose living bytes grow, those that grow most first; `None` if growth is not known.
fn growth(selection: &Selection<'_>, heap: &HeapSites, sort: Sort, rows: usize) -> Option<Table> {
    let (moments_ms, [from_ms, to_ms]) = (heap.moments_ms?, heap.growth_ms()?);
    let mut sites: Vec<&HeapSite> = heap.sites.iter().filter(|site| site.sums.is_growing()).collect();
    match sort {
        Sort::Own | Sort::Total => sites.sort_by(|a, b| b.sums.growth.sum.total_cmp(&a.sums.growth.sum)),
        Sort::Name => sites.sort_by_key(|site| name(selection, site)),
    }
    let row = |sums: &SiteSums| {
        let seconds = (to_ms - from_ms) / 1e3;
        let growth = HeapEstimate {
            sum: sums.growth.sum / seconds,
            variance: sums.growth.variance / (seconds * seconds),
            ..sums.growth
        };
        let live = sums.live.iter().zip(moments_ms).map(|(live, time_ms)| {
            let mut live = estimate_json(*live);
            live["time_ms"] = number_json((time_ms * 1e6).round() / 1e6);
            live
        });
        ReportRow {
            cells: [growth]
                .iter()
                .chain(&sums.live)
                .map(|sum| with_error(*sum, bytes))
                .collect(),
            fields: vec![("growth_per_s", estimate_json(growth)), ("live", live.collect())],
            ..ReportRow::default()
        }
    };
    let title = format!(
        "Growth of the living heap from {} to {}, by the code that took it",
        time(from_ms),
        time(to_ms)
    );
    let headings = ["growth a second"].into_iter().chain(LIVE).collect();
    Some(table("heap_growth", title, headings, row(&heap.total), |all| {
        all.extend(
            sites
                .iter()
                .take(rows)
                .map(|site| named(selection, site, row(&site.sums))),
        );
        sites.len().saturating_sub(rows)
    }))
}

/// A table whose first row is the sum. `add` adds the others, and returns how many it leaves out.
fn table(
    id: &'static str,
    title: String,
    headings: Vec<&'static str>,
    mut whole: ReportRow,
    add: impl FnOnce(&mut Vec<ReportRow>) -> usize,
) -> Table {
    whole.name = "all".to_owned();
    whole.fields.insert(0, ("function", Value::Null));
    let mut rows = vec![whole];
    let left_out = add(&mut rows);
    Table {
        id,
        title,
        own_label: "",
        other_label: "",
        headings,
        rows,
        left_out,
    }
}

fn name(selection: &Selection<'_>, site: &HeapSite) -> String {
    match site.func {
        NONE => "[no stack]".to_owned(),
        func => selection.name(func).to_owned(),
    }
}

/// The row of a site.
fn named(selection: &Selection<'_>, site: &HeapSite, mut row: ReportRow) -> ReportRow {
    row.name = name(selection, site);
    row.is_function = true;
    if site.func != NONE {
        row.place = selection.data.lib_name(site.func).unwrap_or_default().to_owned();
    }
    row.fields.insert(0, ("function", json!(row.name)));
    row
}

fn row(sums: &SiteSums, median_life_ms: f64) -> ReportRow {
    let (mut fields, mut cells) = (Vec::new(), Vec::new());
    for (key, _, sum) in BYTES {
        let sum = sum(sums);
        fields.push((key, estimate_json(sum)));
        cells.push(with_error(sum, bytes));
    }
    fields.push(("blocks", estimate_json(sums.blocks)));
    cells.push(with_error(sums.blocks, counts));
    let life = Some(median_life_ms).filter(|ms| ms.is_finite());
    fields.push(("median_life_ms", life.map_or(Value::Null, number_json)));
    cells.push(match median_life_ms {
        ms if ms.is_nan() => String::new(),
        ms if ms.is_infinite() => "never freed".to_owned(),
        ms => time(ms),
    });
    ReportRow {
        cells,
        fields,
        ..ReportRow::default()
    }
}

/// `12.3 MB ±7 %`
fn with_error(sum: HeapEstimate, text: fn(f64) -> String) -> String {
    match (sum.samples, 100.0 * sum.error() / sum.sum.abs()) {
        (0, _) => "-".to_owned(),
        (_, percent) if percent < 0.5 => text(sum.sum),
        (_, percent) => format!("{} ±{percent:.0} %", text(sum.sum)),
    }
}

fn estimate_json(sum: HeapEstimate) -> Value {
    json!({
        "samples": sum.samples,
        "estimate": number_json(sum.sum),
        "standard_error": number_json(sum.error()),
    })
}
