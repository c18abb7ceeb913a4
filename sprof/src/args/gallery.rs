//! `sprof serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use ::server::Port;
use clap::Args;

use super::bucket::BucketArgs;
use super::input::VerboseArgs;
use super::value;

#[derive(Args, Clone, Debug)]
#[command(before_help = "\
Examples:
  sprof serve profiles
  sprof serve -P 8080 s3://profiles/ci
  sprof serve profiles --address 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --token-file token")]
pub(crate) struct GalleryArgs {
    /// The folder, or the part of a bucket: s3://BUCKET/FOLDER. All files below it that `sprof report` reads are shown;
    /// symbolic links and hidden files are left out.
    #[arg(value_name = "DIR|s3://BUCKET")]
    pub(crate) dir: PathBuf,

    /// Port of the server; `+` means the next free port from there.
    #[arg(short = 'P', long, value_name = "PORT[+]", default_value = "3000+", value_parser = value::port)]
    pub(crate) port: Port,

    /// Address that the server listens on. Another one than the default needs --tls-cert and --tls-key.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", value_parser = value::address)]
    pub(crate) address: IpAddr,

    /// Name under which browsers reach the server, for example profiles.example.org. May be given several times; the
    /// first one is in the link.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = value::host_name)]
    pub(crate) host_name: Vec<String>,

    /// Certificate of the server (PEM), with those that lead to a known authority.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Read the secret of the link from this file, so that the link stays the same. Only its owner may read the file.
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Leave out larger files, for example 500M or 2G.
    #[arg(long, value_name = "SIZE", default_value = "500M", value_parser = value::size)]
    pub(crate) max_size: u64,

    /// Profiler UI to link to [default: profiler.firefox.com, or PROFILER_URL].
    #[arg(long, value_name = "URL", value_parser = value::ui_url)]
    pub(crate) ui_url: Option<String>,

    #[command(flatten, next_help_heading = "Buckets (s3://)")]
    pub(crate) bucket: BucketArgs,

    #[command(flatten, next_help_heading = "Messages")]
    pub(crate) messages: VerboseArgs,
}
