//! Renders the documents of `interleaf extend` as text, pages and CSV: the counts of a command
//! (`interleaf.extend/1`), the plan of a dry run (`interleaf.extend.plan/1`), and the forecast for
//! other budgets and drives (`interleaf.extend.forecast/1`).

use super::{
    number,
    page::{self, Page, counted},
    table::Table,
};
use interleaf_model::{format::shell_text, units::Bytes};
use interleaf_record::extend::{
    CountsDocument, EnoughRow, EstimateDocument, ExtendDocument, ExtendPlanDocument,
    ForecastDocument, ForecastRow, OutsideDocument,
};
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;

/// Formats the text that is printed after the command has ended: the counts of all processes, and
/// the memory outside the budget.
pub fn ended(document: &ExtendDocument) -> String {
    if has_extended_nothing(document) {
        return nothing(document);
    }
    let dram = Bytes::new(document.dram_bytes);
    let footprint = match document.total.footprint_bytes {
        0 => String::new(),
        bytes => format!(" for a footprint of {}", Bytes::new(bytes)),
    };
    let elapsed = number(document.elapsed_s);
    let nodes =
        nodes(document).map_or(String::new(), |nodes| format!("resident by node: {nodes}\n"));
    format!(
        "{dram} of DRAM{footprint}, {elapsed} s\n{}{nodes}{}{}",
        counts(document).text(),
        outside(document),
        swapped(document)
    )
}

/// Returns a table with the counts of each process, and with the sum over all processes.
fn counts(document: &ExtendDocument) -> Table {
    let mut table = Table::new(&[
        "process",
        "DRAM",
        "faults",
        "prefetched",
        "hits",
        "wasted",
        "evicted",
        "read",
        "written",
        "stalled",
    ]);
    for process in &document.processes {
        let name = format!("{} ({})", process.name, process.pid);
        table.row(cells(name, process.dram_bytes, &process.counts));
    }
    if document.processes.len() > 1 || has_more_than_rows(document) {
        table.row(cells("all".into(), document.dram_bytes, &document.total));
    }
    table
}

/// True if the document's total has counts that are missing in the counts of its processes: those
/// of a process that ended before its counts were read for the first time.
fn has_more_than_rows(document: &ExtendDocument) -> bool {
    let counts = document.processes.iter().map(|process| process.counts);
    let sum = counts.fold(CountsDocument::default(), |sum, counts| sum + counts);
    let key = |it: &CountsDocument| {
        [it.faults, it.prefetched_pages, it.evicted_pages, it.read_bytes, it.written_bytes]
    };
    key(&document.total) != key(&sum)
}

/// Renders the counts of a command, as a page of a report.
pub fn page(document: &ExtendDocument) -> Page {
    let total = &document.total;
    let title = format!(
        "{} with {} of DRAM",
        page::program(&document.command),
        Bytes::new(document.dram_bytes)
    );
    if has_extended_nothing(document) {
        let text = nothing(document);
        let mut lines = text.lines().map(String::from);
        let answer = lines.next().unwrap_or_default();
        let facts = lines.chain(ending(document)).collect();
        return Page { title, answer, facts, ..Page::default() };
    }
    let minor = counted(total.soft_faults, "minor fault");
    let fault_line = format!("{} of pages, {minor} among them", counted(total.faults, "fault"));
    let traffic = format!(
        "{} read from the stores, {} written; {} evicted",
        Bytes::new(total.read_bytes),
        Bytes::new(total.written_bytes),
        counted(total.evicted_pages, "page"),
    );
    let mut facts = vec![fault_line, prefetches(total), traffic];
    if total.footprint_bytes > 0 {
        facts.push(format!("footprint: {}", Bytes::new(total.footprint_bytes)));
    }
    facts.extend(nodes(document).map(|nodes| format!("resident by node: {nodes}")));
    let memory = outside(document) + &swapped(document);
    facts.extend(memory.lines().map(String::from));
    facts.extend(ending(document));
    let answer = stalls(document);
    Page { title, answer, facts, ..Page::default() }.with_table("Processes", counts(document))
}

