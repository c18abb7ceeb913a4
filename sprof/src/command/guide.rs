//! `sprof guide`: the page of docs/ that says which command answers which question, and the schemas of JSON outputs.

use crate::args::{GuideArgs, JsonOutput};
use crate::exit::Outcome;
use crate::output::screen;

pub(crate) fn run(args: &GuideArgs) -> Outcome {
    let text = match args.schema {
        None => include_str!("guide/guide.md"),
        Some(output) => schema(output),
    };
    screen::print("the guide", |out| out.write_all(text.as_bytes()))
}

/// A JSON schema, draft 2020-12. docs/json.md says what its fields mean.
fn schema(output: JsonOutput) -> &'static str {
    match output {
        JsonOutput::Summary => include_str!("guide/summary.json"),
        JsonOutput::Report => include_str!("guide/report.json"),
        JsonOutput::Annotate => include_str!("guide/annotate.json"),
        JsonOutput::Diff => include_str!("guide/diff.json"),
        JsonOutput::Check => include_str!("guide/check.json"),
        JsonOutput::Stat => include_str!("guide/stat.json"),
        JsonOutput::Doctor => include_str!("guide/doctor.json"),
        JsonOutput::Share => include_str!("guide/share.json"),
        JsonOutput::Shared => include_str!("guide/shared.json"),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_output_has_its_schema() {
        for output in JsonOutput::value_variants() {
            let schema: serde_json::Value = serde_json::from_str(schema(*output)).unwrap();
            let name = format!("sprof-{}", output.to_possible_value().unwrap().get_name());
            assert_eq!(
                (&schema["title"], &schema["properties"]["schema"]["const"]),
                (&name.clone().into(), &name.into())
            );
        }
    }
}
