//! Renders a comparison of DRAM, pager, swap and mapped files (`interleaf.bench.compare/1`) as
//! text, Markdown, HTML and CSV.

use super::{
    number,
    table::{Table, escaped},
};
use interleaf_record::{
    bench_compare::{BenchCompareDocument, BenchRow, CeilingDocument, PagerDocument},
    measure::size_text,
};

/// Returns the title of the document's page.
pub fn title(document: &BenchCompareDocument) -> String {
    format!("DRAM of {} extended by a drive", size_text(document.dram_bytes))
}

/// Formats the budget, the number of threads, and the machine, in one line.
fn machine(document: &BenchCompareDocument) -> String {
    let machine = &document.machine;
    let read_ahead = machine.read_ahead_kb.map_or("?".into(), |kb| kb.to_string());
    let threads = document.threads;
    format!(
        "budget {}, {threads} thread{}; {} CPUs ({}), Linux {}, drive {}, \
         read_ahead_kb {read_ahead}",
        size_text(document.dram_bytes),
        if threads == 1 { "" } else { "s" },
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.drive,
    )
}

/// Renders the document as text for a terminal.
pub fn text(document: &BenchCompareDocument) -> String {
    let (rows, ceilings) = (table(document).text(), ceilings(document).text());
    let lines = [verdicts(document), memory(document)].concat().join("\n");
    format!("{}\n\n{rows}\n{ceilings}\n{lines}\n", machine(document))
}

pub fn markdown(document: &BenchCompareDocument) -> String {
    let (rows, ceilings) = (table(document).markdown(), ceilings(document).markdown());
    let (title, machine) = (title(document), machine(document));
    let verdicts = [verdicts(document), memory(document)].concat().join("\n- ");
    format!("# {title}\n\n{machine}\n\n- {verdicts}\n\n{rows}\n{ceilings}")
}

/// Renders the document as HTML, for the body of a page. `figures` is the HTML of its figures.
pub fn html(document: &BenchCompareDocument, figures: &str) -> String {
    let machine = escaped(&machine(document));
    let line = |verdict: &String| format!("<li>{}</li>\n", escaped(verdict));
    let verdicts = [verdicts(document), memory(document)].concat();
    let verdicts: String = verdicts.iter().map(line).collect();
    let (rows, ceilings) = (table(document).html(), ceilings(document).html());
    format!(
        "<p class=\"source\">{machine}</p>\n<ul>\n{verdicts}</ul>\n{figures}<h2>All runs</h2>\n\
         {rows}<h2>Ceilings</h2>\n{ceilings}"
    )
}

/// Returns a line for each workload pattern and ratio of footprint to budget: the speed of the
/// pager relative to swap, mapped files, DRAM and the ceiling.
fn verdicts(document: &BenchCompareDocument) -> Vec<String> {
    let pager = document.rows.iter().filter(|row| row.way == "pager" && row.rate.is_some());
    let others = |row: &BenchRow, names: &[&str]| {
        let same = document.rows.iter().filter(|other| {
            other.pattern == row.pattern
                && other.ratio == row.ratio
                && names.contains(&other.way.as_str())
        });
        same.filter_map(|other| other.rate).reduce(f64::max)
    };
    pager
        .filter_map(|row| {
            let rate = row.rate.unwrap_or(0.0);
            let times = |names: &[&str], what: &str| {
                let other = others(row, names).filter(|other| *other > 0.0);
                other
                    .map(|other| format!("{:.2} times as fast as {what} at its best", rate / other))
            };
            let part = |part: Option<f64>, of: &str| {
                part.map(|it| format!("at {} of {of}", percent(Some(it))))
            };
            let parts = [
                times(&["swap", "swap-tuned"], "swap"),
                times(&["mmap"], "a mapped file"),
                part(row.efficiency, "the speed on DRAM"),
                part(row.of_ceiling, "the ceiling"),
            ];
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            // Without runs on other kinds of memory, the pager has no reference, so this pattern
            // and ratio have no line.
            (!parts.is_empty()).then_some(())?;
            let parts: Vec<String> =
                parts.into_iter().chain(row.pager.as_ref().map(waste)).collect();
            Some(format!("{} at {} x: the pager is {}", row.pattern, row.ratio, parts.join(", ")))
        })
        .collect()
}

/// Returns a line for each pattern and ratio of footprint to budget: the peak memory of the program
/// on each kind of memory except DRAM. For a footprint above the budget, these peaks should be
/// equal: the runs on swap and mapped files are limited to the memory that the run with the pager
/// used.
fn memory(document: &BenchCompareDocument) -> Vec<String> {
    let extended = document.rows.iter().filter(|row| row.way != "dram" && row.rate.is_some());
    let extended: Vec<&BenchRow> = extended.collect();
    let is_same = |a: &&BenchRow, b: &&BenchRow| (&a.pattern, a.ratio) == (&b.pattern, b.ratio);
    let of_group = |rows: &[&BenchRow]| {
        let used: Vec<(&str, u64)> =
            rows.iter().filter_map(|row| Some((row.way.as_str(), row.used_max_bytes?))).collect();
        let most = used.iter().map(|(_, bytes)| *bytes).max()?;
        let least = used.iter().map(|(_, bytes)| *bytes).min()?;
        let mib = |bytes: u64| number(bytes as f64 / f64::from(1 << 20));
        let each: Vec<String> =
            used.iter().map(|(way, bytes)| format!("{way} {} MiB", mib(*bytes))).collect();
        let differ = 100.0 * (most as f64 / least.max(1) as f64 - 1.0);
        (used.len() > 1).then(|| {
            let (first, each) = (rows[0], each.join(", "));
            format!(
                "{} at {} x: memory used: {each}; {differ:.1} % between most and least",
                first.pattern, first.ratio
            )
        })
    };
    extended.chunk_by(is_same).filter_map(of_group).collect()
}

