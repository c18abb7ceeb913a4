//! Shell completions: the scripts, which ask sprof, and sprof's answers. sprof knows the file that a command line
//! names, and the events of this machine.
//!
//! A script runs sprof with the variable [`SHELL`] and the words up to the cursor. An answer has a line for each
//! candidate, with its description behind a tab. If the answer is empty, the shell completes names of files.

use std::collections::BTreeSet;
use std::path::Path;

use ::names::symbol::is_nameless;
use profile::data::Data;
use profile::read::{self, ReadLimits};
use profile::view::{names, spans};

use crate::args::{self, Expected, ExpectedWord};
use crate::exit::Outcome;
use crate::input::perf_data;
use crate::output::screen;
use crate::recorder;

/// The variable that asks for completions: `bash`, `zsh` or `fish`.
pub(crate) const SHELL: &str = "SPROF_COMPLETE";

const BASH: &str = r#"_sprof() {
    local line IFS=$'\n' program=$1
    [[ $program == *cargo* ]] && program=sprof
    COMPREPLY=()
    while read -r line; do COMPREPLY+=("$line"); done < <(
        SPROF_COMPLETE=bash "$program" "${COMP_LINE:0:COMP_POINT}" "$2" 2> /dev/null
    )
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then compopt -o nospace 2> /dev/null; fi
}
complete -o bashdefault -o default -F _sprof sprof cargo-sprof

# `cargo sprof`; other words after cargo are completed as before.
_sprof_cargo_before=$(complete -p cargo 2> /dev/null)
[[ $_sprof_cargo_before =~ -F\ ([^\ ]+) ]] && _sprof_cargo_before=${BASH_REMATCH[1]}
_sprof_cargo() {
    if [[ ${COMP_WORDS[1]} == sprof && $COMP_CWORD -gt 1 ]]; then
        _sprof "$@"
    elif declare -F "$_sprof_cargo_before" > /dev/null && [[ $_sprof_cargo_before != _sprof_cargo ]]; then
        "$_sprof_cargo_before" "$@"
    fi
}
complete -o bashdefault -o default -F _sprof_cargo cargo
"#;

const ZSH: &str = r#"#compdef sprof cargo-sprof
_sprof() {
    local line program=${(Q)words[1]}
    local -a candidates
    [[ $program == *cargo* ]] && program=sprof
    for line in "${(@f)$(SPROF_COMPLETE=zsh $program "${(@Q)words[1,CURRENT]}" 2> /dev/null)}"; do
        [[ -n $line ]] && candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#candidates )); then _describe -V sprof candidates; else _files; fi
}
# The completion of cargo calls this one for `cargo sprof`.
_cargo-sprof() {
    words[1]=cargo-sprof
    _sprof
}
if [[ $funcstack[1] == _sprof ]]; then _sprof "$@"; else compdef _sprof sprof cargo-sprof; fi
"#;

const FISH: &str = r#"function __sprof_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor) (commandline --current-token --cut-at-cursor | string collect --allow-empty)
    set -l program $words[1]
    string match --quiet '*cargo*' $program; and set program sprof
    set -l found (SPROF_COMPLETE=fish $program $words 2> /dev/null)
    if test -n "$found"
        printf '%s\n' $found
    else
        __fish_complete_path (commandline --current-token)
    end
end
complete --command sprof --no-files --arguments '(__sprof_complete)'
complete --command cargo-sprof --no-files --arguments '(__sprof_complete)'
complete --command cargo --condition '__fish_seen_subcommand_from sprof' --no-files --arguments '(__sprof_complete)'
"#;

/// Prints the script for a shell. A shell without a script of sprof's gets clap's: options and fixed values.
pub(crate) fn script(shell: clap_complete::Shell) -> Outcome {
    let mut text = Vec::new();
    match shell {
        clap_complete::Shell::Bash => text.extend(BASH.bytes()),
        clap_complete::Shell::Zsh => text.extend(ZSH.bytes()),
        clap_complete::Shell::Fish => text.extend(FISH.bytes()),
        shell => clap_complete::generate(shell, &mut args::definition(), "sprof", &mut text),
    }
    screen::print("the completions", |out| out.write_all(&text))
}

/// Answers a script.
pub(crate) fn answer(shell: &str) -> Outcome {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let is_bash = shell == "bash";
    let (words, kept, escape): (_, _, fn(&str) -> String) = match &words[..] {
        // Bash's own words end at colons and equals signs, and what replaces the last one must begin there.
        [line, last] if is_bash => {
            let (words, raw, quote) = split(line);
            let kept = raw.strip_suffix(last.as_str()).map(unescaped).unwrap_or_default();
            (words, kept, if quote.is_some() { str::to_owned } else { escaped })
        }
        _ => (words, String::new(), str::to_owned),
    };
    let found = args::expected(&words).map_or_else(Vec::new, |expected| candidates(expected, &words));
    screen::print("the candidates", |out| {
        for (value, help) in &found {
            match is_bash {
                true => writeln!(out, "{}", escape(value.strip_prefix(&kept).unwrap_or(value)))?,
                false => writeln!(out, "{value}\t{help}")?,
            }
        }
        Ok(())
    })
}

