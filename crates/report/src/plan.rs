//! Renders a comparison of server configurations (`interleaf.plan/1`) as text, Markdown, CSV and
//! HTML.

use super::{
    number,
    page::counted,
    predict::provenance_lists,
    screen::{Meaning, painted},
    short_number,
    table::{Table, csv_number, escaped},
    terminal_chart,
};
use interleaf_record::{
    plan::{Goal, PlanDemandRow, PlanDocument, PlanRow, SensitivityRow, task_of},
    predict::weights_text,
};

const GIB: f64 = (1_u64 << 30) as f64;

/// The title of the table with the results of each demand alone. Only a plan for several demands
/// has this table.
const ALONE: &str = "Each demand alone, with its own best weights";

pub fn title(document: &PlanDocument) -> String {
    let configurations = document.rows.len();
    let threads = document.threads();
    let threads = threads.map(|count| counted(short_number(count), "thread"));
    let threads = threads.map_or(String::new(), |threads| format!(" with {threads}"));
    format!("{}{threads} on {configurations} configurations", document.demand)
}

/// Renders the document as text for a terminal.
pub fn text(document: &PlanDocument) -> String {
    let close = close(document).map_or(String::new(), |close| format!("{close}\n"));
    let mut text = format!(
        "{}\n{close}\n{}, speed relative to {}\n\n{}\n{}\n",
        painted(Meaning::Answer, &verdict(document)),
        title(document),
        document.baseline,
        table(document).text(),
        legend(document)
    );
    if !document.demands.is_empty() {
        text += &format!("\n{ALONE}\n\n{}", alone(document).text());
    }
    text += &notes(document);
    text +=
        &format!("\n{}\n\n{}\n", sensitivity_title(document), sensitivity(document, true).text());
    text += &format!("{}\n", unchanged(document, "each is in --json"));
    for warning in &document.warnings {
        text += &format!("warning: {warning}\n");
    }
    text += &format!("{}\n", provenance_lists(&document.provenance));
    for figure in document.figures() {
        text += &format!("\n{}", terminal_chart::text(&figure));
    }
    text
}

pub fn markdown(document: &PlanDocument) -> String {
    let close = close(document).map_or(String::new(), |close| format!("{close}\n\n"));
    let mut text = format!(
        "# {}\n\n{}\n\n{close}{}\n\n{}\n",
        title(document),
        verdict(document),
        table(document).markdown(),
        legend(document)
    );
    if !document.demands.is_empty() {
        text += &format!("\n## {ALONE}\n\n{}", alone(document).markdown());
    }
    text += &format!("\n## {}\n\n", sensitivity_title(document));
    text += &format!("{}\n## Prices\n\n", sensitivity(document, false).markdown());
    text +=
        &format!("{}\n{}\n", prices(document).markdown(), provenance_lists(&document.provenance));
    for warning in &document.warnings {
        text += &format!("\nWarning: {warning}\n");
    }
    text
}

/// Renders the document as HTML, for the body of a page. `figures` is the HTML of its figures.
pub fn html(document: &PlanDocument, figures: &str) -> String {
    let mut html = format!("<p class=\"answer\">{}</p>\n", escaped(&verdict(document)));
    if let Some(close) = close(document) {
        html += &format!("<p>{}</p>\n", escaped(&close));
    }
    for warning in &document.warnings {
        html += &format!("<p>Warning: {}</p>\n", escaped(warning));
    }
    html += &format!("{figures}{}", table(document).html());
    html += &format!("<p>{}</p>\n", escaped(&legend(document)));
    if !document.demands.is_empty() {
        html += &format!("<h2>{ALONE}</h2>\n{}", alone(document).html());
    }
    html += &format!("<h2>{}</h2>\n", escaped(&sensitivity_title(document)));
    html += &sensitivity(document, true).html();
    html += &format!("<p>{}</p>\n", escaped(&unchanged(document, "each is below")));
    html += &format!(
        "<details><summary>every figure</summary>\n{}</details>\n",
        sensitivity(document, false).html()
    );
    html += &format!("<h2>Prices</h2>\n{}", prices(document).html());
    html +=
        &format!("<p class=\"source\">{}</p>\n", escaped(&provenance_lists(&document.provenance)));
    html
}

