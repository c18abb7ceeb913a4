//! Makes tables of views.

use names::source_path::SourcePath;
use profile::data::{Calls, NONE};
use profile::text::numbers::grouped;
use profile::view;
use profile::view::arcs::{self, ArcRow};
use profile::view::breakdown::{self, PartRow};
use profile::view::buckets::buckets;
use profile::view::cost::Cost;
use profile::view::crates::{CodeOrigin, CrateRow, crates};
use profile::view::functions::{FunctionRow, functions};
use profile::view::futures::{PolledFuture, futures};
use profile::view::lines::lines;
use profile::view::parallelism::Parallelism;
use profile::view::select::{Filter, NotFound, Selection};
use profile::view::tree::{CallNode, CallTree, TreeLimits, bottom_up, callees, callers, top_down_where};
use serde_json::{Value, json};

use super::{ReportRow, Table, heap, markers, parallelism, resources, spans};
use crate::args::{Sort, View};

/// The extent of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableExtent {
    pub(crate) rows: usize,
    /// Rows below this share of the selected weight are left out.
    pub(crate) min_percent: Option<f64>,
    /// Leave out of the summary the functions that are on nearly every stack and ran nothing themselves.
    pub(crate) no_frame_of_all: bool,
    pub(crate) sort: Sort,
    /// List only markers of the selected event.
    pub(crate) of_event: bool,
}

/// Default of [`TableExtent::min_percent`] in trees.
const TREE_PERCENT: f64 = 1.0;
/// Levels of a bottom-up tree at most: callers further up say little about a leaf.
const DEPTH_UP: usize = 60;
/// The hot path continues to a callee with at least this part of its caller,
const HOT_PART: f64 = 0.25;
/// and at least this share of all.
const HOT_SHARE: f64 = 0.03;
/// Functions with this share of all and no self time say nothing: `main`, `start_thread`, `catch_unwind`.
const NEARLY_ALL: f64 = 0.98;

/// `numbers` is for [`View::Parallelism`].
pub(crate) fn tables(
    selection: &Selection<'_>,
    filter: &Filter,
    view: &View,
    extent: TableExtent,
    numbers: Option<&Parallelism>,
) -> Result<Vec<Table>, NotFound> {
    let of = Build {
        selection,
        extent,
        waits: filter.waits,
    };
    Ok(match view {
        View::Summary => of.summary(),
        View::Functions => vec![of.functions("functions", "Functions", extent.sort, functions(selection))],
        View::Lines => vec![of.lines()],
        View::Tree => {
            let tree = top_down_where(selection, |total| of.is_enough(total, TREE_PERCENT));
            vec![of.tree("tree", "Call tree, from roots", &tree)]
        }
        View::BottomUp => {
            let tree = bottom_up(selection, of.limits());
            vec![of.tree("bottom_up", "Functions by self, with their callers", &tree)]
        }
        View::Callers(function) => of.callers(function)?,
        View::Threads => vec![of.parts("threads", "Threads", breakdown::threads(selection))],
        View::Processes => vec![of.parts("processes", "Processes", breakdown::processes(selection))],
        View::Crates => vec![of.crates()],
        View::Categories => vec![of.categories()],
        View::Buckets => vec![of.buckets()],
        View::Futures => vec![of.futures()],
        View::Heap => heap::tables(selection, extent.sort, extent.rows),
        View::Parallelism => {
            let table = numbers.map(|numbers| parallelism::table(selection, numbers, extent.rows, extent.min_percent));
            Vec::from_iter(table)
        }
        View::Resources => resources::tables(selection, extent.rows),
        View::Spans => vec![spans::table(
            view::spans::spans(selection, filter)?,
            extent.sort,
            extent.rows,
            selection.data.interval_ms,
        )],
        View::Markers => vec![markers::table(
            view::markers::markers(selection, extent.of_event),
            extent.sort,
            extent.rows,
        )],
    })
}

struct Build<'a> {
    selection: &'a Selection<'a>,
    extent: TableExtent,
    /// What is shown is waits, and the other kind is CPU time.
    waits: bool,
}

