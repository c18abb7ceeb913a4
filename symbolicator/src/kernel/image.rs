//! Kernel frames: names from /proc/kallsyms, files, lines and inlined functions from the kernel's debug info where that
//! is installed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use names::symbol::{AddressInfo, FunctionSymbol, SymbolSource};
use object::{Object, ObjectSymbol};
use recording::module::{BuildId, Module, ModuleKind};

use super::kallsyms::{self, KernelSymbols};
use super::modules::KernelModules;
use crate::error::SymbolError;
use crate::files::object_file::ObjectFile;
use crate::files::options::SymbolOptions;
use crate::objects::ObjectModule;

/// The recorded kernel.
pub(crate) struct Kernel {
    /// `None` if another kernel runs, or if it hides its addresses from this user.
    running: Option<KernelSymbols>,
    image: Option<KernelImage>,
    /// Those of the running kernel.
    modules: KernelModules,
    /// Why no image is used, a sentence.
    note: Option<String>,
}

impl Kernel {
    /// Reads the list of functions if the recorded kernel runs, and looks for its image.
    pub(crate) fn open(module: &Module, options: &SymbolOptions) -> Result<Kernel, SymbolError> {
        let running = KernelSymbols::open(module, options.cache.as_deref());
        let base = running.as_ref().ok().and_then(|_| kallsyms::base_symbol());
        Kernel::new(running, base, module, options, Path::new("/"))
    }

    /// What the image of the recorded kernel has.
    pub(crate) fn image_source(module: &Module, options: &SymbolOptions) -> SymbolSource {
        let is_running = module.build_id.is_some() && kallsyms::kernel_build_id() == module.build_id;
        let base = if is_running { kallsyms::base_symbol() } else { None };
        match KernelImage::find(module, base, options, Path::new("/")) {
            Ok(Some(image)) => image.file.looked_up_in(),
            Ok(None) | Err(_) => SymbolSource::NoFile,
        }
    }

    fn new(
        running: Result<KernelSymbols, SymbolError>,
        base: Option<&str>,
        module: &Module,
        options: &SymbolOptions,
        root: &Path,
    ) -> Result<Kernel, SymbolError> {
        let (image, note) = match KernelImage::find(module, base, options, root) {
            Ok(image) => (image, None),
            Err(why) => (None, Some(why)),
        };
        match running {
            Err(error) if image.is_none() => Err(error),
            running => Ok(Kernel {
                running: running.ok(),
                image,
                modules: KernelModules::new(root, options),
                note,
            }),
        }
    }

    /// Looks up relative addresses.
    pub(crate) fn lookup(&mut self, addresses: &[u64]) -> Vec<AddressInfo> {
        let mut infos = match &mut self.running {
            Some(running) => running.lookup(addresses),
            None => vec![AddressInfo::default(); addresses.len()],
        };
        if let Some(image) = &mut self.image {
            image.add_to(&mut infos, addresses);
        }
        if let Some(running) = &self.running {
            self.modules.add_to(&mut infos, addresses, running);
        }
        infos
    }

    /// What the answers lack, a sentence each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let of_image = self.image.iter().flat_map(|image| image.file.notes());
        (self.note.iter().cloned())
            .chain(of_image)
            .chain(self.modules.notes())
            .collect()
    }

    /// Which files could not be read, or not wholly, a sentence each.
    pub(crate) fn damage(&self) -> Vec<String> {
        let of_image = self.image.iter().flat_map(|image| image.file.damage().to_vec());
        of_image.chain(self.modules.damage()).collect()
    }

    /// Where names come from.
    pub(crate) fn looked_up_in(&self) -> SymbolSource {
        let of_image = || self.image.as_ref().map(|image| image.file.looked_up_in());
        match self.running {
            Some(_) => SymbolSource::Recorded,
            None => of_image().unwrap_or_default(),
        }
    }

    /// Heap bytes of what was read of the image and of modules, about. The list of functions is small.
    pub(crate) fn held_bytes(&self) -> usize {
        let image = self.image.as_ref().map_or(0, |image| image.file.held_bytes());
        image + self.modules.held_bytes()
    }

    /// False if the image can't be opened again.
    pub(crate) fn is_in_place(&self) -> bool {
        self.image.as_ref().is_none_or(|image| image.file.is_in_place())
    }

    /// False if the image was written to since it was opened.
    pub(crate) fn check_unchanged(&self) -> bool {
        self.image.as_ref().is_none_or(|image| image.file.check_unchanged())
    }
}

