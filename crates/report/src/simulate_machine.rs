//! Renders a policy on a simulated machine (`interleaf.simulate.machine/1`) as text, Markdown, HTML
//! and CSV.

use super::{
    number,
    page::counted,
    screen::{Meaning, painted},
    short_number, signed_percent,
    table::Table,
    terminal_chart,
};
use interleaf_model::units::Bytes;
use interleaf_record::{
    figure::{Figure, SeriesKind},
    predict::weights_text,
    simulate_machine::{SimulateDocument, SimulatedPeriod, WorkloadDocument, notable_periods},
};

/// The chart of the shares ends at this time or later, s, unless the run ends earlier. The chart
/// shows how the policy searches for its target.
const SEARCH_MIN_S: f64 = 60.0;

/// Returns the title of the document's page.
pub fn title(document: &SimulateDocument) -> String {
    format!("{} under {} on {}", document.scenario, document.policy, document.platform)
}

/// Renders the document as text for a terminal.
pub fn text(document: &SimulateDocument) -> String {
    let mut text = painted(Meaning::Answer, &verdict(document)) + "\n";
    text += &format!("\n{}\n{}\n", title(document), setting(document));
    text += &format!("\n{}", periods(document, false).text());
    let until_s = searched_until(document);
    for figure in document.shares() {
        let chart = terminal_chart::text(&cut(figure, until_s));
        if !chart.is_empty() {
            text += &format!("\nthe first {} s: {chart}", short_number(until_s));
        }
    }
    text += &format!("\n{}", workloads(document).text());
    if !document.comparison.is_empty() {
        text += &format!("\n{}", comparison(document).text());
    }
    text += "\n";
    for warning in &document.warnings {
        let warning = painted(Meaning::Doubtful, &format!("warning: {warning}"));
        text += &format!("{warning}\n");
    }
    text + &lines(document).iter().map(|line| format!("{line}\n")).collect::<String>()
}

/// Returns the time at which the chart of the shares ends, s: twice the time of the last change of
/// the target, but at least [`SEARCH_MIN_S`] and at most the end of the run.
fn searched_until(document: &SimulateDocument) -> f64 {
    let end_s = document.periods.last().map_or(0.0, |period| period.time_s);
    let changes = document.periods.windows(2);
    let last = changes.rev().find(|pair| pair[0].target_weights != pair[1].target_weights);
    let until_s = last.map_or(SEARCH_MIN_S, |pair| 2.0 * pair[1].time_s).max(SEARCH_MIN_S);
    until_s.min(end_s)
}

/// Returns the figure without its points after the time `until_s`.
fn cut(mut figure: Figure, until_s: f64) -> Figure {
    for series in &mut figure.series {
        let kept = series.x.iter().filter(|x| **x <= until_s).count();
        if series.kind == SeriesKind::Line && series.x.len() == 2 {
            // A line of two points is the horizontal line of the best static weights. Its second
            // point is moved to `until_s`, because without this point there is no line.
            series.x[1] = until_s;
            continue;
        }
        series.x.truncate(kept);
        series.y.truncate(kept);
    }
    figure
}

pub fn markdown(document: &SimulateDocument) -> String {
    let mut text = format!("# {}\n\n{}\n", title(document), setting(document));
    text += &format!("\n{}\n", verdict(document));
    for warning in &document.warnings {
        text += &format!("\nWarning: {warning}\n");
    }
    text += &format!("\n{}\n", workloads(document).markdown());
    if !document.comparison.is_empty() {
        text += &format!("\n## Policies side by side\n\n{}\n", comparison(document).markdown());
    }
    text += &format!("\n## Decisions\n\n{}\n", periods(document, true).markdown());
    text + &lines(document).iter().map(|line| format!("- {line}\n")).collect::<String>()
}

/// Renders the tables of the document as HTML.
pub fn html_tables(document: &SimulateDocument) -> String {
    let mut html =
        format!("<p class=\"source\">{}</p>\n", super::table::escaped(&setting(document)));
    html += &workloads(document).html();
    if !document.comparison.is_empty() {
        html += "<h3>Policies side by side</h3>\n";
        html += &comparison(document).html();
    }
    html += "<h3>Decisions</h3>\n";
    html += &periods(document, false).html();
    html += "<details><summary>every period</summary>\n";
    html += &periods(document, true).html();
    html += "</details>\n";
    let items = lines(document);
    let items = items.iter().map(|line| format!("<li>{}</li>\n", super::table::escaped(line)));
    html + &format!("<ul class=\"source\">\n{}</ul>\n", items.collect::<String>())
}

