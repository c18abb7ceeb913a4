//! `--service`, `--label` and others: labels that say what ran, for servers that keep profiles and for rows of
//! databases.

use clap::Args;
use share::push::GivenLabels;

/// Labels that say what ran.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabelArgs {
    /// Name of what ran [default: OTEL_SERVICE_NAME, or the program's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,

    /// Version of what ran [default: service.version in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "VERSION")]
    pub(crate) service_version: Option<String>,

    /// Commit that the program was built from [default: the recording's commit, GITHUB_SHA, CI_COMMIT_SHA,
    /// BUILDKITE_COMMIT or GIT_COMMIT].
    #[arg(long, value_name = "COMMIT")]
    pub(crate) commit: Option<String>,

    /// A further label. May be given several times [default: the labels in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
}

impl LabelArgs {
    /// True if an option was given.
    pub(crate) fn is_given(&self) -> bool {
        let options = [&self.service, &self.service_version, &self.commit];
        options.into_iter().any(Option::is_some) || !self.label.is_empty()
    }
}

impl<'a> From<&'a LabelArgs> for GivenLabels<'a> {
    fn from(args: &'a LabelArgs) -> GivenLabels<'a> {
        GivenLabels {
            service: args.service.as_deref(),
            version: args.service_version.as_deref(),
            commit: args.commit.as_deref(),
            labels: &args.label,
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a name and a value with = between them are needed, for example region=eu".to_owned()),
    }
}