impl Build<'_> {
    fn summary(&self) -> Vec<Table> {
        let found = functions(self.selection);
        let mut tables = vec![self.functions("functions", "Functions by self", Sort::Own, found.clone())];
        if self.selection.data.calls != Calls::Unknown {
            tables.push(self.by_total(found));
        }
        if self.selection.data.calls == Calls::Paths {
            tables.push(self.hot_path());
        }
        tables.push(self.buckets());
        let threads = self.parts("threads", "Threads", breakdown::threads(self.selection));
        if threads.rows.len() > 1 {
            tables.push(threads);
        }
        let processes = self.parts("processes", "Processes", breakdown::processes(self.selection));
        // A CPU is a process with one thread.
        if processes.rows.len() > 1 && !self.tracks_are_cpus() {
            tables.push(processes);
        }
        tables.retain(|table| !table.rows.is_empty());
        tables
    }

    fn by_total(&self, found: Vec<FunctionRow>) -> Table {
        let all = Build {
            selection: self.selection,
            extent: TableExtent {
                rows: usize::MAX,
                ..self.extent
            },
            waits: self.waits,
        };
        let mut rows = all.functions("", "", Sort::Total, found).rows;
        let before = rows.len();
        if self.extent.no_frame_of_all {
            let share = |cost: Option<Cost>| cost.unwrap_or_default().share_of(self.selection.total);
            rows.retain(|row| share(row.total) < NEARLY_ALL || share(row.own) > 0.0);
        }
        let title = match before - rows.len() {
            0 => "Functions by total".to_owned(),
            out => format!("Functions by total (without {out} that nearly all stacks have)"),
        };
        self.table("functions_by_total", &title, rows)
    }

    fn is_enough(&self, cost: Cost, default_percent: f64) -> bool {
        let percent = self.extent.min_percent.unwrap_or(default_percent);
        100.0 * cost.share_of(self.selection.total) >= percent
    }

    /// Keeps the rows that are shown and counts the others.
    fn table(&self, id: &'static str, title: &str, rows: impl IntoIterator<Item = ReportRow>) -> Table {
        let mut rows = rows.into_iter();
        Table {
            id,
            title: title.to_owned(),
            own_label: "self",
            other_label: "",
            headings: Vec::new(),
            rows: rows.by_ref().take(self.extent.rows).collect(),
            left_out: rows.count(),
        }
    }

    /// A table whose rows add up to the whole.
    fn shares(&self, id: &'static str, title: &str, rows: impl IntoIterator<Item = ReportRow>) -> Table {
        Table {
            own_label: "share",
            other_label: if self.waits { "CPU time" } else { "waits" },
            ..self.table(id, title, rows)
        }
    }

    fn function_row(&self, func: u32) -> ReportRow {
        let data = self.selection.data;
        let lib = data.lib_name(func).unwrap_or_default().to_owned();
        let name = self.selection.name(func).to_owned();
        let file = data.text(data.funcs[func as usize].file);
        ReportRow {
            fields: vec![("function", json!(name)), ("library", text(&lib)), ("file", text(file))],
            name,
            func: Some(func),
            is_function: true,
            place: match lib.as_str() {
                // cachegrind has files and no libraries.
                "" if data.weights.is_some() => SourcePath::parse(file).short().into_owned(),
                _ => lib,
            },
            ..ReportRow::default()
        }
    }

    fn functions(&self, id: &'static str, title: &str, sort: Sort, mut found: Vec<FunctionRow>) -> Table {
        match sort {
            Sort::Own => {}
            Sort::Total => found.sort_by(|a, b| b.total.weight.total_cmp(&a.total.weight)),
            Sort::Name => found.sort_by_key(|row| self.selection.name(row.func)),
        }
        let by = |row: &FunctionRow| if sort == Sort::Own { row.own } else { row.total };
        found.retain(|row| self.is_enough(by(row), 0.0));
        let rows = found.iter().map(|row| ReportRow {
            own: Some(row.own),
            total: Some(row.total),
            ..self.function_row(row.func)
        });
        self.table(id, title, rows)
    }

    fn crates(&self) -> Table {
        let mut found = crates(self.selection);
        let total = |row: &CrateRow| row.total.unwrap_or(row.own);
        match self.extent.sort {
            Sort::Own => {}
            Sort::Total => found.sort_by(|a, b| total(b).weight.total_cmp(&total(a).weight)),
            Sort::Name => found.sort_by(|a, b| a.name.cmp(&b.name)),
        }
        let is_own = self.extent.sort == Sort::Own;
        found.retain(|row| self.is_enough(if is_own { row.own } else { total(row) }, 0.0));
        let rows = found.into_iter().map(|row| {
            let origin = match row.origin {
                CodeOrigin::Crate => "crate",
                CodeOrigin::Library => "library",
                CodeOrigin::Kernel => "kernel",
                CodeOrigin::Jit => "jit",
                CodeOrigin::Mark => "mark",
                CodeOrigin::Unknown => "unknown",
            };
            let fields = vec![("name", json!(row.name)), ("origin", json!(origin))];
            let (name, place) = match row.origin {
                CodeOrigin::Crate | CodeOrigin::Library => (row.name, origin),
                CodeOrigin::Kernel | CodeOrigin::Jit | CodeOrigin::Mark => (row.name, ""),
                CodeOrigin::Unknown => ("code of no file".to_owned(), ""),
            };
            ReportRow {
                name,
                place: place.to_owned(),
                own: Some(row.own),
                total: row.total,
                fields,
                ..ReportRow::default()
            }
        });
        self.table("crates", "Crates and libraries", rows)
    }

    fn lines(&self) -> Table {
        let data = self.selection.data;
        let mut found = lines(self.selection);
        match self.extent.sort {
            Sort::Own => {}
            Sort::Total => found.sort_by(|a, b| b.total.weight.total_cmp(&a.total.weight)),
            Sort::Name => found.sort_by_key(|row| (data.text(row.file), row.line)),
        }
        let is_own = self.extent.sort == Sort::Own;
        found.retain(|row| self.is_enough(if is_own { row.own } else { row.total }, 0.0));
        let rows = found.iter().map(|row| {
            let function = self.selection.name(row.func);
            let file = data.text(row.file);
            let line = (row.line != NONE).then_some(row.line);
            let short = SourcePath::parse(file).short();
            let name = match line {
                _ if file.is_empty() => format!("{function} (no source known)"),
                None => format!("{short} (no line known)"),
                Some(line) => format!("{short}:{line}"),
            };
            ReportRow {
                name,
                place: function.to_owned(),
                own: Some(row.own),
                total: Some(row.total),
                fields: vec![
                    ("file", text(file)),
                    ("line", json!(line)),
                    ("function", json!(function)),
                ],
                ..ReportRow::default()
            }
        });
        self.table("lines", "Lines", rows)
    }

    /// Follows from each function to the callee with the largest part, down to the limits above.
    fn hot_path(&self) -> Table {
        let least = self.selection.total.weight * HOT_SHARE;
        let tree = top_down_where(self.selection, |total| total.weight >= least);
        let mut path: Vec<&CallNode> = Vec::new();
        let mut node = &tree.nodes[0];
        while let Some(child) = node.children.first() {
            let child = &tree.nodes[*child as usize];
            if child.total.weight < least.max(node.total.weight * HOT_PART) {
                break;
            }
            path.push(child);
            node = child;
        }
        // The end of the path is more useful than its start.
        let left_out = path.len().saturating_sub(self.extent.rows.max(1));
        let rows = path.iter().enumerate().skip(left_out).map(|(depth, node)| ReportRow {
            depth,
            own: Some(node.own),
            total: Some(node.total),
            ..self.function_row(node.func)
        });
        let mut table = self.table("hot_path", "Hot path", rows);
        if left_out > 0 {
            table.title = format!(
                "Hot path, the last {} of {} calls",
                table.rows.len(),
                table.rows.len() + left_out
            );
        }
        table
    }

    fn limits(&self) -> TreeLimits {
        let percent = self.extent.min_percent.unwrap_or(TREE_PERCENT);
        TreeLimits {
            min_weight: self.selection.total.weight * percent / 100.0,
            depth: DEPTH_UP,
        }
    }

    fn tree(&self, id: &'static str, title: &str, tree: &CallTree) -> Table {
        let shown = |node: &CallNode| -> Vec<u32> {
            let children = node.children.iter().copied();
            children
                .filter(|child| self.is_enough(tree.nodes[*child as usize].total, TREE_PERCENT))
                .collect()
        };
        // (node, levels, indent)
        let mut open: Vec<(u32, usize, usize)> = Vec::new();
        let first = shown(&tree.nodes[0]);
        open.extend(first.into_iter().rev().map(|child| (child, 0, 0)));
        let rows = std::iter::from_fn(|| {
            let (at, depth, indent) = open.pop()?;
            let node = &tree.nodes[at as usize];
            let children = shown(node);
            // A chain of calls with the same samples stays in its column.
            let is_chain =
                children.len() == 1 && tree.nodes[children[0] as usize].total.weight >= node.total.weight * 0.98;
            let below = indent + usize::from(!is_chain);
            open.extend(children.into_iter().rev().map(|child| (child, depth + 1, below)));
            Some(ReportRow {
                depth,
                indent,
                own: Some(node.own),
                total: Some(node.total),
                ..self.function_row(node.func)
            })
        });
        let mut table = self.table(id, title, rows);
        if id == "bottom_up" || id == "callers" {
            table.own_label = "ends";
        }
        table
    }

    /// Tables for files that have arcs and no call paths: the callers and the callees of a function.
    fn arcs(&self, function: &str, funcs: &[u32], up: Vec<ArcRow>, down: Vec<ArcRow>) -> Vec<Table> {
        let found = functions(self.selection).into_iter();
        let found = found.filter(|row| funcs.contains(&row.func));
        let itself = found.map(|row| ReportRow {
            own: Some(row.own),
            total: Some(row.total),
            ..self.function_row(row.func)
        });
        let itself = self.table("function", &format!("Function {function}"), itself);
        let table = |id, title, found: Vec<ArcRow>| {
            let enough = found.iter().filter(|row| self.is_enough(row.cost, 0.0));
            let rows = enough.map(|row| {
                let mut of = self.function_row(row.func);
                let calls = if row.calls == 1 { "call" } else { "calls" };
                of.place = format!("{} {calls}  {}", grouped(row.calls), of.place);
                of.fields.push(("calls", json!(row.calls)));
                of.total = Some(row.cost);
                of
            });
            self.table(id, title, rows)
        };
        vec![
            itself,
            table("callers", "Callers, with the cost of their calls", up),
            table("callees", "Calls, with what these cost", down),
        ]
    }

    fn callers(&self, function: &str) -> Result<Vec<Table>, NotFound> {
        let funcs = self.selection.find(function)?;
        if let (Some(up), Some(down)) = (
            arcs::callers(self.selection, &funcs),
            arcs::callees(self.selection, &funcs),
        ) {
            return Ok(self.arcs(function, &funcs, up, down));
        }
        let (up, down) = (
            callers(self.selection, &funcs, self.limits()),
            callees(self.selection, &funcs),
        );
        let itself = funcs.iter().map(|func| self.function_row(*func));
        let mut itself: Vec<ReportRow> = match funcs.as_slice() {
            [_] => itself.collect(),
            funcs => vec![ReportRow {
                name: format!("{} functions that match {function}", funcs.len()),
                place: funcs
                    .iter()
                    .take(5)
                    .map(|func| self.selection.name(*func))
                    .collect::<Vec<_>>()
                    .join(", "),
                fields: vec![("function", json!(function))],
                ..ReportRow::default()
            }],
        };
        for row in &mut itself {
            (row.own, row.total) = (Some(down.nodes[0].own), Some(down.nodes[0].total));
        }
        Ok(vec![
            self.table("function", "Function", itself),
            self.tree("callers", "Called by", &up),
            self.tree("callees", "Calls", &down),
        ])
    }

    fn tracks_are_cpus(&self) -> bool {
        let recorded = self.selection.data.recorded.as_ref();
        recorded.is_some_and(|recorded| recorded.tracks_are_cpus)
    }

    fn parts(&self, id: &'static str, title: &str, found: Vec<PartRow>) -> Table {
        let are_cpus = self.tracks_are_cpus();
        let has_other = found.iter().any(|row| !row.other_kind.is_zero());
        let enough = found
            .into_iter()
            .filter(|row| self.extent.min_percent.is_none() || self.is_enough(row.own, 0.0));
        let rows = enough.map(|row| {
            let mut fields = vec![("name", json!(row.name)), ("pid", json!(row.pid))];
            let place = match (&row.process, &row.tid) {
                (_, tid) if are_cpus => {
                    fields.extend(tid.as_ref().map(|tid| ("tid", json!(tid))));
                    String::new()
                }
                (Some(process), Some(tid)) => {
                    fields.extend([("process", json!(process)), ("tid", json!(tid))]);
                    let process = if *process == row.name {
                        String::new()
                    } else {
                        format!("{process} ")
                    };
                    // callgrind and DHAT know the process alone.
                    let tid = if tid.is_empty() {
                        String::new()
                    } else {
                        format!(", tid {tid}")
                    };
                    format!("{process}pid {}{tid}", row.pid)
                }
                _ => {
                    fields.push(("threads", json!(row.threads)));
                    let threads = if row.threads == 1 { "thread" } else { "threads" };
                    format!("pid {}, {} {threads}", row.pid, row.threads)
                }
            };
            ReportRow {
                name: row.name,
                // Some files have no numbers of processes.
                place: if row.pid.is_empty() { String::new() } else { place },
                own: Some(row.own),
                other: has_other.then_some(row.other_kind),
                fields,
                ..ReportRow::default()
            }
        });
        self.shares(id, if are_cpus { "CPUs" } else { title }, rows)
    }

    fn futures(&self) -> Table {
        let found = futures(self.selection).into_iter();
        let found = found.filter(|(_, cost)| self.is_enough(*cost, 0.0));
        let rows = found.map(|(future, cost)| {
            let (kind, name) = match future {
                PolledFuture::Function(_) => ("future", ""),
                PolledFuture::Executor => ("executor", "executors themselves"),
                PolledFuture::Outside => ("outside", "not polled by an executor that is known"),
            };
            let mut row = match future {
                PolledFuture::Function(func) => self.function_row(func),
                PolledFuture::Executor | PolledFuture::Outside => ReportRow {
                    name: name.to_owned(),
                    fields: vec![
                        ("function", Value::Null),
                        ("library", Value::Null),
                        ("file", Value::Null),
                    ],
                    ..ReportRow::default()
                },
            };
            row.fields.push(("kind", json!(kind)));
            ReportRow { own: Some(cost), ..row }
        });
        self.shares(
            "futures",
            "Async functions and futures, each with all that it calls and awaits",
            rows,
        )
    }

    fn categories(&self) -> Table {
        let rows = breakdown::categories(self.selection).into_iter().map(|row| {
            let part =
                |(name, cost): &(String, Cost)| json!({"name": name, "samples": cost.samples, "weight": cost.weight});
            let parts: Vec<Value> = row.parts.iter().map(part).collect();
            let share = |cost: &Cost| 100.0 * cost.share_of(self.selection.total);
            let enough = row.parts.iter().filter(|(_, cost)| share(cost) >= 0.05);
            let shares: Vec<String> = enough
                .map(|(name, cost)| format!("{name} {:.1} %", share(cost)))
                .collect();
            ReportRow {
                fields: vec![("name", text(&row.name)), ("subcategories", json!(parts))],
                name: if row.name.is_empty() {
                    "(none)".to_owned()
                } else {
                    row.name
                },
                place: shares.join(", "),
                own: Some(row.own),
                ..ReportRow::default()
            }
        });
        self.shares("categories", "Categories", rows)
    }

    fn buckets(&self) -> Table {
        let rows = buckets(self.selection).into_iter();
        let rows = rows.filter(|row| self.is_enough(row.cost, 0.0)).map(|row| {
            let functions = row.functions.iter().take(5);
            let named: Vec<Value> = functions
                .map(|(func, cost)| json!({"function": self.selection.name(*func), "samples": cost.samples}))
                .collect();
            let first = row.functions.first().map(|(func, _)| self.selection.name(*func));
            ReportRow {
                name: row.bucket.label().to_owned(),
                place: first.map_or_else(String::new, |name| {
                    format!("most: {}", profile::view::names::short(name))
                }),
                own: Some(row.cost),
                fields: vec![("bucket", json!(row.bucket.id())), ("functions", json!(named))],
                ..ReportRow::default()
            }
        });
        let title = "Kinds of cost: functions with a known purpose, and what can only be their means";
        self.shares("buckets", title, rows)
    }
}

fn text(text: &str) -> Value {
    match text {
        "" => Value::Null,
        text => text.into(),
    }
}
