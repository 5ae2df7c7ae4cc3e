//! Helpers of the tests that boot kernels. Without a kernel or QEMU a test prints that it was
//! skipped, and passes.

use std::{
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::OnceLock,
    thread,
};

use crate::{
    Boot, Outcome, Series, Topology,
    boot::missing,
    outcome::{Record, StepRecord},
    program::{self, StaticPrograms},
};

/// Boots a guest and returns its report after all steps. The guest has the program `interleaf` and
/// the folders `/platforms` and `/workloads`. Each node with processors has a single processor
/// ([`Boot::has_single_processors`]). Without the kernel or QEMU the function prints a message and
/// returns `None`.
///
/// # Panics
///
/// If the run has an outcome other than completion, or a prerequisite is missing under
/// `INTERLEAF_VM=required`.
#[must_use]
pub fn guest_record(series: Series, topology: &str, steps: &str) -> Option<Record> {
    guest_record_changed(series, topology, steps, &|_| {})
}

/// Like [`guest_record_changed`], with additional text files, by their path in the guest.
///
/// # Panics
///
/// Panics like [`guest_record`].
#[must_use]
pub fn guest_record_with_files(
    series: Series,
    topology: &str,
    steps: &str,
    texts: &[(&str, String)],
    change: &dyn Fn(&mut Boot<'_>),
) -> Option<Record> {
    guest_record_changed(series, topology, steps, &|boot| {
        boot.texts.extend(texts.iter().map(|(path, text)| ((*path).to_string(), text.clone())));
        change(boot);
    })
}

/// Like [`guest_record`], but `change` modifies the boot first, for example its files or flags.
///
/// # Panics
///
/// Panics like [`guest_record`].
#[must_use]
pub fn guest_record_changed(
    series: Series,
    topology: &str,
    steps: &str,
    change: &dyn Fn(&mut Boot<'_>),
) -> Option<Record> {
    if let Some(outcome) = missing(series) {
        not_tested(&outcome);
        return None;
    }
    let machine = Topology::named(topology).unwrap_or_else(|why| panic!("{topology}: {why}"));
    let StaticPrograms { guest, interleaf } = static_programs();
    let programs = vec![("interleaf", interleaf.as_path())];
    let files = ["platforms", "workloads"].into_iter().flat_map(data).collect();
    let boot = Boot::new(series, &machine, guest, steps);
    let mut boot = Boot { programs, files, is_resumed: true, has_single_processors: true, ..boot };
    change(&mut boot);
    match boot.run() {
        Ok(Outcome::Completed(record)) => Some(record),
        Ok(outcome) => panic!("{series}, {topology}: {outcome}"),
        Err(why) => panic!("{series}, {topology}: {why}"),
    }
}

/// A change for [`guest_record_changed`]: the guest has as many processors as its topology says.
pub fn with_all_processors(boot: &mut Boot<'_>) {
    boot.has_single_processors = false;
}

/// Runs a test for each kernel, all in parallel. `running_guests.rs` limits the number of guests.
///
/// # Panics
///
/// If one of the tests panics.
pub fn on_each(all: &[Series], test: impl Fn(Series) + Sync) {
    let current = thread::current();
    let name = current.name().unwrap_or("guest");
    thread::scope(|scope| {
        for series in all {
            let thread = thread::Builder::new().name(name.into());
            thread.spawn_scoped(scope, || test(*series)).unwrap_or_else(|why| panic!("{why}"));
        }
    });
}

/// Returns the first step of `record` whose text is `text`.
///
/// # Panics
///
/// If the guest did not begin the step.
#[must_use]
pub fn step<'a>(record: &'a Record, text: &str) -> &'a StepRecord {
    record.step(text).unwrap_or_else(|| panic!("no step {text} in\n{record}"))
}

/// Returns the output of the first step whose text is `text`, which must have succeeded.
///
/// # Panics
///
/// If the step failed.
pub fn shown<'a>(record: &'a Record, text: &str) -> &'a [String] {
    let taken = step(record, text);
    assert!(taken.succeeded(), "{text}\n{record}");
    &taken.output
}

/// Prints that a prerequisite of the test is missing.
///
/// # Panics
///
/// With `INTERLEAF_VM=required` in the environment.
pub fn not_tested(outcome: &Outcome) {
    let text = format!("not tested: {outcome}");
    assert!(env::var_os("INTERLEAF_VM").is_none_or(|value| value != "required"), "{text}");
    // A failure to write to stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns the path of a file or folder of the workspace.
#[must_use]
pub fn in_workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Returns the files below a folder of the workspace, each with its path in the guest.
fn data(folder: &str) -> Vec<(String, PathBuf)> {
    let path = in_workspace(folder);
    let entries = fs::read_dir(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let below = |entry: io::Result<fs::DirEntry>| {
        let path = entry.unwrap_or_else(|why| panic!("{folder}: {why}")).path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{folder}/{name}");
        if path.is_dir() { data(&name) } else { vec![(format!("/{name}"), path)] }
    };
    let mut files: Vec<_> = entries.flat_map(below).collect();
    files.sort();
    files
}

/// Returns the static programs, which are built at the first call.
///
/// # Panics
///
/// If the build fails.
pub fn static_programs() -> &'static StaticPrograms {
    static PROGRAMS: OnceLock<StaticPrograms> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let programs = program::folder().and_then(|folder| program::build(&folder));
        programs.unwrap_or_else(|why| panic!("{why}"))
    })
}
