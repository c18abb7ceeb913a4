//! `sprof export --format firefox`: the file as it is, so that nothing of it is lost; inflated or compressed as the output's
//! name says.

use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use profile::read::{self, ReadLimits};

use super::Target;
use crate::args::{self, ExportArgs};
use crate::exit::{Failure, Outcome};
use crate::import;
use crate::term::Term;

pub(super) fn export(args: &ExportArgs, target: Target<'_>, term: &Term) -> Outcome {
    if args.off_cpu || args.pick.wall || args.pick.threads || args.event.is_some() {
        return Err(Failure::from(args::usage_error(
            "export",
            "--format firefox copies the whole profile: it goes without --off-cpu, --wall, --threads and --event",
        )));
    }
    let path = &args.file;
    if import::is_perf_data(path) {
        return Err(Failure::failed(format_args!(
            "{0} is no Firefox profile yet; `sprof load --save-only {0}` makes one of it",
            path.display()
        )));
    }
    let saved = read::open(path, ReadLimits::default()).map_err(Failure::failed)?;
    let is_gzip = saved.is_gzip;
    let wants_gzip = match args
        .output
        .as_deref()
        .and_then(Path::extension)
        .and_then(|end| end.to_str())
    {
        Some("gz") => true,
        Some("json") => false,
        _ => is_gzip,
    };
    let file = (saved.into_file())
        .map_err(|error| Failure::failed(format_args!("reading {} failed: {error}", path.display())))?;
    target.write(term, |out| copy(&file, is_gzip, wants_gzip, out))
}

fn copy(mut file: &File, is_gzip: bool, wants_gzip: bool, out: &mut dyn Write) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    let mut input = BufReader::with_capacity(1 << 16, file);
    match (is_gzip, wants_gzip) {
        (true, false) => io::copy(&mut MultiGzDecoder::new(input), out)?,
        (false, true) => {
            let mut gz = GzEncoder::new(&mut *out, Compression::default());
            io::copy(&mut input, &mut gz)?;
            gz.finish()?.flush().map(|()| 0)?
        }
        (true, true) | (false, false) => io::copy(&mut input, out)?,
    };
    out.flush()
}
