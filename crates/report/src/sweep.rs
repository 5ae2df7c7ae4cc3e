//! Renders the report on a sweep of simulated machines. The report compares the policies of the
//! sweep.

pub mod dimm;

use super::{
    page::{Page, counted},
    table::Table,
};
use interleaf_record::{
    rounded,
    sweep::{Metric, Spread, SweepDocument, SweepRow},
};

/// Renders the sweep as a page of a report.
pub fn page(document: &SweepDocument) -> Page {
    let cases = counted(document.cases(), "case");
    let mut facts = vec![format!("{cases}, {}", counted(document.rows.len(), "row"))];
    facts.extend(document.varied().iter().map(|(varied, values)| {
        let values: Vec<String> = values.iter().map(|value| rounded(*value).to_string()).collect();
        format!("{}: {}", varied.label(), shortened(&values))
    }));
    let rows = || document.rows.iter();
    facts.push(names("platforms", rows().map(|row| row.platform.clone()).collect()));
    // A scenario with a single workload has the name of the workload, so the scenarios are not
    // listed if all have one workload.
    if rows().any(|row| row.scenario != row.workload) {
        facts.push(names("scenarios", rows().map(|row| row.scenario.clone()).collect()));
    }
    facts.push(names("workloads", rows().map(|row| row.workload.clone()).collect()));
    let reference = document.reference();
    facts.extend(reference.map(|name| {
        format!("{name}: the best static weights of each case, to which regret is relative")
    }));
    let title = format!("Sweep {}", document.name);
    let mut page = Page { title, answer: answer(document), facts, ..Page::default() };
    for metric in document.metrics() {
        let heading = format!("Policies by {}", metric.label());
        page = page.with_table(&heading, by_policy(document, metric));
    }
    for metric in document.metrics() {
        let heading = format!("Policies and workloads by {}", metric.label());
        page = page.with_table(&heading, by_workload(document, metric));
    }
    let unfinished = rows().filter(|row| row.runtime_s.is_none()).count();
    let partial = (unfinished > 0).then(|| {
        format!(
            "{} without a complete run: the simulation ended before, and the figures are those of \
             the work done until then.",
            counted(unfinished, "row")
        )
    });
    let notes = [
        "Regret is the runtime relative to that of the best static weights of the case, minus 1; \
         regret over the duration is the additional work that these weights would have done until \
         the end of the simulation."
            .into(),
        "All figures are simulated. The provenance of the platform's figures: interleaf show \
         --platform NAME."
            .into(),
    ];
    Page { notes: notes.into_iter().chain(partial).collect(), ..page }
}

/// Returns a sentence with the policy whose mean of the first metric is best, and with the means of
/// the other policies. In a comparison by regret, the policy with the best static weights is left
/// out, because regret is relative to it. It is not left out if it is the only policy.
fn answer(document: &SweepDocument) -> String {
    let Some(metric) = document.metrics().into_iter().next() else {
        return "no case has a result: no workload had started when its simulation ended".into();
    };
    let mut policies = document.by_policy(metric);
    let reference = document.reference().filter(|_| metric.lower_is_better && policies.len() > 1);
    policies.retain(|(policy, _)| Some(policy) != reference.as_ref());
    policies.sort_by(|(_, a), (_, b)| {
        let order = a.mean.total_cmp(&b.mean);
        if metric.lower_is_better { order } else { order.reverse() }
    });
    let mean = |spread: &Spread| metric.text(spread.mean);
    let Some((first, spread)) = policies.first() else { return String::new() };
    let others =
        policies.iter().skip(1).map(|(policy, spread)| format!("{policy} {}", mean(spread)));
    let others: Vec<String> = others.collect();
    let others =
        if others.is_empty() { String::new() } else { format!("; {}", shortened(&others)) };
    let which = if metric.lower_is_better { "lowest" } else { "highest" };
    let (name, unit) = (metric.name, metric.unit);
    format!("{first} has the {which} {name}: {}{unit} in the mean{others}", mean(spread))
}

/// Renders the main table as CSV: the first metric by policy and workload.
pub fn csv(document: &SweepDocument) -> String {
    let metric = document.metrics().into_iter().next();
    metric.map_or(String::new(), |metric| by_workload(document, metric).csv())
}

