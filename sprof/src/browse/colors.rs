//! The colours that the terminal has, and those of functions.

use profile::data::Data;
use profile::export::svg::{FunctionColor, function_colors};
use ratatui_core::style::{Color, Style};

/// How many colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColorDepth {
    None,
    Sixteen,
    /// xterm's palette of 256 colours.
    Palette,
    True,
}

impl ColorDepth {
    /// By the variables that terminals set. `color`: colours are not turned off.
    pub(crate) fn of_terminal(color: bool, term: &str, colorterm: &str) -> ColorDepth {
        match (color, colorterm) {
            (false, _) => ColorDepth::None,
            (true, "truecolor" | "24bit") => ColorDepth::True,
            (true, _) if term.contains("256color") => ColorDepth::Palette,
            (true, _) => ColorDepth::Sixteen,
        }
    }
}

/// The colours of a profile's functions, by the kind of code.
pub(crate) struct FunctionColors(Vec<FunctionColor>);

impl FunctionColors {
    pub(crate) fn new(data: &Data) -> FunctionColors {
        FunctionColors(function_colors(data))
    }

    /// The style of a function's frame.
    pub(crate) fn style(&self, func: Option<u32>, depth: ColorDepth) -> Style {
        let Some(color) = func.and_then(|func| self.0.get(func as usize)) else {
            return Style::new();
        };
        let background = match depth {
            ColorDepth::None => return Style::new(),
            ColorDepth::Sixteen => sixteen(color.kind),
            ColorDepth::Palette => palette(color.rgb),
            ColorDepth::True => Color::Rgb(color.rgb[0], color.rgb[1], color.rgb[2]),
        };
        // The backgrounds are light.
        Style::new().fg(Color::Black).bg(background)
    }
}

/// The nearest of the sixteen to the colour of a kind of code.
fn sixteen(kind: &str) -> Color {
    match kind {
        "program" => Color::Yellow,
        "library" => Color::Green,
        "system library" => Color::Cyan,
        "Rust standard library" => Color::LightYellow,
        "dependency" => Color::LightMagenta,
        "JIT and anonymous" => Color::Magenta,
        "kernel" => Color::LightRed,
        "waiting" => Color::LightBlue,
        "incomplete stack" => Color::Red,
        _ => Color::Gray,
    }
}

/// The nearest colour of the cube in xterm's palette: 6 levels each of red, green and blue, from index 16.
fn palette(rgb: [u8; 3]) -> Color {
    const LEVELS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let nearest = |value: u8| {
        let level = (0u8..).zip(LEVELS).min_by_key(|(_, level)| level.abs_diff(value));
        level.map_or(0, |(index, _)| index)
    };
    let [red, green, blue] = rgb.map(nearest);
    Color::Indexed(16 + 36 * red + 6 * green + blue)
}
