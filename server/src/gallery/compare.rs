//! The page of two profiles: what changed, as `sprof diff` finds it.

use std::fmt::Write as _;
use std::path::PathBuf;

use profile::data::{Calls, Data};
use profile::export::svg::{SvgOptions, differential};
use profile::export::{Picked, PickedTime};
use profile::text::date::utc;
use profile::view::diff::describe::{basis, describe, describe_increase, name, renamed_libs, which};
use profile::view::diff::list::{ChangeList, ListOptions};
use profile::view::diff::sides::{ReadSides, check_sides};
use profile::view::diff::{Change, Compared, DiffLimits, Sides, diff};
use profile::view::select::{Filter, KeptKinds, keep};

use super::html::{EscapedText, page};
use super::list::commit;
use super::profile_index::{IndexedProfile, ProfileIndex};
use super::summary::{guarded, gzip};

/// The defaults of `sprof diff`.
const FALSE_DISCOVERIES_PERCENT: f64 = 1.0;
const MIN_CHANGE_PERCENT: f64 = 0.5;
const LIMITS: DiffLimits = DiffLimits {
    false_discoveries: FALSE_DISCOVERIES_PERCENT / 100.0,
    least_change: MIN_CHANGE_PERCENT / 100.0,
};

/// Changes of a list.
const CHANGES: usize = 100;

/// Rows of what may be chance.
const UNDECIDED: usize = 10;

/// Narrowest frame of the flame graph, pixels.
const MIN_WIDTH: f64 = 0.5;

/// A comparison, made once for page and picture.
pub(super) struct ComparisonPage {
    pub(super) page: Vec<u8>,
    /// SVG, gzip; `None` if there is nothing to draw.
    pub(super) picture: Option<Vec<u8>>,
}

/// Reads and compares two files. A comparison that is refused is a page that says why.
pub(super) fn compare(shelf: &ProfileIndex, before: &IndexedProfile, after: &IndexedProfile) -> ComparisonPage {
    let mut body = head(before, after);
    let compared = guarded(|| {
        let read = both(shelf, before, after)?;
        let (words, picture) = (tables(&read)?, picture(&read));
        Ok((words, picture))
    });
    let picture = match compared {
        Ok((words, picture)) => {
            body.push_str(&words);
            match &picture {
                Ok(_) => {
                    let (before, after) = (&before.found.id, &after.found.id);
                    let address = format!("diff.svg?before={before}&amp;after={after}");
                    let _ = write!(
                        body,
                        "<h2>Flame graph of after: red grew, blue shrank, yellow may be chance</h2>\n<p class=\"act\"><a href=\"{address}\">\
                         <img class=\"large\" alt=\"differential flame graph\" src=\"{address}\"></a></p>\n"
                    );
                }
                Err(why) => {
                    let _ = writeln!(body, "<p class=\"soft act\">No flame graph: {}.</p>", EscapedText(why));
                }
            }
            picture.ok()
        }
        Err(why) => {
            let _ = writeln!(body, "<p class=\"warn\">{}</p>", EscapedText(&why));
            None
        }
    };
    ComparisonPage {
        page: page("What changed", "", "", &body),
        picture,
    }
}

fn head(before: &IndexedProfile, after: &IndexedProfile) -> String {
    let (before_id, after_id) = (&before.found.id, &after.found.id);
    let mut body = format!(
        "<header><p><a href=\"./\">all profiles</a> <a href=\"diff?before={after_id}&amp;after={before_id}\">the other way round</a></p>\n\
         <h1>What changed</h1>\n<dl>"
    );
    for (side, item) in [("Before", before), ("After", after)] {
        let _ = write!(
            body,
            "<div><dt>{side}</dt><dd><a href=\"p/{}/\">{}</a>, {} {}</dd></div>",
            item.found.id,
            EscapedText(&item.name()),
            utc(item.time_ms()),
            item.summary().map(commit).unwrap_or_default()
        );
    }
    body.push_str("</dl>\n</header>\n");
    body
}

/// Both files, as `sprof diff` has them.
fn both(shelf: &ProfileIndex, before: &IndexedProfile, after: &IndexedProfile) -> Result<ReadSides, String> {
    let data = |item: &IndexedProfile| {
        let of_file = |why: String| format!("{}: {why}", item.name());
        let opened = shelf.open(item).map_err(of_file)?;
        let mut data = shelf.reader().read(&opened.path, shelf.limits()).map_err(of_file)?.data;
        keep(&mut data, &Filter::default(), KeptKinds::One).map_err(|error| of_file(error.to_string()))?;
        Ok::<_, String>(data)
    };
    let (base, new) = (vec![data(before)?], vec![data(after)?]);
    let (base_file, new_file) = (PathBuf::from(before.name()), PathBuf::from(after.name()));
    ReadSides::new((&[base_file], base), (&[new_file], new), false)
}

