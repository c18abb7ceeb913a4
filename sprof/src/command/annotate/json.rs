//! The annotation for programs. docs/json.md describes its fields.

use std::io::{self, Write};

use profile::view::cost::Cost;
use serde_json::{Value, json};

use super::assembly::{Code, FunctionCode, Instruction};
use super::{Annotated, AnnotatedFile, AnnotatedLine, Annotation};
use crate::output::json;
use crate::report::json::cost_json;

/// Version of the JSON form. A changed field increases it, a new field does not.
const SCHEMA_VERSION: u32 = 1;

pub(super) fn write(annotation: &Annotation<'_>, annotated: Option<&Annotated>, out: &mut dyn Write) -> io::Result<()> {
    let cost = |cost: Cost| cost_json(cost, &annotation.measure);
    let mut fields = json!({
        "file": annotation.args.file.to_string_lossy(),
        "asked": annotation.args.function,
        "conditions": annotation.args.select.describe(),
        "whole": cost(annotation.measure.whole),
        "function": Value::Null,
    });
    if let Some(annotated) = annotated {
        fields["function"] = annotated.name.clone().into();
        fields["self"] = cost(annotated.own);
        fields["total"] = cost(annotated.total);
        let others = annotated.others.iter();
        fields["others"] = others
            .map(|(name, total)| json!({"function": name, "total": cost(*total)}))
            .collect();
        if let Some(sources) = &annotated.sources {
            fields["sources"] = sources.iter().map(|source| source_json(source, &cost)).collect();
        }
        if let Some(code) = &annotated.code {
            fields["code"] = code.iter().map(|code| code_json(code, &cost)).collect();
        }
    }
    json::write("sprof-annotate", SCHEMA_VERSION, fields, out)
}

fn source_json(source: &AnnotatedFile, cost: &dyn Fn(Cost) -> Value) -> Value {
    let line = |line: &AnnotatedLine| json!({"line": line.number, "text": line.text, "self": cost(line.own), "total": cost(line.total)});
    json!({
        "file": source.path,
        "unread": source.unread,
        "lines": source.runs.iter().flatten().map(line).collect::<Vec<_>>(),
    })
}

fn code_json(code: &Code, cost: &dyn Fn(Cost) -> Value) -> Value {
    match code {
        Code::None(why) | Code::Unread(why) => json!({"unread": why}),
        Code::Function(function) => function_json(function, cost),
    }
}

fn function_json(function: &FunctionCode, cost: &dyn Fn(Cost) -> Value) -> Value {
    let instruction = |instruction: &Instruction| {
        json!({
            "address": instruction.address,
            "text": instruction.text,
            "source": instruction.lines,
            "self": cost(instruction.cost.unwrap_or_default()),
        })
    };
    json!({
        "unread": Value::Null,
        "library": function.library,
        "symbol": function.name,
        "start": function.start,
        "size": function.size,
        "arch": function.arch,
        "with_inlined": cost(function.cost),
        "not_shown": cost(function.behind),
        "other_parts": function.other_parts,
        "instructions": function.runs.iter().flatten().map(instruction).collect::<Vec<_>>(),
    })
}
