//! The programs that a process executes one after the other: processes with one number.
//!
//! Each sample has the name of its thread, and the text has no exec(2). exec gives the main thread the name of the
//! program's file, prctl(PR_SET_NAME) any name. So a new name of a main thread is another program, unless code of one
//! program's file ran under both names.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::category::CodeKind;
use crate::read::foreign::kinds;

/// The thread of a sample, as its first line has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SampledThread {
    /// Empty if the text has no numbers of processes.
    pub(super) pid: String,
    /// Empty if the text has no numbers of threads.
    pub(super) tid: String,
    pub(super) name: String,
}

impl SampledThread {
    /// What distinguishes processes: the process's number, or else the thread's, or else the name.
    fn process(&self) -> &str {
        let mut words = [&self.pid, &self.tid, &self.name].into_iter();
        words.find(|word| !word.is_empty()).map_or("", String::as_str)
    }

    /// True for the main thread, and for all threads of a text without numbers of processes.
    pub(super) fn is_main(&self) -> bool {
        self.pid.is_empty() || self.pid == self.tid
    }

    /// True for the main thread of a process.
    pub(super) fn is_main_for_certain(&self) -> bool {
        !self.pid.is_empty() && self.pid == self.tid
    }

    /// The name; empty for `:4100`, perf's stand-in for a name that it does not know.
    fn known_name(&self) -> &str {
        match self.name.strip_prefix(':') {
            Some(tid) if tid == self.tid => "",
            _ => &self.name,
        }
    }
}

/// The programs of all processes of a text.
#[derive(Debug, Default)]
pub(super) struct ScriptPrograms {
    all: Vec<ScriptProgram>,
    /// By process and name.
    by_name: FxHashMap<(String, String), usize>,
    /// What each process executes now.
    current: FxHashMap<String, usize>,
    values: u64,
}

#[derive(Debug, Default)]
struct ScriptProgram {
    process: String,
    /// The name of the main thread; empty while it is not known.
    name: String,
    /// Candidates for the program's file: files whose code ran and that are not libraries.
    files: FxHashSet<u32>,
}

/// A process of the profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScriptProcess {
    /// How many programs the process executed before.
    pub(super) earlier: u32,
    /// The last name of its main thread; empty if that has no samples.
    pub(super) name: String,
    /// Code of its program's file has samples.
    pub(super) has_file: bool,
}

impl ScriptPrograms {
    /// The approximate memory in units of 8 bytes.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// The program of a sample. `files`: number and path of each file whose code is in its stack.
    pub(super) fn of_sample<'a>(
        &mut self,
        thread: &SampledThread,
        files: impl Iterator<Item = (u32, &'a str)> + Clone,
    ) -> usize {
        let files = files.filter(|(_, path)| is_program(path));
        let name = thread.known_name();
        let program = match self.current.get(thread.process()) {
            Some(&current) => {
                let known = &self.all[current];
                let is_another = match thread.is_main() {
                    true => !name.is_empty() && !known.name.is_empty() && known.name != name,
                    // The main thread may have no sample since exec. A thread begins with its name.
                    false => files.clone().any(|(file, path)| {
                        is_named(path, name) && !known.files.is_empty() && !known.files.contains(&file)
                    }),
                };
                if is_another {
                    self.execute(thread, name)
                } else {
                    current
                }
            }
            None => self.execute(thread, if thread.is_main() { name } else { "" }),
        };
        if thread.is_main() && self.all[program].name.is_empty() {
            self.name(program, name);
        }
        for (file, _) in files {
            self.values += 2 * u64::from(self.all[program].files.insert(file));
        }
        program
    }

    /// The program with this name in a thread's process, which executes it from here on.
    fn execute(&mut self, thread: &SampledThread, name: &str) -> usize {
        let process = thread.process();
        let known = self.by_name.get(&(process.to_owned(), name.to_owned()));
        let program = known.copied().unwrap_or_else(|| {
            self.values += 32 + process.len() as u64 / 2;
            self.all.push(ScriptProgram {
                process: process.to_owned(),
                ..ScriptProgram::default()
            });
            self.name(self.all.len() - 1, name);
            self.all.len() - 1
        });
        self.current.insert(process.to_owned(), program);
        program
    }

    fn name(&mut self, program: usize, name: &str) {
        self.values += 16 + name.len() as u64 / 2;
        let ScriptProgram { process, name: own, .. } = &mut self.all[program];
        name.clone_into(own);
        self.by_name.insert((process.clone(), name.to_owned()), program);
    }

