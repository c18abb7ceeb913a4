//! Views of hand-built data have the answers that are known, and their sums agree on any data.

use crate::common::data::category;
use profile::data::{Data, Frame, Func, Marker, NONE, Samples, Stack, Thread, WeightUnit};
use profile::view::annotate::{addresses_of, inlined_into, lines_of};
use profile::view::breakdown::{categories, processes, threads};
use profile::view::buckets::{Bucket, buckets};
use profile::view::cost::Cost;
use profile::view::functions::functions;
use profile::view::futures::{PolledFuture, futures};
use profile::view::lines::lines;
use profile::view::select::{Filter, Selection, find, select};
use profile::view::tree::{CallTree, TreeLimits, bottom_up, callees, callers, top_down};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

const ALL: TreeLimits = TreeLimits {
    min_weight: f64::MIN,
    depth: usize::MAX,
};

#[derive(Default)]
struct Build {
    data: Data,
    texts: FxHashMap<String, u32>,
    funcs: FxHashMap<u32, u32>,
    stacks: FxHashMap<(u32, u32), u32>,
    frames: FxHashMap<(u32, u32, u32, bool), u32>,
}

impl Build {
    fn new() -> Self {
        let mut build = Build::default();
        build.data.categories = [
            "Program",
            "Kernel",
            "Off-CPU",
            "Waiting for a CPU",
            "System library",
            "JIT and anonymous",
        ]
        .map(category)
        .into();
        build.data.interval_ms = 1.0;
        build
    }

    fn text(&mut self, text: &str) -> u32 {
        let texts = &mut self.data.texts;
        *self.texts.entry(text.to_owned()).or_insert_with(|| {
            texts.push(text.into());
            texts.len() as u32 - 1
        })
    }

    /// Frames root first, as `name`, `name:line`, `name@category` or `name+` for an inlined one.
    fn stack(&mut self, path: &str) -> u32 {
        let mut stack = NONE;
        for place in path.split(" > ").filter(|place| !place.is_empty()) {
            let (place, category) = match place.split_once('@') {
                Some((place, category)) => {
                    let at = self.data.categories.iter().position(|known| known.name == category);
                    (place, at.unwrap() as u32)
                }
                None => (place, 0),
            };
            let (place, inlined) = place.strip_suffix('+').map_or((place, false), |place| (place, true));
            let (name, line) = match place.rsplit_once(':') {
                Some((name, line)) if line.parse::<u32>().is_ok() => (name, line.parse().unwrap()),
                _ => (place, NONE),
            };
            let text = self.text(name);
            let file = self.text("/src/a.rs");
            let funcs = &mut self.data.funcs;
            let func = *self.funcs.entry(text).or_insert_with(|| {
                funcs.push(Func::native(text, NONE, file));
                funcs.len() as u32 - 1
            });
            let frames = &mut self.data.frames;
            let frame = *self.frames.entry((func, line, category, inlined)).or_insert_with(|| {
                frames.push(Frame {
                    line,
                    category,
                    inline_depth: inlined.into(),
                    ..Frame::of(func)
                });
                frames.len() as u32 - 1
            });
            let stacks = &mut self.data.stacks;
            stack = *self
                .stacks
                .entry((stack, frame))
                .or_insert_with_key(|&(prefix, frame)| {
                    stacks.push(Stack { prefix, frame });
                    stacks.len() as u32 - 1
                });
        }
        stack
    }

    /// A thread with a sample a millisecond.
    fn thread(&mut self, name: &str, pid: &str, paths: &[&str]) -> &mut Thread {
        let stack: Vec<u32> = paths.iter().map(|path| self.stack(path)).collect();
        self.data.threads.push(Thread {
            name: name.into(),
            process_name: format!("process {pid}"),
            pid: pid.into(),
            tid: format!("{}", 100 + self.data.threads.len()),
            samples: Samples {
                time_ms: (0..stack.len()).map(|at| at as f64).collect(),
                stack,
                ..Samples::default()
            },
            ..Thread::default()
        });
        self.data.threads.last_mut().unwrap()
    }
}

fn one(paths: &[&str]) -> Data {
    let mut build = Build::new();
    build.thread("main", "1", paths);
    build.data
}

/// (name, self, total) of each function.
fn shown(selection: &Selection<'_>) -> Vec<(String, u64, u64)> {
    let rows = functions(selection).into_iter();
    rows.map(|row| (selection.name(row.func).to_owned(), row.own.samples, row.total.samples))
        .collect()
}

