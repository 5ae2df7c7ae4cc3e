//! Renders a report on a sweep of memory modules, which compares the modules under the maximum
//! load.

use super::{names, shortened};
use crate::{
    number,
    page::{Page, counted},
    table::Table,
};
use interleaf_record::{
    rounded,
    sweep::dimm::{DimmAxis, DimmMetric, DimmSweepDocument, DimmSweepRow},
};
use std::collections::BTreeSet;

/// Renders the sweep as a page of a report.
pub fn page(document: &DimmSweepDocument) -> Page {
    let cases = counted(document.cases(), "case");
    let mut facts = vec![format!("{cases}, {}", counted(document.rows.len(), "row"))];
    facts.extend(document.varied().iter().map(|(axis, values)| {
        let values: Vec<String> = values.iter().map(|value| rounded(*value).to_string()).collect();
        format!("{}: {}", axis.label, shortened(&values))
    }));
    let rows = || document.rows.iter();
    facts.extend(constants(document));
    facts.push(names("modules", rows().map(|row| row.label.clone()).collect()));
    facts.push(names("traffic mixes", rows().map(|row| row.mix.clone()).collect()));
    facts.push(names("patterns", rows().map(|row| row.pattern.clone()).collect()));
    facts.push(names("row policies", rows().map(|row| row.row_policy.clone()).collect()));
    facts.push(names("refresh", rows().map(|row| row.refresh.clone()).collect()));
    let title = format!("Sweep {}", document.name);
    let mut page = Page { title, answer: answer(document), facts, ..Page::default() };
    for metric in document.metrics() {
        let heading = format!("Modules by {}, {}", metric.name, metric.unit);
        page = page.with_table(&heading, by_setting(document, metric));
    }
    Page {
        notes: vec![
            "All figures are simulated, over all channels. Latency is of reads, from the core's \
             miss to its data. The tables are of the highest load of the sweep, at which a \
             constant number of lines is outstanding: a module with more bandwidth then has less \
             latency. Latencies at equal bandwidth need several loads (load = [\"sweep\"])."
                .into(),
            "Outstanding lines and the latency between core and controller are those of an \
             assumed server, except for built-in servers. Assumed and inherited timing of a \
             module: interleaf simulate dimm --device NAME; the files in devices/ have the source \
             of each figure; docs/validation.md has the errors against measured servers."
                .into(),
        ],
        ..page
    }
}

/// Returns a sentence with the numeric settings that are equal in all rows, and with their values.
fn constants(document: &DimmSweepDocument) -> Option<String> {
    let values = document.constants().into_iter();
    let texts: Vec<String> =
        values.map(|(axis, value)| format!("{}: {}", axis.label, rounded(value))).collect();
    (!texts.is_empty()).then(|| format!("in all cases, {}", texts.join("; ")))
}

/// Returns a sentence with the module that has the highest bandwidth for the first traffic mix and
/// pattern, and with its setting. The highest bandwidth of each other module follows.
fn answer(document: &DimmSweepDocument) -> String {
    let Some(metric) = document.metrics().into_iter().next() else { return String::new() };
    let all = document.by_setting(metric);
    let Some((first, _)) = all.first() else { return String::new() };
    let mut best: Vec<(&DimmSweepRow, f64)> = all
        .iter()
        .filter(|(row, _)| (&row.mix, &row.pattern) == (&first.mix, &first.pattern))
        .map(|(row, spread)| (*row, spread.mean))
        .collect();
    best.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let mut seen = BTreeSet::new();
    best.retain(|(row, _)| seen.insert(row.label.clone()));
    let (row, mean) = best[0];
    let texts = TEXTS.iter().filter(|(_, of)| all.iter().any(|(other, _)| of(other) != of(first)));
    let texts = texts.filter(|(name, _)| !["mix", "pattern"].contains(name));
    let texts = texts.map(|(name, of)| format!("; {name}: {}", of(row)));
    let varied = document.varied().into_iter();
    let numbers =
        varied.map(|(axis, _)| format!("; {}: {}", axis.label, rounded((axis.value)(row))));
    let setting: String = texts.chain(numbers).collect();
    let others = best.iter().skip(1);
    let others: Vec<String> =
        others.map(|(row, mean)| format!("{} {}", row.label.clone(), number(*mean))).collect();
    let others = match others.is_empty() {
        true => String::new(),
        false => format!("; highest of the others: {}", shortened(&others)),
    };
    let (mix, pattern) = (&first.mix, &first.pattern);
    let (module, mean) = (row.label.clone(), number(mean));
    format!("{module}: {mean} {} of {mix} ({pattern} pattern{setting}){others}", metric.unit)
}

/// Renders the main table as CSV: bandwidth by module and setting.
pub fn csv(document: &DimmSweepDocument) -> String {
    let metric = document.metrics().into_iter().next();
    metric.map_or(String::new(), |metric| by_setting(document, metric).csv())
}

/// A function that returns a text of a row, such as its mix.
type Text = fn(&DimmSweepRow) -> &str;

/// The settings of a row that are texts, each with its heading.
const TEXTS: [(&str, Text); 4] = [
    ("mix", |row| &row.mix),
    ("pattern", |row| &row.pattern),
    ("row policy", |row| &row.row_policy),
    ("refresh", |row| &row.refresh),
];

