//! Samples by the future that an executor polled: the outermost `async fn`, block or future below the poll.

use rustc_hash::FxHashMap;

use super::cost::Cost;
use super::select::Selection;
use crate::data::NONE;

/// Crates with executors: their functions that poll, run or block on something poll futures.
const EXECUTORS: [&str; 11] = [
    "tokio",
    "async_executor",
    "async_global_executor",
    "async_io",
    "async_std",
    "async_task",
    "blocking",
    "futures_executor",
    "futures_lite",
    "pollster",
    "smol",
];

/// Crates whose futures only poll another one, and those that executors call.
const WRAPPERS: [&str; 16] = [
    "alloc",
    "concurrent_queue",
    "core",
    "event_listener",
    "futures_core",
    "futures_util",
    "mio",
    "once_cell",
    "parking",
    "parking_lot",
    "pin_project_lite",
    "polling",
    "rustix",
    "std",
    "tracing",
    "tracing_futures",
];

/// What a sample was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolledFuture {
    /// A future, by the function that represents its code.
    Function(u32),
    /// An executor's own code, or code of a future without a name.
    Executor,
    /// No executor polled anything.
    Outside,
}

/// The selected samples by the future that an executor polled, those of the largest cost first. Samples without a stack
/// are outside.
pub fn futures(selection: &Selection<'_>) -> Vec<(PolledFuture, Cost)> {
    let data = selection.data;
    let kinds: Vec<FrameKind> = (0..data.funcs.len() as u32)
        .map(|func| FrameKind::new(data.func_name(func)))
        .collect();
    let mut states: Vec<PolledFuture> = Vec::with_capacity(selection.stacks.len());
    let mut costs: FxHashMap<PolledFuture, Cost> = FxHashMap::default();
    for (stack, own) in selection.stacks.iter().zip(&selection.own) {
        let caller = match stack.prefix {
            NONE => PolledFuture::Outside,
            prefix => states[prefix as usize],
        };
        let func = data.frames[stack.frame as usize].func;
        let state = match (caller, kinds[func as usize]) {
            (PolledFuture::Outside, FrameKind::Poll) => PolledFuture::Executor,
            (PolledFuture::Executor, FrameKind::Named) => PolledFuture::Function(selection.representative(func)),
            (caller, _) => caller,
        };
        states.push(state);
        if !own.is_zero() {
            *costs.entry(state).or_default() += *own;
        }
    }
    if !selection.without_stack.is_zero() {
        *costs.entry(PolledFuture::Outside).or_default() += selection.without_stack;
    }
    let mut costs: Vec<(PolledFuture, Cost)> = costs.into_iter().collect();
    let order = |future: &PolledFuture| match future {
        PolledFuture::Function(func) => *func,
        PolledFuture::Executor => NONE - 1,
        PolledFuture::Outside => NONE,
    };
    costs.sort_by(|(a, x), (b, y)| y.weight.total_cmp(&x.weight).then(order(a).cmp(&order(b))));
    costs
}

/// What a function is for an executor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FrameKind {
    /// It polls futures.
    Poll,
    /// It stands between an executor and the future: a wrapper, `catch_unwind`, code of C.
    Between,
    /// A future's own code, if an executor polls it.
    Named,
}

impl FrameKind {
    fn new(name: &str) -> FrameKind {
        let Some(krate) = crate_of(name) else {
            return FrameKind::Between;
        };
        if EXECUTORS.contains(&krate) {
            let mut path = name.rsplit("::").skip_while(|part| part.starts_with('{'));
            let last = path.next().unwrap_or_default();
            let is_poll = ["poll", "run", "block_on"].iter().any(|word| last.starts_with(word));
            return if is_poll { FrameKind::Poll } else { FrameKind::Between };
        }
        match WRAPPERS.contains(&krate) {
            true => FrameKind::Between,
            false => FrameKind::Named,
        }
    }
}

/// The crate at the start of a function's path, or of the type that a trait is implemented for. `None` for `main`, and
/// for types without a path.
fn crate_of(name: &str) -> Option<&str> {
    let mut path = name;
    while let Some(rest) = ["<", "&", "*", "(", "[", "mut ", "const ", "dyn "]
        .iter()
        .find_map(|start| path.strip_prefix(start))
    {
        path = rest;
    }
    let (krate, _) = path.split_once("::")?;
    let is_name = krate.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && !krate.is_empty()).then_some(krate)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of tokio 1.48, smol 2.0, async-std 1.13 and futures 0.3 in a program with debug info.
    #[test]
    fn names_of_executors_are_told_from_those_of_futures() {
        for (name, kind) in [
            (
                "tokio::runtime::task::core::Core<T,S>::poll::{closure}",
                FrameKind::Poll,
            ),
            (
                "tokio::runtime::scheduler::current_thread::CoreGuard::block_on",
                FrameKind::Poll,
            ),
            (
                "<tokio::runtime::blocking::task::BlockingTask<T> as core::future::future::Future>::poll",
                FrameKind::Poll,
            ),
            ("async_task::raw::RawTask<F,T,S,M>::run", FrameKind::Poll),
            ("async_io::driver::block_on::{closure}", FrameKind::Poll),
            ("futures_executor::local_pool::run_executor", FrameKind::Poll),
            ("tokio::runtime::builder::Builder::build", FrameKind::Between),
            (
                "<core::pin::Pin<P> as core::future::future::Future>::poll",
                FrameKind::Between,
            ),
            (
                "<&mut dyn core::future::future::Future<Output = ()>>::poll",
                FrameKind::Between,
            ),
            ("<F as tower_service::Service>::call", FrameKind::Between),
            ("memcpy", FrameKind::Between),
            ("app::handle", FrameKind::Named),
            ("app::main::{async_block#1}", FrameKind::Named),
            ("<app::Hand as core::future::future::Future>::poll", FrameKind::Named),
        ] {
            assert_eq!(FrameKind::new(name), kind, "{name}");
        }
    }
}
