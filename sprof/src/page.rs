//! The viewer's page, its data, and the files that it saves.

use std::fs::File;
use std::path::Path;

use profile::Profile;
use profile::data::Data;
use profile::export::html::{self, PageOptions};
use profile::export::svg::SvgOptions;
use profile::export::{Picked, PickedTime, pprof, svg};
use profile::read::{self, ReadLimits};
use profile::view::name_addresses;
use profile::view::select::{Filter, select};
use profile::view::shortfalls::shortfalls;
use server::SavedExport;
use symbolicator::Symbolicator;

use crate::symbols::advice::{AdvisedSamples, advise};
use crate::symbols::library::module;

/// The viewer's page with this data and these notes, as HTML.
pub(crate) fn of(data: Data, mut notes: Vec<String>, symbolicator: &Symbolicator) -> Result<Vec<u8>, String> {
    notes.extend(advice(&data, symbolicator));
    let options = PageOptions {
        notes: &notes,
        is_served: false,
    };
    let mut bytes = Vec::new();
    html::write(data, &options, &mut bytes).map_err(|error| failed(&error))?;
    Ok(bytes)
}

/// The viewer's page of a recording, as HTML.
pub(crate) fn of_recording(profile: &Profile, symbolicator: &Symbolicator) -> Result<Vec<u8>, String> {
    let mut data = profile::for_page(profile);
    data.make_printable();
    of(data, Vec::new(), symbolicator)
}

/// What the samples lack, a sentence each, as `sprof report` has it. Shares of several events have no sum.
fn advice(data: &Data, symbolicator: &Symbolicator) -> Vec<String> {
    if data.events().len() > 1 {
        return Vec::new();
    }
    let Ok(selection) = select(data, &Filter::default()) else {
        return Vec::new();
    };
    let advice = advise(&shortfalls(&selection), &selection, AdvisedSamples::Saved, symbolicator);
    advice.into_iter().map(|advice| advice.line).collect()
}

/// A served profile with all names that can be looked up.
fn read(file: &File, symbolicator: &Symbolicator) -> Result<Data, String> {
    let file = file.try_clone().map_err(|error| failed(&error))?;
    let read = read::file_for_page(file, Path::new("the served profile"), ReadLimits::default());
    let mut data = read.map_err(|error| error.to_string())?;
    name_addresses(&mut data, |lib, addresses| {
        symbolicator.lookup(&module(lib)?, addresses).ok()
    });
    data.make_printable();
    Ok(data)
}

/// A file of a served profile's samples of running threads, as `sprof export` makes it.
pub(crate) fn export(file: &File, symbolicator: &Symbolicator, export: SavedExport) -> Result<Vec<u8>, String> {
    let mut data = read(file, symbolicator)?;
    data.keep_event(None).map_err(|error| error.to_string())?;
    let picked = Picked::new(&data, PickedTime::Cpu);
    let mut bytes = Vec::new();
    let written = match export {
        SavedExport::FlameGraph => svg::write(&picked, &SvgOptions::default(), &mut bytes),
        SavedExport::Pprof => pprof::write(&picked, &mut bytes),
    };
    written.map_err(|error| failed(&error))?;
    Ok(bytes)
}

/// The data of a served profile; gzip.
pub(crate) fn served(file: &File, symbolicator: &Symbolicator) -> Result<Vec<u8>, String> {
    let data = read(file, symbolicator)?;
    let options = PageOptions {
        notes: &advice(&data, symbolicator),
        is_served: true,
    };
    html::served_data(data, &options).map_err(|error| failed(&error))
}

fn failed(error: &std::io::Error) -> String {
    format!("the page could not be made: {error}")
}
