//! Rules for the pages of `docs/` as a book of mdBook: `SUMMARY.md` lists each page once, and each
//! link between pages leads to an existing page and heading.

use crate::{files, prose, read, root, split_code};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Returns the pages that the text of a `SUMMARY.md` lists.
fn listed(summary: &str) -> Vec<&str> {
    let lines = summary.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines
        .filter(|line| line.starts_with('['))
        .filter_map(|line| line.split_once("](")?.1.strip_suffix(')'))
        .collect()
}

/// Returns the anchor of a heading: the heading in lower case, with hyphens in place of spaces, and
/// without other punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the anchors of all headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let lines = prose(text).into_iter().filter(|(_, line)| line.starts_with('#'));
    lines.map(|(_, line)| anchor(line.trim_start_matches('#'))).collect()
}

/// Returns a page's links to pages in the same folder, as pairs of (page, anchor). The page is
/// empty in a link within the page.
fn links(text: &str) -> Vec<(String, String)> {
    let mut found = vec![];
    for (_, line) in prose(text) {
        let (line, _) = split_code(line);
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (page, anchor) = target.split_once('#').unwrap_or((target, ""));
            if !target.contains("://") && (page.is_empty() || page.ends_with(".md")) {
                found.push((page.into(), anchor.into()));
            }
        }
    }
    found
}

#[test]
fn the_summary_lists_each_page_once() {
    let folder = root().join("docs");
    let summary = read(&folder.join("SUMMARY.md"));
    assert!(summary.starts_with("# Summary\n"), "the title of a summary of mdBook");
    let listed = listed(&summary);
    let once: BTreeSet<&str> = listed.iter().copied().collect();
    assert_eq!(listed.len(), once.len(), "a page is listed twice: {listed:?}");
    let pages = files(&folder, "md");
    let pages: BTreeSet<&str> = pages
        .iter()
        .map(|path| path.strip_prefix(&folder).expect("it is in the folder"))
        .map(|path| path.to_str().expect("names are UTF-8"))
        .filter(|name| *name != "SUMMARY.md")
        .collect();
    assert_eq!(once, pages, "docs/SUMMARY.md and the pages of docs/");
}

#[test]
fn each_page_has_its_name_of_the_summary() {
    let folder = root().join("docs");
    for line in read(&folder.join("SUMMARY.md")).lines() {
        let line = line.trim_start().trim_start_matches("- ");
        let Some((name, page)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]("))
        else {
            continue;
        };
        let page = page.trim_end_matches(')');
        let title = read(&folder.join(page));
        assert_eq!(title.lines().next(), Some(format!("# {name}").as_str()), "docs/{page}");
    }
}

#[test]
fn links_between_pages_lead_to_headings() {
    let folder = root().join("docs");
    let texts: BTreeMap<String, String> =
        files(&folder, "md").iter().map(|path| (name(path), read(path))).collect();
    let mut faults = vec![];
    for (own, text) in &texts {
        for (page, anchor) in links(text) {
            let target = if page.is_empty() { own } else { &page };
            let is_there = texts
                .get(target)
                .is_some_and(|text| anchor.is_empty() || anchors(text).contains(&anchor));
            if !is_there {
                faults.push(format!("docs/{own}: {page}#{anchor}"));
            }
        }
    }
    assert!(faults.is_empty(), "links that lead out of the book, or to no heading: {faults:#?}");
}

fn name(path: &Path) -> String {
    path.file_name().expect("a file has a name").to_string_lossy().into_owned()
}

#[test]
fn anchors_are_those_of_mdbook() {
    let text = "# The `a_b`: C, d\n```sh\n# no heading\n```\n## In Rust\n[x](y.md#z) [w](#v) \
                [u](https://t.md)";
    let expected: BTreeSet<String> = ["the-a_b-c-d", "in-rust"].map(String::from).into();
    assert_eq!(anchors(text), expected);
    let expected = [("y.md", "z"), ("", "v")].map(|(page, own)| (page.into(), own.into()));
    assert_eq!(links(text), expected);
    assert_eq!(listed("# Summary\n[A](a.md)\n  - [B](b.md)\n- x\n"), ["a.md", "b.md"]);
}
