//! A flame graph as one SVG file: a picture everywhere, and in a browser one to zoom and to search. It loads nothing.
//!
//! `page.js` is the part for the browser: click zooms, Esc shows all again, a regular expression highlights and adds up what
//! matches, and the state stands in the address.

mod color;
mod text;

use std::collections::BTreeSet;
use std::io::{self, BufWriter, Write};

use super::label::Kind;
pub use super::tree::Shape;
use super::tree::{Node, Tree};
use super::{Counted, Picked, Time};
use color::Color;
use text::{Xml, amount, count, fit};

/// What the picture is like.
#[derive(Clone, Debug)]
pub struct SvgOptions {
    /// Headline. Default: the program, and what is shown of it.
    pub title: Option<String>,
    /// A further line below the headline.
    pub notes: Option<String>,
    /// Pixels, as long as no browser gives it another width. Default 1200.
    pub width: u32,
    /// Frames that are narrower than this many pixels at that width are left out. Default 0.1.
    pub min_width: f64,
    /// The root is at the top. Default: at the bottom.
    pub inverted: bool,
    /// How samples are put together.
    pub shape: Shape,
    /// With the thread above the process. Default: threads of a process are added up, but not in time order.
    pub threads: bool,
}

impl Default for SvgOptions {
    fn default() -> Self {
        SvgOptions {
            title: None,
            notes: None,
            width: 1200,
            min_width: 0.1,
            inverted: false,
            shape: Shape::Merged,
            threads: false,
        }
    }
}

/// Writes the samples as a flame graph, coloured by the kind of code and the function's name.
pub fn write(picked: &Picked<'_>, options: &SvgOptions, out: impl Write) -> io::Result<()> {
    let threads = options.threads || options.shape == Shape::TimeOrder;
    let tree = Tree::of(picked, options.shape, threads)?;
    let by_kind = |tree: &Tree, node: &Node| color::of_kind(node.kind, tree.label(node), node.inlined);
    draw(picked, &tree, options, by_kind, out)
}

const ROW: usize = 17;
const MARGIN: usize = 10;
const HEAD: usize = 58;
const FOOT: usize = 44;

/// Draws the tree; each node's colour is the caller's choice.
fn draw(
    picked: &Picked<'_>,
    tree: &Tree,
    options: &SvgOptions,
    color: impl Fn(&Tree, &Node) -> Color,
    out: impl Write,
) -> io::Result<()> {
    let layout = Layout::of(tree, options);
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let title = options.title.clone().unwrap_or_else(|| default_title(picked, options));
    begin(&mut out, &title, options, &layout)?;
    let total = tree.nodes[0].total;
    for (id, place) in &layout.frames {
        let node = &tree.nodes[*id as usize];
        let (x, width) = layout.span(place, total);
        let y = layout.y(place.depth, options.inverted);
        let name = tree.label(node);
        let class = if node.inlined { " class=\"i\"" } else { "" };
        write!(
            out,
            "<g{class}><title>{} ({}{}, {})</title><rect x=\"{}%\" y=\"{y}\" width=\"{}%\" height=\"{}\" fill=\"{}\"/>",
            Xml(name),
            if node.inlined { "inlined, " } else { "" },
            amount(node.total, picked.counted()),
            percent(node.total, total),
            Decimal(x),
            Decimal(width),
            ROW - 1,
            color(tree, node),
        )?;
        let pixels = width as f64 / PERCENT as f64 / 100.0 * layout.inner_width;
        writeln!(
            out,
            "<text x=\"{}%\" y=\"{}\">{}</text></g>",
            Decimal(x),
            y + 12,
            Xml(&fit(name, pixels))
        )?;
    }
    let subtitle = subtitle(picked, options, &layout);
    end(&mut out, &title, &subtitle, options, &layout)?;
    out.flush()
}

/// Which nodes are drawn, and where.
struct Layout {
    frames: Vec<(u32, Place)>,
    kinds: BTreeSet<Kind>,
    has_inlined: bool,
    /// Nodes that are too narrow.
    left_out: usize,
    rows: usize,
    /// Of what is between the margins, pixels.
    inner_width: f64,
}

struct Place {
    /// Weight to the left of it.
    start: u64,
    total: u64,
    depth: usize,
}

impl Layout {
    fn of(tree: &Tree, options: &SvgOptions) -> Layout {
        let inner_width = f64::from(options.width.max(200)) - 2.0 * MARGIN as f64;
        let mut layout = Layout {
            frames: Vec::new(),
            kinds: BTreeSet::new(),
            has_inlined: false,
            left_out: 0,
            rows: 1,
            inner_width,
        };
        let total = tree.nodes[0].total;
        let least = (options.min_width.max(0.0) / inner_width * total as f64).min(total as f64);
        // Where the next child of each node on the path begins.
        let mut starts: Vec<u64> = Vec::new();
        let walked = tree.walk(|id, depth| {
            let node = &tree.nodes[id as usize];
            starts.truncate(depth);
            let start = starts.last().copied().unwrap_or(0);
            if let Some(next) = starts.last_mut() {
                *next = next.saturating_add(node.total);
            }
            starts.push(start);
            let drawn = node.total as f64 >= least && node.total > 0;
            if drawn {
                let total = node.total;
                layout.frames.push((id, Place { start, total, depth }));
                layout.kinds.insert(node.kind);
                layout.has_inlined |= node.inlined;
                layout.rows = layout.rows.max(depth + 1);
            } else {
                layout.left_out += 1;
            }
            Ok(drawn)
        });
        debug_assert!(walked.is_ok(), "drawing nothing never fails");
        layout
    }