/// Renders the control periods as CSV, with a row for each period.
pub fn csv(document: &SimulateDocument) -> String {
    let mut header: Vec<String> = vec!["time_s".into(), "target_weights".into()];
    for (what, unit) in [("hot_share", ""), ("bandwidth", "_gbps"), ("latency", "_ns")] {
        header.extend(document.tiers.iter().map(|tier| format!("{tier}_{what}{unit}")));
    }
    header.extend(["bandwidth_gbps", "migrated_bytes", "decision", "reason"].map(String::from));
    let mut table = Table::with_header(header);
    for period in &document.periods {
        let mut cells = vec![period.time_s.to_string(), weights_text(&period.target_weights)];
        cells.extend(period.hot_share.iter().map(f64::to_string));
        cells.extend(period.tier_bandwidth_gbps.iter().map(f64::to_string));
        let optional = |ns: &Option<f64>| ns.map_or(String::new(), |ns| ns.to_string());
        cells.extend(period.tier_latency_ns.iter().map(optional));
        cells.extend([
            period.bandwidth_gbps.to_string(),
            period.migrated_bytes.to_string(),
            period.decision.clone(),
            period.reason.clone(),
        ]);
        table.row(cells);
    }
    table.csv()
}

/// Formats the parameters of the simulation, in one line.
fn setting(document: &SimulateDocument) -> String {
    let setting = &document.setting;
    let footprints: Vec<String> = document
        .workloads
        .iter()
        .map(|workload| {
            let footprint = Bytes::new(workload.footprint_bytes);
            let threads = counted(workload.threads, "thread");
            format!("{}: {threads}, {footprint}", workload.name)
        })
        .collect();
    let held = setting.held_bytes.iter().zip(&document.tiers).filter(|(held, _)| **held > 0);
    let held: String =
        held.map(|(held, tier)| format!("; {} of {tier} held", Bytes::new(*held))).collect();
    let error = match setting.curve_error {
        0.0 => String::new(),
        error => format!("; curves believed wrong by {}", signed_percent(error)),
    };
    format!(
        "{} s; {}; pages move at {} GB/s at most; counters have {:.1} % noise{held}{error}",
        number(document.duration_s),
        footprints.join(", "),
        number(setting.migration_rate_gbps),
        100.0 * setting.counter_noise,
    )
}

/// Returns a table of control periods, with a row for each: of all periods if `all` is set,
/// otherwise of the periods that [`notable_periods`] selects.
fn periods(document: &SimulateDocument, all: bool) -> Table {
    let mut header: Vec<String> = vec!["s".into(), "GB/s".into()];
    header.extend(document.tiers.iter().map(|tier| format!("{tier} ns")));
    header.extend(["moved GB", "target", "decision", "why"].map(String::from));
    let mut table = Table::with_header(header);
    let shown: Vec<&SimulatedPeriod> = if all {
        document.periods.iter().collect()
    } else {
        notable_periods(&document.periods).collect()
    };
    for period in shown {
        let mut cells = vec![format!("{:.1}", period.time_s), number(period.bandwidth_gbps)];
        let latency = |ns: &Option<f64>| ns.map_or(String::new(), |ns| format!("{ns:.0}"));
        cells.extend(period.tier_latency_ns.iter().map(latency));
        cells.extend([
            format!("{:.1}", period.migrated_bytes as f64 * 1e-9),
            target(document, period),
            period.decision.clone(),
            period.reason.clone(),
        ]);
        table.row(cells);
    }
    table
}

/// Formats the target shares of a period as weights in percent; with several domains, the target of
/// each domain.
fn target(document: &SimulateDocument, period: &SimulatedPeriod) -> String {
    if document.domains.is_empty() || period.domain_weights.len() != document.domains.len() {
        return weights_text(&period.target_weights);
    }
    let domains = document.domains.iter().zip(&period.domain_weights);
    let own = domains.map(|(domain, weights)| format!("{} {}", domain.name, weights_text(weights)));
    own.collect::<Vec<_>>().join(", ")
}

fn workloads(document: &SimulateDocument) -> Table {
    let mut table = Table::new(&[
        "workload",
        "s",
        "speed-up",
        "best static",
        "s",
        "slowdown",
        "slowdown over all",
        "kJ a run",
    ]);
    for workload in &document.workloads {
        let best = workload.best_static.as_ref();
        table.row([
            workload.label(),
            ended(workload),
            workload.speedup.map_or(String::new(), number),
            best.map_or("none fits".into(), |best| weights_text(&best.weights)),
            best.map_or(String::new(), |best| number(best.runtime_s)),
            workload.regret.map_or(String::new(), signed_percent),
            workload.regret_over_duration.map_or(String::new(), signed_percent),
            workload.energy_per_run_j.map_or(String::new(), |j| number(j * 1e-3)),
        ]);
    }
    table
}

/// Formats the time of a workload's first run, s, or the reason why it is unknown.
fn ended(workload: &WorkloadDocument) -> String {
    match (workload.runtime_s, workload.speedup) {
        (Some(seconds), _) => number(seconds),
        (None, Some(_)) => "not ended".into(),
        (None, None) => "not begun".into(),
    }
}

