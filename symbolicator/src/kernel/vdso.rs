//! The vDSO: a small ELF file that the kernel maps into every process, and that is on no disk.

use recording::module::Module;

use crate::error::SymbolError;
use crate::files::locate;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::objects::ObjectModule;

/// The vDSO of this process, if it is the recorded one. A recording from another machine or another kernel has another
/// vDSO.
pub(crate) fn open(module: &Module) -> Result<ObjectModule, SymbolError> {
    let bytes = read_own().map_err(|error| {
        SymbolError::unreadable(
            &module.path,
            format!("reading our own vdso from /proc/self/mem: {error}"),
        )
    })?;
    let file = ObjectFile::from_bytes(&module.path, bytes)?;
    if !locate::same_build(module, &file) {
        return Err(locate::replaced(module, &file));
    }
    Ok(ObjectModule::new(Some(file), None, &SymbolOptions::default()))
}

/// /proc/self/mem gives the bytes without an unsafe read of the mapping.
fn read_own() -> std::io::Result<Vec<u8>> {
    recording::proc::vdso(
        &std::fs::read("/proc/self/maps")?,
        std::fs::File::open("/proc/self/mem")?,
    )
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use object::{Object, ObjectSymbol};
    use recording::module::{BuildId, Module, ModuleKind};

    fn module(build_id: Option<BuildId>) -> Module {
        Module {
            kind: ModuleKind::Vdso,
            path: PathBuf::from("[vdso]"),
            readable_path: None,
            build_id,
            arch: Some("x86_64"),
        }
    }

    #[test]
    fn its_functions_have_names() {
        let Ok(bytes) = super::read_own() else {
            println!("skipped: this machine has no vdso");
            return;
        };
        let object = object::File::parse(&*bytes).unwrap();
        let id = object.build_id().unwrap().map(|id| BuildId(id.to_vec()));
        let symbol = object.dynamic_symbols().find(|symbol| symbol.size() > 0).unwrap();
        let infos = super::open(&module(id)).unwrap().lookup(&[symbol.address()]);
        // `__vdso_time` and `time` are the same function: either name will do.
        let function = infos[0].function.as_ref().unwrap();
        assert_eq!((function.start, function.size), (symbol.address(), Some(symbol.size())));
        assert!(
            symbol.name().unwrap().ends_with(function.name.trim_start_matches('_'))
                || function.name.ends_with(symbol.name().unwrap())
        );
    }

    #[test]
    fn another_kernels_vdso_is_refused() {
        let other = module(Some(BuildId(vec![1; 20])));
        if super::read_own().is_ok() {
            let error = super::open(&other).err().unwrap().to_string();
            assert!(error.contains(&"01".repeat(20)), "{error}");
        }
    }
}
