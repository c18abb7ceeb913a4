//! The link to the UI's compare view.
//!
//! The view takes the links of two profiles, each as the UI itself would show it, with the one thread that is selected: it compares
//! these threads, and refuses profiles without one.

use super::address::{VERSION, encode_index};
use super::{Links, Listener, Places, encode};

/// A profile in the compare view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compared<'a> {
    /// What the view calls it.
    pub(crate) name: &'a str,
    /// Index of the thread that is shown of it.
    pub(crate) thread: usize,
}

impl Listener {
    /// The links for the user, to both profiles side by side.
    pub(crate) fn compare_links(&self, base: Compared<'_>, new: Compared<'_>) -> Links {
        let Places { origin, ui, ours } = self.places();
        let profile = |file: &str, compared: Compared<'_>| {
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
        self.links_to(origin, open)
    }
}
