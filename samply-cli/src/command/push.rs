//! `sprof push`: a profile to servers that keep profiles.

use std::ops::ControlFlow;

use profile::data::Saved;
use profile::export::Picked;
use profile::sanitize::sanitize;
use recording::command::own;

use super::export::{say_what_is_missing, time};
use super::share::include;
use crate::args::{self, PushArgs};
use crate::exit::{Failure, Outcome, Status};
use crate::http::{Error, Reason};
use crate::input;
use crate::interrupt::Interrupt;
use crate::numbers::{bytes, count};
use crate::push::{Destination, Given, Headers, Labels, PushError, Shipment};
use crate::share::private;
use crate::style::Style;
use crate::term::Term;

pub(crate) fn run(args: &PushArgs) -> Outcome {
    let term = Term::stderr(args.input.verbosity());
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let mut servers = Vec::new();
    for text in args.to.iter().filter(|text| !text.is_empty()) {
        let server = Destination::parse(text, args.plain_http).map_err(|why| args::usage_error("push", why))?;
        let name = format!("SPROF_{}_HEADERS", server.kind.word().to_uppercase());
        let headers = Headers::parse(&variable(&name).unwrap_or_default());
        servers.push((server, headers.map_err(|why| format!("{name}: {why}"))?));
    }
    let input = input::open_and_warn(&args.file, args.event.name(), &args.input.symbols, &term)?;
    let mut data = Saved(input.data);
    sanitize(&mut data, &private(), include(&args.include));
    let picked = Picked::new(&data, time(args.off_cpu, &args.pick));
    say_what_is_missing(&picked, &args.file, &term)?;
    let given = Given {
        service: args.service.as_deref(),
        version: args.service_version.as_deref(),
        commit: args.commit.as_deref(),
        labels: &args.label,
    };
    let labels = Labels::new(given, &data.product, &variable)?;
    let shipment = Shipment {
        picked: &picked,
        labels: &labels,
        threads: args.pick.threads,
    };
    let interrupt = Interrupt::default().or_watch()?;
    let mut failed = 0;
    for (server, headers) in &servers {
        let (name, host) = (server.kind.name(), server.address.host());
        let sent = server.send(&shipment, headers, |progress| {
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
                term.style(Style::Bold, labels.service()),
                bytes(accepted.bytes as f64)
            )),
            Err(error) => {
                failed += 1;
                say(&error, name, &host, &term);
            }
        }
        if interrupt.is_seen() {
            break;
        }
    }
    match failed {
        0 => Ok(Status::SUCCESS),
        _ => Err(Failure::failed(format_args!(
            "{} of {} did not take the profile; `{} push` sends it again",
            failed,
            count(servers.len() as u64, "server", "servers"),
            own()
        ))),
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

fn say_http(error: &Error, name: &str, term: &Term) {
    term.error(error);
    if error.is_outcome_unknown() {
        term.detail(format_args!(
            "{name} may have the profile: look there before you send it again"
        ));
    } else if let Reason::Status(401 | 403, _) = error.reason {
        term.detail(
            "the variables SPROF_..._HEADERS hold what the server needs to let sprof in: see `sprof push --help`",
        );
    }
}
