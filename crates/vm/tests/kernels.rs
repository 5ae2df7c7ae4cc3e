//! `docs/kernels.md` has a table of the features of each kernel. Each test boots a kernel once,
//! tries its features, and compares the results with the kernel's column.
//!
//! If a result differs, the test prints the corrected column. With `KERNELS=overwrite` in the
//! environment, the test writes the column to the page instead.
//!
//! If the kernel or QEMU is missing, a test prints that it was skipped, and passes. With
//! `INTERLEAF_VM=required` in the environment, the test fails instead.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Mutex,
};

use interleaf_guest::report::Ending;
use interleaf_vm::{Series, harness, outcome::Record};

const NODES: &str = "/sys/devices/system/node";
const TIERS: &str = "/sys/devices/virtual/memory_tiering";
const WEIGHTS: &str = "/sys/kernel/mm/mempolicy/weighted_interleave";
const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
const DAMON_STAT: &str = "/sys/module/damon_stat/parameters/enabled";

const SYSCTL: &str = "/proc/sys/kernel";
const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";

/// Steps that place 16384 pages by 3:1, and 16512 pages by 3:255.
const PLACED: [&str; 2] =
    ["run touch 64MiB --weights 0:3,1:1", "run touch 66048KiB --weights 0:3,1:255"];

const ACTIONS: [&str; 11] = [
    "stat",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "willneed",
    "cold",
    "lru_prio",
    "lru_deprio",
    "migrate_hot",
    "migrate_cold",
];
const METRICS: [&str; 10] = [
    "user_input",
    "some_mem_psi_us",
    "node_mem_used_bp",
    "node_mem_free_bp",
    "node_memcg_used_bp",
    "node_memcg_free_bp",
    "active_mem_bp",
    "inactive_mem_bp",
    "node_eligible_mem_bp",
    "node_ineligible_mem_bp",
];
const TUNERS: [&str; 2] = ["consist", "temporal"];
const FILTERS: [&str; 8] =
    ["anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"];

// --- Steps that try the features ----------------------------------------------------------------

/// Returns the path of a file or folder of DAMON below the first kdamond.
fn damon(path: &str) -> String {
    format!("{KDAMONDS}/0/{path}")
}

fn scheme(path: &str) -> String {
    damon(&format!("contexts/0/schemes/0/{path}"))
}

/// For each of `words`, adds a step that writes the word to the file `path`.
fn try_words(steps: &mut String, path: &str, words: &[&str]) {
    for word in words {
        writeln!(steps, "write {path} {word}").unwrap();
    }
}

/// Returns the steps that try the kernel's features, in an order in which no step changes the
/// result of a later step.
fn steps() -> String {
    let mut steps = format!(
        "list {WEIGHTS}\n\
         read {WEIGHTS}/auto\n\
         read {WEIGHTS}/node*\n\
         read {TIERS}/memory_tier*/nodelist\n\
         read {NODES}/node*/access0/initiators/read_bandwidth\n\
         read {SYSCTL}/numa_balancing\n\
         read {SYSCTL}/numa_balancing_promote_rate_limit_MBps\n\
         read {DEMOTION}\n\
         list {NODES}/node1\n\
         write {WEIGHTS}/node1 7\n\
         read {WEIGHTS}/auto\n\
         write {WEIGHTS}/node1 0\n\
         read {WEIGHTS}/node1\n"
    );
    writeln!(steps, "write {WEIGHTS}/auto true\nread {WEIGHTS}/node*").unwrap();
    PLACED.iter().for_each(|step| writeln!(steps, "{step}").unwrap());
    writeln!(steps, "read {DAMON_STAT}\nwrite {KDAMONDS}/nr_kdamonds 1").unwrap();
    for (file, count) in [("contexts/nr_contexts", 1), ("contexts/0/targets/nr_targets", 1)] {
        writeln!(steps, "write {} {count}", damon(file)).unwrap();
    }
    for folder in
        ["", "contexts/0", "contexts/0/targets/0", "contexts/0/monitoring_attrs/intervals"]
    {
        writeln!(steps, "list {}", damon(folder)).unwrap();
    }
    writeln!(steps, "read {}", damon("contexts/0/avail_operations")).unwrap();
    writeln!(steps, "write {} 1", damon("contexts/0/schemes/nr_schemes")).unwrap();
    writeln!(steps, "list {}", scheme("")).unwrap();
    try_words(&mut steps, &scheme("action"), &ACTIONS);
    writeln!(steps, "write {} 1", scheme("quotas/goals/nr_goals")).unwrap();
    try_words(&mut steps, &scheme("quotas/goals/0/target_metric"), &METRICS);
    try_words(&mut steps, &scheme("quotas/goal_tuner"), &TUNERS);
    for folder in ["filters", "core_filters", "ops_filters"] {
        writeln!(steps, "write {} 1", scheme(&format!("{folder}/nr_filters"))).unwrap();
        try_words(&mut steps, &scheme(&format!("{folder}/0/type")), &FILTERS);
    }
    // A DAMON context without a scheme can be started. The first `on` is written while `damon_stat`
    // runs, the second after `damon_stat` is switched off.
    for (path, text) in [
        (damon("contexts/0/schemes/nr_schemes"), "0"),
        (damon("contexts/0/operations"), "paddr"),
        (damon("state"), "on"),
        (DAMON_STAT.to_string(), "N"),
    ] {
        writeln!(steps, "write {path} {text}").unwrap();
    }
    writeln!(steps, "write {0} on\nwrite {0} off", damon("state")).unwrap();
    steps
}