/// Returns a table that compares the policies. It has a row for each policy and workload, sorted by
/// workload and then by decreasing speed-up.
fn comparison(document: &SimulateDocument) -> Table {
    let columns =
        ["policy", "workload", "s", "speed-up", "slowdown", "settled s", "weights", "moved GB"];
    let mut table = Table::new(&columns).with_minor(&["moved GB", "settled s", "s"]);
    let own = document.periods.last().map(|period| period.target_weights.as_slice());
    type Row<'a> = (&'a str, &'a WorkloadDocument, Option<f64>, &'a [u16], u64);
    let mut rows: Vec<Row<'_>> = document
        .workloads
        .iter()
        .map(|workload| {
            let weights = own.unwrap_or_default();
            let moved = document.migrated_bytes_total;
            (document.policy.as_str(), workload, document.converged_after_s, weights, moved)
        })
        .collect();
    for other in &document.comparison {
        rows.extend(other.workloads.iter().map(|workload| {
            let moved = other.migrated_bytes_total;
            (
                other.policy.as_str(),
                workload,
                other.converged_after_s,
                &other.final_weights[..],
                moved,
            )
        }));
    }
    rows.sort_by(|a, b| {
        let speedup = |row: &Row<'_>| row.1.speedup.unwrap_or(0.0);
        a.1.name.cmp(&b.1.name).then(speedup(b).total_cmp(&speedup(a))).then(a.0.cmp(b.0))
    });
    for (policy, workload, settled, weights, moved) in rows {
        table.row([
            policy.to_string(),
            workload.label(),
            ended(workload),
            workload.speedup.map_or(String::new(), number),
            workload.regret.map_or(String::new(), signed_percent),
            settled.map_or("-".into(), |s| format!("{s:.0}")),
            weights_text(weights),
            format!("{:.1}", moved as f64 * 1e-9),
        ]);
    }
    table
}

/// Returns the result of the simulation in a sentence.
pub fn verdict(document: &SimulateDocument) -> String {
    let last = document.periods.last().map(|period| target(document, period));
    let last = last.unwrap_or_default();
    let settled = match document.converged_after_s {
        Some(0.0) => format!("stays at {last}"),
        Some(seconds) => format!("settles at {last} after {seconds:.0} s"),
        None => format!("does not settle; it ends at {last}"),
    };
    let gains: Vec<String> = document
        .workloads
        .iter()
        .map(|workload| {
            let behind = match workload.regret {
                Some(regret) if regret < -5e-4 => {
                    format!(", {:.1} % ahead of the best static weights", -100.0 * regret)
                }
                Some(regret) => {
                    format!(", {:.1} % behind the best static weights", 100.0 * regret.max(0.0))
                }
                None => String::new(),
            };
            match workload.speedup {
                Some(speedup) => format!(
                    "{} is {speedup:.2} times as fast as on {} alone{behind}",
                    workload.label(),
                    first_tier(document, workload)
                ),
                None => format!("{} has not begun", workload.label()),
            }
        })
        .collect();
    format!(
        "{}{} {settled}: {}; {:.1} GB moved",
        best_policy(document),
        document.policy,
        gains.join("; "),
        document.migrated_bytes_total as f64 * 1e-9
    )
}

/// Returns a text on the best of the compared policies, by the geometric mean of the workloads'
/// speed-ups; an empty text without a comparison.
fn best_policy(document: &SimulateDocument) -> String {
    let mean = |workloads: &[WorkloadDocument]| {
        let speedups: Option<Vec<f64>> = workloads.iter().map(|it| it.speedup).collect();
        let logs = speedups?.into_iter().map(libm::log).sum::<f64>();
        Some(libm::exp(logs / workloads.len().max(1) as f64))
    };
    let own = (&document.policy, mean(&document.workloads));
    let others = document.comparison.iter().map(|other| (&other.policy, mean(&other.workloads)));
    let rated: Vec<(&String, f64)> =
        others.chain([own]).filter_map(|(policy, mean)| Some((policy, mean?))).collect();
    let best = rated.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((policy, speedup)) = best.filter(|_| rated.len() > 1) else { return String::new() };
    let first = document.tiers.first().map_or("", String::as_str);
    let count = rated.len();
    format!("{policy} is best of {count} policies: {speedup:.2} times {first} alone; ")
}

/// Returns the first local tier of the domain of `workload`; without domains, the first tier of the
/// platform.
fn first_tier<'a>(document: &'a SimulateDocument, workload: &WorkloadDocument) -> &'a str {
    let own = document.domains.iter().find(|domain| workload.domain.as_ref() == Some(&domain.name));
    let near = own.and_then(|domain| domain.tiers.first());
    near.or(document.tiers.first()).map_or("", String::as_str)
}

fn lines(document: &SimulateDocument) -> Vec<String> {
    let mut lines = document.notes.clone();
    let inputs = &document.provenance;
    for (word, names) in [
        ("measured", &inputs.measured),
        ("published", &inputs.published),
        ("simulated", &inputs.simulated),
        ("assumed", &inputs.assumed),
    ] {
        if !names.is_empty() {
            lines.push(format!("{word}: {}", names.join(", ")));
        }
    }
    lines
}
