//! The schemas that `sprof guide` prints, as a check of what sprof prints elsewhere.
//!
//! The check is stricter than a schema: an object has no other fields than those that its schema names, so that each
//! new field is described.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

/// By the `schema` of an output, its JSON schema.
static SCHEMAS: LazyLock<BTreeMap<String, Value>> = LazyLock::new(|| {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let schemas = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let read = |path: PathBuf| {
        let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        (schema["title"].as_str().unwrap().to_owned(), schema)
    };
    schemas.map(read).collect()
});

pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/guide")
}

/// An output of sprof: one JSON object, which its schema accepts.
#[track_caller]
pub(crate) fn parsed(output: &(impl AsRef<[u8]> + ?Sized)) -> Value {
    let text = String::from_utf8_lossy(output.as_ref());
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let schema = value["schema"].as_str().and_then(|name| SCHEMAS.get(name));
    let schema = schema.unwrap_or_else(|| panic!("no schema for {text}"));
    if let Err(problem) = check(schema, schema, &value, "") {
        panic!("{problem}\n{text}");
    }
    value
}

/// The error is a path and what the schema does not accept there.
fn check(whole: &Value, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
    let refuse_unless = |is_accepted: bool, rule: &Value| match is_accepted {
        true => Ok(()),
        false => Err(format!("{path}: {value} is not {rule}")),
    };
    let members = || value.as_object().into_iter().flatten();
    let named = |key: &String| schema["properties"].get(key);
    for (keyword, rule) in schema.as_object().unwrap() {
        match keyword.as_str() {
            "$schema" | "$defs" | "title" => {}
            "$ref" => {
                let definition = whole.pointer(rule.as_str().unwrap().trim_start_matches('#')).unwrap();
                check(whole, definition, value, path)?;
            }
            "anyOf" => {
                let problems = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|schema| check(whole, schema, value, path));
                let problems: Vec<String> = problems.map_while(Result::err).collect();
                if problems.len() == rule.as_array().unwrap().len() {
                    // What comes farthest is what was meant.
                    let depth = |problem: &&String| problem.split(": ").next().unwrap().len();
                    return Err(problems.iter().max_by_key(depth).unwrap().clone());
                }
            }
            "type" => {
                let names = rule
                    .as_array()
                    .map_or_else(|| vec![rule], |names| names.iter().collect());
                refuse_unless(names.iter().any(|name| has_type(value, name.as_str().unwrap())), rule)?;
            }
            "const" => refuse_unless(value == rule, rule)?,
            "enum" => refuse_unless(rule.as_array().unwrap().contains(value), rule)?,
            "required" => {
                let missing = rule
                    .as_array()
                    .unwrap()
                    .iter()
                    .find(|key| value.get(key.as_str().unwrap()).is_none());
                missing.map_or(Ok(()), |key| Err(format!("{path}/{key}: missing")))?;
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(whole, rule, item, &format!("{path}/{index}"))?;
                }
            }
            "properties" => {
                for (key, member) in members() {
                    match named(key) {
                        Some(schema) => check(whole, schema, member, &format!("{path}/{key}"))?,
                        None if schema.get("additionalProperties").is_some() => {}
                        None => return Err(format!("{path}/{key}: not described")),
                    }
                }
            }
            "additionalProperties" => {
                for (key, member) in members().filter(|(key, _)| named(key).is_none()) {
                    check(whole, rule, member, &format!("{path}/{key}"))?;
                }
            }
            other => panic!("{other} of a schema is not checked"),
        }
    }
    Ok(())
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("no type {other}"),
    }
}