/// Renders the document as CSV, with a row for each configuration, with every field. If there are
/// several demands, each demand has its own columns.
pub fn csv(document: &PlanDocument) -> String {
    let mut header = [
        "configuration",
        "weights",
        "threads",
        "speed",
        "speed_low",
        "speed_high",
        "result",
        "bandwidth_gbps",
        "latency_ns",
        "power_w",
        "task_energy_j",
        "cost",
        "parts_cost",
        "work_cost",
        "capacity_bytes",
        "fits",
        "bound_by",
        "on_cost_front",
        "on_energy_front",
        "dominated_by",
        "future",
        "recommended",
        "does",
        "notes",
    ]
    .map(String::from)
    .to_vec();
    for demand in &document.demands {
        header.extend(OF_DEMAND.map(|column| format!("{}_{column}", demand.name)));
    }
    let mut table = Table::with_header(header);
    for row in &document.rows {
        let cells = [
            row.configuration.clone(),
            weights_text(&row.weights),
            csv_number(row.threads),
            row.speed.to_string(),
            row.speed_interval[0].to_string(),
            row.speed_interval[1].to_string(),
            row.result.to_string(),
            row.bandwidth_gbps.to_string(),
            row.latency_ns.to_string(),
            csv_number(row.power_w),
            csv_number(row.task_energy_j),
            row.cost.to_string(),
            row.parts_cost.to_string(),
            csv_number(row.work_cost),
            row.capacity_bytes.to_string(),
            row.fits.to_string(),
            row.bound_by.clone(),
            row.on_cost_front.to_string(),
            row.on_energy_front.to_string(),
            row.dominated_by.clone().unwrap_or_default(),
            row.future.to_string(),
            is_recommended(document, row).to_string(),
            row.does.clone(),
            row.notes.join("; "),
        ];
        table.row(cells.into_iter().chain(row.demands.iter().flat_map(csv_of_demand)));
    }
    table.csv()
}

/// The columns that the CSV has for each of several demands.
const OF_DEMAND: [&str; 12] = [
    "weights",
    "threads",
    "speed",
    "speed_low",
    "speed_high",
    "result",
    "bandwidth_gbps",
    "latency_ns",
    "power_w",
    "task_energy_j",
    "fits",
    "bound_by",
];

fn csv_of_demand(own: &PlanDemandRow) -> [String; OF_DEMAND.len()] {
    [
        weights_text(&own.weights),
        own.threads.to_string(),
        own.speed.to_string(),
        own.speed_interval[0].to_string(),
        own.speed_interval[1].to_string(),
        own.result.to_string(),
        own.bandwidth_gbps.to_string(),
        own.latency_ns.to_string(),
        csv_number(own.power_w),
        csv_number(own.task_energy_j),
        own.fits.to_string(),
        own.bound_by.clone(),
    ]
}

/// Returns the recommendation in a sentence.
pub fn verdict(document: &PlanDocument) -> String {
    let found = document.rows.iter().find(|row| is_recommended(document, row));
    let Some(row) = found else { return format!("recommended: none, because {}", none(document)) };
    let goal = match document.goal {
        Goal::Value => "the least cost for the work",
        Goal::Speed => "the highest speed",
        Goal::Energy => "the least energy for the work",
        Goal::Cost => "the least cost",
    };
    let [low, high] = row.speed_interval;
    let mut text = format!(
        "recommended: {} ({}), {goal}: {:.2} times the speed of {} (90 %: {low:.2} to {high:.2})",
        row.configuration, row.does, row.speed, document.baseline
    );
    let base = document.rows.iter().find(|row| row.configuration == document.baseline);
    if let Some(base) = base {
        if let Some(cost) = ratio(Some(row.cost), Some(base.cost)) {
            text += &format!(" for {cost:.2} times its cost");
        }
        if let Some(energy) = ratio(row.task_energy_j, base.task_energy_j) {
            text += &format!(" and {energy:.2} times its energy of {}", document.task());
        }
    }
    text
}