fn tables(read: &ReadSides) -> Result<String, String> {
    let what = Compared::functions_of(&read.base, &read.new);
    let compared = diff(&read.base, &read.new, what, LIMITS);
    check_sides(&compared.sides)?;
    let mut body = sides(&compared.sides);
    for line in renamed_libs(&read.renamed).chain(basis(&compared.sides)) {
        let _ = writeln!(body, "<p class=\"soft act\">{}</p>", EscapedText(&line));
    }
    let options = |what: Compared| ListOptions {
        what,
        false_discoveries_percent: FALSE_DISCOVERIES_PERCENT,
        min_change_percent: MIN_CHANGE_PERCENT,
        limit: CHANGES,
        names_options: false,
    };
    let list = ChangeList {
        options: options(what),
        compared: &compared,
    };
    table(&mut body, &format!("Functions{}", which(what)), &list);
    if read.base.iter().all(|data| data.calls != Calls::Unknown) {
        let compared = &diff(&read.base, &read.new, Compared::Total, LIMITS);
        let list = ChangeList {
            options: options(Compared::Total),
            compared,
        };
        table(&mut body, &format!("Functions{}", which(Compared::Total)), &list);
    }
    Ok(body)
}

fn sides(sides: &Sides) -> String {
    let mut body = "<dl>".to_owned();
    for (name, value) in [
        ("Before", describe(sides, &sides.base)),
        ("After", describe(sides, &sides.new)),
        ("Total", describe_increase(sides, &sides.increase)),
    ] {
        let _ = write!(body, "<div><dt>{name}</dt><dd>{}</dd></div>", EscapedText(&value));
    }
    body + "</dl>\n"
}

/// What changed for sure, and what may be chance.
fn table(body: &mut String, title: &str, list: &ChangeList<'_>) {
    let _ = writeln!(body, "<h2>{title}</h2>");
    let sides = &list.compared.sides;
    let class = |change: &Change| if sides.delta_of(change) > 0.0 { "more" } else { "less" };
    let sure: Vec<&Change> = list.shown().collect();
    match list.compared.sides.weights {
        Some(_) => rows(body, list, &sure, class),
        None => {
            body.push_str("<h3>Changed for sure</h3>\n");
            match sure.is_empty() {
                true => body.push_str("<p class=\"soft act\">Nothing.</p>\n"),
                false => rows(body, list, &sure, class),
            }
            let undecided = list.compared.undecided.iter().flat_map(|undecided| &undecided.largest);
            let undecided: Vec<&Change> = undecided.take(UNDECIDED).collect();
            if !undecided.is_empty() {
                body.push_str(
                    "<h3>May be chance</h3>\n<p class=\"soft act\">Or a share that only changed because that of others did.</p>\n",
                );
                rows(body, list, &undecided, |_| "chance");
            }
        }
    }
    let _ = writeln!(body, "<p class=\"soft act\">{}</p>", EscapedText(&list.conclusion()));
}

fn rows(body: &mut String, list: &ChangeList<'_>, changes: &[&Change], class: impl Fn(&Change) -> &'static str) {
    if changes.is_empty() {
        return;
    }
    body.push_str("<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"changes\"><table><thead><tr>");
    for (head, _) in list.columns() {
        let _ = write!(body, "<th class=\"n\">{}</th>", EscapedText(head.trim()));
    }
    body.push_str("<th>Function</th></tr></thead><tbody>\n");
    for change in changes {
        let _ = write!(body, "<tr class=\"{}\">", class(change));
        for cell in list.cells(change) {
            let _ = write!(body, "<td class=\"n\">{}</td>", EscapedText(cell.trim()));
        }
        let _ = writeln!(
            body,
            "<td class=\"name\" title=\"{}\">{}</td></tr>",
            EscapedText(&change.function),
            EscapedText(&name(change))
        );
    }
    body.push_str("</tbody></table></div>\n");
}

fn picture(read: &ReadSides) -> Result<Vec<u8>, String> {
    let (base, new) = (pick(&read.base), pick(&read.new));
    let options = SvgOptions {
        min_width: MIN_WIDTH,
        ..SvgOptions::default()
    };
    let mut svg = Vec::new();
    let drawn = differential::write(&base, &new, &options, LIMITS, &mut svg);
    drawn.and_then(|()| gzip(&svg)).map_err(|error| error.to_string())
}

fn pick(side: &[Data]) -> Vec<Picked<'_>> {
    side.iter().map(|data| Picked::new(data, PickedTime::Cpu)).collect()
}
