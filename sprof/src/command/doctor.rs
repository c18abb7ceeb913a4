//! `sprof doctor`: what works on this machine, what does not, and the command that helps.

use std::fs;

use recording::command::own;
use recording::doctor::{CheckState, Examination, Finding};
use recording::module::{Module, ModuleKind};
use recording::proc::{self, MapsLine};
use serde_json::{Value, json};
use symbolicator::{SymbolOptions, Symbolicator};

use super::self_test;
use crate::args::DoctorArgs;
use crate::exit::{Outcome, Status};
use crate::output::screen;
use crate::recorder;
use crate::terminal::columns::wrapped;

/// Version of the JSON form. A removed or changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;
/// Most columns of a line.
const WIDTH: usize = 80;

/// Runs the command. Status 125 if nothing can be recorded.
pub(crate) fn run(args: &DoctorArgs) -> Outcome {
    if args.self_test {
        return self_test::run();
    }
    if let Some(pid) = args.resume {
        let done = recorder::resume(pid)?;
        screen::print("what was done", |out| writeln!(out, "{done}"))?;
        return Ok(Status::SUCCESS);
    }
    let mut examination = recorder::examine();
    examination.limits.extend([kernel_symbols(), libc_symbols()]);
    let text = match args.json.is_json() {
        true => format!("{}\n", to_json(&examination)),
        false => to_text(&examination),
    };
    screen::print("the answers", |out| out.write_all(text.as_bytes()))?;
    Ok(match used(&examination) {
        Some(_) => Status::SUCCESS,
        None => Status::PARTIAL,
    })
}

/// The backend that `sprof record` uses here.
fn used(examination: &Examination) -> Option<&Finding> {
    examination.ways.iter().find(|way| way.state == CheckState::Works)
}

fn kernel_symbols() -> Finding {
    let finding = Finding::works("kernel-symbols", "names of kernel functions", "");
    match symbolicator::kernel_text_base() {
        Some(_) => finding,
        None => finding
            .because(CheckState::Limited, "/proc/kallsyms shows this user no addresses")
            .fixed_by([
                "run sprof as root",
                "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
            ]),
    }
}

/// Number of addresses of the C library that are looked up.
const PROBES: u64 = 200;

/// Checks names and lines in the C library, which is on every program's stacks.
fn libc_symbols() -> Finding {
    let finding = Finding::works("libc-symbols", "names of functions in the C library", "");
    let Some((path, code)) = own_libc() else {
        let reason = "sprof itself was linked without a shared C library, so it cannot check one";
        return finding.because(CheckState::Works, reason);
    };
    let module = Module {
        kind: ModuleKind::File,
        path: path.clone().into(),
        readable_path: None,
        build_id: None,
        arch: None,
    };
    let step = ((code.end - code.start) / PROBES).max(1);
    let addresses: Vec<u64> = (0..PROBES).map(|probe| code.start + probe * step).collect();
    let infos = match Symbolicator::new(SymbolOptions::default()).lookup(&module, &addresses) {
        Ok(infos) => infos,
        Err(error) => return finding.because(CheckState::Limited, error),
    };
    let named = infos
        .iter()
        .filter(|info| info.function.is_some() || !info.frames.is_empty())
        .count();
    let has_lines = infos
        .iter()
        .any(|info| info.frames.iter().any(|frame| frame.line.is_some()));
    let percent = 100 * named / infos.len().max(1);
    let (state, what) = match (has_lines, percent) {
        (true, _) => (CheckState::Works, "inline functions and source lines are also known"),
        (false, 90..) => (CheckState::Works, "without source lines"),
        (false, _) => (
            CheckState::Limited,
            "the others have none, and the callers above them may be guessed",
        ),
    };
    let finding = finding.because(state, format_args!("{percent} % of {path}: {what}"));
    match state {
        CheckState::Works => finding,
        _ => finding.fixed_by(["sudo apt install libc6-dbg  # Debian, Ubuntu"]),
    }
}

/// The C library of sprof itself, and the address range of its code, relative to its start.
fn own_libc() -> Option<(String, std::ops::Range<u64>)> {
    let maps = fs::read("/proc/self/maps").ok()?;
    let is_libc = |mapping: &MapsLine| {
        let name = mapping.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        mapping.path.starts_with(b"/") && (name.starts_with(b"libc.so") || name.starts_with(b"ld-musl"))
    };
    let mut mappings = proc::mappings(&maps).filter(is_libc).peekable();
    let base = mappings.peek()?.start;
    let code = mappings.find(|mapping| mapping.is_executable)?;
    let path = String::from_utf8(code.path.clone()).ok()?;
    Some((path, code.start.checked_sub(base)?..code.end().checked_sub(base)?))
}

fn to_text(examination: &Examination) -> String {
    let mut out = String::from("Ways to record a program. The first that works is used.\n\n");
    let used = used(examination);
    for way in &examination.ways {
        push(&mut out, way, used == Some(way));
    }
    out.push_str("\nWhat decides how much a profile shows.\n\n");
    for limit in &examination.limits {
        push(&mut out, limit, false);
    }
    out.push('\n');
    match used {
        Some(way) => out += &format!("`sprof record` uses {} here.\n", way.title),
        None => out += &format!("Nothing can be recorded here; `{} load` works.\n", own()),
    }
    out
}

fn push(out: &mut String, finding: &Finding, is_used: bool) {
    let word = match finding.state {
        CheckState::Works if is_used => "use",
        CheckState::Works => "ok",
        CheckState::Limited => "note",
        CheckState::Fails => "no",
    };
    let text = match finding.reason.is_empty() {
        true => finding.title.clone(),
        false => format!("{}: {}", finding.title, finding.reason),
    };
    for line in wrapped(&format!("  {word:4}  "), &text, "        ", WIDTH) {
        out.push_str(&format!("{line}\n"));
    }
    for command in &finding.fixes {
        // A command stays on one line, so that it can be copied.
        out.push_str(&format!("          > {command}\n"));
    }
}

fn to_json(examination: &Examination) -> Value {
    let findings = |findings: &[Finding]| -> Vec<Value> { findings.iter().map(finding_to_json).collect() };
    json!({
        "schema": "sprof-doctor",
        "schema_version": SCHEMA_VERSION,
        "sprof_version": env!("CARGO_PKG_VERSION"),
        "used": used(examination).map(|way| way.id),
        "ways": findings(&examination.ways),
        "limits": findings(&examination.limits),
    })
}

fn finding_to_json(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "title": finding.title,
        "state": match finding.state {
            CheckState::Works => "works",
            CheckState::Limited => "limited",
            CheckState::Fails => "fails",
        },
        "reason": finding.reason,
        "mends": finding.fixes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_way_that_works_is_used() {
        let finding = |id| Finding::works(id, id, "");
        let mut examination = Examination {
            ways: vec![finding("a").in_state(CheckState::Fails), finding("b"), finding("c")],
            limits: Vec::new(),
        };
        assert_eq!(used(&examination).map(|way| way.id), Some("b"));
        assert!(to_text(&examination).contains("uses b here"));
        examination.ways.truncate(1);
        assert_eq!(to_json(&examination)["used"], Value::Null);
        assert!(to_text(&examination).contains("Nothing can be recorded"));
    }
}
