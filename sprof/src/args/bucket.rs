//! Flags of all commands that use a bucket.

use clap::{Args, ValueEnum};
use share::s3::{AddressStyle, BucketOptions};

/// Where a bucket is.
#[allow(rustdoc::bare_urls, reason = "help texts are printed as they are")]
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct BucketArgs {
    /// Server of the bucket, for example https://minio.example.org [default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the
    /// profile's endpoint_url, or Amazon S3].
    #[arg(long, value_name = "URL")]
    pub(crate) s3_endpoint: Option<String>,

    /// Region of the bucket [default: AWS_REGION, AWS_DEFAULT_REGION, or the profile's].
    #[arg(long, value_name = "REGION")]
    pub(crate) s3_region: Option<String>,

    /// Where the bucket's name stands in addresses [default: before the host of Amazon S3, and in the path of others].
    #[arg(long, value_name = "STYLE")]
    pub(crate) s3_style: Option<BucketStyle>,
}

/// Where the name of a bucket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BucketStyle {
    /// In the path: URL/BUCKET/KEY.
    Path,
    /// Before the host: BUCKET.HOST/KEY.
    Host,
}

impl From<&BucketArgs> for BucketOptions {
    fn from(args: &BucketArgs) -> BucketOptions {
        BucketOptions {
            endpoint: args.s3_endpoint.clone(),
            region: args.s3_region.clone(),
            style: args.s3_style.map(|style| match style {
                BucketStyle::Path => AddressStyle::Path,
                BucketStyle::Host => AddressStyle::VirtualHost,
            }),
        }
    }
}
