//! Checks offline, with `cargo metadata`, that every dependency has a licence that `deny.toml`
//! allows, and that it comes from the default registry. Also checks that `THIRD-PARTY-LICENSES` has
//! the notices of all crates that are linked into the installed files, and that a release build is
//! stripped and unwinds on panic.
//!
//! `INTERLEAF_LICENCES=overwrite cargo test -p interleaf --test licences` rewrites the notices.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The packages whose binaries are installed: the program and two libraries.
const INSTALLED: [&str; 3] = ["interleaf", "interleaf-capi", "interleaf-preload"];

/// The first parts of the names of files with licences and notices, in lower case.
const NOTICES: [&str; 6] = ["license", "licence", "copying", "copyright", "notice", "unlicense"];

const HEAD: &str = "\
Notices of the crates that are linked into interleaf, libinterleaf_preload.so and
libinterleaf_memory. Their licences ask that these texts go with the binaries. The Rust standard
library, which is linked in too, is under MIT or Apache-2.0.
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Reads cargo's metadata of all packages of a build for x86-64, with glibc and with musl.
fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .args(["--filter-platform", "x86_64-unknown-linux-musl"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Returns a map from a package's ID to its metadata.
fn packages(metadata: &Value) -> BTreeMap<&str, &Value> {
    metadata["packages"].as_array().unwrap().iter().map(|it| (text(it, "id"), it)).collect()
}

fn deny() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn list(deny: &toml::Table, section: &str, key: &str) -> Vec<String> {
    let list = deny[section][key].as_array().unwrap();
    list.iter().map(|it| it.as_str().unwrap().to_string()).collect()
}

/// Returns the reason why `licence` is rejected, or `None` if the licences in `allowed` permit it.
fn refused(licence: &str, allowed: &[String]) -> Option<String> {
    if licence.is_empty() {
        return Some("it names no licence".into());
    }
    let expression = match Expression::parse_mode(licence, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(why) => return Some(format!("\"{licence}\" cannot be read: {}", why.reason)),
    };
    let allowed: Vec<Licensee> =
        allowed.iter().map(|name| Licensee::parse(name).unwrap()).collect();
    let is_allowed = expression.evaluate(|licence| allowed.iter().any(|it| it.satisfies(licence)));
    (!is_allowed).then(|| format!("\"{licence}\" is not allowed"))
}

#[test]
fn every_licence_and_source_is_allowed() {
    let (metadata, deny) = (metadata(), deny());
    let (allowed, banned) = (list(&deny, "licenses", "allow"), list(&deny, "bans", "deny"));
    let packages = packages(&metadata);
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    // `deny.toml` does not replace the registry of serde, so serde comes from cargo's default
    // registry. Every other package must have the same source as serde.
    let serde = packages.values().find(|it| text(it, "name") == "serde").unwrap();
    let registry = text(serde, "source");
    assert!(registry.starts_with("registry+"), "{registry}");
    assert!(nodes.len() > 100, "cargo tells of {} packages only", nodes.len());
    let mut faults = vec![];
    for node in nodes {
        let package = packages[text(node, "id")];
        let (name, version) = (text(package, "name"), text(package, "version"));
        let mut fault = |problem: String| faults.push(format!("{name} {version}: {problem}"));
        if banned.iter().any(|it| it == name) {
            fault("deny.toml bans it".into());
        }
        // Packages of the workspace have no source, so no registry is checked.
        let source = text(package, "source");
        if !source.is_empty() && source != registry {
            fault(format!("its source is {source}, and not {registry}"));
        }
        refused(text(package, "license"), &allowed).map(&mut fault);
    }
    assert!(faults.is_empty(), "{}\nhint: choose another crate, see deny.toml", faults.join("\n"));
}

/// The release profile must unwind on panic, so that destructors restore changed settings. It must
/// strip symbols: unwinding does not need them, and they would be most of the size of the installed
/// files.
#[test]
fn a_release_build_is_stripped_and_unwinds() {
    let manifest: toml::Table =
        fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let release = manifest["profile"]["release"].as_table().unwrap();
    assert_eq!(release.get("strip").and_then(toml::Value::as_bool), Some(true), "{release:?}");
    let unwinds = release.get("panic").is_none_or(|it| it.as_str() == Some("unwind"));
    assert!(unwinds, "{release:?}");
}

#[test]
fn a_licence_that_is_not_listed_is_refused() {
    let allowed = list(&deny(), "licenses", "allow");
    for licence in ["MPL-2.0", "MIT AND MPL-2.0", "GPL-3.0-only", "", "my own"] {
        assert!(refused(licence, &allowed).is_some(), "{licence}");
    }
    for licence in [
        "MIT",
        "MIT/Apache-2.0",
        "Unlicense OR MIT",
        "Apache-2.0 WITH LLVM-exception OR MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
    ] {
        assert_eq!(refused(licence, &allowed), None, "{licence}");
    }
}

/// Returns the IDs of the crates that are linked into the installed files. Leaves out build
/// scripts, macros and crates that only tests use.
fn linked(metadata: &Value) -> BTreeSet<&str> {
    let packages = packages(metadata);
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|it| (text(it, "id"), it)).collect();
    let is_installed = |id: &&str| INSTALLED.contains(&text(packages[id], "name"));
    let mut open: Vec<&str> = nodes.keys().copied().filter(is_installed).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = open.pop() {
        let targets = packages[id]["targets"].as_array().unwrap();
        let is_macro = targets.iter().any(|it| it["kind"][0] == "proc-macro");
        if is_macro || !found.insert(id) {
            continue;
        }
        let is_normal = |it: &&Value| {
            it["dep_kinds"].as_array().unwrap().iter().any(|kind| kind["kind"].is_null())
        };
        let needs = nodes[id]["deps"].as_array().unwrap().iter().filter(is_normal);
        open.extend(needs.map(|it| text(it, "pkg")));
    }
    found
}

/// Returns the texts of a package's files with licences and notices.
fn notices(package: &Value) -> Vec<String> {
    let folder = Path::new(text(package, "manifest_path")).parent().unwrap();
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let is_notice = |path: &&PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().to_lowercase();
        path.is_file() && NOTICES.iter().any(|begin| name.starts_with(begin))
    };
    let text = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        lines.trim_matches('\n').to_string()
    };
    files.iter().filter(is_notice).map(text).collect()
}

