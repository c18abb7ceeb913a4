//! The first page: all profiles, the newest first.

use std::fmt::Write as _;

use profile::text::date::utc;
use profile::text::numbers::{bytes, count, grouped, time};
use profile::view::names::short;

use super::super::listener::encode;
use super::html::{EscapedText, PageQuery, page, percent};
use super::profile_index::{IndexedProfile, ProfileIndex};
use super::summary::{Function, Summary, counted};

/// Profiles of a page.
const ROWS: usize = 50;

/// Hottest functions of a row.
const FUNCTIONS: usize = 3;

/// Files without a profile in them are listed up to here.
const PROBLEMS: usize = 200;

/// Seconds after which a page with missing summaries loads itself again.
const AGAIN_S: u32 = 2;

pub(super) fn list(shelf: &ProfileIndex, query: &PageQuery) -> Vec<u8> {
    let shown = shelf.shown();
    let all = shown.items.iter().filter(|item| item.problem().is_none());
    let summaries = || all.clone().filter_map(IndexedProfile::summary);
    let programs = counted(summaries().map(|summary| &*summary.program));
    let machines = counted(summaries().map(|summary| &*summary.machine));
    let (program, machine) = (query.get("program"), query.get("machine"));
    let is_asked = |item: &&&IndexedProfile| {
        let is = |asked: Option<&str>, of: fn(&Summary) -> &str| {
            asked.is_none_or(|asked| item.summary().is_some_and(|summary| of(summary) == asked))
        };
        is(program, |summary| &summary.program) && is(machine, |summary| &summary.machine)
    };
    let asked: Vec<&IndexedProfile> = all.clone().filter(|item| is_asked(&item)).collect();
    let pages = asked.len().div_ceil(ROWS).max(1);
    let at = query
        .get("page")
        .and_then(|page| page.parse().ok())
        .unwrap_or(1)
        .clamp(1, pages);
    let rows = asked.iter().skip((at - 1) * ROWS).take(ROWS);

    let name = shelf.name();
    let mut body = format!("<header><h1>Profiles</h1>\n<p class=\"soft\">{}: ", EscapedText(&name));
    let pending = all.clone().filter(|item| item.made.is_none()).count();
    let _ = write!(body, "{}", count(asked.len() as u64, "profile", "profiles"));
    if asked.len() != all.clone().count() {
        let _ = write!(body, " of {}", grouped(all.clone().count() as u64));
    }
    if pending > 0 {
        let _ = write!(body, ", {} not read yet", grouped(pending as u64));
    }
    body.push('.');
    // A machine that recorded all is no part of their rows.
    let only_machine = match &machines.keys().collect::<Vec<_>>()[..] {
        [machine] if !machine.is_empty() => Some(**machine),
        _ => None,
    };
    if let Some(machine) = only_machine {
        let _ = write!(body, " All were recorded on {}.", EscapedText(machine));
    }
    for note in &shown.notes {
        let _ = write!(body, " {}.", EscapedText(note));
    }
    body.push_str("</p>\n<div class=\"forms\">\n<form method=\"get\" action=\"./\">\n");
    body.push_str(&select("program", "Program", &programs, program));
    if only_machine.is_none() {
        body.push_str(&select("machine", "Machine", &machines, machine));
    }
    body.push_str("<button>List only these</button>\n</form>\n<form method=\"get\" action=\"trend\">\n");
    body.push_str(&select("program", "Program", &programs, program));
    body.push_str(
        "<label>Function <input type=\"search\" name=\"function\" required></label>\n<button>Show its share over time</button>\n</form>\n\
         </div></header>\n",
    );
    if asked.is_empty() {
        body.push_str("<p class=\"empty\">There is no profile here.</p>\n");
    } else {
        body.push_str(
            "<form method=\"get\" action=\"diff\">\n<div class=\"wide\"><table class=\"profiles\">\n<thead><tr><th>Before</th><th>After</th>\
             <th>Recorded</th><th>Program</th><th>Commit</th><th class=\"n\">Length</th><th class=\"n\">Samples</th>\
             <th>Hottest functions, self</th><th>Flame graph</th></tr></thead>\n<tbody>\n",
        );
        rows.for_each(|item| row(&mut body, item, only_machine.is_none()));
        body.push_str(
            "</tbody></table></div>\n<p class=\"compare\"><button>Compare before and after</button> \
             <span class=\"soft\">Choose one profile as before, and one as after.</span></p>\n</form>\n",
        );
    }
    pager(&mut body, at, pages, program, machine);
    let problems: Vec<&IndexedProfile> = shown.items.iter().filter(|item| item.problem().is_some()).collect();
    unreadable(&mut body, &problems, shelf.max_bytes());
    let has_gaps = asked
        .iter()
        .skip((at - 1) * ROWS)
        .take(ROWS)
        .any(|item| item.made.is_none());
    let again = match has_gaps {
        true => format!("<meta http-equiv=\"refresh\" content=\"{AGAIN_S}\">\n"),
        false => String::new(),
    };
    page(&name, "", &again, &body)
}

fn select(name: &str, label: &str, values: &std::collections::BTreeMap<&str, usize>, chosen: Option<&str>) -> String {
    let mut out = format!("<label>{label} <select name=\"{name}\"><option value=\"\">all</option>");
    for (value, number) in values.iter().filter(|(value, _)| !value.is_empty()) {
        let is_chosen = if chosen == Some(value) { " selected" } else { "" };
        let _ = write!(
            out,
            "<option value=\"{0}\"{is_chosen}>{0} ({number})</option>",
            EscapedText(value)
        );
    }
    out + "</select></label>\n"
}

