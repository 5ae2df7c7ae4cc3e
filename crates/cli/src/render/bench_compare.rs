//! Patterns on DRAM, on the pager, on swap and on mapped files.

use super::{number, table::Table};
use crate::{
    document::{
        bench_compare::{CompareDocument, RowDocument},
        measure::size_text,
    },
    verb::BenchEnded,
};

/// What came of a run, in a few words.
pub(crate) fn ended(ended: &BenchEnded) -> String {
    match ended {
        BenchEnded::Done(document, _) => {
            let wrong = if document.verified { "" } else { ", and the result is WRONG" };
            let round = document.seconds / document.round_seconds.len().max(1) as f64;
            format!(
                "{} {}, {} s a round{wrong}",
                number(document.rate),
                document.rate_unit,
                number(round)
            )
        }
        BenchEnded::TooLong => "it took too long".into(),
        BenchEnded::Failed(why) => format!("failed: {why}"),
        BenchEnded::Signal(signal) => format!("ended by signal {signal}"),
    }
}

pub(crate) fn text(document: &CompareDocument) -> String {
    let machine = &document.machine;
    let read_ahead = machine.read_ahead_kb.map_or("?".into(), |kb| kb.to_string());
    let head = format!(
        "budget {}, {} thread(s); {} CPUs ({}), Linux {}, drive {} (read_ahead_kb {read_ahead})\n\n",
        size_text(document.dram_bytes),
        document.threads,
        machine.cpus,
        machine.cpu,
        machine.kernel,
        machine.drive,
    );
    let (rows, ceilings) = (table(document).text(), ceilings(document));
    format!("{head}{rows}\n{}", ceilings.text())
}

/// What is possible at best.
fn ceilings(document: &CompareDocument) -> Table {
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
            drive.map_or("nothing has to be carried".into(), |drive| drive.by.clone()),
        ]);
    }
    table
}

fn table(document: &CompareDocument) -> Table {
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

fn result(row: &RowDocument) -> String {
    match (row.rate, row.verified, row.same_as_dram) {
        (None, _, _) => row.problem.clone().unwrap_or_else(|| "not run".into()),
        (Some(_), false, _) => "WRONG".into(),
        (Some(_), true, Some(false)) => "right, but other bits".into(),
        (Some(_), true, _) => "right".into(),
    }
}

pub(crate) fn csv(document: &CompareDocument) -> String {
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
            whole(row.used_max_bytes),
            row.verified.to_string(),
            row.problem.clone().unwrap_or_default(),
        ]);
    }
    table.csv()
}
