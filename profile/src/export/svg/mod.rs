//! A flame graph as one SVG file, interactive in a browser. The file loads nothing.
//!
//! `page.js` is the interactive part: click zooms, Esc resets, a regular expression highlights frames and sums them up,
//! and the address holds the state.

pub(super) mod color;
pub mod differential;
mod layout;
mod text;

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::label::{FrameColor, FrameColors};
use super::tree::CallPathTree;
pub use super::tree::TreeShape;
use super::{ExportUnit, Picked, PickedTime};
use crate::data::Data;
use crate::text::one_line;
use color::Color;
use layout::{Decimal, Layout, PERCENT};
use text::{Xml, amount, count, fit, forms, wrapped};

/// Options of the picture.
#[derive(Clone, Debug)]
pub struct SvgOptions {
    /// Headline. Default: the program and the shown samples.
    pub title: Option<String>,
    /// A further line below the headline.
    pub notes: Option<String>,
    /// Initial width in pixels; a browser may change it. Default 1200.
    pub width: u32,
    /// Frames narrower than this many pixels at the initial width are left out. Default 0.1.
    pub min_width: f64,
    /// The root is at the top. Default: at the bottom.
    pub inverted: bool,
    /// How samples form the tree.
    pub shape: TreeShape,
    /// Frames alone, for a small picture: no headline, no legend, no script.
    pub is_bare: bool,
    /// Shows the thread above the process. Default: threads of a process are summed, except in time order.
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
            shape: TreeShape::Merged,
            is_bare: false,
            threads: false,
        }
    }
}

/// The colour of a function in a flame graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionColor {
    /// The kind of code, as the legend names it.
    pub kind: &'static str,
    /// Red, green, blue.
    pub rgb: [u8; 3],
}

/// The colour of each function. The first frame of a function stands for all.
pub fn function_colors(data: &Data) -> Vec<FunctionColor> {
    let kinds = FrameColors::new(data);
    let mut kind_of = vec![None; data.funcs.len()];
    for frame in &data.frames {
        kind_of[frame.func as usize].get_or_insert_with(|| kinds.kind(data, frame));
    }
    let colors = (0..).zip(kind_of).map(|(func, kind)| {
        let kind = kind.unwrap_or(FrameColor::Other);
        let Color(rgb) = color::of_kind(kind, data.func_name(func), false);
        FunctionColor { kind: kind.name(), rgb }
    });
    colors.collect()
}

/// Writes the samples as a flame graph, coloured by the kind of code and the function's name.
///
/// # Errors
///
/// `out` could not be written to.
pub fn write(picked: &Picked<'_>, options: &SvgOptions, out: impl Write) -> io::Result<()> {
    let threads = options.threads || options.shape == TreeShape::TimeOrder;
    let tree = CallPathTree::from_picked(picked, options.shape, threads)?;
    let layout = Layout::new(&tree, options, options.shape == TreeShape::Merged);
    let total = tree.nodes[0].total;
    let picture = Picture {
        tree: &tree,
        title: options.title.clone().unwrap_or_else(|| default_title(picked, options)),
        lines: wrapped(&subtitle(picked, options, &layout), layout.inner_width),
        legend: legend_rows(legend(&layout), &layout),
        color: &|id| {
            let node = &tree.nodes[id as usize];
            color::of_kind(node.kind, tree.label(node), node.inlined)
        },
        words: &|id| {
            let weight = tree.nodes[id as usize].total;
            format!("{}, {}", amount_of(picked, weight), percent(weight, total))
        },
        gone: None,
    };
    picture.draw(options, &layout, out)
}

/// The policy (Content-Security-Policy) of a written picture that a server sends: its own style and script, by their
/// hashes, and nothing else.
pub fn policy(svg: &[u8]) -> String {
    let part = |begin: &str, end: &str| {
        let find = |text: &str, from: usize| {
            let mut places = svg.get(from..)?.windows(text.len());
            places.position(|place| place == text.as_bytes()).map(|at| from + at)
        };
        let from = find(begin, 0)? + begin.len();
        let hash = Sha256::digest(&svg[from..find(end, from)?]);
        Some(format!("'sha256-{}'", BASE64_STANDARD.encode(hash)))
    };
    // Texts are escaped, so none of them looks like these.
    let style = part("<style>", "</style>").unwrap_or_else(|| "'none'".to_owned());
    let script = part(SCRIPT.0, SCRIPT.1).unwrap_or_else(|| "'none'".to_owned());
    format!("default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'")
}

/// Around the script.
const SCRIPT: (&str, &str) = ("<script><![CDATA[", "]]></script>");

const ROW: usize = 17;
const MARGIN: usize = 10;
const HEAD: usize = 42;
const LINE: usize = 16;
const FOOT: usize = 44;

/// A tree and its texts.
struct Picture<'a> {
    tree: &'a CallPathTree,
    title: String,
    /// Lines below the title.
    lines: Vec<String>,
    /// Of its colours, in rows that fit.
    legend: Vec<Vec<LegendEntry>>,
    color: &'a dyn Fn(u32) -> Color,
    /// The text of a node after its name.
    words: &'a dyn Fn(u32) -> String,
    /// The node, the last child of the root, that the shares do not include.
    gone: Option<u32>,
}

