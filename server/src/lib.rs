#![doc = include_str!("../README.md")]
//! [`Gallery`] is another server: a page of all profiles in a folder or in a bucket. The caller gives it a
//! [`ProfileReader`]. No function prints, and none ends the process.
//!
//! The way of a request: `server` (connections, limits) -> `routes` (access) -> `file`, `ui`, `viewer` or the symbol
//! function. A browser comes through `one_time_link`; to a UI elsewhere it goes through a page that tests whether it
//! reaches that UI. `watch` sees whether a browser can reach the server and the UI, and when nobody asks any more.

mod address;
mod compare;
mod file;
mod gallery;
mod guard;
mod listener;
mod one_time_link;
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

pub use compare::ComparedProfile;
pub use gallery::{Gallery, GalleryOptions, GalleryPlace, ProfileReader, ReadProfile};
pub use guard::origin_of;
pub use listener::{Links, ListenOptions, Listener, Port, UiSource, encode};
pub use routes::{AnswerSymbols, Content};
pub use server::{Server, ServerEnd};
pub use viewer::{MakeData, MakeExport, SavedExport};
pub use watch::{BrowserNotice, IDLE_TIME};
