//! Shows a served profile to the user, here or over SSH.

use crate::args::ServeArgs;
use crate::serve::Links;
use crate::serve::browser::{self, Desk};
use crate::style::Style;
use crate::term::{Term, Verbosity};

/// The verbosity by the flags.
pub(crate) fn verbosity(args: &ServeArgs) -> Verbosity {
    Verbosity::of(args.quiet, args.verbose)
}

/// Warns of an address that others can reach, before anything can be read there.
pub(crate) fn warn_of_others(term: &Term, args: &ServeArgs) {
    if !args.address.is_loopback() {
        term.warning(format_args!(
            "--address {}: everyone who can reach it and learns the link can read the profile and the sources in it",
            args.address
        ));
    }
}

/// Prints the link, and opens it if there is a browser and `may_open`.
pub(crate) fn open(term: &Term, args: &ServeArgs, address: std::net::SocketAddr, links: &Links, may_open: bool) {
    let link = term.style(Style::Link, &links.open);
    let desk = match browser::desk(address) {
        Desk::OverSsh { tunnel } if args.address.is_loopback() => {
            term.always("to see it, run this on your own machine:");
            term.always(format_args!("  {}", term.style(Style::Bold, &tunnel)));
            term.always(format_args!("and open {link}"));
            return term.line("serving until Ctrl-C");
        }
        Desk::OverSsh { .. } => Desk::NoBrowser("this is an SSH session"),
        desk => desk,
    };
    match desk {
        Desk::Here if may_open && !args.no_open => {
            let (url, verbosity) = (links.open.clone(), verbosity(args));
            let failed = move |why: String| {
                let term = Term::stderr(verbosity);
                term.warning(format_args!(
                    "the browser did not open ({why}); open the link yourself: {url}"
                ));
            };
            match browser::open(&links.once, failed) {
                Ok(()) => term.line(format_args!("opening {link}")),
                Err(error) => {
                    term.warning(format_args!("no browser could be started: {error}"));
                    term.always(format_args!("open {link}"));
                }
            }
        }
        Desk::NoBrowser(why) if may_open && !args.no_open => term.always(format_args!("{why}: open {link}")),
        _ => term.always(format_args!("open {link}")),
    }
    term.line(format_args!("serving at {} until Ctrl-C", links.origin));
}