/// Returns the reason why no configuration is recommended.
fn none(document: &PlanDocument) -> String {
    // Without `--future`, a configuration that is not on sale yet is not recommended.
    let future = document.rows.iter().filter(|row| row.fits && row.future);
    let future: Vec<&str> = future.map(|row| row.configuration.as_str()).collect();
    if future.is_empty() {
        return "no configuration holds the memory that the demand needs".into();
    }
    let why = match document.rows.iter().any(|row| !row.future) {
        true => "no configuration on sale holds the memory that the demand needs",
        false => "none of the configurations is on sale",
    };
    let which = match future[..] {
        [one] => one.to_string(),
        _ => format!("one of {}", future.join(", ")),
    };
    format!("{why}; with --future, {which} is recommended")
}

/// A configuration is reported as nearly as good as the recommended configuration if it is worse by
/// at most this fraction in the quantity of the goal: cost for the same work, speed, energy or
/// cost.
const CLOSE: f64 = 0.05;

/// Returns a sentence with the configurations that are nearly as good as the recommended one
/// (`CLOSE`); `None` if there are none. Configurations that cannot be bought yet are left out.
fn close(document: &PlanDocument) -> Option<String> {
    let best = document.rows.iter().find(|row| is_recommended(document, row))?;
    // Returns the fraction by which a row is worse than the recommended row: 0.02 for 2 %.
    let loss = |row: &PlanRow| {
        let ratio = match document.goal {
            Goal::Value => ratio(row.work_cost, best.work_cost),
            Goal::Speed => ratio(Some(best.speed), Some(row.speed)),
            Goal::Energy => ratio(row.task_energy_j, best.task_energy_j),
            Goal::Cost => ratio(Some(row.cost), Some(best.cost)),
        };
        Some(ratio? - 1.0)
    };
    let others = document.rows.iter().filter(|row| row.fits && !is_recommended(document, row));
    let near = others.filter_map(|row| Some((row, loss(row)?)));
    let near = near.filter(|(row, loss)| *loss <= CLOSE && !row.future);
    let near: Vec<String> = near
        .map(|(row, loss)| format!("{} ({:.1} % worse)", row.configuration, 100.0 * loss))
        .collect();
    (!near.is_empty()).then(|| {
        format!(
            "nearly as good, which the accuracy of the predictions does not separate: {}",
            near.join(", ")
        )
    })
}

fn ratio(own: Option<f64>, base: Option<f64>) -> Option<f64> {
    let ratio = own? / base?;
    ratio.is_finite().then_some(ratio)
}

fn is_recommended(document: &PlanDocument, row: &PlanRow) -> bool {
    document.recommended.as_ref() == Some(&row.configuration)
}

/// The columns that a narrow terminal leaves out first, in this order.
const MINOR: [&str; 7] = ["GiB", "W", "ns", "GB/s", "J", "bound by", "weights"];

fn table(document: &PlanDocument) -> Table {
    if !document.demands.is_empty() {
        return combined(document).with_minor(&MINOR);
    }
    let mut table = Table::with_header(vec![
        "configuration".into(),
        "weights".into(),
        "speed".into(),
        document.result_unit.clone(),
        "GB/s".into(),
        "ns".into(),
        "W".into(),
        "J".into(),
        document.currency.clone(),
        format!("{}/speed", document.currency),
        "GiB".into(),
        "bound by".into(),
        "marks".into(),
    ]);
    for row in &document.rows {
        let optional = |value: Option<f64>| value.map_or(String::new(), number);
        if !row.fits {
            let mut cells = vec![name(document, row)];
            cells.resize(8, "-".into());
            cells.extend([format!("{:.0}", row.cost), "-".into()]);
            cells.push(format!("{:.0}", row.capacity_bytes as f64 / GIB));
            table.row(cells.into_iter().chain(["capacity".into(), marks(row)]));
            continue;
        }
        table.row([
            name(document, row),
            weights_text(&row.weights),
            interval(row.speed, row.speed_interval),
            number(row.result),
            number(row.bandwidth_gbps),
            format!("{:.0}", row.latency_ns),
            optional(row.power_w),
            optional(row.task_energy_j),
            format!("{:.0}", row.cost),
            row.work_cost.map_or(String::new(), |ratio| format!("{ratio:.2}")),
            format!("{:.0}", row.capacity_bytes as f64 / GIB),
            row.bound_by.clone(),
            marks(row),
        ]);
    }
    table.with_minor(&MINOR)
}

