//! Colours: the hue shows the kind of code, the shade the function's name. A name has one colour in all graphs.

use std::cmp::Ordering;
use std::fmt;

use super::super::label::FrameColor;

/// Red, green, blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Color(pub(super) [u8; 3]);

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Hue (degrees), saturation and lightness (shares of 1) of a kind of code: light enough for black text on light and
/// dark pages.
pub(in super::super) fn base(kind: FrameColor) -> (f64, f64, f64) {
    match kind {
        FrameColor::Program => (44.0, 0.88, 0.64),
        FrameColor::Library => (105.0, 0.42, 0.64),
        FrameColor::System => (198.0, 0.62, 0.68),
        FrameColor::RustStd => (27.0, 0.50, 0.64),
        FrameColor::Dependency => (318.0, 0.50, 0.74),
        FrameColor::Jit => (280.0, 0.45, 0.74),
        FrameColor::Kernel => (12.0, 0.82, 0.67),
        FrameColor::Wait => (222.0, 0.62, 0.74),
        FrameColor::Mark => (345.0, 0.60, 0.78),
        FrameColor::Place | FrameColor::Other => (220.0, 0.06, 0.76),
    }
}

/// The colour of a function. The viewer's `colorOf` makes the same of [`base`].
pub(super) fn of_kind(kind: FrameColor, name: &str, inlined: bool) -> Color {
    let (hue, saturation, lightness) = base(kind);
    let shade = match name {
        "" => 0.5,
        name => f64::from(hash(name) % 1024) / 1024.0,
    };
    let lighter = if inlined { 0.10 } else { 0.0 };
    rgb(
        hue + 14.0 * (shade - 0.5),
        saturation,
        lightness + 0.10 * (0.5 - shade) + lighter,
    )
}

/// The colour of a change: red for an increase, blue for a decrease, more intense for a larger `strength` (0 to 1);
/// grey for no change.
pub(super) fn of_change(change: Option<Ordering>, strength: f64, inlined: bool) -> Color {
    let lighter = if inlined { 0.04 } else { 0.0 };
    let strength = strength.clamp(0.0, 1.0);
    match change {
        Some(Ordering::Greater) => rgb(6.0, 0.90, 0.86 - 0.24 * strength + lighter),
        Some(Ordering::Less) => rgb(212.0, 0.85, 0.86 - 0.22 * strength + lighter),
        Some(Ordering::Equal) | None => rgb(40.0, 0.08, 0.84 + lighter),
    }
}

/// The colour where recordings cannot show whether there is a change. Neither grey nor a colour of changes.
pub(super) fn undecided(inlined: bool) -> Color {
    rgb(52.0, 0.75, if inlined { 0.88 } else { 0.84 })
}

/// FNV-1a, 32 bits: the same on every machine and in every version.
fn hash(name: &str) -> u32 {
    let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = name.bytes().fold(0x811c_9dc5, fnv);
    // The low bits differ little between names that differ only in the last letter.
    hash ^ (hash >> 15)
}

/// From hue, saturation and lightness: CSS Color 4, section 7.1.
fn rgb(hue: f64, saturation: f64, lightness: f64) -> Color {
    let lightness = lightness.clamp(0.0, 1.0);
    let channel = |n: f64| {
        let k = (n + hue.rem_euclid(360.0) / 30.0) % 12.0;
        let a = saturation * lightness.min(1.0 - lightness);
        let value = lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    Color([channel(0.0), channel(8.0), channel(4.0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_become_colours() {
        assert_eq!(rgb(0.0, 1.0, 0.5).to_string(), "#ff0000");
        assert_eq!(rgb(120.0, 1.0, 0.25).to_string(), "#008000");
        assert_eq!(rgb(240.0, 0.0, 0.5).to_string(), "#808080");
    }

    #[test]
    fn a_name_has_its_colour_whatever_else_is_there() {
        assert_eq!(
            of_kind(FrameColor::Program, "main", false),
            of_kind(FrameColor::Program, "main", false)
        );
        assert_ne!(
            of_kind(FrameColor::Program, "main", false),
            of_kind(FrameColor::Program, "main2", false)
        );
        assert_ne!(
            of_kind(FrameColor::Program, "main", false),
            of_kind(FrameColor::Kernel, "main", false)
        );
    }

    #[test]
    fn black_text_can_be_read_on_all_of_them() {
        for kind in [
            FrameColor::Program,
            FrameColor::Library,
            FrameColor::Kernel,
            FrameColor::Wait,
            FrameColor::Jit,
            FrameColor::Dependency,
            FrameColor::Mark,
            FrameColor::Other,
        ] {
            for name in ["a", "bc", "main", "std::fmt::write"] {
                let Color([red, green, blue]) = of_kind(kind, name, false);
                // Rec. 601 luma.
                let luma = 0.299 * f64::from(red) + 0.587 * f64::from(green) + 0.114 * f64::from(blue);
                assert!(luma > 125.0, "{kind:?} {name}: {luma}");
            }
        }
    }
}
