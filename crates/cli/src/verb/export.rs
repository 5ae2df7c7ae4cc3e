//! Exports a record of `interleaf measure` to a platform file or a file of curves.

use interleaf_console::{Failure, output, support};
use interleaf_linux::machine::id_list::IdList;
use interleaf_record::measure::{
    MeasureDocument,
    platform::{curve_suffixes, platform},
};
use std::path::{Path, PathBuf};

/// Checks, before long work begins, that `target` is a `.toml` or a `.csv`. The export of a `.toml`
/// writes further files, the curves: checks that none of these is an input or another output.
/// Errors name the command-line option `option`. `nodes` are the nodes that may be measured.
pub(super) fn check(option: &str, target: &Path, nodes: &IdList) -> Result<(), Failure> {
    let ending = target.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("toml" | "csv")) {
        return Err(Failure::new(
            format!("{option} {}: it is neither a .toml nor a .csv", target.display()),
            "name a platform, such as server.toml, or a file of curves, such as server.csv",
        ));
    }
    match ending {
        Some("toml") => check_beside(option, target, curve_suffixes(nodes).iter()),
        _ => Ok(()),
    }
}

fn check_beside<'a>(
    option: &str,
    target: &Path,
    mut suffixes: impl Iterator<Item = &'a String>,
) -> Result<(), Failure> {
    suffixes.try_for_each(|it| support::check_beside(option, target, &curve_file(target, it)))
}

/// Returns the path of a file of curves in the folder of the platform file `target`.
fn curve_file(target: &Path, suffix: &str) -> PathBuf {
    target.with_file_name(format!("{}{suffix}", stem(target)))
}

fn stem(target: &Path) -> String {
    target.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Writes a platform and its curves to a `.toml`, or only the fastest tier's curves to a `.csv`.
pub(super) fn write(option: &str, target: &Path, record: &MeasureDocument) -> Result<(), Failure> {
    let machine = &record.machine;
    let name = machine.cpu.as_deref().or(machine.product.as_deref()).unwrap_or("a machine");
    let kernel = machine.kernel.as_deref().unwrap_or("an unknown kernel");
    let ours = || format!("interleaf measure on {name}, Linux {kernel}");
    let source = record.source.clone().unwrap_or_else(ours);
    let exported = platform(record, &stem(target), &source).map_err(|why| {
        Failure::new(
            format!("{option} {}: {why}", target.display()),
            "measure it: interleaf measure, or interleaf measure loaded",
        )
    })?;
    if target.extension().is_some_and(|ending| ending == "csv") {
        let fastest = exported.curves.first().map_or("", |(_, text)| text);
        return output::file(target, fastest);
    }
    check_beside(option, target, exported.curves.iter().map(|(suffix, _)| suffix))?;
    if !exported.assumed.is_empty() {
        let keys = exported.assumed.join(", ");
        let note = format!(
            "{}: the record does not have {keys}: correct the assumed values in the file",
            target.display()
        );
        output::note(false, &note);
    }
    for (suffix, text) in &exported.curves {
        output::file(&curve_file(target, suffix), text)?;
    }
    output::file(target, &exported.toml)
}
