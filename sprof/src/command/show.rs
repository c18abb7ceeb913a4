//! Shows a profile to the user, here or over SSH: serves it until a signal.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use server::{BrowserNotice, Content, IDLE_TIME, Links, Listener, Server, ServerEnd};
use symbolicator::{Symbolicator, api};

use super::browse;
use crate::args::{BrowseArgs, ServeArgs};
use crate::browse::terminal;
use crate::exit::{Failure, Outcome, Status};
use crate::page;
use crate::terminal::Term;
use crate::terminal::browser::{self, DesktopInfo};
use crate::terminal::keys::WaitingKeys;
use crate::terminal::style::Style;

/// Takes the port. Warns of an address that others can reach, before anything can be read there.
pub(super) fn listen(args: &ServeArgs, term: &Term) -> Result<Listener, Failure> {
    let listener = Listener::bind(args.listen_options()?)?;
    if !args.address.is_loopback() {
        term.warning(format_args!(
            "--address {}: everyone who can reach it and learns the link can read the profile and the sources in it",
            args.address
        ));
    }
    Ok(listener)
}

/// True if a user at a terminal can read the link and end the server. False on a build server: CI is set, and not to
/// `false`, which some users set elsewhere.
pub(super) fn may_open() -> bool {
    let in_ci = std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"));
    io::stderr().is_terminal() && !in_ci
}

/// A profile to compare with.
pub(super) struct Base {
    pub(super) profile: File,
    /// The comparison for the viewer, if it can show that: see [`html::diff_data`](profile::export::html::diff_data).
    pub(super) comparison: Option<Vec<u8>>,
}

/// A profile to show.
pub(super) struct ServedProfile {
    pub(super) profile: File,
    /// What to compare with.
    pub(super) base: Option<Base>,
    /// Answers the UI's requests for names, sources and assembly.
    pub(super) symbolicator: Arc<Symbolicator>,
    pub(super) links: Links,
    /// The file that `b` opens in the terminal meanwhile.
    pub(super) browsed: Option<BrowseArgs>,
}

impl ServedProfile {
    /// Serves the profile until a signal.
    pub(super) fn serve(self, listener: Listener, args: &ServeArgs, term: &Term) -> Outcome {
        let address = listener.address();
        let symbolicator = self.symbolicator;
        let [names, export_names] = [(); 2].map(|()| Arc::clone(&symbolicator));
        let (base, comparison) = match self.base {
            Some(Base { profile, comparison }) => (Some(profile), comparison),
            None => (None, None),
        };
        let content = Content {
            profile: self.profile,
            base,
            symbols: Arc::new(move |path, body| api::handle(&symbolicator, path, body)),
            data: Arc::new(move |file| match &comparison {
                Some(comparison) => Ok(comparison.clone()),
                None => page::served(file, &names),
            }),
            export: Arc::new(move |file, export| page::export(file, &export_names, export)),
        };
        let (links, verbosity) = (self.links.clone(), args.input.verbosity());
        // The listed causes are those of a page from another origin.
        let is_ours = links.ui == links.origin;
        let shown = Arc::new(Mutex::new(()));
        let screen = shown.clone();
        let noticed = move |notice| {
            let say = move || {
                // Else the message would stand in the profile that is on the screen.
                let _screen = screen.lock();
                let term = Term::stderr(verbosity);
                match notice {
                    BrowserNotice::Blocked if is_ours => {}
                    BrowserNotice::Blocked => blocked(&term, &links),
                    BrowserNotice::Unreachable => term.warning(format_args!(
                        "the browser does not reach {}, so it shows the built-in viewer",
                        links.ui
                    )),
                }
            };
            // Until the screen is free the server must go on.
            drop(thread::Builder::new().name("notice".into()).spawn(say));
        };
        let server = Server::start(listener, content, (!args.keep).then_some(IDLE_TIME), noticed)?;
        let browsed = self.browsed.filter(|_| terminal::is_usable());
        let keys = browsed.as_ref().and_then(|_| WaitingKeys::take());
        open(term, args, address, &self.links, keys.is_some());
        if let (Some(browsed), Some(keys)) = (browsed, keys) {
            browse_meanwhile(&browsed, keys, &server, &shown, term);
        }
        if server.wait() == ServerEnd::Idle {
            term.line("ended: nobody has asked for anything for 8 hours; --keep serves until Ctrl-C");
        }
        Ok(Status::SUCCESS)
    }
}

/// Opens the file in the terminal when asked by a key, until the server ends. `shown` is held while it is open.
fn browse_meanwhile(browsed: &BrowseArgs, keys: WaitingKeys, server: &Server, shown: &Mutex<()>, term: &Term) {
    let mut keys = Some(keys);
    while let Some(waiting) = &keys
        && !server.is_over()
    {
        match waiting.wait() {
            Ok(Some(b'b')) => {
                drop(keys.take());
                let screen = shown.lock();
                if let Err(failure) = browse::show(browsed.clone()) {
                    term.error(failure.message());
                }
                drop(screen);
                keys = WaitingKeys::take();
            }
            Ok(_) => {}
            // Another program has the terminal, or it is gone: the server goes on.
            Err(_) => return,
        }
    }
}

/// Says why a browser that opened the link may show nothing.
fn blocked(term: &Term, links: &Links) {
    term.warning(format_args!(
        "the browser opened {}, but does not ask for the profile",
        links.ui
    ));
    let causes = [
        "Chrome, Edge and Brave ask whether the page may reach this device: allow it",
        "Safari and some blockers let no page reach this device: use another browser",
        "without internet, the page does not come",
    ];
    for cause in causes {
        term.detail(cause);
    }
    term.detail(format_args!(
        "the built-in viewer needs none of that: {}",
        term.style(Style::Link, &links.viewer)
    ));
}

/// Prints the link, and opens it if there is a browser, a user, and no `--no-open`.
fn open(term: &Term, args: &ServeArgs, address: SocketAddr, links: &Links, has_keys: bool) {
    let may_open = may_open() && !args.no_open;
    let end = match has_keys {
        true => "until Ctrl-C; b opens the profile in this terminal",
        false => "until Ctrl-C",
    };
    let link = term.style(Style::Link, &links.open);
    let desk = match browser::desk(address) {
        DesktopInfo::OverSsh { tunnel } if args.address.is_loopback() => {
            term.always("to see it, run this on your own machine:");
            term.always(format_args!("  {}", term.style(Style::Bold, &tunnel)));
            term.always(format_args!("and open {link}"));
            say_viewer(term, links);
            return term.line(format_args!("serving {end}"));
        }
        DesktopInfo::OverSsh { .. } => DesktopInfo::NoBrowser("this is an SSH session"),
        desk => desk,
    };
    match desk {
        DesktopInfo::Here if may_open => {
            let (url, verbosity) = (links.open.clone(), args.input.verbosity());
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
        DesktopInfo::NoBrowser(why) if may_open => term.always(format_args!("{why}: open {link}")),
        _ => term.always(format_args!("open {link}")),
    }
    say_viewer(term, links);
    term.line(format_args!("serving at {} {end}", links.origin));
}

/// Prints the link to the built-in viewer, if the other link is not that.
fn say_viewer(term: &Term, links: &Links) {
    if links.viewer != links.open {
        term.line(format_args!(
            "or the built-in viewer: {}",
            term.style(Style::Link, &links.viewer)
        ));
    }
}