/// Returns the name of the errno at the end of a message. The text of the message depends on the
/// guest's C library.
fn errno(why: &str) -> &str {
    let names = [("(os error 16)", "EBUSY"), ("(os error 22)", "EINVAL")];
    names.iter().find(|(number, _)| why.ends_with(number)).map_or(why, |(_, name)| name)
}

// --- Results of the steps -----------------------------------------------------------------------

/// The results in a guest's report. `of` returns the output or the error of a step by its text and
/// its 0-based position among the steps with this text.
struct Answers<'a>(&'a Record);

impl Answers<'_> {
    fn of(&self, text: &str, nth: usize) -> Result<&[String], &str> {
        let taken = self.0.steps.iter().filter(|taken| taken.step == text).nth(nth);
        let taken = taken.unwrap_or_else(|| panic!("no step {text} in\n{}", self.0));
        match &taken.ending {
            Some(Ending::Failed(why)) => Err(errno(why)),
            _ if taken.succeeded() => Ok(&taken.output),
            _ => Err(taken.output.first().map_or("failed", String::as_str)),
        }
    }

    /// Returns the first line of a file, as read by the step at the 0-based position `nth` among
    /// the steps that read this file; a dash if the file cannot be read.
    fn value(&self, path: &str, nth: usize) -> &str {
        let lines = self.of(&format!("read {path}"), nth);
        lines.ok().and_then(|lines| lines.first()).map_or(NOTHING, String::as_str)
    }

    /// Returns the contents of all files that match a pattern, joined by `between`; a dash if there
    /// are none. `nth` is the 0-based position among the steps that read this pattern.
    fn values(&self, pattern: &str, nth: usize, between: &str) -> String {
        let lines = self.of(&format!("read {pattern}"), nth).unwrap_or_default();
        let values = lines.iter().filter(|line| !line.contains("/auto: "));
        let values: Vec<&str> = values.filter_map(|line| Some(line.split_once(": ")?.1)).collect();
        if values.is_empty() { NOTHING.to_string() } else { values.join(between) }
    }

    /// Returns `yes` if a folder contains a name, otherwise a dash.
    fn has(&self, folder: &str, name: &str) -> String {
        let names = self.of(&format!("list {folder}"), 0).unwrap_or_default();
        if names.iter().any(|other| other == name) { "yes" } else { NOTHING }.to_string()
    }

    /// Returns the words among `words` that a file accepts; a dash if it accepts none.
    fn takes(&self, path: &str, words: &[&str]) -> String {
        let taken = |word: &&&str| self.of(&format!("write {path} {word}"), 0).is_ok();
        let taken: Vec<String> = words.iter().filter(taken).map(|w| format!("`{w}`")).collect();
        if taken.is_empty() { NOTHING.to_string() } else { taken.join(" ") }
    }
}

/// The content of a table cell in `docs/kernels.md` if the feature is missing, or if the test of
/// the feature is impossible.
const NOTHING: &str = "–";

/// The name of the row with the release of each column's kernel.
const RELEASE: &str = "release";