/// Returns the table for several demands. A row has the combined speed of a configuration, and the
/// speed of each demand.
fn combined(document: &PlanDocument) -> Table {
    let mut header = vec!["configuration".into(), "speed".into()];
    header.extend(document.demands.iter().map(|demand| demand.name.clone()));
    header.extend([
        "W".into(),
        "J".into(),
        document.currency.clone(),
        format!("{}/speed", document.currency),
        "GiB".into(),
        "marks".into(),
    ]);
    let mut table = Table::with_header(header);
    for row in &document.rows {
        // The speed and the energy of a configuration have no meaning if it lacks memory for a
        // demand.
        let known = |text: String| if row.fits { text } else { "-".into() };
        let optional = |value: Option<f64>| known(value.map_or(String::new(), number));
        let speed = known(interval(row.speed, row.speed_interval));
        let mut cells = vec![name(document, row), speed];
        cells.extend(row.demands.iter().map(|own| match own.fits {
            true => format!("{:.2}", own.speed),
            false => "does not fit".into(),
        }));
        cells.extend([
            optional(row.power_w),
            optional(row.task_energy_j),
            format!("{:.0}", row.cost),
            known(row.work_cost.map_or(String::new(), |ratio| format!("{ratio:.2}"))),
            format!("{:.0}", row.capacity_bytes as f64 / GIB),
            marks(row),
        ]);
        table.row(cells);
    }
    table
}

/// Returns the table with the results of each demand alone, on each configuration.
fn alone(document: &PlanDocument) -> Table {
    let header = [
        "configuration",
        "demand",
        "weights",
        "speed",
        "result",
        "GB/s",
        "ns",
        "W",
        "J",
        "bound by",
    ];
    let mut table = Table::new(&header);
    for row in &document.rows {
        for (own, demand) in row.demands.iter().zip(&document.demands) {
            let mut cells = vec![row.configuration.clone(), own.demand.clone()];
            if !own.fits {
                cells.resize(header.len() - 1, "-".into());
                cells.push(own.bound_by.clone());
                table.row(cells);
                continue;
            }
            let unit = &demand.result_unit;
            let energy = |joules: f64| format!("{} {}", number(joules), task_of(unit));
            cells.extend([
                weights_text(&own.weights),
                interval(own.speed, own.speed_interval),
                format!("{} {unit}", number(own.result)),
                number(own.bandwidth_gbps),
                format!("{:.0}", own.latency_ns),
                own.power_w.map_or(String::new(), number),
                own.task_energy_j.map_or(String::new(), energy),
                own.bound_by.clone(),
            ]);
            table.row(cells);
        }
    }
    table.with_minor(&MINOR)
}

/// Formats a speed with its 90 % interval: `1.25 (1.10 to 1.40)`.
fn interval(speed: f64, [low, high]: [f64; 2]) -> String {
    format!("{speed:.2} ({low:.2} to {high:.2})")
}

/// Returns the name of a row's configuration, followed by "(recommended)" for the recommended
/// configuration. The mark is beside the name, because a narrow terminal never leaves out this
/// column.
fn name(document: &PlanDocument, row: &PlanRow) -> String {
    match is_recommended(document, row) {
        true => format!("{} (recommended)", row.configuration),
        false => row.configuration.clone(),
    }
}

fn marks(row: &PlanRow) -> String {
    let front = match (row.on_cost_front, row.on_energy_front) {
        (true, true) => "front $ J",
        (true, false) => "front $",
        (false, true) => "front J",
        (false, false) => "",
    };
    let marks =
        [(!front.is_empty(), front), (row.future, "not on sale yet"), (!row.fits, "does not fit")];
    let marks: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
    marks.join(", ")
}