fn of(data: &Data, filter: Filter) -> Vec<(String, u64, u64)> {
    shown(&select(data, &filter).unwrap())
}

fn rows<const N: usize>(rows: [(&str, u64, u64); N]) -> Vec<(String, u64, u64)> {
    rows.map(|(name, own, total)| (name.to_owned(), own, total)).into()
}

/// The tree as lines, a space for each level.
fn tree_lines(selection: &Selection<'_>, tree: &CallTree) -> Vec<String> {
    let mut lines = Vec::new();
    let mut open: Vec<(u32, usize)> = vec![(0, 0)];
    while let Some((node, depth)) = open.pop() {
        let node = &tree.nodes[node as usize];
        if node.func != NONE {
            let name = selection.name(node.func);
            lines.push(format!(
                "{}{name} {} {}",
                " ".repeat(depth - 1),
                node.own.samples,
                node.total.samples
            ));
        }
        open.extend(node.children.iter().rev().map(|child| (*child, depth + 1)));
    }
    lines
}

#[test]
fn a_function_that_calls_itself_counts_once() {
    let data = one(&["main > f > f > f", "main > f > g > f", "main > f > g", "main"]);
    assert_eq!(
        of(&data, Filter::default()),
        rows([("f", 2, 3), ("main", 1, 4), ("g", 1, 2)])
    );
}

#[test]
fn mutual_recursion_counts_once_for_both() {
    let data = one(&["a > b > a > b", "a > b > a", "b > a"]);
    assert_eq!(of(&data, Filter::default()), rows([("a", 2, 3), ("b", 1, 3)]));
}

#[test]
fn inlined_functions_are_functions() {
    let data = one(&["main > f > g+", "main > f > g+ > h+"]);
    assert_eq!(
        of(&data, Filter::default()),
        rows([("g", 1, 2), ("h", 1, 1), ("f", 0, 2), ("main", 0, 2)])
    );
}

#[test]
fn focus_keeps_the_stacks_that_contain_the_function_and_hide_gives_its_cost_to_the_caller() {
    let data = one(&["main > f > g", "main > g", "main > f", "main > h", "h"]);
    let focus = |name: &str| Filter {
        focus: vec![name.into()],
        ..Filter::default()
    };
    assert_eq!(of(&data, focus("f")), rows([("f", 1, 2), ("g", 1, 1), ("main", 0, 2)]));
    let hide = |name: &str| Filter {
        hide: vec![name.into()],
        ..Filter::default()
    };
    assert_eq!(of(&data, hide("g")), rows([("f", 2, 2), ("h", 2, 2), ("main", 1, 4)]));
    // A function without a caller leaves a sample without a stack: it is still one of all.
    let selection = select(&data, &hide("h")).unwrap();
    assert_eq!((selection.without_stack.samples, selection.total.samples), (1, 5));
    // In the middle of a stack: what it called, its caller called.
    let selection = select(&data, &hide("f")).unwrap();
    assert_eq!(
        tree_lines(&selection, &top_down(&selection)),
        ["main 1 4", " g 2 2", " h 1 1", "h 1 1"]
    );
    let both = Filter {
        focus: vec!["f".into()],
        hide: vec!["f".into()],
        ..Filter::default()
    };
    assert_eq!(of(&data, both), rows([("main", 1, 2), ("g", 1, 1)]));
}

#[test]
fn names_are_found_exactly_else_by_their_last_part_else_by_any_part() {
    let data = one(&["a::push > alloc::vec::Vec<u8>::push > pushing > Vec<u8>::pop"]);
    let found = |asked: &str| -> Vec<&str> {
        let found = find(&data, asked).unwrap().into_iter();
        found.map(|func| data.func_name(func)).collect()
    };
    assert_eq!(found("a::push"), ["a::push"]);
    assert_eq!(found("push"), ["a::push", "alloc::vec::Vec<u8>::push"]);
    assert_eq!(found("Vec::push"), ["alloc::vec::Vec<u8>::push"]);
    assert_eq!(found("ushi"), ["pushing"]);
    let error = find(&data, "PUSHI").unwrap_err().to_string();
    assert!(
        error.contains("no function \"PUSHI\"") && error.contains("pushing"),
        "{error}"
    );
    assert!(find(&data, "").is_err());
}