    /// The processes, and the index into them of each program.
    pub(super) fn into_processes(self) -> (Vec<ScriptProcess>, Vec<usize>) {
        let mut processes: Vec<ScriptProcess> = Vec::new();
        let mut by_file: FxHashMap<(&str, u32), usize> = FxHashMap::default();
        let mut of_process: FxHashMap<&str, u32> = FxHashMap::default();
        let mut indices = Vec::with_capacity(self.all.len());
        for program in &self.all {
            let process = program.process.as_str();
            let mut same_file = (program.files.iter()).filter_map(|file| by_file.get(&(process, *file)).copied());
            let index = same_file.next().unwrap_or_else(|| {
                let count = of_process.entry(process).or_default();
                processes.push(ScriptProcess {
                    earlier: *count,
                    name: String::new(),
                    has_file: false,
                });
                *count += 1;
                processes.len() - 1
            });
            for file in &program.files {
                by_file.insert((process, *file), index);
            }
            let known = &mut processes[index];
            known.has_file |= !program.files.is_empty();
            if !program.name.is_empty() {
                known.name.clone_from(&program.name);
            }
            indices.push(index);
        }
        (processes, indices)
    }
}

/// True for the file of a program, and for what a program loads under a name that no library has.
fn is_program(path: &str) -> bool {
    kinds::of_file(path) == CodeKind::Library && !kinds::file_name(path).contains(".so")
}

/// True if exec(2) of this file gives this name: the first 15 bytes of the file's. A link to the file has its own name.
fn is_named(path: &str, name: &str) -> bool {
    !name.is_empty() && kinds::file_name(path).starts_with(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processes(samples: &[(&str, &str, &str, &[&'static str])]) -> (Vec<(u32, String)>, Vec<usize>) {
        let mut programs = ScriptPrograms::default();
        let paths = [
            "/bin/one",
            "/bin/two",
            "/lib/libc.so.6",
            "[kernel.kallsyms]",
            "/opt/a.node",
        ];
        let of_samples: Vec<usize> = (samples.iter())
            .map(|(pid, tid, name, files)| {
                let thread = SampledThread {
                    pid: (*pid).to_owned(),
                    tid: (*tid).to_owned(),
                    name: (*name).to_owned(),
                };
                let number = |path: &&str| paths.iter().position(|known| known == path).unwrap() as u32;
                programs.of_sample(&thread, files.iter().map(|path| (number(path), *path)))
            })
            .collect();
        let (processes, indices) = programs.into_processes();
        let of_samples = of_samples.iter().map(|program| indices[*program]).collect();
        let names = processes.into_iter().map(|process| (process.earlier, process.name));
        (names.collect(), of_samples)
    }

    #[test]
    fn another_name_is_another_program_unless_one_file_ran_under_both() {
        let [one, two, libc, kernel, addon] = [
            &["/bin/one"][..],
            &["/bin/two"],
            &["/lib/libc.so.6"],
            &["[kernel.kallsyms]"],
            &["/opt/a.node"],
        ];
        for (samples, names, of_samples) in [
            // exec, also with samples of the kernel alone, and as text without process numbers.
            (
                &[("7", "7", "one", one), ("7", "7", "two", two)][..],
                &["one", "two"][..],
                &[0, 1][..],
            ),
            (
                &[("7", "7", "perf-exec", kernel), ("7", "7", "one", libc)],
                &["perf-exec", "one"],
                &[0, 1],
            ),
            (
                &[("", "7", "one", one), ("", "7", "two", two), ("", "8", "two", two)],
                &["one", "two", "two"],
                &[0, 1, 2],
            ),
            // A new name of the same program, also of each request.
            (
                &[("7", "7", "one", one), ("7", "7", "main", one), ("7", "7", "one", one)],
                &["main"],
                &[0, 0, 0],
            ),
            // A thread that names itself, and one whose process has samples of other threads alone.
            (
                &[
                    ("7", "7", "one", one),
                    ("7", "8", "worker", libc),
                    ("7", "7", "one", one),
                ],
                &["one"],
                &[0, 0, 0],
            ),
            (
                &[
                    ("7", "8", "worker", addon),
                    ("7", "7", "one", one),
                    ("7", "9", "one", addon),
                ],
                &["one"],
                &[0, 0, 0],
            ),
            // The main thread sleeps after exec.
            (
                &[("7", "7", "one", one), ("7", "8", "two", two), ("7", "7", "two", libc)],
                &["one", "two"],
                &[0, 1, 1],
            ),
            // perf did not know the name.
            (&[("7", "7", ":7", kernel), ("7", "7", "one", one)], &["one"], &[0, 0]),
        ] {
            let (processes, found) = processes(samples);
            let found_names: Vec<&str> = processes.iter().map(|(_, name)| name.as_str()).collect();
            assert_eq!((&found_names[..], &found[..]), (names, of_samples), "{samples:?}");
        }
        let (numbered, _) = processes(&[("7", "7", "one", one), ("8", "8", "two", two), ("7", "7", "two", two)]);
        let earlier: Vec<u32> = numbered.iter().map(|(earlier, _)| *earlier).collect();
        assert_eq!(earlier, [0, 0, 1]);
    }
}
