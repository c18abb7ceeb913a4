//! Refuses views and conditions that need call paths, for files without them.

use std::path::Path;

use profile::data::{Calls, Data};
use profile::view::select::Filter;

use crate::args::View;
use crate::exit::Failure;

/// Refuses views that the file has no data for, and names views that it has.
pub(crate) fn check_views(file: &Path, data: &Data, views: &[View]) -> Result<(), Failure> {
    let by = &data.imported_from;
    for view in views {
        let why = match (&data.calls, view) {
            (_, View::Heap) if !data.has_heap() => {
                "it has no blocks of memory; `sprof record --heap ./app` records them. With --measure, leave out --view heap"
                    .to_owned()
            }
            (_, View::Resources) if data.recorded.as_ref().is_none_or(|recorded| recorded.resources.is_none()) => {
                "it has no resources; `sprof record` reads them on Linux, unless --no-resources is given".to_owned()
            }
            (_, View::Spans) if !data.has_spans() => {
                "it has no spans: markers of the program that have a start and an end".to_owned()
            }
            (Calls::Paths, _) => continue,
            (Calls::Arcs(_), View::Tree | View::BottomUp | View::Futures) => format!(
                "{by} has calls between functions, but no call paths, so there is no call tree; --view callers=FUNCTION shows callers and callees"
            ),
            (Calls::Unknown, View::Tree | View::BottomUp | View::Futures | View::Callers(_)) => {
                format!(
                    "{by} counts no calls, so there is neither a call tree nor callers; use --view functions or lines"
                )
            }
            _ => continue,
        };
        return Err(Failure::failed(format_args!("{}: {why}", file.display())));
    }
    Ok(())
}

/// Refuses conditions on call paths.
pub(crate) fn check_conditions(file: &Path, data: &Data, filter: &Filter) -> Result<(), Failure> {
    let options = [
        ("--focus", &filter.focus),
        ("--hide", &filter.hide),
        ("--drop", &filter.drop),
    ];
    let given = options.into_iter().find(|(_, functions)| !functions.is_empty());
    let Some((option, _)) = given.filter(|_| data.calls != Calls::Paths) else {
        return Ok(());
    };
    Err(Failure::failed(format_args!(
        "{}: {option} needs call paths, and this file has none; leave it out, or look at single functions with --view \
         callers=FUNCTION",
        file.display()
    )))
}