/// `vmlinux`, the kernel as an ELF file. It has the kernel's own code, without modules (see `modules`) and BPF
/// programs.
struct KernelImage {
    file: ObjectModule,
    /// What the kernel's relative address 0 is in the file: an address relative to its lowest PT_LOAD. The kernel that
    /// runs lies elsewhere in memory (KASLR), and relative addresses are the same.
    text: u64,
    /// The kernel's own code, relative addresses.
    code: Range<u64>,
}

impl KernelImage {
    /// Finds the image of the recorded kernel. `base` is the symbol at relative address 0, if that is known.
    fn find(
        module: &Module,
        base: Option<&str>,
        options: &SymbolOptions,
        root: &Path,
    ) -> Result<Option<KernelImage>, String> {
        let Some(id) = &module.build_id else {
            return Ok(None);
        };
        let installed = installed(root, &options.symbol_dirs);
        let is_it = |path: &&PathBuf| ObjectFile::open(path).is_ok_and(|file| file.build_id() == Some(id));
        let path = installed.iter().find(is_it);
        let as_file = Module {
            kind: ModuleKind::File,
            path: path.cloned().unwrap_or_else(|| "/boot/vmlinux".into()),
            ..module.clone()
        };
        // The debug info of a kernel is about a gigabyte: it is not downloaded for a few frames.
        let options = SymbolOptions {
            debuginfod: None,
            ..options.clone()
        };
        match ObjectModule::open(&as_file, None, &options) {
            Ok(file) => KernelImage::new(file, base).map(Some),
            Err(_) => {
                let unreadable = installed.iter().find_map(|path| ObjectFile::open(path).err());
                let other = installed.first().map(|path| other_build(path, id));
                (unreadable.map(|error| error.to_string()).or(other)).map_or(Ok(None), Err)
            }
        }
    }

    fn new(file: ObjectModule, base: Option<&str>) -> Result<KernelImage, String> {
        let files = file.symbol_files();
        let places = |name: &str| files.iter().find_map(|file| symbol(file, name));
        let name = files.first().map(|file| file.path().display().to_string());
        let lacks = |what: &str| {
            format!(
                "{} is not used for the kernel: {what}",
                name.clone().unwrap_or_default()
            )
        };
        let of_text = |symbol: &str| places(symbol).ok_or_else(|| lacks(&format!("it has no symbol {symbol}")));
        let text = match base {
            Some(base) => of_text(base)?,
            // The recorded kernel is not the running one, so it can't be asked which of the two its list began with.
            None => match (places("_text"), places("_stext")) {
                (Some(text), Some(start)) if text != start => {
                    return Err(lacks(
                        "_text and _stext differ, and the kernel that could say which one counts can't be asked",
                    ));
                }
                (Some(text), _) => text,
                (None, _) => of_text("_stext")?,
            },
        };
        let end = of_text("_etext")?.saturating_sub(text);
        Ok(KernelImage {
            file,
            text,
            code: 0..end,
        })
    }

