//! What the code of each frame is to the bucket of its caller.

use super::{CalledCode, bucket_of, system_call};
use crate::category::{CATEGORIES, CodeKind};
use crate::data::{Data, Frame};
use crate::view::diff::samples::serves_interrupt;
use crate::view::names::bare;

/// Namespaces of the standard libraries of C++ and Rust.
const STANDARD: &[&str] = &[
    "std::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "core::",
    "alloc::",
    "hashbrown::",
];
/// Functions of the standard libraries that only call what they are given. Without debug info it is part of them.
const CALL_THROUGH: &[&str] = &[
    "core::ops::function::",
    "std::function",
    "std::_Function_handler",
    "std::__invoke",
    "std::invoke",
    "std::call_once",
    "std::thread::_",
];

/// The code of functions by name, and of categories.
pub(super) struct CodeTable {
    of_func: Vec<OfName>,
    of_category: Vec<OfCategory>,
}

#[derive(Clone, Copy)]
struct OfName {
    code: CalledCode,
    /// True for names of the C library and the unwinder: in a static program they are all that says so.
    is_reserved: bool,
    /// True for names without a namespace, parameters and suffixes.
    is_c: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum OfCategory {
    Jit,
    Kernel,
    /// The C and C++ runtime libraries, and Rust's standard library.
    Standard,
    Library,
    Other,
}

impl CodeTable {
    pub(super) fn new(data: &Data) -> CodeTable {
        let is = |name: &str, kind: CodeKind| name == CATEGORIES[kind.category(false).0].name;
        CodeTable {
            of_func: (0..data.funcs.len() as u32)
                .map(|func| OfName::new(data.func_name(func)))
                .collect(),
            of_category: (data.categories.iter())
                .map(|category| match category.name.as_str() {
                    // That of the front end's own profiles, and of V8's.
                    "JavaScript" => OfCategory::Jit,
                    name if is(name, CodeKind::Jit) => OfCategory::Jit,
                    name if is(name, CodeKind::Kernel) => OfCategory::Kernel,
                    name if is(name, CodeKind::SystemLibrary) || is(name, CodeKind::RustStd) => OfCategory::Standard,
                    name if is(name, CodeKind::Library) => OfCategory::Library,
                    _ => OfCategory::Other,
                })
                .collect(),
        }
    }

    pub(super) fn of_frame(&self, frame: &Frame) -> CalledCode {
        let name = self.of_func[frame.func as usize];
        let category = self.of_category.get(frame.category as usize);
        match (name.code, category.copied().unwrap_or(OfCategory::Other)) {
            // A function of any language may be called `malloc`.
            (_, OfCategory::Jit) => CalledCode::Other,
            (CalledCode::Ruled { bucket, of_library }, category) => CalledCode::Ruled {
                bucket,
                of_library: of_library || category == OfCategory::Standard,
            },
            (CalledCode::Interrupt | CalledCode::SystemCall, OfCategory::Kernel) => name.code,
            (_, OfCategory::Kernel) => CalledCode::Kernel,
            (CalledCode::Other, OfCategory::Standard) => CalledCode::Library,
            (CalledCode::Interrupt | CalledCode::SystemCall, _) => CalledCode::Other,
            (CalledCode::Other, _) if name.is_reserved => CalledCode::Library,
            (CalledCode::Other, OfCategory::Library) if name.is_c => CalledCode::SharedLibrary,
            (code, _) => code,
        }
    }
}

impl OfName {
    fn new(name: &str) -> OfName {
        let bare = bare(name);
        let is_c = !bare.contains(':') && !bare.contains([' ', '.']);
        let is_call_through = || CALL_THROUGH.iter().any(|start| path(&bare).starts_with(start));
        let code = match bucket_of(name) {
            Some(bucket) => CalledCode::Ruled {
                bucket,
                of_library: is_standard(&bare) || !is_of_a_type(&bare),
            },
            // Other exceptions are those of a debugger, or of a probe of sprof.
            None if serves_interrupt(name) || name.starts_with("asm_exc_") || name.starts_with("el0_dbg") => {
                CalledCode::Interrupt
            }
            None if system_call(name).is_some() => CalledCode::SystemCall,
            None if is_standard(&bare) && !is_call_through() => CalledCode::Library,
            None => CalledCode::Other,
        };
        OfName {
            code,
            is_reserved: is_c && (bare.starts_with("__") || bare.starts_with("_Unwind_")),
            is_c,
        }
    }
}

/// True for functions that any type may have: destructors, copy constructors, methods of traits.
fn is_of_a_type(bare: &str) -> bool {
    let mut parts = bare.rsplit("::");
    let (last, class) = (parts.next().unwrap_or_default(), parts.next());
    bare.contains(" as ") || last.starts_with('~') || class.is_some_and(|class| path(class) == last)
}

/// A C++ name without its return type: `void std::f` -> `std::f`.
fn path(bare: &str) -> &str {
    let head = bare.find("operator").map_or(bare, |at| &bare[..at]);
    head.rfind(' ').map_or(bare, |at| &bare[at + 1..])
}

/// True for names in a namespace of a standard library. A trait of another crate is not part of it.
fn is_standard(bare: &str) -> bool {
    let is_in = |path: &str| STANDARD.iter().any(|namespace| path.starts_with(namespace));
    match bare.strip_prefix('<') {
        None => is_in(path(bare)),
        Some(of) => match of.split_once(" as ") {
            Some((of, of_trait)) => is_in(of.trim_start_matches(['<', '&'])) && is_in(of_trait),
            None => is_in(of.trim_start_matches(['<', '&'])),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_libraries_are_known_by_their_namespaces() {
        for (name, expected) in [
            ("std::vector<int>::~vector()", true),
            ("void std::__introsort_loop<int*, long>(int*, int*, long)", true),
            ("std::map<app::Key, int>::operator[](app::Key const&)", true),
            ("<alloc::vec::Vec<app::T> as core::ops::drop::Drop>::drop", true),
            ("<alloc::vec::Vec<u8> as app::Digest>::digest", false),
            ("<app::T as core::ops::drop::Drop>::drop", false),
            ("app::standard::f", false),
            ("app::f(std::vector<int>)", false),
            ("(anonymous namespace)::f()", false),
            ("main", false),
        ] {
            assert_eq!(is_standard(&bare(name)), expected, "{name}");
        }
    }
}
