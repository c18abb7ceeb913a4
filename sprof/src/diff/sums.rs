//! Recordings as sums, to compare them with files that hold nothing else.

use profile::data::{Data, WeightUnit};
use profile::export::{Picked, PickedTime, pprof};
use profile::read::{self, ForeignFormat, ReadLimits};

use crate::exit::Failure;

/// Turns the CPU time of recordings into sums, if the other files are sums of CPU time: pprof files, and files from
/// servers.
pub(crate) fn as_sums(base: Vec<Data>, new: Vec<Data>) -> Result<[Vec<Data>; 2], Failure> {
    let is_sum = |data: &Data| {
        (data.weights.as_ref()).is_some_and(|weights| weights.name == "cpu" && weights.unit == "nanoseconds")
    };
    let is_sampled = |data: &Data| {
        data.weights.is_none()
            && data.event.is_none()
            && matches!(data.unit, WeightUnit::Milliseconds | WeightUnit::Samples)
    };
    let all = || base.iter().chain(&new);
    if !all().any(is_sum) || !all().all(|data| is_sum(data) || is_sampled(data)) {
        return Ok([base, new]);
    }
    let summed = |files: Vec<Data>| {
        files
            .into_iter()
            .map(|data| if is_sum(&data) { Ok(data) } else { sum(&data) })
            .collect::<Result<Vec<_>, _>>()
    };
    Ok([summed(base)?, summed(new)?])
}

/// The sums as a pprof file holds them.
fn sum(data: &Data) -> Result<Data, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::failed(format_args!("cannot add up the samples of {}: {error}", data.product))
    };
    let mut file = tempfile::NamedTempFile::new().map_err(|error| failed(&error))?;
    pprof::write(&Picked::new(data, PickedTime::Cpu), &mut file).map_err(|error| failed(&error))?;
    let read = read::foreign(file.path(), ForeignFormat::Pprof, None, ReadLimits::default())
        .map_err(|error| failed(&error))?;
    Ok(read.data)
}