/// Formats the time for which threads waited for pages, relative to the runtime.
fn stalls(document: &ExtendDocument) -> String {
    let (stall_s, elapsed_s) = (document.total.stall_s, document.elapsed_s);
    let text = format!("the threads together waited {} s for pages", number(stall_s));
    let runtime = format!("the runtime of {} s", number(elapsed_s));
    match stall_s / elapsed_s {
        part if !part.is_finite() => text,
        part if part < 1.0 => format!("{text}, {:.1} % of {runtime}", 100.0 * part),
        part => format!("{text}, {part:.1} times {runtime}"),
    }
}

fn prefetches(counts: &CountsDocument) -> String {
    let all = counts.prefetched_pages;
    format!(
        "{} prefetched: {} touched later, {} evicted untouched",
        counted(all, "page"),
        part(counts.prefetch_hits, all),
        part(counts.prefetch_wasted, all),
    )
}

/// Returns lines with the command, the stores, and, if the command failed, the failure.
fn ending(document: &ExtendDocument) -> Vec<String> {
    let stores: Vec<String> = document.stores.iter().map(|it| it.display().to_string()).collect();
    let stores = (!stores.is_empty()).then(|| format!("stores: {}", stores.join(", ")));
    let failure = page::failure(document.exit_code, document.signal);
    page::command(&document.command).into_iter().chain(stores).chain(failure).collect()
}

/// Renders the counts as CSV: a row for each process, and a row for the sum over all processes.
pub fn csv(document: &ExtendDocument) -> String {
    let mut table = Table::new(&[
        "process",
        "pid",
        "dram_bytes",
        "outside_bytes",
        "faults",
        "soft_faults",
        "prefetched_pages",
        "prefetch_hits",
        "prefetch_wasted",
        "evicted_pages",
        "footprint_bytes",
        "read_bytes",
        "written_bytes",
        "stall_s",
    ]);
    let mut row = |own: [String; 4], counts: &CountsDocument| {
        let numbers = [
            counts.faults,
            counts.soft_faults,
            counts.prefetched_pages,
            counts.prefetch_hits,
            counts.prefetch_wasted,
            counts.evicted_pages,
            counts.footprint_bytes,
            counts.read_bytes,
            counts.written_bytes,
        ];
        let numbers = numbers.map(|number| number.to_string());
        table.row(own.into_iter().chain(numbers).chain([counts.stall_s.to_string()]));
    };
    for process in &document.processes {
        let outside = process.outside_bytes.map_or(String::new(), |bytes| bytes.to_string());
        let (pid, dram) = (process.pid.to_string(), process.dram_bytes.to_string());
        row([process.name.clone(), pid, dram, outside], &process.counts);
    }
    let dram = document.dram_bytes.to_string();
    row(["all".into(), String::new(), dram, String::new()], &document.total);
    table.csv()
}