/// Candidates for the last word, with their descriptions.
fn candidates(expected: Expected, words: &[String]) -> Vec<(String, String)> {
    let Expected {
        command,
        mut before,
        mut typed,
        place,
    } = expected;
    let all: Vec<(String, String)> = match place {
        ExpectedWord::Program => Vec::new(),
        ExpectedWord::Word(words) => words,
        ExpectedWord::Value(arg) => {
            let plain = |values: BTreeSet<String>| values.into_iter().map(|value| (value, String::new())).collect();
            let of_file =
                |values: fn(&Data) -> BTreeSet<String>| plain(file(words).as_ref().map(values).unwrap_or_default());
            let has_file = || words.iter().skip(2).any(|word| Path::new(word).is_file());
            let is_recorded = match command.as_str() {
                "record" | "top" => true,
                "flamegraph" => !has_file(),
                command => command.starts_with("cargo"),
            };
            match arg.get_id().as_str() {
                "event" if !is_recorded => of_file(events),
                "event" => {
                    // `-e cycles,instr`
                    if let Some(comma) = typed.rfind(',') {
                        before.push_str(&typed[..=comma]);
                        typed.drain(..=comma);
                    }
                    plain(recorder::event_names().into_iter().collect())
                }
                "thread" => of_file(|data| data.threads.iter().map(|thread| thread.name.clone()).collect()),
                "process" => of_file(|data| data.threads.iter().map(|thread| thread.process_name.clone()).collect()),
                "category" => of_file(|data| data.categories.iter().map(|category| category.name.clone()).collect()),
                "marker" | "outside_marker" => of_file(|data| {
                    let markers = data.threads.iter().flat_map(|thread| &thread.markers);
                    markers.map(|marker| data.text(marker.name).to_owned()).collect()
                }),
                "focus" | "hide" | "drop" | "function" => of_file(functions),
                "inside" | "outside" => of_file(|data| spans::names(data).into_iter().collect()),
                "max_increase" => of_file(span_rules),
                "view" if typed.starts_with(CALLERS) => {
                    before.push_str(CALLERS);
                    typed.drain(..CALLERS.len());
                    of_file(functions)
                }
                _ => (arg.get_possible_values().iter())
                    .filter(|value| !value.is_hide_set())
                    .map(|value| {
                        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
                        (value.get_name().to_owned(), help)
                    })
                    .collect(),
            }
        }
    };
    let meant = all
        .into_iter()
        .filter(|(value, _)| !value.is_empty() && value.starts_with(&typed));
    meant.map(|(value, help)| (format!("{before}{value}"), help)).collect()
}

const CALLERS: &str = "callers=";

fn functions(data: &Data) -> BTreeSet<String> {
    let names = (0..data.funcs.len() as u32).map(|func| data.func_name(func));
    names.filter(|name| !is_nameless(name)).map(names::to_ask).collect()
}

/// The beginnings of rules on lengths of spans.
fn span_rules(data: &Data) -> BTreeSet<String> {
    let measures = ["mean", "p50", "p90", "p99"];
    let of_span = |name: String| measures.map(|measure| format!("span:{name}.{measure}="));
    spans::names(data).into_iter().flat_map(of_span).collect()
}

fn events(data: &Data) -> BTreeSet<String> {
    let events = data.threads.iter().filter_map(|thread| thread.event.clone());
    let own = data.recorded.as_ref().map(|recorded| recorded.event.clone());
    events.chain(own).chain(data.point_events.iter().cloned()).collect()
}

/// The profile that the line names, or the one that is read where none is named. Files that need names from elsewhere
/// are not read: that may take long.
fn file(words: &[String]) -> Option<Data> {
    let named = words.iter().skip(2).map(Path::new).find(|path| path.is_file());
    let path = named.unwrap_or(Path::new(args::SAVED));
    let limits = ReadLimits::default();
    let mut data = match read::kind(path) {
        _ if perf_data::is_perf_data(path) => return None,
        Some(kind) => read::foreign(path, kind, None, limits).ok()?.data,
        None => read::whole(path, limits).ok()?,
    };
    data.make_printable();
    Some(data)
}

/// The words of a line of bash, the last one as it was typed, and the quote that is open at the end.
fn split(line: &str) -> (Vec<String>, &str, Option<char>) {
    let mut words = vec![String::new()];
    let (mut start, mut quote, mut is_escaped) = (0, None, false);
    for (at, c) in line.char_indices() {
        let word = words.last_mut();
        match (c, quote) {
            _ if is_escaped => is_escaped = false,
            ('\\', None | Some('"')) => {
                is_escaped = true;
                continue;
            }
            ('\'' | '"', None) => {
                quote = Some(c);
                continue;
            }
            (c, Some(end)) if c == end => {
                quote = None;
                continue;
            }
            (c, None) if c.is_whitespace() => {
                start = at + c.len_utf8();
                if word.is_none_or(|word| !word.is_empty()) {
                    words.push(String::new());
                }
                continue;
            }
            _ => {}
        }
        if let Some(word) = word {
            word.push(c);
        }
    }
    (words, &line[start..], quote)
}

/// Removes the quotes of bash.
fn unescaped(word: &str) -> String {
    split(word).0.concat()
}

/// Puts backslashes before characters with a meaning in bash.
fn escaped(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-+=:,./@%".contains(c);
    word.chars()
        .flat_map(|c| (!is_plain(c)).then_some('\\').into_iter().chain([c]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_bash_become_words() {
        for (line, words, last, open) in [
            ("sprof report ", &["sprof", "report", ""][..], "", None),
            ("sprof  re", &["sprof", "re"], "re", None),
            (r"sprof -t 'a b' c\ d", &["sprof", "-t", "a b", "c d"], r"d", None),
            ("sprof --focus \"a b", &["sprof", "--focus", "a b"], "b", Some('"')),
        ] {
            let (found, raw, quote) = split(line);
            assert_eq!(found, words, "{line}");
            assert_eq!(quote, open, "{line}");
            assert!(raw.ends_with(last), "{line}: {raw}");
        }
        assert_eq!(escaped("a<b> c::d"), r"a\<b\>\ c::d");
        assert_eq!(unescaped(r"a\<b\>\ c::"), "a<b> c::");
    }
}