impl Picture<'_> {
    fn draw(&self, options: &SvgOptions, layout: &Layout, out: impl Write) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, out);
        match options.is_bare {
            true => self.begin_bare(&mut out, options, layout)?,
            false => self.begin(&mut out, options, layout)?,
        }
        let total = self.tree.nodes[0].total;
        let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut folds = Vec::new();
        for (number, (id, place)) in layout.frames.iter().enumerate() {
            let node = &self.tree.nodes[*id as usize];
            let (x, width) = layout.span(place, total);
            let y = layout.y(place.depth, options.inverted);
            let ids = || std::iter::once(id).chain(&place.folded);
            let all: Vec<_> = ids()
                .map(|id| one_line(self.tree.label(&self.tree.nodes[*id as usize])))
                .collect();
            let name = all.join("\n");
            let is_fold = all.len() > 1;
            if is_fold {
                let row = |id: &u32| {
                    let inlined = self.tree.nodes[*id as usize].inlined;
                    json!([(self.words)(*id), (self.color)(*id).to_string(), inlined])
                };
                folds.push(json!([number, ids().map(row).collect::<Vec<_>>()]));
                for name in &all {
                    names.entry(name.to_string()).or_insert_with(|| forms(&[name]));
                }
            }
            let inlined = node.inlined && !is_fold;
            let color = match is_fold {
                true => color::of_kind(FrameColor::Place, "", false),
                false => (self.color)(*id),
            };
            let forms = names.entry(name.clone()).or_insert_with(|| forms(&all));
            write!(
                out,
                "<g{}><title>{} ({}{})</title><rect x=\"{}%\" y=\"{y}\" width=\"{}%\" height=\"{}\" fill=\"{color}\"/>",
                if inlined { " class=\"i\"" } else { "" },
                Xml(&name),
                if inlined { "inlined, " } else { "" },
                (self.words)(*id),
                Decimal(x),
                Decimal(width),
                ROW - 1,
            )?;
            let pixels = width as f64 / PERCENT as f64 / 100.0 * layout.inner_width;
            writeln!(
                out,
                "<text x=\"{}%\" y=\"{}\">{}</text></g>",
                Decimal(x),
                y + 12,
                Xml(&fit(forms, pixels))
            )?;
        }
        match options.is_bare {
            true => out.write_all(b"</svg>\n</svg>\n")?,
            false => self.end(&mut out, options, layout, &names, folds)?,
        }
        out.flush()
    }

    fn head(&self) -> usize {
        HEAD + LINE * self.lines.len()
    }

    fn foot(&self) -> usize {
        FOOT + LINE * self.legend.len().saturating_sub(1)
    }

    fn begin_bare(&self, out: &mut impl Write, options: &SvgOptions, layout: &Layout) -> io::Result<()> {
        let (width, height) = (options.width.max(200), layout.rows * ROW);
        write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <style>\n{}</style>\n<svg id=\"frames\" width=\"100%\" height=\"{height}\">\n",
            include_str!("style.css")
        )
    }

    /// Everything before the frames.
    fn begin(&self, out: &mut impl Write, options: &SvgOptions, layout: &Layout) -> io::Result<()> {
        let (width, height) = (options.width.max(200), self.head() + layout.rows * ROW + self.foot());
        write!(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<title>{}</title>\n",
            Xml(&self.title)
        )?;
        if let Some(notes) = &options.notes {
            writeln!(out, "<desc>{}</desc>", Xml(notes))?;
        }
        write!(
            out,
            "<style>\n{}</style>\n<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n\
             <svg id=\"frames\" x=\"{MARGIN}\" y=\"{}\" width=\"{}\" height=\"{}\">\n",
            include_str!("style.css"),
            self.head(),
            layout.inner_width,
            layout.rows * ROW,
        )
    }

    /// Everything after the frames. Head and foot come last because they cover the frames that scroll below them.
    fn end(
        &self,
        out: &mut impl Write,
        options: &SvgOptions,
        layout: &Layout,
        names: &BTreeMap<String, Vec<String>>,
        folds: Vec<Value>,
    ) -> io::Result<()> {
        write!(
            out,
            "</svg>\n<g id=\"head\"><rect class=\"bg\" width=\"100%\" height=\"{}\"/>\n\
             <text id=\"title\" x=\"{MARGIN}\" y=\"24\">{}</text>\n",
            self.head() - 6,
            Xml(&self.title)
        )?;
        for (row, line) in self.lines.iter().enumerate() {
            let y = HEAD + row * LINE;
            writeln!(
                out,
                "<text class=\"small\" x=\"{MARGIN}\" y=\"{y}\">{}</text>",
                Xml(line)
            )?;
        }
        let y = self.head() + layout.rows * ROW;
        write!(
            out,
            "</g>\n<g id=\"foot\"><rect class=\"bg\" y=\"{}\" width=\"100%\" height=\"{}\"/>\n\
             <text id=\"details\" x=\"{MARGIN}\" y=\"{}\"> </text>\n",
            y + 2,
            self.foot() - 2,
            y + 18
        )?;
        self.draw_legend(out, y + 35)?;
        let inverted = options.inverted;
        let gone = match self
            .gone
            .and_then(|gone| layout.frames.iter().position(|(id, _)| *id == gone))
        {
            Some(frame) => frame.to_string(),
            None => "null".to_owned(),
        };
        write!(
            out,
            "</g>\n{}\nconst MARGIN = {MARGIN}, ROW = {ROW}, INVERTED = {inverted}, GONE = {gone};\n\
             const FORMS = new Map({});\nconst FOLDS = {};\n{}{}\n</svg>\n",
            SCRIPT.0,
            text::script(&text::other_forms(names)),
            text::script(&Value::Array(folds)),
            include_str!("page.js"),
            SCRIPT.1
        )
    }

    fn draw_legend(&self, out: &mut impl Write, y: usize) -> io::Result<()> {
        for (row, entries) in self.legend.iter().enumerate() {
            let (mut x, y) = (MARGIN, y + row * LINE);
            for entry in entries {
                if let Some(color) = entry.color {
                    write!(
                        out,
                        "<rect x=\"{x}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{color}\"/>",
                        y - 9
                    )?;
                }
                writeln!(
                    out,
                    "<text class=\"small\" x=\"{}\" y=\"{y}\">{}</text>",
                    x + entry.indent(),
                    Xml(&entry.words)
                )?;
                x += entry.width();
            }
        }
        Ok(())
    }
}