fn row(body: &mut String, item: &IndexedProfile, names_machine: bool) {
    let id = &item.found.id;
    let file = item.name();
    let when = utc(item.time_ms());
    let when = when.trim_end_matches(" UTC");
    let Some(summary) = item.summary() else {
        let _ = writeln!(
            body,
            "<tr><td></td><td></td><td class=\"when\">{when}</td><td><span class=\"file\">{}</span></td>\
             <td colspan=\"5\" class=\"soft\">not read yet, {}</td></tr>",
            EscapedText(&file),
            bytes(item.found.version.bytes as f64)
        );
        return;
    };
    let program = match &*summary.program {
        "" => "(no name)",
        program => program,
    };
    let pick = |name: &str| {
        format!(
            "<td class=\"pick {name}\"><input type=\"radio\" name=\"{name}\" value=\"{id}\" aria-label=\"{name}: {}\"></td>",
            EscapedText(&file)
        )
    };
    let _ = write!(
        body,
        "<tr>{}{}<td class=\"when\">{when}</td><td class=\"program\"><a href=\"p/{id}/\">{}</a><br><span class=\"file\">{}</span>",
        pick("before"),
        pick("after"),
        EscapedText(program),
        EscapedText(&file),
    );
    if names_machine {
        let _ = write!(
            body,
            "<br><span class=\"file\">{}</span>",
            EscapedText(&summary.machine)
        );
    }
    let _ = write!(
        body,
        "</td><td class=\"commit\">{}</td><td class=\"n\">{}</td><td class=\"n\"{}>{}</td><td class=\"functions\"><ol class=\"hot\">",
        commit(summary),
        summary.length_ms.map(time).unwrap_or_default(),
        if summary.scale.has_samples {
            " data-unit=\"samples\""
        } else {
            ""
        },
        samples(summary),
    );
    let hot = summary.functions.iter().filter(|function| function.own.weight > 0.0);
    for function in hot.take(FUNCTIONS) {
        let _ = write!(
            body,
            "<li><span class=\"n\">{}</span> {}</li>",
            percent(summary.scale.percent(function.own)),
            trend_link("", summary, function)
        );
    }
    body.push_str("</ol></td><td>");
    if summary.picture.is_some() {
        let _ = write!(
            body,
            "<a href=\"p/{id}/view/\"><img class=\"small\" loading=\"lazy\" alt=\"flame graph of {}\" src=\"p/{id}/small.svg\"></a>",
            EscapedText(&file)
        );
    }
    body.push_str("</td></tr>\n");
}

/// The beginning of the commit.
pub(super) fn commit(summary: &Summary) -> String {
    let Some(commit) = &summary.commit else {
        return String::new();
    };
    let short = &commit[..commit.floor_char_boundary(12)];
    format!("<code title=\"{}\">{}</code>", EscapedText(commit), EscapedText(short))
}

/// The number of samples, or the amount where there are none.
pub(super) fn samples(summary: &Summary) -> String {
    match summary.scale.has_samples {
        true => grouped(summary.scale.whole.samples),
        false => EscapedText(&summary.scale.amount(summary.scale.whole)).to_string(),
    }
}

/// A function as a link to its trend. `up` leads to the first page.
pub(super) fn trend_link(up: &str, summary: &Summary, function: &Function) -> String {
    format!(
        "<a class=\"name\" href=\"{up}trend?program={}&amp;function={}&amp;library={}\" title=\"{}\">{}</a>",
        EscapedText(&encode(&summary.program)),
        EscapedText(&encode(&function.name)),
        EscapedText(&encode(&function.lib)),
        EscapedText(&function.name),
        EscapedText(&short(&function.name))
    )
}

fn pager(body: &mut String, at: usize, pages: usize, program: Option<&str>, machine: Option<&str>) {
    if pages == 1 {
        return;
    }
    let link = |page: usize, text: &str| {
        let value = |value: Option<&str>| EscapedText(&encode(value.unwrap_or_default())).to_string();
        format!(
            "<a href=\"./?program={}&amp;machine={}&amp;page={page}\">{text}</a> ",
            value(program),
            value(machine)
        )
    };
    body.push_str("<nav class=\"act\">");
    if at > 1 {
        body.push_str(&link(at - 1, "newer"));
    }
    let _ = write!(body, "page {at} of {pages} ");
    if at < pages {
        body.push_str(&link(at + 1, "older"));
    }
    body.push_str("</nav>\n");
}

fn unreadable(body: &mut String, problems: &[&IndexedProfile], max_bytes: u64) {
    if problems.is_empty() {
        return;
    }
    let _ = write!(
        body,
        "<details class=\"act\"><summary>{} not read</summary>\n<p class=\"soft\">This server reads files up to {}.</p>\n\
         <table><thead><tr><th>File</th><th>Reason</th></tr></thead><tbody>\n",
        count(problems.len() as u64, "file was", "files were"),
        bytes(max_bytes as f64)
    );
    for item in problems.iter().take(PROBLEMS) {
        let _ = writeln!(
            body,
            "<tr><td class=\"file\">{}</td><td>{}</td></tr>",
            EscapedText(&item.name()),
            EscapedText(item.problem().unwrap_or_default())
        );
    }
    body.push_str("</tbody></table></details>\n");
}