/// Returns the first two numbers of a kernel's release.
fn release(record: &Record) -> String {
    let release = record.release.as_deref().unwrap_or_default();
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

/// Returns the column of a kernel: the name of each row and the content of its cell.
fn column(record: &Record) -> Vec<(&'static str, String)> {
    let answers = Answers(record);
    let mut rows = vec![(RELEASE, release(record))];
    rows.extend(interleaving(&answers));
    rows.extend(tiers(&answers));
    rows.extend(damons(&answers));
    rows
}

fn interleaving(answers: &Answers) -> Vec<(&'static str, String)> {
    let node1 = format!("{WEIGHTS}/node1");
    let files = answers.of(&format!("list {WEIGHTS}"), 0).unwrap_or_default();
    let auto = files.iter().any(|name| name == "auto");
    let has = |is_present: bool| if is_present { "yes" } else { NOTHING }.to_string();
    let by_hand = match answers.value(&format!("{WEIGHTS}/auto"), 1) {
        NOTHING if files.is_empty() => NOTHING,
        NOTHING => "taken",
        "false" => "taken, `auto` goes off",
        other => other,
    };
    let zero = match answers.of(&format!("write {node1} 0"), 0) {
        _ if files.is_empty() => NOTHING.to_string(),
        Ok(_) => format!("the weight is {} again", answers.value(&node1, 0)),
        Err(why) => format!("refused: `{why}`"),
    };
    let again = answers.values(&format!("{WEIGHTS}/node*"), 1, ":");
    let placed = PLACED.map(|text| answers.of(text, 0).map_or(NOTHING, |lines| &lines[0]));
    let exact = placed == ["pages 0:12288 1:4096", "pages 0:192 1:16320"];
    vec![
        ("weight files `nodeN`", has(!files.is_empty())),
        ("weights made of the HMAT, `auto`", has(auto)),
        ("weights at boot", answers.values(&format!("{WEIGHTS}/node*"), 0, ":")),
        ("a weight by hand", by_hand.to_string()),
        ("a weight of 0", zero),
        ("`true` into `auto`", if auto { again } else { NOTHING.to_string() }),
        ("pages by 3:1 and 3:255", if exact { "exact" } else { placed[0] }.to_string()),
    ]
}

fn tiers(answers: &Answers) -> Vec<(&'static str, String)> {
    let limit = format!("{SYSCTL}/numa_balancing_promote_rate_limit_MBps");
    // The tiers, sorted by number: a faster tier has a smaller number.
    let lines = answers.of(&format!("read {TIERS}/memory_tier*/nodelist"), 0).unwrap_or_default();
    let tier = |line: &String| {
        let (path, nodes) = line.split_once(": ")?;
        let number = path.strip_prefix(TIERS)?.strip_prefix("/memory_tier")?.split('/').next()?;
        Some((number.parse::<u32>().ok()?, nodes.to_string()))
    };
    let mut tiers: Vec<(u32, String)> = lines.iter().filter_map(tier).collect();
    tiers.sort_unstable();
    let tiers: Vec<String> = tiers.into_iter().map(|(_, nodes)| nodes).collect();
    vec![
        (
            "bandwidths of nodes, MiB/s",
            answers.values(&format!("{NODES}/node*/access0/initiators/read_bandwidth"), 0, ", "),
        ),
        ("memory tiers, by their nodes", tiers.join(", then ")),
        ("`numa_balancing` at boot", answers.value(&format!("{SYSCTL}/numa_balancing"), 0).into()),
        ("limit of promotion, MB/s", answers.value(&limit, 0).into()),
        ("`demotion_enabled` at boot", answers.value(DEMOTION, 0).into()),
        ("`nodeN/reclaim`", answers.has(&format!("{NODES}/node1"), "reclaim")),
    ]
}

fn damons(answers: &Answers) -> Vec<(&'static str, String)> {
    let at = |folder: &str, name| answers.has(&damon(folder), name);
    let operations = answers.of(&format!("read {}", damon("contexts/0/avail_operations")), 0);
    let operations = operations.unwrap_or_default().iter().map(|word| format!("`{word}`"));
    let operations: Vec<String> = operations.collect();
    let module = match answers.value(DAMON_STAT, 0) {
        "Y" => "on",
        "N" => "off",
        other => other,
    };
    let starts = |nth| match answers.of(&format!("write {} on", damon("state")), nth) {
        _ if operations.is_empty() => NOTHING.to_string(),
        Ok(_) => "starts".to_string(),
        Err(why) => format!("refused: `{why}`"),
    };
    let filters = |folder: &str| answers.takes(&scheme(&format!("{folder}/0/type")), &FILTERS);
    let metrics = scheme("quotas/goals/0/target_metric");
    let intervals = "contexts/0/monitoring_attrs/intervals";
    vec![
        (
            "DAMON's operations",
            if operations.is_empty() { NOTHING.into() } else { operations.join(" ") },
        ),
        ("`damon_stat` at boot", module.to_string()),
        ("a context beside it", if module == NOTHING { NOTHING.to_string() } else { starts(0) }),
        ("a context without it", starts(usize::from(module != NOTHING))),
        ("actions", answers.takes(&scheme("action"), &ACTIONS)),
        ("several destinations, `dests`", answers.has(&scheme(""), "dests")),
        ("goals", answers.takes(&metrics, &METRICS)),
        ("`goal_tuner`", answers.takes(&scheme("quotas/goal_tuner"), &TUNERS)),
        ("`filters`", filters("filters")),
        ("`core_filters`", filters("core_filters")),
        ("`ops_filters`", filters("ops_filters")),
        ("`intervals_goal`", at(intervals, "intervals_goal")),
        ("`refresh_ms`", at("", "refresh_ms")),
        ("`obsolete_target`", at("contexts/0/targets/0", "obsolete_target")),
        ("`pause`", at("contexts/0", "pause")),
    ]
}

// --- The page docs/kernels.md -------------------------------------------------------------------

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/kernels.md")
}