/// A colour and its words, or words alone.
struct LegendEntry {
    color: Option<Color>,
    words: String,
}

impl LegendEntry {
    fn indent(&self) -> usize {
        if self.color.is_some() { 14 } else { 0 }
    }

    fn width(&self) -> usize {
        self.indent() + self.words.chars().count() * 7 + 18
    }
}

/// The entries in rows that are as wide as the frames.
fn legend_rows(entries: Vec<(Color, String)>, layout: &Layout) -> Vec<Vec<LegendEntry>> {
    let inlined = layout
        .has_inlined
        .then(|| (None, "lighter and italic: inlined".to_owned()));
    let entries = entries.into_iter().map(|(color, words)| (Some(color), words));
    let (mut rows, mut used) = (vec![Vec::new()], 0);
    for (color, words) in entries.chain(inlined) {
        let entry = LegendEntry { color, words };
        used += entry.width();
        if used as f64 > layout.inner_width {
            rows.push(Vec::new());
            used = entry.width();
        }
        if let Some(row) = rows.last_mut() {
            row.push(entry);
        }
    }
    rows
}

/// The kinds of code in the picture.
fn legend(layout: &Layout) -> Vec<(Color, String)> {
    let kinds = layout.kinds.iter().filter(|kind| **kind != FrameColor::Place);
    kinds
        .map(|kind| (color::of_kind(*kind, "", false), kind.name().to_owned()))
        .collect()
}

fn default_title(picked: &Picked<'_>, options: &SvgOptions) -> String {
    let what = match picked.time() {
        _ if let Some((name, _)) = picked.named() => name,
        PickedTime::Cpu if picked.counted() == ExportUnit::Bytes => "memory",
        PickedTime::Cpu => "CPU time",
        PickedTime::Waits => "waits",
        PickedTime::All => "CPU time and waits",
    };
    let how = match options.shape {
        TreeShape::Merged => "",
        TreeShape::Reverse => ", from the leaf",
        TreeShape::TimeOrder => ", in time order",
    };
    match picked.data.product.as_str() {
        "" if picked.named().is_some() => format!("{what}{how}"),
        "" => format!("{}{}{how}", what[..1].to_uppercase(), &what[1..]),
        product => format!("{product}: {what}{how}"),
    }
}

/// `1.23 s`, `1,234 Ir`.
fn amount_of(picked: &Picked<'_>, weight: u64) -> String {
    let amount = amount(weight, picked.counted());
    match (picked.counted(), picked.named()) {
        (ExportUnit::Named, Some((name, _))) => format!("{amount} {name}"),
        _ => amount,
    }
}

fn subtitle(picked: &Picked<'_>, options: &SvgOptions, layout: &Layout) -> String {
    let totals = picked.totals();
    let counted = picked.counted();
    let mut parts = vec![count(totals.threads, "thread")];
    if picked.data.has_samples() {
        parts.insert(0, count(totals.samples, "sample"));
    }
    if counted != ExportUnit::Samples {
        parts.insert(0, amount_of(picked, totals.weight));
    }
    if totals.left_out > 0 {
        let what = if picked.time() == PickedTime::Cpu {
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
    if layout.frames.iter().any(|(_, place)| !place.folded.is_empty()) {
        parts.push("callers that call nothing else share a row".into());
    }
    parts.extend(options.notes.clone());
    parts.join(" \u{b7} ")
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.2} %", 100.0 * part as f64 / whole.max(1) as f64)
}
