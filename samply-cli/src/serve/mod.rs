//! The local server: serves the profile and its symbols to the profiler UI in the user's browser, and to nobody else.
//!
//! The caller gives a listener that was bound before the program ran ([`Listener`]), the file of the profile and a
//! function that answers symbol requests, and one that makes the viewer's data ([`Content`]), and gets links, and a
//! thread that serves until a signal.
//!
//! [`watch`] sees whether a browser can reach the server and the UI, and when nobody asks any more.
//!
//! The way of a request: [`server`] (connections, limits) -> [`routes`] (access) -> [`file`](mod@file), [`ui`],
//! [`viewer`] or the symbol function. A browser comes through [`once`]; to a UI elsewhere it goes through a page that
//! tests whether it reaches that UI.

mod address;
pub(crate) mod browser;
mod compare;
mod file;
mod gallery;
mod guard;
mod listener;
mod once;
mod reply;
mod routes;
mod server;
mod tls;
mod token;
mod ui;
mod view;
mod viewer;
mod watch;
mod write_timeout;

pub(crate) use compare::Compared;
pub(crate) use gallery::{Options as GalleryOptions, Place as GalleryPlace, Served as Gallery};
pub(crate) use guard::origin_of;
pub(crate) use listener::{Links, Listener, encode};
pub(crate) use routes::Content;
pub(crate) use server::{End, Server};
pub(crate) use watch::{IDLE_TIME, Notice};