/// Formats the resident pages of all processes by node: `node0 4 GiB, node1 3 GiB`. Returns `None`
/// if the budget is not divided among nodes.
pub fn nodes(document: &ExtendDocument) -> Option<String> {
    let mut sums = BTreeMap::new();
    for node in document.processes.iter().flat_map(|process| &process.nodes) {
        *sums.entry(node.node).or_insert(0) += node.resident_bytes;
    }
    let text = |(node, bytes): (&u32, &u64)| format!("node{node} {}", rounded(*bytes));
    let all: Vec<String> = sums.iter().map(text).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// True if no process had a page of extended memory. Processes whose allocations stayed below
/// `min_alloc_bytes` are in the document, too, with counts of 0.
fn has_extended_nothing(document: &ExtendDocument) -> bool {
    let CountsDocument { faults, prefetched_pages, footprint_bytes, .. } = document.total;
    faults == 0 && prefetched_pages == 0 && footprint_bytes == 0
}

/// Formats the text for a command whose processes did not use the budget.
fn nothing(document: &ExtendDocument) -> String {
    let least = Bytes::new(document.min_alloc_bytes);
    let (untouched, which) = match document.processes.is_empty() {
        true => {
            ("", "objects smaller than 128 KiB, static data, stacks and code are never extended")
        }
        false => (", or touched none of it", "a lower --min-alloc extends smaller allocations"),
    };
    let resident = document.resident_max_bytes.map_or(String::new(), |bytes| {
        let bytes = rounded(bytes);
        format!(
            "The largest process had {bytes} resident, all of it outside the budget: {which}.\n"
        )
    });
    let memory = match document.outside {
        Some(_) => outside(document),
        None => resident,
    };
    let why = match document.is_without_children {
        true => "the command itself did not allocate",
        false => "no process allocated",
    };
    let children = match document.is_without_children {
        true => "Its children are not extended because of --children none.\n",
        false => "",
    };
    format!(
        "nothing was extended: unless a message above says why, {why} {least} (--min-alloc) in \
         pieces of 128 KiB and more{untouched}.\n{children}{memory}"
    )
}

/// Formats the memory of the processes that the kernel had in swap, in one line.
fn swapped(document: &ExtendDocument) -> String {
    match document.swapped_bytes {
        0 => String::new(),
        bytes => format!(
            "memory in swap: up to {}; if the machine or the control group has too little memory, \
             the kernel also swaps pages of the budget: a lower --dram avoids this\n",
            Bytes::new(bytes)
        ),
    }
}

/// Formats the memory of the processes outside the budget, in one line.
fn outside(document: &ExtendDocument) -> String {
    let Some(OutsideDocument { bytes, left_bytes }) = document.outside else {
        return match document.resident_max_bytes {
            Some(bytes) => {
                format!("resident memory: up to {}, the budget included\n", rounded(bytes))
            }
            None => String::new(),
        };
    };
    let all = rounded(bytes);
    let never = "objects below 128 KiB, static data and stacks, which are never extended";
    if left_bytes == 0 {
        return format!("memory outside the budget: up to {all}, in {never}\n");
    }
    let least = Bytes::new(document.min_alloc_bytes);
    let rest = rounded(bytes.saturating_sub(left_bytes));
    format!(
        "memory outside the budget: up to {all}. Of these, {} are in allocations of 128 KiB and \
         more from before their sum reached {least}: a lower --min-alloc extends them. The other \
         {rest} are in {never}\n",
        rounded(left_bytes)
    )
}

/// Rounds a size down to whole MiB; a size below 1 MiB is not rounded.
fn rounded(bytes: u64) -> Bytes {
    Bytes::new(if bytes < MIB { bytes } else { bytes / MIB * MIB })
}

/// Rounds a required size up to whole MiB; a size below 1 MiB is not rounded.
fn rounded_up(bytes: u64) -> Bytes {
    Bytes::new(if bytes < MIB { bytes } else { bytes.div_ceil(MIB).saturating_mul(MIB) })
}

/// Rounds a budget down, or up if it holds the whole footprint, so that the rounded budget does
/// too.
fn budget_of(document: &ForecastDocument, bytes: u64) -> Bytes {
    if bytes < document.footprint_bytes { rounded(bytes) } else { rounded_up(bytes) }
}

fn cells(name: String, dram_bytes: u64, counts: &CountsDocument) -> [String; 10] {
    [
        name,
        Bytes::new(dram_bytes).to_string(),
        counts.faults.to_string(),
        format!("{} pages", counts.prefetched_pages),
        part(counts.prefetch_hits, counts.prefetched_pages),
        part(counts.prefetch_wasted, counts.prefetched_pages),
        format!("{} pages", counts.evicted_pages),
        Bytes::new(counts.read_bytes).to_string(),
        Bytes::new(counts.written_bytes).to_string(),
        format!("{} s", number(counts.stall_s)),
    ]
}

fn part(of: u64, all: u64) -> String {
    if all == 0 { "-".into() } else { format!("{:.1} %", 100.0 * of as f64 / all as f64) }
}

/// Formats the counts of a running session, in one line.
pub fn line(document: &ExtendDocument) -> String {
    let CountsDocument { faults, read_bytes, written_bytes, stall_s, .. } = document.total;
    let held: u64 = document.processes.iter().map(|process| process.dram_bytes).sum();
    let nodes = nodes(document).map_or(String::new(), |nodes| format!(" ({nodes})"));
    format!(
        "{:.0} s: {} of {} DRAM{nodes}, {faults} faults, {} read, {} written, {} s stalled",
        document.elapsed_s,
        Bytes::new(held),
        Bytes::new(document.dram_bytes),
        Bytes::new(read_bytes),
        Bytes::new(written_bytes),
        number(stall_s)
    )
}

/// Renders the checks and the estimate of a dry run as text for a terminal.
pub fn plan(document: &ExtendPlanDocument) -> String {
    let mut text = String::new();
    for check in &document.checks {
        text += &format!("{:<16}{:<17}{}\n", check.what, check.status, check.detail);
        if let Some(hint) = &check.remedy {
            text += &format!("{:33}hint: {hint}\n", "");
        }
    }
    if let Some(found) = &document.estimate {
        text += &estimate(found, document.dram_bytes);
    }
    if !document.command.is_empty() {
        let can = if document.can_be_done { "would run" } else { "cannot run" };
        text += &format!("\n{can}: {}\n", shell_text::command(&document.command));
    }
    text
}

fn estimate(estimate: &EstimateDocument, dram_bytes: u64) -> String {
    format!(
        "\n{}\nWhat the drives allow with {} of DRAM, at most; what fits is as fast as DRAM:\n{}",
        store_speeds(estimate).text(),
        Bytes::new(dram_bytes),
        speed_limits(estimate).text()
    )
}

fn store_speeds(estimate: &EstimateDocument) -> Table {
    let mut drives = Table::new(&["store", "read", "write"]);
    if let Some(first) = estimate.drives.first() {
        let depths = first.random.iter().map(|random| format!("4 KiB, {} at a time", random.depth));
        let header = ["store", "read", "write"].map(String::from).into_iter().chain(depths);
        drives = Table::with_header(header.collect());
    }
    for drive in &estimate.drives {
        let gbps = |value: f64| format!("{} GB/s", number(value));
        let random = drive
            .random
            .iter()
            .map(|random| format!("{} /s, {} us", number(random.iops), number(random.latency_us)));
        let path = drive.path.display().to_string();
        let cells = [path, gbps(drive.read_gbps), gbps(drive.write_gbps)].into_iter();
        drives.row(cells.chain(random));
    }
    drives
}

/// Returns a table of the speeds that the stores allow a program to reach, by footprint.
fn speed_limits(estimate: &EstimateDocument) -> Table {
    let many = estimate.drives.first().and_then(|drive| drive.random.last());
    let many = format!("from {} threads", many.map_or(0, |random| random.depth));
    let mut rows =
        Table::new(&["footprint", "not in DRAM", "read in order", "triad", "random access", &many]);
    for row in &estimate.rows {
        let of = |value: Option<f64>, unit: &str| {
            value.map_or("DRAM".into(), |value| format!("{} {unit}", number(value)))
        };
        rows.row([
            Bytes::new(row.footprint_bytes).to_string(),
            format!("{:.0} %", 100.0 * row.missing_share),
            of(row.read_gbps, "GB/s"),
            of(row.triad_gbps, "GB/s"),
            of(row.random_us, "us"),
            of(row.random_many_us, "us"),
        ]);
    }
    rows
}

/// Renders the plan of a dry run or an estimate, as a page of a report.
pub fn plan_page(document: &ExtendPlanDocument) -> Page {
    let budget = Bytes::new(document.dram_bytes);
    let program = page::program(&document.command);
    let (title, answer) = match document.command.is_empty() {
        true => {
            let title = format!("{budget} of DRAM, extended by stores");
            let speed = document.estimate.as_ref().map(|it| {
                let (read, write) = (number(it.read_gbps), number(it.write_gbps));
                format!("the stores read {read} GB/s and write {write} GB/s")
            });
            (title, speed.unwrap_or_else(|| "nothing was measured".into()))
        }
        false => {
            let can = if document.can_be_done { "can" } else { "cannot" };
            let answer = format!("{program} {can} be extended");
            (format!("Can {program} be extended?"), answer)
        }
    };
    let stores: Vec<String> = document.stores.iter().map(|it| it.display().to_string()).collect();
    let mut facts = vec![format!("budget {budget}, stores: {}", stores.join(", "))];
    facts.extend(page::command(&document.command));
    let mut found =
        Page { title, answer, facts, ..Page::default() }.with_table("Checks", checks(document));
    if let Some(estimate) = &document.estimate {
        found = found
            .with_table("Speed of the stores", store_speeds(estimate))
            .with_table("Speed of a program, at most", speed_limits(estimate));
    }
    found
}

fn checks(document: &ExtendPlanDocument) -> Table {
    let mut table = Table::new(&["check", "passed", "detail", "remedy"]);
    for check in &document.checks {
        let remedy = check.remedy.clone().unwrap_or_default();
        table.row([check.what.clone(), check.status.to_string(), check.detail.clone(), remedy]);
    }
    table
}

/// Renders the estimate as CSV, or the checks if there is no estimate.
pub fn plan_csv(document: &ExtendPlanDocument) -> String {
    let Some(estimate) = &document.estimate else { return checks(document).csv() };
    let mut table = Table::new(&[
        "footprint_bytes",
        "missing_share",
        "read_gbps",
        "triad_gbps",
        "random_us",
        "random_many_us",
    ]);
    for row in &estimate.rows {
        let values = [row.read_gbps, row.triad_gbps, row.random_us, row.random_many_us];
        let values = values.map(|value| value.map_or(String::new(), |value| value.to_string()));
        let first = [row.footprint_bytes.to_string(), row.missing_share.to_string()];
        table.row(first.into_iter().chain(values));
    }
    table.csv()
}

/// Renders the forecast for other budgets and drives, as text for a terminal.
pub fn forecast(document: &ForecastDocument) -> String {
    let mut text = format!(
        "{}\n\n{}\n{}:\n{}",
        needs(document),
        traffic(document).text(),
        forecast_of(document),
        efficiency(document).text()
    );
    enough(document).iter().for_each(|line| text += &format!("{line}\n"));
    document.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    text
}

/// Renders the forecast as a page of a report.
pub fn forecast_page(document: &ForecastDocument) -> Page {
    let title = format!("Forecast with extended memory: {}", needs(document));
    let answer =
        least_budgets(document).unwrap_or_else(|| "the time of the drive for a pass".into());
    let inputs = format!("computed from {}", document.inputs.join(", "));
    let facts = enough(document).into_iter().chain([inputs]).collect();
    let notes = document.notes.clone();
    Page { title, answer, facts, notes, ..Page::default() }
        .with_table(forecast_of(document), efficiency(document))
        .with_table("Traffic of the drive", traffic(document))
}

/// Returns the requirements of the program in one line: the footprint, the runtime in DRAM, the
/// software time of the pager, and the overlap of computing and traffic.
fn needs(document: &ForecastDocument) -> String {
    let compute = document.compute_s.map(|it| format!(", {} s in DRAM", number(it)));
    let software = document.compute_s.map(|_| match document.overhead_us_per_mb {
        Some(it) => format!("; software of the pager {} s for a GB of traffic", number(1e-3 * it)),
        None => "; software of the pager and overlap unknown".into(),
    });
    let overlap = document.overlap.map(|it| {
        format!(", {:.0} % of the shorter of computing and traffic overlaps", 100.0 * it)
    });
    let parts = [compute, software, overlap].into_iter().flatten().collect::<String>();
    format!("footprint {}{parts}", rounded_up(document.footprint_bytes))
}

/// Returns a table with a row for each budget: the bytes that the drive reads and writes, and the
/// miss ratio of an LRU cache.
fn traffic(document: &ForecastDocument) -> Table {
    let mut curve = Table::new(&["DRAM", "read", "written", "LRU misses"]);
    for row in &document.curve {
        let lru = row.lru_miss_ratio.map_or("-".into(), |it| format!("{:.0} %", 100.0 * it));
        let sizes = [row.dram_bytes, row.read_bytes, row.written_bytes];
        let [budget, read, written] = sizes;
        let cells = [budget_of(document, budget), rounded(read), rounded(written)];
        curve.row(cells.map(|bytes| bytes.to_string()).into_iter().chain([lru]));
    }
    curve
}

/// Returns the title of the table that [`efficiency`] returns.
fn forecast_of(document: &ForecastDocument) -> &'static str {
    match document.compute_s {
        Some(_) => "Efficiency: speed divided by the speed in DRAM",
        None => "Time of the drive for a pass (without a run the compute time is not known)",
    }
}

