//! The table of parallelism: wall time by number of running threads, and the functions that ran then.

use profile::data::NONE;
use profile::text::numbers::{count, number_json, time};
use profile::view::parallelism::{Parallelism, RunningNumber, SerialPart, running_numbers};
use profile::view::select::Selection;
use serde_json::{Value, json};

use super::{ReportRow, Table};

/// Functions below this share of the wall time are left out, unless `--min-percent` says otherwise.
const FUNCTION_PERCENT: f64 = 1.0;

/// The serial part first, then by number, each with at most `limit` functions.
pub(super) fn table(
    selection: &Selection<'_>,
    parallelism: &Parallelism,
    limit: usize,
    min_percent: Option<f64>,
) -> Table {
    let mut numbers = running_numbers(selection, parallelism);
    numbers.sort_by_key(|number| number.running != 1);
    let whole_ms: f64 = numbers.iter().map(|number| number.wall_ms).sum();
    let serial = SerialPart::new(&numbers);
    let origin = if parallelism.is_exact {
        "from all switches"
    } else {
        "estimated from samples"
    };
    let (mut rows, mut left_out) = (Vec::new(), 0);
    for number in &mut numbers {
        rows.push(number_row(
            number,
            whole_ms,
            serial.filter(|_| number.running == 1),
            parallelism.is_exact,
        ));
        let least_ms = whole_ms * min_percent.unwrap_or(FUNCTION_PERCENT) / 100.0;
        number.functions.retain(|(_, cost)| cost.weight >= least_ms);
        let shown = limit.min(number.functions.len());
        left_out += number.functions.len() - shown;
        for (func, cost) in &number.functions[..shown] {
            let name = if *func == NONE {
                "[no stack]"
            } else {
                selection.name(*func)
            };
            let lib = selection
                .data
                .lib_name(*func)
                .filter(|_| *func != NONE)
                .unwrap_or_default();
            rows.push(ReportRow {
                depth: 1,
                indent: 1,
                name: name.to_owned(),
                is_function: true,
                place: lib.to_owned(),
                cells: cells(cost.weight, whole_ms),
                fields: fields(number.running, json!(name), cost.weight, whole_ms)
                    .chain([("library", json!(lib)), ("samples", json!(cost.samples))])
                    .collect(),
                ..ReportRow::default()
            });
        }
    }
    Table {
        id: "parallelism",
        title: format!("Wall time by number of running threads, {origin}"),
        own_label: "",
        other_label: "",
        headings: vec!["share", "wall time"],
        rows,
        left_out,
    }
}

fn number_row(number: &RunningNumber, whole_ms: f64, serial: Option<SerialPart>, is_exact: bool) -> ReportRow {
    let name = match number.running {
        0 => "no thread ran".to_owned(),
        running => format!("{} ran", count(running.into(), "thread", "threads")),
    };
    let at_most = serial.and_then(|serial| serial.at_most_faster);
    let mut fields: Vec<_> = fields(number.running, Value::Null, number.wall_ms, whole_ms).collect();
    if let Some(serial) = serial {
        fields.push(("share_of_work", number_json(serial.share_of_work)));
        fields.push(("at_most_faster", at_most.map_or(Value::Null, number_json)));
    }
    fields.push(("exact", json!(is_exact)));
    fields.push((
        "ready_ms",
        if is_exact {
            number_json(number.ready_ms)
        } else {
            Value::Null
        },
    ));
    let is_ready = number.ready_ms >= 0.01 * number.wall_ms;
    let ready = is_ready.then(|| {
        let percent = 100.0 * number.ready_ms / number.wall_ms;
        format!("{percent:.0} % of it while threads that could run had no CPU")
    });
    let at_most = at_most.map(|at_most| {
        let part = match (is_exact, is_ready) {
            (true, true) => format!(
                "the rest, {}, is the serial part",
                time(number.wall_ms - number.ready_ms)
            ),
            (true, false) => "the serial part".to_owned(),
            (false, _) => "the serial part, if no thread waited for a CPU".to_owned(),
        };
        format!("{part}: at most {at_most:.1} times faster, however many CPUs")
    });
    let details = ready.into_iter().chain(at_most);
    ReportRow {
        name,
        details: details.collect(),
        cells: cells(number.wall_ms, whole_ms),
        fields,
        ..ReportRow::default()
    }
}

fn cells(ms: f64, whole_ms: f64) -> Vec<String> {
    vec![format!("{:.1} %", 100.0 * ms / whole_ms), time(ms)]
}

fn fields(running: u32, function: Value, ms: f64, whole_ms: f64) -> impl Iterator<Item = (&'static str, Value)> {
    [
        ("running", json!(running)),
        ("function", function),
        ("wall_ms", number_json(ms)),
        ("share", number_json(ms / whole_ms)),
    ]
    .into_iter()
}

/// What the table does not say.
pub(crate) fn notes(selection: &Selection<'_>, parallelism: &Parallelism) -> Vec<String> {
    let data = selection.data;
    let mut notes = Vec::from_iter(parallelism.doubt(data));
    if data.processes() > 1 {
        notes.push(format!("threads are those of all {} processes", data.processes()));
    }
    notes
}