    /// Adds frames to the answers, and functions where there are none.
    fn add_to(&mut self, infos: &mut [AddressInfo], addresses: &[u64]) {
        let own = |index: &usize| self.code.contains(&addresses[*index]);
        let own: Vec<usize> = (0..addresses.len()).filter(own).collect();
        let asked: Vec<u64> = own.iter().map(|index| addresses[*index] + self.text).collect();
        for (index, found) in own.into_iter().zip(self.file.lookup(&asked)) {
            let relative = |function: FunctionSymbol| FunctionSymbol {
                start: function.start.wrapping_sub(self.text),
                ..function
            };
            let info = &mut infos[index];
            info.frames = found.frames;
            info.function = info.function.take().or(found.function.map(relative));
        }
    }
}

/// A symbol's address, relative to the lowest PT_LOAD of the file.
fn symbol(file: &ObjectFile, name: &str) -> Option<u64> {
    let object = file.object().ok()?;
    let symbol = object
        .symbols()
        .find(|symbol| symbol.name_bytes() == Ok(name.as_bytes()))?;
    symbol.address().checked_sub(file.base_svma())
}

fn other_build(path: &Path, recorded: &BuildId) -> String {
    format!(
        "{} and other installed kernels are not the recorded one (build id {}): kernel frames have no lines; install the debug info of \
         that kernel, or give its folder with --symbol-dir",
        path.display(),
        recorded.to_hex()
    )
}

/// Every kernel image that is installed: the user's folders, then where Debian's, Fedora's and self-made kernels are.
fn installed(root: &Path, symbol_dirs: &[PathBuf]) -> Vec<PathBuf> {
    let named = |folder: PathBuf| {
        let files = list(&folder).into_iter();
        files.filter(|path| {
            path.file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"vmlinux"))
        })
    };
    let mut found: Vec<PathBuf> = symbol_dirs.iter().cloned().flat_map(named).collect();
    found.extend(
        ["usr/lib/debug/boot", "boot"]
            .iter()
            .flat_map(|folder| named(root.join(folder))),
    );
    for folder in [
        "usr/lib/debug/lib/modules",
        "usr/lib/debug/usr/lib/modules",
        "lib/modules",
    ] {
        for release in list(&root.join(folder)) {
            found.extend([release.join("vmlinux"), release.join("build/vmlinux")]);
        }
    }
    // Beside it lie scripts and compressed images: `vmlinux-gdb.py`, `vmlinux.xz`.
    let has_version_alone = |path: &PathBuf| {
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        suffix.is_none_or(|suffix| !["gz", "xz", "zst", "bz2", "map", "py", "o", "a"].contains(&suffix))
    };
    found.retain(|path| path.is_file() && has_version_alone(path));
    found
}