/// Returns a table of `metric` with a row for each combination of the settings that differ between
/// the cases. Means, minima and maxima are over the seeds.
fn by_setting(document: &DimmSweepDocument, metric: DimmMetric) -> Table {
    let all = document.by_setting(metric);
    let first = all.first().map(|(row, _)| *row);
    let differs = |of: Text| all.iter().any(|(row, _)| first.map(of) != Some(of(row)));
    let texts = TEXTS.into_iter().filter(|(_, of)| differs(*of)).collect::<Vec<_>>();
    let axes: Vec<DimmAxis> = document.varied().into_iter().map(|(axis, _)| axis).collect();
    let has_spread = all.iter().any(|(_, spread)| spread.count > 1);
    let spread = if has_spread { &["mean", "least", "most", "cases"][..] } else { &["value"] };
    let header = ["module"].into_iter().chain(texts.iter().map(|(name, _)| *name));
    let header = header.chain(axes.iter().map(|axis| axis.name)).chain(spread.iter().copied());
    let mut table = Table::new(&header.collect::<Vec<_>>());
    for (row, spread) in &all {
        let names = [row.label.clone()].into_iter();
        let names = names.chain(texts.iter().map(|(_, of)| of(row).to_string()));
        let numbers = axes.iter().map(|axis| rounded((axis.value)(row)).to_string());
        let spreads = match has_spread {
            true => vec![
                number(spread.mean),
                number(spread.least),
                number(spread.most),
                spread.count.to_string(),
            ],
            false => vec![number(spread.mean)],
        };
        table.row(names.chain(numbers).chain(spreads));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_record::sweep::{dimm::COLUMNS, header};

    const ROW: &str = "0,m,m,,16Gb,x4,2,stream,288,65.0,adaptive,\
                       all-bank,100000,1,R,,80.5,0.8,200.5,190,400,500,0.5,3.5,5.5,23.0,a,b";
    const TEXT_COLUMNS: [&str; 10] = [
        "device",
        "module",
        "server",
        "density",
        "width",
        "pattern",
        "row_policy",
        "refresh",
        "mix",
        "sweep",
    ];

    fn read(rows: &[String]) -> Result<DimmSweepDocument, String> {
        let text = format!("{}\n{}\n", header(&COLUMNS), rows.join("\n"));
        DimmSweepDocument::read("a.csv", &text).map_err(|why| why.problem)
    }

    /// Reads files of two rows: a valid row, and a copy of this row with one cell replaced by an
    /// unusual value. Each cell is replaced in turn. The reading must fail with an error that names
    /// the line, or the page must show neither NaN nor infinity in place of a number.
    #[test]
    fn altered_rows_are_refused_or_rendered() {
        let cells: Vec<&str> = ROW.split(',').collect();
        let (mut refused, mut rendered) = (0, 0);
        for at in 0..cells.len() {
            for odd in ["", "x", "-1", "0", "NaN", "inf", "1e308", "1e400", "<b>", "é"] {
                let mut cells = cells.clone();
                cells[at] = odd;
                match read(&[ROW.into(), cells.join(",")]) {
                    Ok(document) => {
                        let html = page(&document).html("");
                        let is_shown = html.contains("NaN") || html.contains("inf");
                        assert!(
                            TEXT_COLUMNS.contains(&COLUMNS[at].name) || !is_shown,
                            "{odd}: {html}"
                        );
                        assert!(document.figures().iter().all(|it| it.check("figure").is_ok()));
                        assert!(csv(&document).lines().count() >= 2);
                        rendered += 1;
                    }
                    Err(problem) => {
                        assert!(problem.starts_with("a.csv: line 3: "), "{problem}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 70 && rendered > 70, "{refused} and {rendered}");
    }

    #[test]
    fn the_fastest_module_is_the_answer() {
        let other = ROW.replace("0,m,m,", "1,n,n,").replace("80.5", "90.5");
        let document = read(&[ROW.into(), other]).unwrap();
        let answer = answer(&document);
        let expected = "n: 90.50 GB/s of R (stream pattern); highest of the others: m 80.50";
        assert_eq!(answer, expected);
        let [bandwidth, latency, energy] = &document.figures()[..] else { panic!("3 figures") };
        assert_eq!(bandwidth.categories, ["m", "n"]);
        assert_eq!(bandwidth.series[0].y, [80.5, 90.5]);
        assert_eq!((&latency.id[..], &energy.id[..]), ("latency", "energy"));
    }

    #[test]
    fn loads_and_channels_are_axes() {
        let cell = |at: usize, text: &str| {
            let mut cells: Vec<&str> = ROW.split(',').collect();
            cells[at] = text;
            cells.join(",")
        };
        let offered = read(&[cell(15, "40.0"), ROW.into()]).unwrap();
        let figures = offered.figures();
        assert_eq!((&figures[0].id[..], figures[0].series[0].x.len()), ("loaded-latency", 2));
        let channels = read(&[ROW.into(), cell(6, "4")]).unwrap();
        assert_eq!(channels.figures()[0].x_label, "channels");
        assert_eq!(channels.varied()[0].1, [2.0, 4.0]);
        assert!(answer(&channels).ends_with("(stream pattern; channels: 2)"));
        assert_eq!(by_setting(&channels, channels.metrics()[0]).row_count(), 2);
        let policies = read(&[ROW.into(), cell(10, "open").replace("80.5", "90.5")]).unwrap();
        assert!(answer(&policies).ends_with("90.50 GB/s of R (stream pattern; row policy: open)"));
    }
}