fn legend(document: &PlanDocument) -> String {
    let currency = &document.currency;
    let cost = match document.years {
        Some(years) => format!("{currency}: parts, and energy of {years} years"),
        None => format!("{currency}: parts"),
    };
    let work = format!("{currency}/speed: the cost for the work, relative to the baseline");
    let mut text = format!(
        "speed: with its 90 % interval, without the error of the curves of other modules \
         (docs/plan.md, how far to trust it); J: energy of {}; {cost}; {work}; front: no other \
         configuration that can be bought and holds the demand is as good in speed and cost ($), \
         or speed and energy (J), and better in one of the two",
        document.task()
    );
    if !document.demands.is_empty() {
        let baseline = &document.baseline;
        text += &format!(
            "; the demands have shares of the run time on {baseline}: speed is 1 / sum(share / \
             speed of the demand), a baseline second is the work that takes a second on {baseline}"
        );
    }
    text
}

/// Formats the notes of the configurations, a line for each note. A line has the name of the
/// configuration before the note.
fn notes(document: &PlanDocument) -> String {
    let notes = document.rows.iter().flat_map(|row| {
        row.notes.iter().map(|note| format!("note: {}: {note}\n", row.configuration))
    });
    notes.collect()
}

fn sensitivity_title(document: &PlanDocument) -> String {
    format!(
        "The recommendation with each figure lower and higher by {:.0} %, and with predicted \
         speeds at the ends of their intervals",
        100.0 * document.vary_share
    )
}

fn sensitivity(document: &PlanDocument, only_changes: bool) -> Table {
    let mut table = Table::new(&["figure", "value", "lower", "higher", "changes at"]);
    let rows = document.sensitivity.iter();
    for row in rows.filter(|row| !only_changes || row.changes || row.has_factor()) {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".into());
        let beyond = row.recommended_beyond.clone().unwrap_or_default();
        let is_known = row.recommended_beyond.is_some();
        let value = row.value.zip(row.unit.as_deref());
        let changes = row.factors.iter().zip(&beyond).filter_map(|(factor, beyond)| {
            let then = if is_known { format!(" to {}", name(beyond)) } else { String::new() };
            let factor = (*factor)?;
            let at = match value {
                Some((value, unit)) => format!("{} {unit}", number(factor * value)),
                None => format!("{factor:.2} times the figure"),
            };
            Some(format!("{at}{then}"))
        });
        let factors: Vec<String> = changes.collect();
        let [lower, higher] = row.recommended.each_ref().map(|other| match other {
            other if *other == document.recommended => "same".into(),
            other => name(other),
        });
        let value =
            value.map_or(String::new(), |(value, unit)| format!("{} {unit}", number(value)));
        table.row([row.figure.clone(), value, lower, higher, factors.join(", ")]);
    }
    table.with_minor(&["lower", "higher"])
}

/// Returns a text on the varied inputs of the plan, such as prices and powers: the names of those
/// that change the recommendation, and the number of those that do not at any factor from a tenth
/// to
/// 10. `place` names the output that lists all inputs.
fn unchanged(document: &PlanDocument, place: &str) -> String {
    let of = |row: &&SensitivityRow| !row.changes && !row.has_factor();
    let count = document.sensitivity.iter().filter(of).count();
    let deciding: Vec<&str> = document
        .sensitivity
        .iter()
        .filter(|row| row.changes)
        .map(|row| row.figure.as_str())
        .collect();
    let first = match deciding.is_empty() {
        true => "within this range no figure changes the recommendation".to_string(),
        false => format!("the recommendation depends on: {}", deciding.join("; ")),
    };
    let figures = if count == 1 { "1 figure does".into() } else { format!("{count} figures do") };
    format!("{first}; {figures} not change it between a tenth and 10 times its value ({place})")
}

fn prices(document: &PlanDocument) -> Table {
    let price = format!("{} a piece", document.currency);
    let header = ["part", &price, "W", "date", "source"];
    let mut table = Table::new(&header);
    for part in &document.parts {
        table.row([
            part.name.clone(),
            number(part.price),
            if part.power_w == 0.0 { String::new() } else { number(part.power_w) },
            part.date.clone(),
            part.source.clone(),
        ]);
    }
    if let Some(energy) = &document.energy {
        table.row([
            "a kWh of energy".into(),
            number(energy.price_per_kwh),
            String::new(),
            energy.date.clone(),
            energy.source.clone(),
        ]);
    }
    table
}