/// Formats the notices of all linked crates. A text that several crates have appears once, below
/// their names.
fn third_party() -> String {
    let metadata = metadata();
    let packages = packages(&metadata);
    let mut crates_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for id in linked(&metadata) {
        let package = packages[id];
        if text(package, "source").is_empty() {
            continue;
        }
        let (name, version) = (text(package, "name"), text(package, "version"));
        let named = format!("{name} {version} ({})", text(package, "license"));
        let mut texts = notices(package);
        if texts.is_empty() {
            let authors = package["authors"].as_array().unwrap().iter();
            let authors: Vec<&str> = authors.filter_map(Value::as_str).collect();
            texts.push(format!("No file of its own; by {}.", authors.join(", ")));
        }
        for text in texts {
            crates_of.entry(text).or_default().push(named.clone());
        }
    }
    let mut groups: Vec<(Vec<String>, String)> =
        crates_of.into_iter().map(|(text, crates)| (crates, text)).collect();
    groups.sort();
    let rule = "=".repeat(100);
    let group = |(crates, text): &(Vec<String>, String)| {
        format!("\n{rule}\n{}\n{}\n\n{text}\n", crates.join("\n"), "-".repeat(100))
    };
    HEAD.to_string() + &groups.iter().map(group).collect::<String>()
}

#[test]
fn notices_match_the_linked_crates() {
    let (file, made) = (root().join("THIRD-PARTY-LICENSES"), third_party());
    if env::var_os("INTERLEAF_LICENCES").is_some_and(|it| it == "overwrite") {
        fs::write(&file, &made).unwrap();
    }
    let is = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        is == made,
        "THIRD-PARTY-LICENSES is not that of Cargo.lock; hint: INTERLEAF_LICENCES=overwrite cargo \
         test -p interleaf --test licences"
    );
    assert!(made.contains("serde 1.") && !made.contains("proptest "), "of what is linked alone");
}