#[test]
fn instances_of_a_generic_function_become_one_on_request() {
    let data = one(&[
        "main > Vec<u8>::push",
        "main > Vec<u32>::push > Vec<u8>::push",
        "main > Vec<u32>::push",
    ]);
    let merged = Filter {
        merge_generics: true,
        ..Filter::default()
    };
    assert_eq!(of(&data, merged), rows([("Vec<_>::push", 3, 3), ("main", 0, 3)]));
    assert_eq!(
        of(&data, Filter::default()),
        rows([("Vec<u8>::push", 2, 2), ("Vec<u32>::push", 1, 2), ("main", 0, 3)])
    );
}

#[test]
fn times_threads_processes_categories_and_markers_select() {
    let mut build = Build::new();
    build.thread("left", "1", &["a", "b", "c", "sys@Kernel"]);
    build.thread("right", "2", &["a", "a", "a", "a"]);
    let bench = build.text("bench");
    build.data.threads[0].markers = vec![
        Marker::spanning(bench, 0.5, 1.5),
        Marker::spanning(bench, 3.0, 3.0),
        Marker::spanning(bench, 1.2, 2.0),
    ];
    let data = build.data;
    let count = |filter: Filter| select(&data, &filter).unwrap().total.samples;
    let base = Filter::default;
    assert_eq!(
        count(Filter {
            from_ms: Some(1.0),
            to_ms: Some(3.0),
            ..base()
        }),
        4
    );
    assert_eq!(
        count(Filter {
            threads: vec!["left".into()],
            ..base()
        }),
        4
    );
    assert_eq!(
        count(Filter {
            threads: vec!["101".into()],
            processes: vec!["1".into()],
            ..base()
        }),
        0
    );
    assert_eq!(
        count(Filter {
            processes: vec!["process 2".into()],
            ..base()
        }),
        4
    );
    assert_eq!(
        count(Filter {
            categories: vec!["kernel".into()],
            ..base()
        }),
        1
    );
    // Samples at 1, 2 and 3 ms, and only of the process of the marker.
    assert_eq!(
        count(Filter {
            marker: Some("bench".into()),
            ..base()
        }),
        3
    );
    // All others, of both processes.
    assert_eq!(
        count(Filter {
            outside_marker: Some("bench".into()),
            ..base()
        }),
        5
    );
    for (filter, expected) in [
        (
            Filter {
                threads: vec!["none".into()],
                ..base()
            },
            "no thread \"none\" in this profile; it has left, right",
        ),
        (
            Filter {
                marker: Some("x".into()),
                ..base()
            },
            "it has bench",
        ),
        (
            Filter {
                outside_marker: Some("x".into()),
                ..base()
            },
            "it has bench",
        ),
        (
            Filter {
                categories: vec!["x".into()],
                ..base()
            },
            "Waiting for a CPU",
        ),
    ] {
        let error = select(&data, &filter).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Of this profile and of one that sprof wrote when waits had two categories.
#[test]
fn waits_are_selected_by_the_name_of_their_category_and_by_their_reason() {
    let mut data = one(&["main", "main > a@Off-CPU", "main > a@Off-CPU", "main > b@Off-CPU"]);
    data.categories.truncate(3);
    let idle = &mut data.categories[2];
    idle.name = "Idle".to_owned();
    idle.subcategories = ["Other", "Lock", "Waiting for a CPU"].map(str::to_owned).into();
    let waits = |data: &Data, category: &str| {
        let filter = Filter {
            categories: vec![category.to_owned()],
            waits: true,
            ..Filter::default()
        };
        select(data, &filter).unwrap().total.samples
    };
    for (name, subcategory) in [("a", 1), ("b", 2)] {
        let func = (0..data.funcs.len() as u32)
            .find(|func| data.func_name(*func) == name)
            .unwrap();
        for frame in data.frames.iter_mut().filter(|frame| frame.func == func) {
            frame.subcategory = subcategory;
        }
    }
    for (category, expected) in [("Idle", 3), ("off-cpu", 3), ("lock", 2), ("waiting for a CPU", 1)] {
        assert_eq!(waits(&data, category), expected, "{category}");
    }
    let earlier = one(&["main", "main > a@Off-CPU", "main > b@Waiting for a CPU"]);
    for (category, expected) in [("idle", 2), ("Waiting for a CPU", 1)] {
        assert_eq!(waits(&earlier, category), expected, "{category}");
    }
}

#[test]
fn waits_are_never_among_samples_of_running_threads() {
    let mut build = Build::new();
    let thread = build.thread(
        "main",
        "1",
        &[
            "main > f",
            "main > read > [off-CPU]@Off-CPU",
            "main > [w]@Waiting for a CPU",
        ],
    );
    thread.samples.weight = Some(vec![1.0, 500.0, f64::NAN]);
    build.data.unit = WeightUnit::Milliseconds;
    let data = build.data;
    let cpu = select(&data, &Filter::default()).unwrap();
    assert_eq!((cpu.total.samples, cpu.total.weight), (1, 1.0));
    assert_eq!((cpu.other_kind.samples, cpu.other_kind.weight), (2, 500.0));
    assert_eq!(shown(&cpu), rows([("f", 1, 1), ("main", 0, 1)]));
    let waits = select(
        &data,
        &Filter {
            waits: true,
            ..Filter::default()
        },
    )
    .unwrap();
    assert_eq!((waits.total.samples, waits.total.weight), (2, 500.0));
    assert_eq!(waits.other_kind.weight, 1.0);
    assert_eq!(threads(&waits)[0].other_kind.samples, 1);
}

#[test]
fn trees_go_down_from_roots_and_up_from_leaves() {
    let data = one(&["main > f > g", "main > f > g", "main > g", "main", ""]);
    let selection = select(&data, &Filter::default()).unwrap();
    let tree = top_down(&selection);
    assert_eq!(
        tree_lines(&selection, &tree),
        ["main 1 4", " f 0 2", "  g 2 2", " g 1 1"]
    );
    assert_eq!((tree.nodes[0].total.samples, tree.nodes[0].own.samples), (5, 1));
    let tree = bottom_up(&selection, ALL);
    assert_eq!(
        tree_lines(&selection, &tree),
        ["g 0 3", " f 0 2", "  main 2 2", " main 1 1", "main 1 1"]
    );
}

#[test]
fn callers_and_callees_of_a_recursive_function_share_its_total() {
    let data = one(&["a > f > x", "b > f > f > y", "b > f > g > f", "c > x"]);
    let selection = select(&data, &Filter::default()).unwrap();
    let f = selection.find("f").unwrap();
    let up = callers(&selection, &f, ALL);
    assert_eq!(up.nodes[0].total.samples, 3);
    assert_eq!(tree_lines(&selection, &up), ["b 2 2", "a 1 1"]);
    let down = callees(&selection, &f);
    assert_eq!((down.nodes[0].total.samples, down.nodes[0].own.samples), (3, 1));
    assert_eq!(tree_lines(&selection, &down), ["x 1 1", "y 1 1"]);
}

#[test]
fn lines_are_those_of_the_innermost_function_and_of_calls() {
    let data = one(&[
        "main:3 > f:10",
        "main:3 > f:11",
        "main:4 > f:10",
        "main:3 > f:10 > nameless",
    ]);
    let selection = select(&data, &Filter::default()).unwrap();
    let lines: Vec<_> = lines(&selection)
        .into_iter()
        .map(|row| (row.line, row.own.samples, row.total.samples))
        .collect();
    assert_eq!(lines, [(10, 2, 3), (11, 1, 1), (NONE, 1, 1), (3, 0, 3), (4, 0, 1)]);
}

/// Samples of each bucket.
fn in_buckets(paths: &[&str]) -> Vec<(Bucket, u64)> {
    let data = one(paths);
    let selection = select(&data, &Filter::default()).unwrap();
    let rows = buckets(&selection);
    let mut counts: Vec<(Bucket, u64)> = rows.iter().map(|row| (row.bucket, row.cost.samples)).collect();
    counts.sort();
    counts
}

#[test]
fn a_bucket_has_what_can_only_be_its_means() {
    let paths = [
        "main > <alloc::vec::Vec<T> as core::clone::Clone>::clone > malloc > _int_malloc",
        "main > <my::Row as core::clone::Clone>::clone > __memmove_avx_unaligned_erms",
        "main > my::Queue::~Queue() > operator delete(void*) > free > munmap@System library > entry_SYSCALL_64_after_hwframe@Kernel > __x64_sys_munmap@Kernel > unmap_region@Kernel",
        "main > std::map<int, int>::~map() > std::_Rb_tree<int, int>::_M_erase(int*) > std::default_delete<int>::operator()(int*)+ > free",
        "main > core::ptr::drop_in_place<hashbrown::map::HashMap<K,V>> > hashbrown::raw::RawTable<T>::drop_elements > free",
        "main > malloc > asm_exc_page_fault@Kernel > clear_page@Kernel > memset@Kernel",
        "main > calloc > memset",
        "main > core::panicking::panic_fmt > core::fmt::write > malloc",
        "main > __cxa_throw > _Unwind_RaiseException > _Unwind_Find_FDE",
        "main > tokio::runtime::park > std::thread::sleep > nanosleep@System library",
        "main > mio::poll > epoll_wait@System library > do_syscall_64@Kernel > __x64_sys_epoll_wait@Kernel > ep_poll@Kernel",
        "main > std::mutex::lock() > pthread_mutex_lock > do_syscall_64@Kernel > __x64_sys_futex@Kernel > schedule@Kernel",
        "main > hashbrown::map::HashMap<K,V>::insert > hashbrown::raw::RawTable<T>::reserve_rehash > malloc",
        "main > hashbrown::map::HashMap<K,V>::retain > core::mem::swap",
        "main > std::to_string(int) > malloc",
    ];
    assert_eq!(
        in_buckets(&paths),
        [
            (Bucket::Drop, 3),
            (Bucket::Clone, 2),
            (Bucket::Panic, 2),
            (Bucket::Alloc, 1),
            (Bucket::PageFault, 1),
            (Bucket::Lock, 1),
            (Bucket::Format, 1),
            (Bucket::Hash, 2),
            (Bucket::Async, 2),
        ]
    );
    let data = one(&paths[..1]);
    let selection = select(&data, &Filter::default()).unwrap();
    let rows = buckets(&selection);
    let name = selection.name(rows[0].functions[0].0);
    assert_eq!(name, "<alloc::vec::Vec<T> as core::clone::Clone>::clone");
}

#[test]
fn what_a_function_calls_is_no_cost_of_its_kind() {
    let in_none = [
        // A destructor that runs a queue of callbacks, in the program and in a runtime with a JIT.
        "main > my::Scope::~Scope() > my::Scope::close()",
        "main > my::Scope::~Scope() > my::Scope::close() > v8::Execution::Call() > fib async.js:1:13@JIT and anonymous",
        "main > my::Scope::~Scope() > fib async.js:1:13@JIT and anonymous > malloc@JIT and anonymous",
        // The destructor's author sorts, and its compiler inlined the sort.
        "main > my::Scope::~Scope() > void std::__introsort_loop<int*>(int*, int*)",
        // A deleter that the program gave.
        "main > std::unique_ptr<int, D>::~unique_ptr() > std::_Function_handler<void (int*), D>::_M_invoke(int*)",
        "main > core::ptr::drop_in_place<X> > <X as core::ops::drop::Drop>::drop > my::close",
        "main > <alloc::vec::Vec<T> as core::clone::Clone>::clone > my::copy_deep",
        "main > ns::Foo::Foo(ns::Foo const&) > ns::compute(int)",
        "main > std::panicking::try > my::work",
        "main > core::panicking::panic_fmt > my::Error::describe",
        // Memory of a function that the allocator calls, a hook.
        "main > malloc > my_hook",
        // What a runtime runs is not the runtime; what it writes to a socket is output.
        "main > tokio::runtime::park > my::task::poll > my::parse",
        "main > tokio::net::TcpStream::poll_write > writev@System library > do_syscall_64@Kernel > __x64_sys_writev@Kernel > tcp_sendmsg@Kernel",
        // A predicate of a wait, and what is done while a lock is held.
        "main > void std::condition_variable::wait<P>(L&, P) > main::{lambda()#1}::operator()() const",
        "main > parking_lot::Mutex<T>::with_lock > my::compute",
        // Callbacks of hash tables: `retain`, the program's hash function and its comparison.
        "main > hashbrown::map::HashMap<K,V>::retain > my::is_old",
        "main > <my::Key as core::hash::Hash>::hash > my::normalize",
        "main > std::_Hashtable<K, V>::find(K const&) > my::Key::operator==(my::Key const&) const",
        // Writing out is not formatting, and neither is what the program's `Display` calls.
        "main > std::io::Write::write_fmt > <my::Row as core::fmt::Display>::fmt > my::pad",
        "main > std::io::Write::write_fmt > write@System library > entry_SYSCALL_64_after_hwframe@Kernel > vfs_write@Kernel",
        // Interrupts come at any time.
        "main > malloc > asm_sysvec_call_function@Kernel > net_rx_action@Kernel",
        "main > asm_exc_page_fault@Kernel > asm_common_interrupt@Kernel > net_rx_action@Kernel",
        // A probe on the allocator.
        "main > malloc > asm_exc_int3@Kernel > uprobe_notify_resume@Kernel",
        // A destructor that closes a file.
        "main > std::basic_ofstream<char>::~basic_ofstream() > close@System library > do_syscall_64@Kernel > __x64_sys_close@Kernel > ext4_release@Kernel",
    ];
    for path in in_none {
        assert_eq!(in_buckets(&[path]), [], "{path}");
    }
}

#[test]
fn parts_of_the_recording_sum_up() {
    let mut build = Build::new();
    build.thread("left", "1", &["a", "b@Kernel"]);
    build.thread("right", "1", &["a"]);
    build.thread("other", "2", &["a", "a", "a", ""]);
    let data = build.data;
    let selection = select(&data, &Filter::default()).unwrap();
    let names = |rows: Vec<profile::view::breakdown::PartRow>| -> Vec<(String, u64, usize)> {
        rows.into_iter()
            .map(|row| (row.name, row.own.samples, row.threads))
            .collect()
    };
    assert_eq!(
        names(threads(&selection)),
        [("other".into(), 4, 1), ("left".into(), 2, 1), ("right".into(), 1, 1)]
    );
    assert_eq!(
        names(processes(&selection)),
        [("process 2".into(), 4, 1), ("process 1".into(), 3, 2)]
    );
    let categories: Vec<_> = categories(&selection)
        .into_iter()
        .map(|row| (row.name, row.own.samples))
        .collect();
    assert_eq!(
        categories,
        [("Program".into(), 5), (String::new(), 1), ("Kernel".into(), 1)]
    );
}

/// Any stacks of few functions: much recursion.
fn any_data() -> impl Strategy<Value = Data> {
    let path = prop::collection::vec(0usize..6, 0..12);
    let names = ["main", "f", "Vec<u8>::push", "Vec<u16>::push", "malloc", "w@Off-CPU"];
    prop::collection::vec((path, 0u32..4), 1..60).prop_map(move |samples| {
        let mut build = Build::new();
        let paths: Vec<String> = (samples.iter())
            .map(|(path, line)| {
                let names: Vec<String> = path
                    .iter()
                    .map(|at| names[*at].replace("main", &format!("main:{line}")))
                    .collect();
                names.join(" > ")
            })
            .collect();
        let (left, right) = paths.split_at(paths.len() / 2);
        for (name, paths) in [("left", left), ("right", right)] {
            let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
            build.thread(name, name, &paths);
        }
        build.data
    })
}

proptest! {
    #![proptest_config(crate::damage::cases(256))]

    /// Self costs over functions, over lines and over buckets' complement, roots of trees, threads, processes and
    /// categories: all are the samples that were selected.
    #[test]
    fn sums_agree(data in any_data(), waits in any::<bool>(), hide in any::<bool>(), merge in any::<bool>(), focus in any::<bool>()) {
        let has = |name: &str| find(&data, name).is_ok();
        let filter = Filter {
            waits,
            merge_generics: merge,
            hide: if hide && has("f") { vec!["f".into()] } else { Vec::new() },
            focus: if focus && has("main") { vec!["main".into()] } else { Vec::new() },
            ..Filter::default()
        };
        let selection = select(&data, &filter).unwrap();
        let total = selection.total;
        let with_stack = Cost { samples: total.samples - selection.without_stack.samples, weight: total.weight - selection.without_stack.weight };
        prop_assert_eq!(functions(&selection).iter().map(|row| row.own).sum::<Cost>(), with_stack);
        prop_assert_eq!(lines(&selection).iter().map(|row| row.own).sum::<Cost>(), with_stack);
        prop_assert_eq!(top_down(&selection).nodes[0].total, total);
        prop_assert_eq!(bottom_up(&selection, ALL).nodes[0].total, with_stack);
        prop_assert_eq!(threads(&selection).iter().map(|row| row.own).sum::<Cost>(), total);
        prop_assert_eq!(processes(&selection).iter().map(|row| row.own).sum::<Cost>(), total);
        prop_assert_eq!(categories(&selection).iter().map(|row| row.own).sum::<Cost>(), total);
        prop_assert!(buckets(&selection).iter().map(|row| row.cost).sum::<Cost>().samples <= total.samples);
        if focus == filter.focus.is_empty() {
            let all = data.threads.iter().map(|thread| thread.samples.len() as u64).sum::<u64>();
            prop_assert!(total.samples + selection.other_kind.samples <= all);
        }
        for row in functions(&selection) {
            prop_assert!(row.own.samples <= row.total.samples && row.total.samples <= total.samples);
            let func = [row.func];
            let (up, down) = (callers(&selection, &func, ALL), callees(&selection, &func));
            prop_assert_eq!(up.nodes[0].total, row.total);
            prop_assert_eq!(down.nodes[0].total, row.total);
            prop_assert_eq!(down.nodes[0].own, row.own);
        }
        for tree in [top_down(&selection), bottom_up(&selection, ALL)] {
            for node in &tree.nodes {
                let below: Cost = node.children.iter().map(|child| tree.nodes[*child as usize].total).sum();
                prop_assert_eq!(node.own.samples + below.samples, node.total.samples);
            }
        }
    }
}

#[test]
fn lines_and_addresses_of_a_function_have_their_samples() {
    let mut data = one(&[
        "main:1 > f:5 > g:9+",
        "main:1 > f:5 > g:8+",
        "main:2 > f:5",
        "main:2 > g:9",
        "main:1 > f:5 > g:9+ > x:3",
    ]);
    data.libs.push(Default::default());
    for (at, frame) in data.frames.iter_mut().enumerate() {
        (frame.lib, frame.address) = (0, Some(at as u64));
    }
    let selection = select(&data, &Filter::default()).unwrap();
    let lines = |name: &str| -> Vec<(u32, u64, u64)> {
        let files = lines_of(&selection, &selection.find(name).unwrap());
        assert_eq!(files.len(), 1);
        let lines = files[0].lines.iter();
        lines
            .map(|(line, (own, total))| (*line, own.samples, total.samples))
            .collect()
    };
    assert_eq!(lines("f"), [(5, 1, 4)]);
    assert_eq!(lines("g"), [(8, 1, 1), (9, 2, 3)]);
    // `g` is inlined into `f`, but for one call.
    let code = |name: &str| {
        let found = addresses_of(&selection, &selection.find(name).unwrap());
        found
            .values()
            .flat_map(|costs| costs.values())
            .map(|cost| cost.samples)
            .sum::<u64>()
    };
    assert_eq!((code("f"), code("g"), code("main")), (3, 1, 0));
    let into = inlined_into(&selection, &selection.find("g").unwrap());
    assert_eq!((selection.name(into[0].0), into[0].1.samples), ("f", 2));
}

#[test]
fn samples_have_the_outermost_future_that_an_executor_polls() {
    let mut build = Build::new();
    let worker = "start_thread > tokio::runtime::task::core::Core<T,S>::poll > <core::pin::Pin<P> as core::future::future::Future>::poll";
    let block_on = "main > app::main > tokio::runtime::runtime::Runtime::block_on";
    let stacks = [
        (format!("{worker} > app::handle > app::parse > memcpy"), 4),
        (format!("{worker} > app::handle > app::parse"), 2),
        (format!("{worker} > app::parse"), 1),
        (worker.to_owned(), 1),
        // Executors in futures are theirs.
        (
            format!("{block_on} > app::main::{{async_block#0}} > async_io::driver::block_on > app::handle"),
            3,
        ),
        ("main > app::main > app::handle".to_owned(), 2),
    ];
    let mut samples = Samples::default();
    for (path, number) in stacks {
        let stack = build.stack(&path);
        for _ in 0..number {
            samples.time_ms.push(samples.stack.len() as f64);
            samples.stack.push(stack);
        }
    }
    build.data.threads.push(Thread {
        samples,
        ..Thread::default()
    });
    let selection = select(&build.data, &Filter::default()).unwrap();
    let rows = futures(&selection).into_iter().map(|(future, cost)| {
        let name = match future {
            PolledFuture::Function(func) => selection.name(func).to_owned(),
            other => format!("{other:?}"),
        };
        (name, cost.samples)
    });
    let mut rows: Vec<(String, u64)> = rows.collect();
    rows.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let expected = [
        ("app::handle", 6),
        ("app::main::{async_block#0}", 3),
        ("Outside", 2),
        ("Executor", 1),
        ("app::parse", 1),
    ];
    assert_eq!(rows, expected.map(|(name, samples)| (name.to_owned(), samples)));
}
