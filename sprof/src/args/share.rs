//! `sprof share`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use profile::sanitize::KeptPrivate;

use super::bucket::BucketArgs;
use super::input::{EventArgs, InputArgs, JsonArgs};
use super::labels::LabelArgs;
use super::select::PartArgs;
use super::value;

const KEPT: &str = "Shared before";

#[derive(Args, Clone, Debug)]
#[command(
    override_usage = "sprof share [OPTIONS] FILE\n       sprof share --list\n       sprof share --delete LINK",
    before_help = "\
Examples:
  sprof share profile.json.gz          upload it, after a question, and print the link
  sprof share --yes --to s3://profiles/shop profile.json.gz
  sprof share --list                   what you have shared, and how to delete it",
    after_help = "Taken out before the upload: home folders and other paths down to their last parts, arguments, the environment, names of users and \
                  hosts, texts of sources that are not public, and fields that sprof does not know. Names of functions, files, processes, threads and \
                  libraries stay.\n\
                  Credentials for s3:// are those of the tools of AWS: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or the profile \
                  AWS_PROFILE of ~/.aws/credentials and ~/.aws/config.",
    mut_arg("json", |arg| arg.help("Print link, delete command and size as one line of JSON")),
    mut_arg("event", |arg| arg.help("Share the samples of this event, if a file of another profiler has several"))
)]
pub(crate) struct ShareArgs {
    /// A file of any kind that `sprof load` opens.
    #[arg(value_name = "FILE", required_unless_present_any = ["list", "delete"])]
    pub(crate) file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) upload: UploadArgs,

    /// Profiler UI of the link [default: profiler.firefox.com, or PROFILER_URL].
    #[arg(long, value_name = "URL", value_parser = value::ui_url, help_heading = "Where to")]
    pub(crate) ui_url: Option<String>,

    /// End after this time without progress: while connecting, while sending, while waiting for the reply.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = value::duration, help_heading = "Where to")]
    pub(crate) timeout: Duration,

    /// Leave this in the profile. May be given several times, or as a list: args,paths.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', help_heading = "What to share")]
    pub(crate) include: Vec<Private>,

    #[command(flatten)]
    pub(crate) part: PartArgs,

    /// Give the samples of stacks that fewer than N samples have to their callers.
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        hide_default_value = true,
        help_heading = "What to share"
    )]
    pub(crate) drop_thin: u64,

    #[command(flatten, next_help_heading = "What to share")]
    pub(crate) event: EventArgs,

    #[command(flatten, next_help_heading = "What ran (--parquet)")]
    pub(crate) labels: LabelArgs,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    /// List the profiles that were shared from here.
    #[arg(long, help_heading = KEPT, conflicts_with_all = ["file", "delete"])]
    pub(crate) list: bool,

    /// Delete a profile that was shared from here.
    #[arg(long, value_name = "LINK", help_heading = KEPT, conflicts_with = "file")]
    pub(crate) delete: Option<String>,

    #[command(flatten, next_help_heading = "Names and messages")]
    pub(crate) input: InputArgs,
}

/// Where a profile is uploaded to: also of `sprof record --share`.
#[allow(rustdoc::bare_urls, reason = "help texts are printed as they are")]
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct UploadArgs {
    /// Upload without asking. Needed where there is no terminal.
    #[arg(short, long, help_heading = "Where to")]
    pub(crate) yes: bool,

    /// API of your own store, for example https://profiles.example.org/api [default: the store of the Firefox Profiler,
    /// where everybody with the link can read the profile]. Needs --ui-url.
    #[arg(long, value_name = "URL", help_heading = "Where to")]
    pub(crate) server: Option<String>,

    /// Upload into a bucket of Amazon S3 or of another server with its API: s3://BUCKET/FOLDER. The link is signed, and
    /// opens the profile in --ui-url.
    #[arg(long, value_name = "s3://BUCKET", help_heading = "Where to")]
    pub(crate) to: Option<String>,

    /// With --to: time until the link ends, at most 7 days, for example 12h [default: 7d].
    #[arg(long, value_name = "TIME", value_parser = value::expiry, help_heading = "Where to")]
    pub(crate) expires: Option<Duration>,

    /// With --to: upload rows for databases instead of the profile, as `sprof export -f parquet` writes them, CPU time
    /// and waits. The address is printed.
    #[arg(long, help_heading = "Where to")]
    pub(crate) parquet: bool,

    #[command(flatten, next_help_heading = "Buckets (s3://)")]
    pub(crate) bucket: BucketArgs,
}

/// What may stay in a shared profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Private {
    /// The arguments of programs.
    Args,
    /// Whole paths, with home folders.
    Paths,
    /// Names of users and hosts.
    Names,
    /// The texts of all source files in the profile.
    Sources,
}

impl Private {
    /// The private data that stays in a profile which leaves this machine.
    pub(crate) fn include(named: &[Private]) -> KeptPrivate {
        let has = |what: Private| named.contains(&what);
        KeptPrivate {
            args: has(Private::Args),
            paths: has(Private::Paths),
            names: has(Private::Names),
            sources: has(Private::Sources),
        }
    }
}
