//! What the pages of the repository name is there: files and folders, tests, pages and their headings.

use std::collections::BTreeSet;

/// The words of a page that stand in backticks, or in a block that is indented by four spaces. Fenced blocks are left
/// out: they hold commands, and what these print.
fn code_words(page: &str) -> Vec<&str> {
    let mut is_fenced = false;
    let mut words = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        } else if is_fenced {
        } else if line.starts_with("    ") {
            words.extend(line.split_whitespace());
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            words.extend(spans.flat_map(str::split_whitespace));
        }
    }
    words
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(word: &str) -> Vec<String> {
    let Some((before, rest)) = word.split_once('{') else {
        return vec![word.to_owned()];
    };
    let Some((choices, after)) = rest.split_once('}') else {
        return Vec::new();
    };
    choices
        .split(',')
        .flat_map(|choice| expanded(&format!("{before}{choice}{after}")))
        .collect()
}

/// The paths that a page names, from one of these folders on. What holds a placeholder is left out.
pub(crate) fn paths(page: &str, top_folders: &BTreeSet<String>) -> BTreeSet<String> {
    let is_path = |path: &String| {
        let (folder, _) = path.split_once('/').unwrap_or_default();
        top_folders.contains(folder) && !path.contains(['*', '<', '>', ':', '$', '='])
    };
    code_words(page)
        .into_iter()
        .map(|word| word.trim_matches(['(', ')', ',', ';']))
        .flat_map(expanded)
        .filter(is_path)
        .collect()
}

/// The tests that a page names: `file::name` or `folder::file::name`. `file::` means all tests of a file; its name is
/// empty.
pub(crate) fn tests(page: &str) -> BTreeSet<(&str, &str)> {
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.all(|letter| letter.is_ascii_lowercase() || letter == '_' || letter.is_ascii_digit())
    };
    code_words(page)
        .into_iter()
        .filter(|word| word.split("::").all(is_name))
        .filter_map(|word| word.rsplit_once("::"))
        .map(|(file, name)| (file.rsplit_once("::").map_or(file, |(_, file)| file), name))
        .filter(|(file, _)| !file.is_empty())
        .collect()
}

/// The links of a page to other pages and to pictures: the path, and the heading or nothing.
pub(crate) fn links(page: &str) -> Vec<(&str, &str)> {
    let links = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    // `<img src="...">`, `<source srcset="...">`
    let pictures = page.split("src").skip(1);
    let pictures = pictures.filter_map(|rest| rest.trim_start_matches("set").strip_prefix("=\"")?.split_once('"'));
    links
        .chain(pictures)
        .map(|(link, _)| link.split_once('#').unwrap_or((link, "")))
        .filter(|(path, _)| !path.contains(':'))
        .collect()
}

/// The anchors of the headings of a page, as GitHub makes them.
pub(crate) fn anchors(page: &str) -> BTreeSet<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|heading| heading.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| {
            let kept = heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
        .collect()
}

#[test]
fn what_a_page_names_is_found() {
    let page = "# Two words, `code`\n`a/{b,c}.rs` and `cargo test d::e_f`, `d::`, `d::g::h`, `x/y`, `a/*.rs`, `A::b`\n\n    one  a/g/\n\n```\na/h\n```\n\
        [i](j.md#k-l) [m](https://n)\n<source srcset=\"o.png\"><img src=\"p.png\"> src\n";
    let folders = BTreeSet::from(["a".to_owned()]);
    assert_eq!(
        paths(page, &folders).iter().collect::<Vec<_>>(),
        ["a/b.rs", "a/c.rs", "a/g/"]
    );
    assert_eq!(
        tests(page).into_iter().collect::<Vec<_>>(),
        [("d", ""), ("d", "e_f"), ("g", "h")]
    );
    assert_eq!(links(page), [("j.md", "k-l"), ("o.png", ""), ("p.png", "")]);
    assert_eq!(anchors(page).iter().collect::<Vec<_>>(), ["two-words-code"]);
}
