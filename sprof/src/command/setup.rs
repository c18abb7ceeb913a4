//! `sprof setup`: what has to be done once before sprof can record.

use crate::args::SetupArgs;
use crate::exit::{Outcome, Status};
use crate::output::screen;
use crate::recorder;

pub(crate) fn run(_args: &SetupArgs) -> Outcome {
    let done = recorder::set_up()?;
    screen::print("what was done", |out| writeln!(out, "{done}"))?;
    Ok(Status::SUCCESS)
}