const SPREAD: [&str; 6] = ["rows", "mean", "5th percentile", "95th percentile", "least", "most"];

fn cells(metric: Metric, spread: &Spread) -> [String; 6] {
    let Spread { count, mean, low, high, least, most } = *spread;
    let [mean, low, high, least, most] =
        [mean, low, high, least, most].map(|value| metric.text(value));
    [count.to_string(), mean, low, high, least, most]
}

fn by_policy(document: &SweepDocument, metric: Metric) -> Table {
    let mut table = Table::new(&[&["policy"], &SPREAD[..]].concat());
    for (policy, spread) in document.by_policy(metric) {
        table.row([policy].into_iter().chain(cells(metric, &spread)));
    }
    table
}

fn by_workload(document: &SweepDocument, metric: Metric) -> Table {
    let mut table =
        Table::new(&[&["policy", "platform", "workload", "threads"], &SPREAD[..]].concat());
    let of = |row: &SweepRow| (row.platform.clone(), row.workload.clone(), row.threads);
    for (policy, (platform, workload, threads), spread) in document.spreads(metric, of) {
        let names = [policy, platform, workload, threads.to_string()];
        table.row(names.into_iter().chain(cells(metric, &spread)));
    }
    table
}

/// Returns the line `what: NAME, NAME, ...` for a report, with each name once.
fn names(what: &str, mut names: Vec<String>) -> String {
    names.sort_unstable();
    names.dedup();
    format!("{what}: {}", shortened(&names))
}

/// Maximum number of names that a list shows.
const NAMES_MAX: usize = 8;

/// Joins names to a list. A list of more than `NAMES_MAX` names shows the first names, and the
/// number of the remaining names.
fn shortened(names: &[String]) -> String {
    match names.len() {
        0..=NAMES_MAX => names.join(", "),
        count => format!("{}, and {} more", names[..NAMES_MAX].join(", "), count - NAMES_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interleaf_record::sweep::COLUMNS;

    /// Columns of names. A name such as `NaN` or `inf` is valid, so a page may show it in these
    /// columns.
    const TEXTS: [&str; 5] = ["platform", "scenario", "workload", "policy", "weights"];

    /// Reads files of two rows: a valid row, and a copy of this row with one cell replaced by an
    /// unusual value. Each cell is replaced in turn. The reading must fail with an error that names
    /// the line, or the page must show neither NaN nor infinity in place of a number.
    #[test]
    fn altered_rows_are_refused_or_rendered() {
        let header = interleaf_record::sweep::header(&COLUMNS);
        let row = "0,p,s,lbm,4,1073741824,dmi,,0.02,0.1,2,1,10,1.2,3:1,9,0.1,0.01,5,3:1,0,0,1,a,b";
        let cells: Vec<&str> = row.split(',').collect();
        let (mut refused, mut rendered) = (0, 0);
        for at in 0..cells.len() {
            for odd in ["", "x", "-1", "0", "NaN", "inf", "1e308", "1e400", "<b>", "\"a,b\"", "é"]
            {
                let mut cells = cells.clone();
                cells[at] = odd;
                let text = format!("{header}\n{row}\n{}\n", cells.join(","));
                match SweepDocument::read("a.csv", &text) {
                    Ok(document) => {
                        let html = page(&document).html("");
                        let is_number = !TEXTS.contains(&COLUMNS[at].name);
                        let is_shown = html.contains("NaN") || html.contains("inf");
                        assert!(!is_number || !is_shown, "{odd}: {html}");
                        assert!(document.figures().iter().all(|it| it.check("figure").is_ok()));
                        assert!(csv(&document).lines().count() >= 2);
                        rendered += 1;
                    }
                    Err(why) => {
                        assert!(why.problem.starts_with("a.csv: line 3: "), "{}", why.problem);
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 80 && rendered > 80, "{refused} and {rendered}");
    }

    #[test]
    fn long_lists_are_shortened() {
        let names: Vec<String> = (0..10).map(|at| at.to_string()).collect();
        assert_eq!(shortened(&names), "0, 1, 2, 3, 4, 5, 6, 7, and 2 more");
        assert_eq!(shortened(&names[..2]), "0, 1");
    }
}
