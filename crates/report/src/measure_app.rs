//! Renders a profile of an application (`interleaf.measure/1` with `app`) as text, Markdown, HTML
//! and CSV.

use super::{
    number,
    table::{Table, escaped},
};
use interleaf_model::{format::shell_text, units::Bytes};
use interleaf_record::{
    measure_app::{AppDocument, ProfileDocument, SampleDocument, TopdownDocument, WholeDocument},
    rounded,
};
use std::time::Duration;

/// The text that is printed for a value that was not counted.
const UNKNOWN: &str = "-";

/// The document's names of the second level of the top-down analysis of pipeline slots. There is a
/// pair for each name of the first level: retiring, bad speculation, frontend bound, backend bound.
const SECOND: [[&str; 2]; 4] = [
    ["heavy_operations", "light_operations"],
    ["branch_mispredicts", "machine_clears"],
    ["fetch_latency", "fetch_bandwidth"],
    ["memory_bound", "core_bound"],
];

/// Returns the title of the document's page.
pub fn title(document: &ProfileDocument) -> String {
    let command = document.app.command.join(" ");
    match command.char_indices().nth(120) {
        Some((end, _)) => format!("{}...", &command[..end]),
        None => command,
    }
}

/// Formats the line of progress while the command runs. `age` is the time since the command's
/// start, `last` the last sample.
pub fn line(age: Duration, last: &SampleDocument) -> String {
    let mut parts = vec![format!("{:.1} s", age.as_secs_f64())];
    parts.extend(last.gbps().map(|gbps| format!("{} GB/s", number(gbps))));
    parts.extend(last.cpus().map(|cpus| format!("{cpus:.2} CPUs")));
    parts.extend(last.resident_bytes.map(|bytes| format!("{} resident", Bytes::new(bytes))));
    parts.join(", ")
}

/// Formats the result of a dry run: for each quantity, how it is counted or why it cannot be; then
/// warnings, hints, the tiers and the command.
pub fn dry_run(document: &ProfileDocument) -> String {
    let app = &document.app;
    let mut text = String::new();
    for quantity in &app.quantities {
        let sign = if quantity.is_available { "yes" } else { "no " };
        text += &format!("{sign} {:<20} {}\n", quantity.name, quantity.what);
    }
    for note in notes(app) {
        text += &format!("{note}\n");
    }
    let tiers: Vec<&str> = app.tiers.iter().map(|tier| tier.name.as_str()).collect();
    text += &format!("tiers: {}\n", tiers.join("; "));
    text + &format!("would run: {}\n", shell_text::command(&app.command))
}

/// Renders the document as text for a terminal.
pub fn text(document: &ProfileDocument) -> String {
    let mut text = String::new();
    for (name, what) in lines(document) {
        text += &format!("{name:<12} {what}\n");
    }
    text += &format!("\n{}", tiers(&document.app).text());
    if document.app.phases.len() > 1 {
        text += &format!("\n{}", phases(&document.app).text());
    }
    let notes = notes(&document.app);
    if !notes.is_empty() {
        text += "\n";
    }
    text + &notes.iter().map(|note| format!("{note}\n")).collect::<String>()
}

pub fn markdown(document: &ProfileDocument) -> String {
    let mut text = format!("# {}\n\n{}\n\n", title(document), machine(document));
    for (name, what) in lines(document) {
        text += &format!("- {name}: {what}\n");
    }
    text += &format!("\n{}\n", tiers(&document.app).markdown());
    if document.app.phases.len() > 1 {
        text += &format!("\n## Phases\n\n{}\n", phases(&document.app).markdown());
    }
    text += "\n## How it was counted\n\n";
    let notes = sources(&document.app).into_iter().chain(warnings(&document.app));
    text + &notes.map(|note| format!("- {note}\n")).collect::<String>()
}

