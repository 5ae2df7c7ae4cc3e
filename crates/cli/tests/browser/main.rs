//! Tests the layout of the HTML pages in a browser: each page as on a telephone, a screen and
//! paper, with light and with dark colours.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde::Deserialize;
use std::{
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::Path,
    process::Command,
};

/// Maximum size of a page, bytes.
const PAGE_MAX: usize = 1_000_000;

/// Number of documents whose pages the browser loads before [`shown`] starts it again. Each start
/// may take at most 120 s.
const PAGES_AT_ONCE: usize = 6;

/// The media, and the width of a page on each, px. A4 paper with margins of 10 mm has 718 px of
/// printed width.
const FRAMES: [(&str, u32); 3] = [("telephone", 390), ("screen", 1280), ("paper", 718)];

/// The browser's options for a reader who prefers light colours, and for one who prefers dark
/// colours.
const SCHEMES: [(&str, &str); 2] = [
    ("light", "--blink-settings=preferredColorScheme=1"),
    ("dark", "--blink-settings=preferredColorScheme=0"),
];

/// The result of `check.js` for one page, shown on one medium.
#[derive(Deserialize)]
struct Checked {
    frame: String,
    /// Number of texts on the page that `check.js` examined.
    texts: usize,
    faults: Vec<String>,
}

/// Renders each recorded document as an HTML page in `folder`. Returns pairs of (name of the
/// document, content of the page).
fn pages(folder: &Path) -> Vec<(String, String)> {
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents");
    let mut pages = vec![];
    for entry in documents.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        let page = folder.join(&name).with_extension("html");
        let mut command = Command::new(env!("CARGO_BIN_EXE_interleaf"));
        let output = command.arg("report").arg(&path).arg("-o").arg(&page).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        pages.push((name, fs::read_to_string(&page).unwrap()));
    }
    pages.sort();
    pages
}

/// Returns a copy of a page with the script `check.js`, which runs when the page is loaded. For
/// paper, the print rules of the page's style apply on the screen.
fn checked(page: &str, medium: &str) -> String {
    let script = format!("<script>{}</script></body>", include_str!("check.js"));
    let page = page.replace("</body>", &script);
    match medium {
        "paper" => {
            page.replace("@media print", "@media all").replace("@media screen", "@media speech")
        }
        _ => page,
    }
}

/// Loads a page, and returns its content after its scripts have run. Returns `None` if the browser
/// does not start. `profile` is the browser's profile folder, and `scheme` is an option of
/// [`SCHEMES`].
fn shown(page: &Path, profile: &Path, scheme: &str) -> Option<String> {
    let mut command = Command::new("timeout");
    command.args(["120", "chromium", "--headless", "--dump-dom", scheme]);
    // As root in a virtual machine or a container, the browser cannot use its sandbox, a GPU or a
    // large /dev/shm. These options turn off their use.
    command.args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
    command
        .arg("--virtual-time-budget=20000")
        .arg(format!("--user-data-dir={}", profile.display()));
    let output = command.arg(format!("file://{}", page.display())).output().unwrap();
    if output.status.success() {
        return Some(String::from_utf8(output.stdout).unwrap());
    }
    let required = std::env::var_os("INTERLEAF_BROWSER").is_some_and(|it| it == "required");
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(!required, "chromium: {}: {why}", output.status);
    // Write to stderr directly: the test harness hides other output of a test that passes.
    let text = format!("not tested: pages in chromium: {}\n", output.status);
    io::stderr().write_all(text.as_bytes()).unwrap();
    None
}

#[test]
fn pages_fit_and_are_legible_at_each_size_and_on_paper() {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages(folder.path());
    assert!(pages.len() >= 10, "{} pages", pages.len());
    for (name, page) in &pages {
        assert!(page.len() < PAGE_MAX, "{name}: {} bytes", page.len());
        for (medium, _) in FRAMES {
            let path = folder.path().join(format!("{name}-{medium}.html"));
            fs::write(&path, checked(page, medium)).unwrap();
        }
    }
    let all = folder.path().join("all.html");
    for some in pages.chunks(PAGES_AT_ONCE) {
        fs::write(&all, frames(some)).unwrap();
        for (scheme, option) in SCHEMES {
            let Some(shown) = shown(&all, &folder.path().join("profile"), option) else { return };
            let results = results(&shown);
            assert_eq!(results.len(), FRAMES.len() * some.len(), "{scheme}: {shown}");
            for Checked { frame, texts, faults } in results {
                assert!(texts > 10, "{frame}, {scheme}: {texts} texts");
                assert!(faults.is_empty(), "{frame}, {scheme}: {faults:#?}");
            }
        }
    }
}

/// Returns an HTML page with one frame for each combination of a page and a medium.
fn frames(pages: &[(String, String)]) -> String {
    let mut frames = include_str!("frames.html").to_string();
    for (name, _) in pages {
        for (medium, width) in FRAMES {
            let frame = format!("{name}-{medium}");
            writeln!(
                frames,
                "<iframe name=\"{frame}\" src=\"{frame}.html\" width=\"{width}\" height=\"900\" \
                 style=\"border: 0\"></iframe>"
            )
            .unwrap();
        }
    }
    frames
}

/// Parses the results of `check.js` in `shown`, the content of a page that [`frames`] has made.
fn results(shown: &str) -> Vec<Checked> {
    let (_, rest) = shown.split_once("<pre id=\"results\">").unwrap();
    let text = rest.split("</pre>").next().unwrap();
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}

/// `check.js` must find all faults of a page that has one fault of each kind.
#[test]
fn faults_of_a_page_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("all.html");
    let bad = "<!doctype html><html><head><title>bad</title></head><body>\
               <p style=\"width: 3000px; text-align: right\"><b>wide</b></p>\
               <p style=\"overflow: hidden; width: 30px; white-space: nowrap\">cut off here</p>\
               <p style=\"color: #999; background: #fff\">pale</p>\
               <svg width=\"100\" height=\"50\"><text x=\"80\" y=\"20\">outside</text>\
               <text x=\"5\" y=\"20\">one</text><text x=\"9\" y=\"20\">two</text></svg>\
               </body></html>";
    fs::write(folder.path().join("bad.html"), checked(bad, "screen")).unwrap();
    let frame = "<iframe name=\"bad\" src=\"bad.html\" width=\"390\" height=\"900\"></iframe>";
    fs::write(&page, format!("{}{frame}", include_str!("frames.html"))).unwrap();
    let Some(shown) = shown(&page, &folder.path().join("profile"), SCHEMES[0].1) else { return };
    for fault in [
        "px wide",
        "outside: b. ",
        "cut off: p. ",
        "contrast 2.8: p. ",
        "outside: text. ",
        "covered: text. ",
    ] {
        assert!(shown.contains(fault), "{fault} is not in {shown}");
    }
}