/// What is in a folder, in the order of names.
fn list(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use std::process::Command;

    use super::super::modules;
    use super::*;

    /// Where the linker puts the kernel, and where it runs.
    const LINKED: u64 = 0xffff_ffff_8100_0000;
    const RUNS: u64 = 0xffff_ffff_a3c0_0000;

    /// Links an image with symbols `_text` and `_stext`. `flag` changes the build id.
    fn image(path: &Path, stext: u64, flag: &str) -> Option<BuildId> {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/vmlinux.c");
        let built = Command::new("cc")
            .args([
                "-O2",
                "-g",
                flag,
                "-nostdlib",
                "-static",
                "-fno-pic",
                "-no-pie",
                "-mcmodel=kernel",
                "-Wl,--build-id,--undefined=_etext",
            ])
            .arg(format!(
                "-Wl,-Ttext={LINKED:#x},--defsym=_text={LINKED:#x},--defsym=_stext={stext:#x}"
            ))
            .args([&source, Path::new("-o"), path])
            .output();
        let built = built.unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        ObjectFile::open(path).unwrap().build_id().cloned()
    }

    fn module(id: &BuildId) -> Module {
        Module {
            kind: ModuleKind::Kernel,
            path: "[kernel.kallsyms]".into(),
            readable_path: None,
            build_id: Some(id.clone()),
            arch: Some("x86_64"),
        }
    }

    /// Relative address of a function of the image.
    fn offset(path: &Path, name: &str) -> u64 {
        let file = ObjectFile::open(path).unwrap();
        symbol(&file, name).unwrap() - symbol(&file, "_text").unwrap()
    }

    /// The kernel that runs, its module and its BPF program, as kallsyms has them.
    fn running(path: &Path) -> Result<KernelSymbols, SymbolError> {
        let (helper, end) = (RUNS + offset(path, "helper"), RUNS + offset(path, "_etext"));
        KernelSymbols::from_text(&format!(
            "{RUNS:x} T _text\n{RUNS:x} T _stext\n{helper:x} T helper\n{end:x} T _etext\n\
             ffffffffc0201000 t nf_hook\t[nf_tables]\nffffffffc0301000 t bpf_prog_6deef7357e7b4530_count\t[bpf]\n"
        ))
    }

    fn no_kernel() -> Result<KernelSymbols, SymbolError> {
        Err(SymbolError::KernelAddressesHidden)
    }

    fn name(info: &AddressInfo) -> Option<&str> {
        info.function.as_ref().map(|function| &*function.name)
    }

    /// (function, line of its comment) of each frame at some address of `helper`.
    fn has_inlined_call(infos: &[AddressInfo]) -> bool {
        let frames = |info: &AddressInfo| -> Vec<(Option<String>, Option<u32>)> {
            let frames = info.frames.iter();
            frames.map(|frame| (frame.function.clone(), frame.line)).collect()
        };
        let expected = [
            (Some("inner".to_owned()), Some(3)),
            (Some("helper".to_owned()), Some(7)),
        ];
        infos.iter().any(|info| frames(info) == expected)
    }

    #[test]
    fn kernel_frames_have_the_lines_of_the_installed_debug_info() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("usr/lib/debug/lib/modules/6.1.0/vmlinux");
        let Some(id) = image(&path, LINKED, "-gdwarf-5") else {
            return;
        };
        let (helper, end) = (offset(&path, "helper"), offset(&path, "_etext"));
        let module = module(&id);
        let options = SymbolOptions::default();
        let mut kernel = Kernel::new(running(&path), Some("_text"), &module, &options, root.path()).unwrap();
        assert_eq!(kernel.notes(), [""; 0]);
        let in_folder = SymbolOptions {
            symbol_dirs: vec![path.parent().unwrap().to_owned()],
            ..SymbolOptions::default()
        };
        assert!(Kernel::image_source(&module, &in_folder).has_debug_info());
        let infos = kernel.lookup(&(helper..end).collect::<Vec<_>>());
        assert_eq!(
            (name(&infos[0]), infos[0].function.as_ref().unwrap().start),
            (Some("helper"), helper)
        );
        assert!(has_inlined_call(&infos));
        let files = infos
            .iter()
            .flat_map(|info| &info.frames)
            .filter_map(|frame| frame.file.as_deref());
        assert!(files.into_iter().all(|file| file.ends_with("tests/programs/vmlinux.c")));
        // Modules and BPF programs are not in the image.
        let others = kernel.lookup(&[0xffff_ffff_c020_1004 - RUNS, 0xffff_ffff_c030_1004 - RUNS]);
        assert_eq!(name(&others[0]), Some("nf_hook [nf_tables]"));
        assert_eq!(name(&others[1]), Some("bpf_prog_6deef7357e7b4530_count [bpf]"));
        assert!(others.iter().all(|info| info.frames.is_empty()));
        // Another kernel runs now: the names come from the image.
        let mut kernel = Kernel::new(no_kernel(), None, &module, &options, root.path()).unwrap();
        let infos = kernel.lookup(&(helper..end).collect::<Vec<_>>());
        assert_eq!(
            (name(&infos[0]), infos[0].function.as_ref().unwrap().start),
            (Some("helper"), helper)
        );
        assert!(has_inlined_call(&infos));
    }

    #[test]
    fn the_image_of_another_kernel_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("boot/vmlinux-6.1.0"), root.path().join("recorded"));
        let (Some(found), Some(id)) = (image(&path, LINKED, "-gdwarf-5"), image(&other, LINKED, "-gdwarf-4")) else {
            return;
        };
        assert_ne!(found, id);
        let (module, options) = (module(&id), SymbolOptions::default());
        let mut kernel = Kernel::new(running(&other), Some("_text"), &module, &options, root.path()).unwrap();
        let infos = kernel.lookup(&[offset(&other, "helper")]);
        assert_eq!((name(&infos[0]), infos[0].frames.len()), (Some("helper"), 0));
        let notes = kernel.notes().concat();
        assert!(
            notes.contains("boot/vmlinux-6.1.0") && notes.contains(&id.to_hex()),
            "{notes}"
        );
        assert!(Kernel::new(no_kernel(), None, &module, &options, root.path()).is_err());
        let in_folder = SymbolOptions {
            symbol_dirs: vec![path.parent().unwrap().to_owned()],
            ..SymbolOptions::default()
        };
        assert_eq!(Kernel::image_source(&module, &in_folder), SymbolSource::NoFile);
        let damaged = root.path().join("boot/vmlinux-6.2.0");
        std::fs::write(&damaged, "no kernel").unwrap();
        let kernel = Kernel::new(running(&other), Some("_text"), &module, &options, root.path()).unwrap();
        let notes = kernel.notes().concat();
        assert!(
            notes.contains("boot/vmlinux-6.2.0: not a valid ELF or Mach-O file"),
            "{notes}"
        );
        // In a folder of the user's.
        let options = SymbolOptions {
            symbol_dirs: vec![root.path().to_owned()],
            ..SymbolOptions::default()
        };
        std::fs::rename(&other, root.path().join("vmlinux")).unwrap();
        let mut kernel = Kernel::new(no_kernel(), None, &module, &options, root.path()).unwrap();
        assert!(!kernel.lookup(&[0])[0].frames.is_empty());
    }

    /// As Debian's kernel for arm64, which has only `_stext` in kallsyms.
    #[test]
    fn relative_addresses_begin_where_the_list_of_the_recorded_kernel_did() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("boot/vmlinux");
        let Some(id) = image(&path, LINKED - 0x1000, "-gdwarf-5") else {
            return;
        };
        let (module, options) = (module(&id), SymbolOptions::default());
        let helper = offset(&path, "helper");
        let text = format!("{RUNS:x} T _stext\n{:x} T helper\n", RUNS + 0x1000 + helper);
        let running = KernelSymbols::from_text(&text);
        let mut kernel = Kernel::new(running, Some("_stext"), &module, &options, root.path()).unwrap();
        let infos = kernel.lookup(&(0x1000 + helper..0x1000 + helper + 16).collect::<Vec<_>>());
        assert!(name(&infos[0]) == Some("helper") && has_inlined_call(&infos));
        let error = KernelImage::find(&module, None, &options, root.path()).err().unwrap();
        assert!(error.contains("_text and _stext differ"), "{error}");
    }

    #[test]
    fn frames_of_modules_need_no_image_of_the_kernel() {
        let Some(system) = modules::tests::system("cc", "ld", &["-g"]) else {
            return;
        };
        let module = module(&BuildId(vec![1; 20]));
        let options = SymbolOptions::default();
        let mut kernel = Kernel::new(Ok(system.running()), None, &module, &options, system.root.path()).unwrap();
        let (_, size, start, _) = system.functions.iter().find(|function| function.0 == "work").unwrap();
        let infos = kernel.lookup(&(*start..start + size).collect::<Vec<_>>());
        assert!(
            infos
                .iter()
                .all(|info| name(info) == Some("work [made_up]") && !info.frames.is_empty())
        );
        assert_eq!((kernel.notes(), kernel.damage()), (vec![], vec![]));
        assert!(kernel.held_bytes() > 1000);
    }
}