/// Renders the document as HTML, for the body of a page. `figures` is the HTML of its figures.
pub fn html(document: &ProfileDocument, figures: &str) -> String {
    let mut overview = Table::new(&["", "the run as a whole"]);
    for (name, what) in lines(document) {
        overview.row([name, what]);
    }
    let list = |items: Vec<String>| {
        let items = items.iter().map(|item| format!("<li>{}</li>\n", escaped(item)));
        format!("<ul class=\"source\">\n{}</ul>\n", items.collect::<String>())
    };
    let mut html = format!("<p class=\"source\">{}</p>\n", escaped(&machine(document)));
    let warnings = warnings(&document.app);
    if !warnings.is_empty() {
        html += &list(warnings);
    }
    html += &overview.html();
    html += &tiers(&document.app).html();
    html += figures;
    if document.app.phases.len() > 1 {
        html += "<h3>Phases</h3>\n";
        html += &phases(&document.app).html();
    }
    html += "<h3>How it was counted</h3>\n";
    html += &list(sources(&document.app));
    html += "<details><summary>every sample</summary>\n";
    html += &samples(&document.app, shown).html();
    html + "</details>\n"
}

/// Renders the samples as CSV, with a row for each sample.
pub fn csv(document: &ProfileDocument) -> String {
    samples(&document.app, |value| rounded(value).to_string()).csv()
}