/// Returns the end of a verdict: the percentage of the prefetched pages that were wasted (evicted
/// untouched).
fn waste(pager: &PagerDocument) -> String {
    let part = pager.prefetch_wasted as f64 / pager.prefetched_pages.max(1) as f64;
    format!("and {:.1} % of its prefetched pages were wasted", 100.0 * part)
}

/// Returns the table of ceilings. A ceiling is the speed that the drive allows for the bytes that
/// an optimal cache would transfer.
fn ceilings(document: &BenchCompareDocument) -> Table {
    let header =
        ["ceiling of", "F/B", "of DRAM", "s a round", "drive GB/s", "reads", "least MiB", "by"];
    let mut table = Table::new(&header);
    for it in &document.ceilings {
        let least = it.least_read_bytes.zip(it.least_written_bytes);
        let mib = |bytes: u64| number(bytes as f64 / f64::from(1 << 20));
        let drive = it.drive.as_ref();
        table.row([
            it.pattern.clone(),
            it.ratio.to_string(),
            percent(it.efficiency),
            it.round_s.map_or(String::new(), number),
            drive.map_or(String::new(), |drive| number(drive.bandwidth_gbps)),
            percent(drive.map(|drive| drive.read_share)),
            least.map_or("?".into(), |(read, written)| format!("{} + {}", mib(read), mib(written))),
            drive.map_or_else(|| without_drive(it).into(), |drive| drive.by.clone()),
        ]);
    }
    table
}

/// Returns the reason why `ceiling` has no speed of the drive. The last column of the table shows
/// this reason.
fn without_drive(ceiling: &CeilingDocument) -> &'static str {
    match (ceiling.least_read_bytes, ceiling.least_written_bytes) {
        (Some(0), Some(0)) => "nothing has to be carried",
        // With a footprint within the budget (a ratio up to 1), the drive's speed is not measured,
        // although some kinds of memory may transfer bytes.
        _ if ceiling.ratio <= 1.0 => "the budget holds the footprint",
        _ => "the drive was not measured (--no-drive)",
    }
}

fn table(document: &BenchCompareDocument) -> Table {
    let mut table = Table::new(&[
        "pattern",
        "F/B",
        "on",
        "rate",
        "unit",
        "of DRAM",
        "of ceiling",
        "of drive",
        "CPUs",
        "read MiB",
        "written MiB",
        "used MiB",
        "result",
    ]);
    for row in &document.rows {
        let mib = |bytes: Option<u64>| {
            bytes.map_or(String::new(), |bytes| number(bytes as f64 / f64::from(1 << 20)))
        };
        let hint = row.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        table.row([
            row.pattern.clone(),
            row.ratio.to_string(),
            format!("{}{hint}", row.way),
            row.rate.map_or(String::new(), number),
            row.rate_unit.clone(),
            percent(row.efficiency),
            percent(row.of_ceiling),
            percent(row.drive_busy),
            row.cpus_busy.map_or(String::new(), |it| format!("{it:.2}")),
            mib(row.read_bytes),
            mib(row.written_bytes),
            mib(row.used_max_bytes.or(row.resident_max_bytes)),
            result(row),
        ]);
    }
    table
}

fn percent(part: Option<f64>) -> String {
    part.map_or(String::new(), |part| format!("{:.1} %", 100.0 * part))
}

fn result(row: &BenchRow) -> String {
    match (row.rate, row.verified, row.same_as_dram) {
        (None, _, _) => row.problem.clone().unwrap_or_else(|| "not run".into()),
        (Some(_), false, _) => "WRONG".into(),
        (Some(_), true, Some(false)) => "right, but other bits".into(),
        (Some(_), true, _) => "right".into(),
    }
}

pub fn csv(document: &BenchCompareDocument) -> String {
    let mut table = Table::new(&[
        "pattern",
        "ratio",
        "footprint_bytes",
        "way",
        "hint",
        "rate",
        "rate_unit",
        "efficiency",
        "round_s",
        "cpus_busy",
        "read_bytes",
        "written_bytes",
        "limit_bytes",
        "used_max_bytes",
        "verified",
        "problem",
    ]);
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    for row in &document.rows {
        table.row([
            row.pattern.clone(),
            row.ratio.to_string(),
            row.footprint_bytes.to_string(),
            row.way.clone(),
            row.hint.clone().unwrap_or_default(),
            text(row.rate),
            row.rate_unit.clone(),
            text(row.efficiency),
            text(row.round_s),
            text(row.cpus_busy),
            whole(row.read_bytes),
            whole(row.written_bytes),
            whole(row.limit_bytes),
            whole(row.used_max_bytes),
            row.verified.to_string(),
            row.problem.clone().unwrap_or_default(),
        ]);
    }
    table.csv()
}