    /// Left edge and width. Edges that meet are the same number, also when rounded.
    fn span(&self, place: &Place, total: u64) -> (u64, u64) {
        let at = |weight: u64| (u128::from(weight) * u128::from(100 * PERCENT) / u128::from(total.max(1))) as u64;
        let start = at(place.start);
        (start, at(place.start.saturating_add(place.total)).saturating_sub(start))
    }

    fn y(&self, depth: usize, inverted: bool) -> usize {
        let row = if inverted { depth } else { self.rows - 1 - depth };
        row * ROW
    }

    fn height(&self) -> usize {
        HEAD + self.rows * ROW + FOOT
    }
}

/// Everything before the frames.
fn begin(out: &mut impl Write, title: &str, options: &SvgOptions, layout: &Layout) -> io::Result<()> {
    let (width, height) = (options.width.max(200), layout.height());
    write!(
        out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n",
        Xml(title)
    )?;
    if let Some(notes) = &options.notes {
        writeln!(out, "<desc>{}</desc>", Xml(notes))?;
    }
    write!(
        out,
        "<style>\n{}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n\
         <svg id=\"frames\" x=\"{MARGIN}\" y=\"{HEAD}\" width=\"{}\" height=\"{}\">\n",
        include_str!("style.css"),
        layout.inner_width,
        layout.rows * ROW,
    )
}

/// Everything after the frames. Head and foot come late because they cover what scrolls below them.
fn end(out: &mut impl Write, title: &str, subtitle: &str, options: &SvgOptions, layout: &Layout) -> io::Result<()> {
    let inner_height = layout.rows * ROW;
    write!(
        out,
        "</svg>\n<g id=\"head\"><rect class=\"bg\" width=\"100%\" height=\"{}\"/>\n\
         <text id=\"title\" x=\"{MARGIN}\" y=\"24\">{}</text>\n<text class=\"small\" x=\"{MARGIN}\" y=\"42\">{}</text></g>\n",
        HEAD - 6,
        Xml(title),
        Xml(subtitle)
    )?;
    let y = HEAD + inner_height;
    write!(
        out,
        "<g id=\"foot\"><rect class=\"bg\" y=\"{}\" width=\"100%\" height=\"{}\"/>\n\
         <text id=\"details\" x=\"{MARGIN}\" y=\"{}\"> </text>\n",
        y + 2,
        FOOT - 2,
        y + 18
    )?;
    legend(out, layout, y + 35)?;
    let inverted = options.inverted;
    write!(
        out,
        "</g>\n<script><![CDATA[\nconst MARGIN = {MARGIN}, INVERTED = {inverted};\n{}]]></script>\n</svg>\n",
        include_str!("page.js")
    )
}

fn legend(out: &mut impl Write, layout: &Layout, y: usize) -> io::Result<()> {
    let mut x = MARGIN;
    for kind in layout.kinds.iter().filter(|kind| **kind != Kind::Place) {
        let (color, name) = (color::of_kind(*kind, "", false), kind.name());
        writeln!(
            out,
            "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>\
             <text class=\"small\" x=\"{}\" y=\"{y}\">{name}</text>",
            y - 9,
            x + 14
        )?;
        x += 14 + name.len() * 7 + 18;
    }
    if layout.has_inlined {
        writeln!(
            out,
            "<text class=\"small\" x=\"{x}\" y=\"{y}\">lighter and italic: inlined</text>"
        )?;
    }
    Ok(())
}

fn default_title(picked: &Picked<'_>, options: &SvgOptions) -> String {
    let what = match picked.time() {
        Time::Cpu if picked.counted() == Counted::Bytes => "memory",
        Time::Cpu => "CPU time",
        Time::Waits => "waits",
        Time::All => "CPU time and waits",
    };
    let how = match options.shape {
        Shape::Merged => "",
        Shape::Reverse => ", from the leaf",
        Shape::TimeOrder => ", in time order",
    };
    match picked.data.product.as_str() {
        "" => format!("{}{}{how}", what[..1].to_uppercase(), &what[1..]),
        product => format!("{product}: {what}{how}"),
    }
}

fn subtitle(picked: &Picked<'_>, options: &SvgOptions, layout: &Layout) -> String {
    let totals = picked.totals();
    let counted = picked.counted();
    let mut parts = vec![count(totals.samples, "sample"), count(totals.threads, "thread")];
    if counted != Counted::Samples {
        parts.insert(0, amount(totals.weight, counted));
    }
    if totals.left_out > 0 {
        let what = if picked.time() == Time::Cpu {
            "waits"
        } else {
            "CPU time"
        };
        parts.push(format!("{} of {what} not shown", amount(totals.left_out, counted)));
    }
    if totals.unusable > 0 {
        parts.push(format!(
            "{} without usable weight not shown",
            count(totals.unusable, "sample")
        ));
    }
    if layout.left_out > 0 {
        parts.push(format!("{} too narrow to draw", count(layout.left_out as u64, "frame")));
    }
    if !picked.data.symbolicated {
        parts.push("without function names".into());
    }
    parts.extend(options.notes.clone());
    parts.join(" \u{b7} ")
}

/// Parts of a percent in which edges are written: a hundredth of a pixel on the widest screens.
const PERCENT: u64 = 10_000;

/// A number of these parts, as a decimal.
struct Decimal(u64);

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, mut rest) = (self.0 / PERCENT, self.0 % PERCENT);
        write!(f, "{whole}")?;
        if rest == 0 {
            return Ok(());
        }
        let mut digits = 4;
        while rest.is_multiple_of(10) {
            rest /= 10;
            digits -= 1;
        }
        write!(f, ".{rest:0digits$}")
    }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64)
}