/// Returns the contents of the cells in a line of a Markdown table.
fn cells(line: &str) -> Vec<String> {
    line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()
}

/// Returns the index of the column with this heading, and the name and content of each of its
/// cells.
fn documented(text: &str, heading: &str) -> (usize, Vec<(String, String)>) {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("| what "));
    let headings = cells(lines.next().expect("docs/kernels.md has a table"));
    let at = headings.iter().position(|cell| cell == heading);
    let at = at.unwrap_or_else(|| panic!("docs/kernels.md has no column {heading}"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    (at, rows.map(|row| (row[0].clone(), row[at].clone())).collect())
}

/// Returns the text of the page, with the cells of column `at` replaced.
fn with_column(text: &str, at: usize, column: &[(&str, String)]) -> String {
    let mut lines = vec![];
    for line in text.lines() {
        let mut row = cells(line);
        let new = column.iter().find(|(name, _)| line.starts_with('|') && row[0] == *name);
        match new {
            Some((_, value)) => {
                row[at].clone_from(value);
                lines.push(format!("| {} |", row.join(" | ")));
            }
            None => lines.push(line.to_string()),
        }
    }
    lines.join("\n") + "\n"
}

/// Boots the kernel and compares the results with the page docs/kernels.md.
#[expect(clippy::explicit_write, reason = "the test harness keeps what macros print")]
fn holds(series: Series) {
    let Some(record) = harness::guest_record(series, "two-nodes-hmat", &steps()) else { return };
    let column = column(&record);

    // Only one test at a time may read and write the page: tests run in parallel, and each test may
    // write the page.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|failed| failed.into_inner());
    let text = fs::read_to_string(page()).unwrap();
    let (at, documented) = documented(&text, &series.to_string());
    let names: Vec<&str> = column.iter().map(|(name, _)| *name).collect();
    let rows: Vec<&str> = documented.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(rows, names, "the rows of docs/kernels.md");
    if env::var_os("KERNELS").is_some_and(|value| value == "overwrite") {
        fs::write(page(), with_column(&text, at, &column)).unwrap();
        return;
    }
    let same = |((_, is), (_, answers)): (&(&str, String), &(String, String))| is == answers;
    if !column.iter().zip(&documented).all(same) {
        let mut should = String::new();
        for ((name, is), (_, answers)) in column.iter().zip(&documented) {
            let mark = if is == answers { ' ' } else { '*' };
            writeln!(should, "{mark} | {name} | {is} |").unwrap();
        }
        // The newest kernel changes often: differences to a documented older release do not fail
        // the test.
        if series == Series::Newest && documented[0].1 != column[0].1 {
            let (is, was) = (&column[0].1, &documented[0].1);
            writeln!(io::stderr(), "docs/kernels.md is of {was}, and {is} says:\n{should}")
                .unwrap();
            return;
        }
        panic!(
            "docs/kernels.md, column {series}: the kernel says otherwise in the lines with a star; \
             KERNELS=overwrite writes the column anew\n{should}\n{record}"
        );
    }
}

#[test]
fn on_6_1() {
    holds(Series::Of(6, 1));
}

#[test]
fn on_6_12() {
    holds(Series::Of(6, 12));
}

#[test]
fn on_6_17() {
    holds(Series::Of(6, 17));
}

#[test]
fn on_the_newest() {
    holds(Series::Newest);
}

#[test]
fn a_column_is_found_and_written() {
    let text = "a | b\n\n\
                | what | 6.1 | 6.12 |\n| --- | --- | --- |\n| x | 1 | 2 |\n| y | 3 | 4 |\n\n\
                | z | 5 |\n";
    let (at, column) = documented(text, "6.12");
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());
    assert_eq!((at, &column[..]), (2, &[pair("x", "2"), pair("y", "4")][..]));
    let written = with_column(text, at, &[("x", "7".to_string()), ("y", "4".to_string())]);
    assert_eq!(written, text.replace("| 2 |", "| 7 |"));
}
