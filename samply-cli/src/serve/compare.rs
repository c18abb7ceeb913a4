//! The link to the UI's compare view.
//!
//! The view takes the links of two profiles, each as the UI itself would show it, with the one thread that is selected: it compares
//! these threads, and refuses profiles without one.

use super::{Links, Listener, Places, encode};

/// The version of the UI's addresses that these are of: the first that writes threads as below (2021). Newer UIs upgrade it;
/// one that finds a version above its own refuses the link.
const ADDRESS_VERSION: u32 = 6;

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
                "{ui}/from-url/{}/calltree/?thread={}&profileName={}&v={ADDRESS_VERSION}",
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
        Links { origin, open }
    }
}

/// As the UI writes indexes in addresses (its `uintarray-encoding`): digits of 5 bits, the highest first, all but the last one with
/// a sixth bit.
fn encode_index(index: usize) -> String {
    const DIGITS: &[u8; 64] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ._";
    let mut digits = vec![DIGITS[index % 32]];
    let mut rest = index / 32;
    while rest > 0 {
        digits.push(DIGITS[32 + rest % 32]);
        rest /= 32;
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_the_ui_reads_them() {
        // The comment above the UI's encoder has [0] -> "0" and [31, 167, 32, 33, ...] -> "vB7x0...".
        for (index, expected) in [
            (0, "0"),
            (9, "9"),
            (10, "a"),
            (31, "v"),
            (167, "B7"),
            (32, "x0"),
            (1024, "xw0"),
        ] {
            assert_eq!(encode_index(index), expected, "{index}");
        }
    }
}