/// Returns a table of efficiencies, or of the drives' times if the compute time is unknown, with a
/// row for each budget and a column for each drive.
fn efficiency(document: &ForecastDocument) -> Table {
    let mut drives: Vec<&str> = document.rows.iter().map(|row| row.drive.as_str()).collect();
    drives.dedup();
    let header = ["DRAM"].into_iter().chain(drives.iter().copied()).map(String::from);
    let mut table = Table::with_header(header.collect());
    let budgets = document.rows.iter().filter(|row| Some(&row.drive.as_str()) == drives.first());
    for first in budgets {
        let of = |drive: &&str| {
            let is_it =
                |row: &&ForecastRow| row.drive == **drive && row.dram_bytes == first.dram_bytes;
            let row = document.rows.iter().find(is_it);
            row.map_or("-".into(), |row| match row.efficiency {
                Some(efficiency) => format!("{:.0} %", 100.0 * efficiency),
                None => format!("{} s", number(row.seconds)),
            })
        };
        let budget = budget_of(document, first.dram_bytes).to_string();
        table.row([budget].into_iter().chain(drives.iter().map(of)));
    }
    table
}

/// Returns a line for each drive, with the smallest budget at which the program reaches the
/// requested efficiency.
fn enough(document: &ForecastDocument) -> Vec<String> {
    let line = |row: &EnoughRow| {
        format!(
            "{}: {}{} of DRAM {} for {:.0} % ({:.0} % of the footprint)",
            row.drive,
            if row.is_lower_bound { "at least " } else { "" },
            rounded_up(row.dram_bytes),
            if row.is_lower_bound { "are needed" } else { "is enough" },
            100.0 * row.efficiency,
            100.0 * row.share
        )
    };
    document.enough.iter().map(line).collect()
}

