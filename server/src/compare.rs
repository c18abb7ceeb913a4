//! The link to the UI's compare view.
//!
//! The view takes the UI's links of two profiles, each with one selected thread. It compares these threads, and refuses
//! profiles without a selected thread.

use super::address::{VERSION, encode_index};
use super::listener::{LinkParts, Links, Listener, encode, viewer_of};

/// One side of the UI's compare view.
#[derive(Clone, Copy, Debug)]
pub struct ComparedProfile<'a> {
    /// Name of the profile in the view.
    pub name: &'a str,
    /// Index of the selected thread.
    pub thread: usize,
}

impl Listener {
    /// The links for the user, to both profiles side by side, or to the viewer.
    pub fn compare_links(&self, base: ComparedProfile<'_>, new: ComparedProfile<'_>) -> Links {
        let LinkParts { origin, ui, ours } = self.link_parts();
        let profile = |file: &str, compared: ComparedProfile<'_>| {
            let address = format!(
                "{ui}/from-url/{}/calltree/?thread={}&profileName={}&v={VERSION}",
                encode(&format!("{ours}/{file}")),
                encode_index(compared.thread),
                encode(compared.name),
            );
            encode(&address)
        };
        // Brackets (`profiles[]`) would end the link in many terminals.
        let open = format!(
            "{ui}/compare/?profiles%5B%5D={}&profiles%5B%5D={}&symbolServer={}",
            profile("base.json", base),
            profile("profile.json", new),
            encode(&ours),
        );
        let open = match self.opens_viewer {
            true => viewer_of(&ours),
            false => open,
        };
        self.links_to(origin, ui, open)
    }
}
