//! The kernel as the builder needs it: its image, and its functions that wait.

use std::sync::Arc;

use recording::address::Avma;
use recording::module::{BuildId, FileRole, Image, Module, ModuleKind};
use recording::wait::WaitReason;

/// The path of the kernel in profiles.
pub(crate) const PATH: &str = "[kernel.kallsyms]";

/// The kernel as an image that begins at `base`.
pub(crate) fn image(base: u64, build_id: Option<BuildId>, arch: Option<&'static str>) -> Image {
    Image {
        start: Avma(base),
        end: Avma(u64::MAX),
        base: Avma(base),
        role: FileRole::default(),
        module: Arc::new(Module {
            kind: ModuleKind::Kernel,
            path: PATH.into(),
            readable_path: None,
            build_id,
            arch,
        }),
    }
}

/// The kernel that runs now, so that its frames can have names. The builder needs it before the first event, because a
/// frame is resolved when it first occurs.
pub(crate) fn running() -> Option<Image> {
    let base = symbolicator::kernel_text_base()?;
    Some(image(
        base,
        symbolicator::kernel_build_id(),
        Some(std::env::consts::ARCH),
    ))
}

/// The functions of the running kernel that wait: first address, end, reason. Reads all of /proc/kallsyms. Empty if the
/// kernel hides its addresses.
pub(crate) fn wait_reasons() -> Vec<(Avma, Avma, WaitReason)> {
    let functions = symbolicator::kernel_functions(perf_data::wait::reason_of_function).into_iter();
    functions
        .map(|(start, end, reason)| (Avma(start), Avma(end), reason))
        .collect()
}
