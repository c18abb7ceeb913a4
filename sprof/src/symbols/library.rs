//! The libraries of a profile, as modules that names can be looked up in.

use profile::data::SavedLib;
use recording::module::{BuildId, Module, ModuleKind};

use crate::symbols::kernel;

/// The module of a profile's library, from the ids in the profile. `None` if the library has no name.
pub(crate) fn module(lib: &SavedLib) -> Option<Module> {
    let name = lib.debug_name.as_deref().or(lib.name.as_deref())?;
    // Symbol requests contain the file name, so the path must end with it.
    let ends_with_name = |path: &&str| path.rsplit('/').next() == Some(name);
    let paths = [lib.path.as_deref(), lib.debug_path.as_deref()];
    let path = paths.into_iter().flatten().find(ends_with_name).unwrap_or(name);
    let kind = match name {
        "[vdso]" => ModuleKind::Vdso,
        kernel::PATH => ModuleKind::Kernel,
        name if symbolicator::jit::is_jit_file(name) => ModuleKind::Jit,
        _ => ModuleKind::File,
    };
    let age = lib.breakpad_id.as_deref().and_then(age_of_breakpad);
    let kind = match (kind, age) {
        (ModuleKind::File, Some(age)) => ModuleKind::Windows { age },
        (kind, _) => kind,
    };
    let from_code_id = lib.code_id.as_deref().and_then(bytes_of_hex);
    let breakpad_id = lib.breakpad_id.as_deref();
    // A code id that differs from the breakpad id would find no file.
    let build_id = from_code_id
        .map(BuildId)
        .filter(|id| breakpad_id.is_none_or(|breakpad| id.to_breakpad().eq_ignore_ascii_case(breakpad)))
        .or_else(|| breakpad_id.and_then(build_id_of_breakpad));
    Some(Module {
        kind,
        path: path.into(),
        readable_path: None,
        build_id,
        arch: None,
    })
}

fn bytes_of_hex(hex: &str) -> Option<Vec<u8>> {
    if hex.is_empty() || !hex.len().is_multiple_of(2) || hex.len() > 128 || !hex.is_ascii() {
        return None;
    }
    (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).ok())
        .collect()
}

/// The first 16 bytes of the build id: all that a breakpad id keeps (see [`BuildId::to_breakpad`]).
fn build_id_of_breakpad(breakpad: &str) -> Option<BuildId> {
    let mut guid = bytes_of_hex(breakpad.get(..32)?)?;
    if guid.iter().all(|&byte| byte == 0) {
        return None;
    }
    guid[0..4].reverse();
    guid[4..6].reverse();
    guid[6..8].reverse();
    Some(BuildId(guid))
}

/// The age: the digits behind the GUID, for files of Windows. `None` if it is 0, as on other systems.
fn age_of_breakpad(breakpad: &str) -> Option<u32> {
    let age = breakpad
        .get(32..)
        .filter(|age| age.bytes().all(|digit| digit.is_ascii_hexdigit()))?;
    u32::from_str_radix(age, 16).ok().filter(|age| *age > 0)
}

#[cfg(test)]
mod tests {
    use names::symbol::SymbolSource;

    use super::*;

    #[test]
    fn a_library_becomes_the_module_that_it_was() {
        let id = BuildId((1..=20).collect());
        let lib = SavedLib {
            name: Some("libc.so.6".into()),
            path: Some("/usr/lib/libc.so.6".into()),
            debug_name: Some("libc.so.6".into()),
            debug_path: Some("/usr/lib/libc.so.6".into()),
            breakpad_id: Some(id.to_breakpad()),
            code_id: Some(id.to_hex()),
            arch: None,
            symbol_source: SymbolSource::NotAsked,
        };
        let found = module(&lib).unwrap();
        assert_eq!(found.build_id, Some(id.clone()));
        assert_eq!(found.path.to_str(), Some("/usr/lib/libc.so.6"));

        let without_code_id = SavedLib {
            code_id: None,
            ..lib.clone()
        };
        let found = module(&without_code_id).unwrap();
        assert_eq!(found.breakpad_id(), id.to_breakpad());

        let of_windows = SavedLib {
            name: Some("app.exe".into()),
            path: Some("C:\\app\\app.exe".into()),
            debug_name: Some("app.pdb".into()),
            debug_path: Some("C:\\app\\app.pdb".into()),
            breakpad_id: Some("F1E853FD662672044C4C44205044422E1a".into()),
            code_id: Some("63C036DBA7000".into()),
            arch: None,
            symbol_source: SymbolSource::NotAsked,
        };
        let found = module(&of_windows).unwrap();
        assert_eq!(found.kind, ModuleKind::Windows { age: 0x1a });
        assert_eq!(
            (found.name(), found.breakpad_id()),
            ("app.pdb".into(), of_windows.breakpad_id.unwrap())
        );

        let without_id = SavedLib {
            breakpad_id: Some("0".repeat(33)),
            code_id: None,
            ..lib
        };
        assert_eq!(module(&without_id).unwrap().build_id, None);
    }

    #[test]
    fn ids_that_are_no_hex_are_no_ids() {
        for bad in ["", "1", "zz", "é1", "1é"] {
            assert_eq!(bytes_of_hex(bad), None, "{bad}");
        }
        assert_eq!(build_id_of_breakpad("é".repeat(16).as_str()), None);
        assert_eq!(build_id_of_breakpad("12"), None);
    }
}