/// Formats the smallest budgets in one line: `90 % of the speed in DRAM takes a budget of 27 MiB
/// (nvme-gen5), 4 MiB (cxl)`. Returns `None` if the forecast has none, because no run was measured.
fn least_budgets(document: &ForecastDocument) -> Option<String> {
    let percent = 100.0 * document.enough.first()?.efficiency;
    let drives = document.enough.iter();
    let drives = drives.map(|row| {
        let least = if row.is_lower_bound { "at least " } else { "" };
        format!("{least}{} ({})", rounded_up(row.dram_bytes), row.drive)
    });
    let drives = drives.collect::<Vec<_>>().join(", ");
    Some(format!("{percent:.0} % of the speed in DRAM takes a budget of {drives}"))
}

/// Renders the forecast as CSV, with a row for each drive and budget.
pub fn forecast_csv(document: &ForecastDocument) -> String {
    let mut table = Table::new(&["drive", "dram_bytes", "seconds", "efficiency"]);
    for row in &document.rows {
        table.row([
            row.drive.clone(),
            row.dram_bytes.to_string(),
            row.seconds.to_string(),
            row.efficiency.map_or(String::new(), |it| it.to_string()),
        ]);
    }
    table.csv()
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_record::extend::ProcessDocument;

    fn counts(faults: u64) -> CountsDocument {
        CountsDocument { faults, ..CountsDocument::default() }
    }

    fn document(faults: u64, processes: Vec<ProcessDocument>) -> ExtendDocument {
        ExtendDocument {
            schema: interleaf_record::extend::SCHEMA.into(),
            command: vec!["sh".into()],
            exit_code: Some(0),
            signal: None,
            elapsed_s: 1.0,
            dram_bytes: 16 << 20,
            min_alloc_bytes: 2 << 20,
            is_without_children: false,
            stores: vec![],
            resident_max_bytes: None,
            outside: None,
            swapped_bytes: 0,
            user_s: None,
            system_s: None,
            total: counts(faults),
            processes,
        }
    }

    fn process(pid: u32, faults: u64) -> ProcessDocument {
        ProcessDocument {
            pid,
            name: "solver".into(),
            dram_bytes: 8 << 20,
            outside_bytes: None,
            left_bytes: 0,
            nodes: vec![],
            counts: counts(faults),
        }
    }

    #[test]
    fn a_row_has_the_total_if_the_rows_do_not_add_up_to_it() {
        let is_total = |line: &str| line.trim_start().starts_with("all ");
        let has_all = |document| ended(&document).lines().any(is_total);
        assert!(!has_all(document(7, vec![process(1, 7)])));
        assert!(has_all(document(9, vec![process(1, 7)])), "an ended process had 2 faults");
        assert!(has_all(document(9, vec![])), "an ended process had all faults");
        assert!(has_all(document(7, vec![process(1, 3), process(2, 4)])));
    }

    /// A lower budget would not help a command whose memory was not extended.
    #[test]
    fn memory_in_swap_is_reported_of_extended_memory() {
        let swapped_bytes = 2 << 20;
        let known = ExtendDocument { swapped_bytes, ..document(7, vec![process(1, 7)]) };
        let expected = "\nmemory in swap: up to 2 MiB; if the machine or the control group has too \
                        little memory, the kernel also swaps pages of the budget: a lower --dram \
                        avoids this\n";
        assert!(ended(&known).ends_with(expected), "{}", ended(&known));
        let fact = "memory in swap: up to 2 MiB; ";
        assert!(page(&known).facts.iter().any(|line| line.starts_with(fact)));
        let not_extended = ExtendDocument { swapped_bytes, ..document(0, vec![process(1, 0)]) };
        assert!(!ended(&not_extended).contains("in swap"), "{}", ended(&not_extended));
    }

    #[test]
    fn processes_below_the_least_allocation_have_extended_nothing() {
        let outside = Some(OutsideDocument { bytes: 3 << 20, left_bytes: 1 << 20 });
        let known = ExtendDocument { outside, ..document(0, vec![process(1, 0)]) };
        let expected = "nothing was extended: unless a message above says why, no process \
                        allocated 2 MiB (--min-alloc) in pieces of 128 KiB and more, or touched \
                        none of it.\nmemory outside the budget: up to 3 MiB. Of these, 1 MiB are \
                        in allocations";
        assert!(ended(&known).starts_with(expected), "{}", ended(&known));
        assert!(page(&known).answer.starts_with("nothing was extended: "));
        let resident_max_bytes = Some(5 << 20);
        let unknown =
            ended(&ExtendDocument { resident_max_bytes, ..document(0, vec![process(1, 0)]) });
        let expected = "The largest process had 5 MiB resident, all of it outside the budget: a \
                        lower --min-alloc extends smaller allocations.\n";
        assert!(unknown.ends_with(expected), "{unknown}");
    }

    #[test]
    fn the_reason_why_nothing_was_extended_names_children_none() {
        let children = document(0, vec![]);
        assert!(ended(&children).contains("no process allocated 2 MiB (--min-alloc)"));
        let text = ended(&ExtendDocument { is_without_children: true, ..children });
        assert!(text.contains("the command itself did not allocate 2 MiB"), "{text}");
        assert!(text.contains("--children none"), "{text}");
    }
}
