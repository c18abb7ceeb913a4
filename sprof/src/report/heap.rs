//! The table of the heap.

use profile::text::numbers::{bytes, counts, number_json, time};
use profile::view::heap::{HeapEstimate, HeapSite, HeapSites, SiteSums, heap_sites};
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

/// At most `rows` rows.
pub(super) fn table(selection: &Selection<'_>, sort: Sort, rows: usize) -> Table {
    let HeapSites {
        mut sites,
        total,
        peak_ms,
    } = heap_sites(selection);
    let name = |site: &HeapSite| match selection.data.funcs.get(site.func as usize) {
        Some(_) => selection.name(site.func).to_owned(),
        None => "[no stack]".to_owned(),
    };
    match sort {
        Sort::Own => {}
        Sort::Total => sites.sort_by(|a, b| b.sums.at_peak.sum.total_cmp(&a.sums.at_peak.sum)),
        Sort::Name => sites.sort_by_key(name),
    }
    let left_out = sites.len().saturating_sub(rows);
    let whole = HeapSite {
        func: profile::data::NONE,
        sums: total,
        median_life_ms: f64::NAN,
    };
    let made = sites.iter().take(rows).map(|site| ReportRow {
        name: name(site),
        is_function: true,
        place: selection
            .data
            .funcs
            .get(site.func as usize)
            .map_or_else(String::new, |_| {
                selection.data.lib_name(site.func).unwrap_or_default().to_owned()
            }),
        ..row(site, json!(name(site)))
    });
    let all = ReportRow {
        name: "all".to_owned(),
        ..row(&whole, Value::Null)
    };
    let title = match peak_ms {
        Some(ms) => format!("Heap by the code that took it, with its peak at {}", time(ms)),
        None => "Heap by the code that took it".to_owned(),
    };
    let headings = BYTES.iter().map(|(_, heading, _)| *heading);
    Table {
        id: "heap",
        title,
        own_label: "",
        other_label: "",
        headings: headings.chain(["blocks", "median life"]).collect(),
        rows: [all].into_iter().chain(made).collect(),
        left_out,
    }
}

fn row(site: &HeapSite, function: Value) -> ReportRow {
    let mut fields = vec![("function", function)];
    let mut cells = Vec::new();
    for (key, _, sum) in BYTES {
        let sum = sum(&site.sums);
        fields.push((key, estimate_json(sum)));
        cells.push(with_error(sum, bytes));
    }
    fields.push(("blocks", estimate_json(site.sums.blocks)));
    cells.push(with_error(site.sums.blocks, counts));
    let life = Some(site.median_life_ms).filter(|ms| ms.is_finite());
    fields.push(("median_life_ms", life.map_or(Value::Null, number_json)));
    cells.push(match site.median_life_ms {
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
    match (sum.samples, 100.0 * sum.error() / sum.sum) {
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