fn machine(document: &ProfileDocument) -> String {
    let machine = &document.machine;
    let parts = [
        machine.cpu.clone(),
        machine.kernel.clone().map(|kernel| format!("Linux {kernel}")),
        Some(format!("{} CPUs", document.app.cpus)),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the results of the whole run, as pairs of a name and a text.
fn lines(document: &ProfileDocument) -> Vec<(String, String)> {
    let app = &document.app;
    let Some(whole) = &app.whole else { return vec![] };
    let runtime_s = app.runtime_s.unwrap_or(0.0);
    let missing = |name: &str| {
        let quantity = app.quantities.iter().find(|it| it.name == name && !it.is_available);
        let what = quantity.map(|it| it.what.clone()).unwrap_or_default();
        format!("not available: {what}")
    };
    let size = |bytes: u64| Bytes::new(bytes).to_string();
    let mut lines = vec![
        ("time".to_string(), format!("{} s, {}", number(runtime_s), ending(app))),
        (
            "CPUs".to_string(),
            format!(
                "{} of {} used; at most {} of {} threads ran at once",
                number(whole.cpus_used),
                app.cpus,
                whole.threads_running_max,
                whole.threads_max
            ),
        ),
    ];
    let bandwidth = bandwidth(whole).unwrap_or_else(|| missing("bandwidth"));
    lines.push(("bandwidth".into(), bandwidth));
    let latency = latency(app, whole).unwrap_or_else(|| missing("latency"));
    lines.push(("latency".into(), latency));
    let slots = whole.topdown.as_ref().map(topdown).unwrap_or_else(|| missing("top-down"));
    lines.push(("top-down".into(), slots));
    let energy: Vec<String> = whole
        .energy
        .iter()
        .map(|it| format!("{} {} J ({} W)", it.domain, number(it.energy_j), number(it.power_w)))
        .collect();
    let energy = if energy.is_empty() { missing("energy") } else { energy.join(", ") };
    lines.push(("energy".into(), energy));
    let storage = whole.storage_read_bytes.zip(whole.storage_written_bytes);
    let storage = storage
        .map(|(read, written)| format!("{} read, {} written", size(read), size(written)))
        .unwrap_or_else(|| missing("storage I/O"));
    lines.push(("storage".into(), storage));
    let mean = whole
        .resident_mean_bytes
        .map_or(String::new(), |mean| format!(", {} in the mean", size(mean as u64)));
    let process = whole
        .process_resident_max_bytes
        .map_or(String::new(), |bytes| format!("; one process at most {}", size(bytes)));
    let faults = whole.major_faults;
    let memory = format!(
        "{} resident at most{mean}{process}; major faults: {faults}",
        size(whole.resident_max_bytes)
    );
    lines.push(("memory".into(), memory));
    if whole.tiers.iter().all(|tier| tier.resident_bytes.is_none()) {
        lines.push(("placement".into(), missing("placement")));
    }
    lines.extend(app.demand_file.clone().map(|file| ("demand".into(), file)));
    lines
}

fn ending(app: &AppDocument) -> String {
    match (app.exit_code, app.signal) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "still running".into(),
    }
}

fn bandwidth(whole: &WholeDocument) -> Option<String> {
    let mean = number(whole.bandwidth_gbps?);
    let most = whole
        .bandwidth_max_gbps
        .map_or(String::new(), |most| format!(", at most {} GB/s", number(most)));
    let share = whole
        .read_share
        .map_or(String::new(), |share| format!("; {:.1} % of the bytes read", 100.0 * share));
    Some(format!("{mean} GB/s{most}{share}"))
}

fn latency(app: &AppDocument, whole: &WholeDocument) -> Option<String> {
    let tiers = app.tiers.iter().zip(&whole.tiers);
    let known =
        tiers.filter_map(|(tier, it)| Some(format!("{} {} ns", tier.name, number(it.latency_ns?))));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Formats both levels of the top-down analysis of pipeline slots, in one line:
/// `backend bound 55.0 % (memory bound 40.0 %, core bound 15.0 %), ...`.
fn topdown(topdown: &TopdownDocument) -> String {
    let percent = |part: f64| format!("{:.1} %", 100.0 * part);
    let parts = [
        ("retiring", topdown.retiring),
        ("bad speculation", topdown.bad_speculation),
        ("frontend bound", topdown.frontend_bound),
        ("backend bound", topdown.backend_bound),
    ];
    let mut words = vec![];
    for ((name, part), second) in parts.into_iter().zip(SECOND) {
        let Some(part) = part else {
            words.push(format!("{name} not counted"));
            continue;
        };
        let second = second.into_iter().filter_map(|name| {
            let part = topdown.second.get(name)?;
            Some(format!("{} {}", name.replace('_', " "), percent(*part)))
        });
        let second: Vec<String> = second.collect();
        words.push(match second.is_empty() {
            true => format!("{name} {}", percent(part)),
            false => format!("{name} {} ({})", percent(part), second.join(", ")),
        });
    }
    words.extend(topdown.contention.map(|part| format!("the other thread {}", percent(part))));
    if topdown.counted_share < 0.995 {
        words.push(format!("counted {} of the time", percent(topdown.counted_share)));
    }
    words.join(", ")
}

fn tiers(app: &AppDocument) -> Table {
    let mut table = Table::new(&[
        "tier",
        "kind",
        "GB/s",
        "read GB/s",
        "written GB/s",
        "latency ns",
        "resident",
        "%",
    ]);
    let known = |value: Option<f64>| value.map_or(UNKNOWN.to_string(), number);
    for (tier, whole) in app.tiers.iter().zip(app.whole.iter().flat_map(|whole| &whole.tiers)) {
        let share = whole.resident_share.map(|share| format!("{:.1}", 100.0 * share));
        let resident = whole.resident_bytes.map(|bytes| Bytes::new(bytes).to_string());
        table.row([
            tier.name.clone(),
            tier.kind.to_string(),
            known(whole.bandwidth_gbps),
            known(whole.read_gbps),
            known(whole.written_gbps),
            known(whole.latency_ns),
            resident.unwrap_or_else(|| UNKNOWN.into()),
            share.unwrap_or_else(|| UNKNOWN.into()),
        ]);
    }
    table
}

fn phases(app: &AppDocument) -> Table {
    let mut table = Table::new(&["from s", "to s", "% of the time", "GB/s", "% read"]);
    for phase in &app.phases {
        let read = phase.read_share.map(|share| format!("{:.1}", 100.0 * share));
        table.row([
            number(phase.from_s),
            number(phase.to_s),
            format!("{:.1}", 100.0 * phase.share_of_time),
            number(phase.bandwidth_gbps),
            read.unwrap_or_else(|| UNKNOWN.into()),
        ]);
    }
    table
}

/// Returns the warnings of the document, and hints on how to count the quantities that are not
/// available.
fn notes(app: &AppDocument) -> Vec<String> {
    let mut notes = warnings(app);
    // Quantities with the same hint share one line.
    let mut hints: Vec<(&str, Vec<&str>)> = vec![];
    for quantity in app.quantities.iter().filter(|quantity| !quantity.is_available) {
        let Some(hint) = &quantity.remedy else { continue };
        match hints.iter_mut().find(|(known, _)| known == hint) {
            Some((_, names)) => names.push(&quantity.name),
            None => hints.push((hint, vec![&quantity.name])),
        }
    }
    let line = |(hint, names): (&str, Vec<&str>)| format!("for {}: {hint}", names.join(", "));
    notes.extend(hints.into_iter().map(line));
    notes
}

fn warnings(app: &AppDocument) -> Vec<String> {
    app.warnings.iter().map(|warning| format!("note: {warning}")).collect()
}

/// Returns a line for each quantity, with its source, or the reason why it is missing.
fn sources(app: &AppDocument) -> Vec<String> {
    let source = app.quantities.iter().map(|it| match (it.is_available, &it.remedy) {
        (true, _) => format!("{}: {}", it.name, it.what),
        (false, Some(hint)) => format!("{}: not available: {}; {hint}", it.name, it.what),
        (false, None) => format!("{}: not available: {}", it.name, it.what),
    });
    source.collect()
}

fn shown(value: f64) -> String {
    number(value)
}

/// Returns a table of all samples. `number` formats the values. A value that was not counted has an
/// empty cell.
fn samples(app: &AppDocument, number: impl Fn(f64) -> String) -> Table {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut header = words(&["time_s", "span_s", "counted_s"]);
    for tier in &app.tiers {
        let what = ["read_gbps", "written_gbps", "latency_ns", "resident_bytes"];
        header.extend(what.map(|what| format!("{} {what}", tier.name)));
    }
    header.extend(words(&[
        "cpus_used",
        "threads_running",
        "resident_bytes",
        "storage_read_bytes",
        "storage_written_bytes",
        "major_faults",
    ]));
    header.extend(app.energy_domains.iter().map(|domain| format!("{domain} power_w")));
    header.extend(words(&["retiring", "bad_speculation", "frontend_bound", "backend_bound"]));
    header.push("memory_bound".into());
    let mut table = Table::with_header(header);
    for sample in &app.samples {
        table.row(row(app, sample, &number));
    }
    table
}

fn row(app: &AppDocument, sample: &SampleDocument, number: impl Fn(f64) -> String) -> Vec<String> {
    let known = |value: Option<f64>| value.map_or(String::new(), &number);
    let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
    let per = |value: Option<f64>, by: f64| known(value.filter(|_| by > 0.0).map(|it| it / by));
    let mut cells = vec![number(sample.time_s), number(sample.span_s), number(sample.counted_s)];
    for (at, tier) in sample.tiers.iter().enumerate() {
        cells.push(per(tier.read_bytes, 1e9 * sample.counted_s));
        cells.push(per(tier.written_bytes, 1e9 * sample.counted_s));
        cells.push(known(tier.latency_ns()));
        cells.push(whole(sample.placement_bytes.get(at).copied()));
    }
    cells.push(known(sample.cpus()));
    let is_sampled = sample.looked_s > 0.0;
    cells.push(whole(is_sampled.then_some(sample.threads_running as u64)));
    cells.push(whole(sample.resident_bytes));
    cells.push(whole(sample.storage_read_bytes));
    cells.push(whole(sample.storage_written_bytes));
    cells.push(whole(is_sampled.then_some(sample.major_faults)));
    let energy = (0..app.energy_domains.len()).map(|at| sample.energy_j.get(at).copied().flatten());
    cells.extend(energy.map(|energy_j| per(energy_j, sample.span_s)));
    let slots = sample.slots.unwrap_or_default();
    let kinds =
        [slots.retiring, slots.bad_speculation, slots.frontend, slots.backend, slots.memory];
    cells.extend(kinds.map(|kind| per(kind, slots.all.unwrap_or(0.0))));
    cells
}
