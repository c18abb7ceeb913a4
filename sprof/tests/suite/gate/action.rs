//! Reads `action.yml`, as far as a test runs it.

use std::collections::HashMap;
use std::fs;

use super::repository_root;

/// `action.yml`, as far as it says what runs.
pub(super) struct Action {
    /// `inputs.NAME` with its value.
    pub(super) defaults: HashMap<String, String>,
    pub(super) steps: Vec<Step>,
}

#[derive(Default)]
pub(super) struct Step {
    pub(super) id: Option<String>,
    pub(super) uses: String,
    pub(super) run: Option<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) with: Vec<(String, String)>,
}

impl Action {
    /// Reads the part of YAML that the file has.
    pub(super) fn read() -> Action {
        let text = fs::read_to_string(repository_root().join("action.yml")).unwrap();
        let (inputs, steps) = text.split_once("\n  steps:\n").unwrap();
        let mut defaults = HashMap::new();
        let mut input = String::new();
        for line in inputs.lines() {
            let words = line.trim();
            match (line.len() - words.len(), words.split_once(':')) {
                (2, Some((name, ""))) => input = format!("inputs.{name}"),
                (4, Some(("default", value))) => {
                    defaults.insert(input.clone(), value.trim().trim_matches('"').to_owned());
                }
                _ => {}
            }
        }
        let mut read: Vec<Step> = Vec::new();
        let mut block = "";
        for line in steps.lines() {
            let words = line.trim_start().trim_start_matches("- ");
            let depth = line.len() - words.len();
            if line.starts_with("    - ") {
                read.push(Step::default());
            }
            let step = read.last_mut().unwrap();
            let field = words
                .split_once(':')
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
            match (depth, field) {
                (6, Some((name, value))) => {
                    block = match name.as_str() {
                        "env" => "env",
                        "with" => "with",
                        "run" => {
                            assert_eq!(value, "|");
                            step.run = Some(String::new());
                            "run"
                        }
                        "id" => {
                            step.id = Some(value);
                            ""
                        }
                        "uses" => {
                            step.uses = value;
                            ""
                        }
                        "name" | "shell" | "continue-on-error" => "",
                        _ => panic!("{line}"),
                    };
                }
                _ if block == "run" => {
                    let script = step.run.as_mut().unwrap();
                    *script += line.get(8..).unwrap_or_default();
                    script.push('\n');
                }
                (8, Some(field)) if block == "env" => step.env.push(field),
                (8, Some(field)) if block == "with" => step.with.push(field),
                _ => assert_eq!(words, "", "{line}"),
            }
        }
        // A script that has a text of the pull request in it would run the text.
        assert!(
            read.iter()
                .flat_map(|step| &step.run)
                .all(|script| !script.contains("${{"))
        );
        Action { defaults, steps: read }
    }
}

/// `${{ NAME }}` with its value, which must be known.
pub(super) fn evaluate(value: &str, context: &HashMap<String, String>) -> String {
    match value.strip_prefix("${{ ").and_then(|rest| rest.strip_suffix(" }}")) {
        Some(name) => context
            .get(name)
            .unwrap_or_else(|| panic!("{name}: {context:?}"))
            .clone(),
        None => value.to_owned(),
    }
}
