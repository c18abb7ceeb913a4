//! `sprof push`: a profile to servers that keep profiles.

use std::ops::ControlFlow;
use std::path::Path;

use profile::data::{Data, SavedData};
use profile::export::{Picked, PickedTime};
use profile::sanitize::{KeptPrivate, sanitize};
use profile::text::numbers::{bytes, count};
use share::http::{FailureReason, HttpError};
use share::private;
use share::push::{Destination, GivenLabels, Headers, Labels, PushError, Shipment, variable};

use super::export::{keep_part, say_what_is_missing, time};
use crate::args::{self, Private, PushArgs, WantedSamples};
use crate::exit::{Failure, Outcome, Status};
use crate::input;
use crate::interrupt::Interrupt;
use crate::terminal::Term;
use crate::terminal::style::Style;

pub(crate) fn run(args: &PushArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let servers = Servers::prepare("push", &args.to, args.plain_http)?;
    let mut input = input::open_and_warn(
        &args.file,
        WantedSamples::new(args.event.name(), &args.heap, args.part.filter()),
        &args.input.symbols,
        &term,
    )?;
    keep_part(&mut input.data, &args.part, &args.file, &term)?;
    let what = PushedPart {
        include: Private::include(&args.include),
        time: time(args.off_cpu, &args.pick),
        threads: args.pick.threads,
        given: GivenLabels::from(&args.labels),
    };
    servers.send(&args.file, input.data, what, &term)?;
    Ok(Status::SUCCESS)
}

/// The part of a file to send, and its labels.
#[derive(Default)]
pub(super) struct PushedPart<'a> {
    include: KeptPrivate,
    time: PickedTime,
    threads: bool,
    given: GivenLabels<'a>,
}

/// Servers that a profile goes to. Their addresses are checked before anything else is done.
pub(super) struct Servers(Vec<(Destination, Headers)>);

impl Servers {
    /// Reads the addresses, and the headers that the servers ask for.
    pub(super) fn prepare(command: &str, to: &[String], any_http: bool) -> Result<Servers, Failure> {
        let servers = to.iter().filter(|text| !text.is_empty()).map(|text| {
            let server = Destination::parse(text, any_http, "push").map_err(|why| args::usage_error(command, why))?;
            let headers = server.kind.headers()?;
            Ok((server, headers))
        });
        servers.collect::<Result<_, Failure>>().map(Servers)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a profile to all servers. Names each server that refuses it, and fails if one did.
    pub(super) fn send(&self, file: &Path, data: Data, what: PushedPart<'_>, term: &Term) -> Result<(), Failure> {
        let mut data = SavedData(data);
        sanitize(&mut data, &private(), what.include);
        let picked = Picked::new(&data, what.time);
        say_what_is_missing(&picked, file, term)?;
        let labels = Labels::new(what.given, &data.product, data.commit(), &variable)?;
        let shipment = Shipment {
            picked: &picked,
            labels: &labels,
            threads: what.threads,
        };
        self.ship(&shipment, term)
    }

    fn ship(&self, shipment: &Shipment<'_>, term: &Term) -> Result<(), Failure> {
        let interrupt = Interrupt::default().or_watch()?;
        let mut failed = 0;
        for (server, headers) in &self.0 {
            let (name, host) = (server.kind.name(), server.address.host());
            if interrupt.is_seen() {
                failed += 1;
                term.error(format_args!(
                    "{name} at {host} was not asked: sprof was ended by a signal"
                ));
                continue;
            }
            let sent = server.send(shipment, headers, |progress| {
                let done = bytes(progress.sent as f64);
                term.progress(
                    false,
                    format_args!("sending to {name} at {host}: {done} of {}", bytes(progress.size as f64)),
                );
                match interrupt.is_seen() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
            term.erase_progress();
            match sent {
                Ok(accepted) => term.line(format_args!(
                    "{name} at {host} has the profile of {} ({})",
                    term.style(Style::Bold, shipment.labels.service()),
                    bytes(accepted.bytes as f64)
                )),
                Err(error) => {
                    failed += 1;
                    say(&error, name, &host, term);
                }
            }
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format_args!(
                "{} of {} did not take the profile",
                failed,
                count(self.0.len() as u64, "server", "servers")
            ))),
        }
    }
}

fn say(error: &PushError, name: &str, host: &str, term: &Term) {
    match error {
        PushError::Http(error) => say_http(error, name, term),
        PushError::Reply(why) => term.error(format_args!(
            "{host} is not {name}: {why}; look at the address, and what stands in front of the server"
        )),
        PushError::Partly(why) => term.error(format_args!("{name} at {host} took a part of the profile only: {why}")),
        PushError::Made(error) => term.error(format_args!("cannot make the request for {name}: {error}")),
    }
}

fn say_http(error: &HttpError, name: &str, term: &Term) {
    term.error(error);
    if error.is_outcome_unknown() {
        term.detail(format_args!(
            "{name} may have the profile: look there before you send it again"
        ));
    } else if let FailureReason::Status(401 | 403, _) = error.reason {
        term.detail(
            "the variables SPROF_..._HEADERS hold what the server needs to let sprof in: see `sprof push --help`",
        );
    }
}
