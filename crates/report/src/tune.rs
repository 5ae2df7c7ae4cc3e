//! Renders the search for the best static weights (`interleaf.tune/1`) as text, Markdown, HTML and
//! CSV.

use super::{
    number,
    page::{self, Page, counted},
    screen::{Meaning, painted},
    table::Table,
};
use interleaf_model::format::shell_text;
use interleaf_record::{
    tune::{TrialDocument, TuneBest, TuneDocument, TuneResult, TuneStop},
    weights_text,
};

/// Formats the line of progress after a finished run.
pub fn trial(trial: &TrialDocument) -> String {
    let value = trial.value.map(|value| format!(", {}", number(value))).unwrap_or_default();
    let (weights, seconds) = (weights_text(&trial.weights), number(trial.seconds));
    format!("{weights} ({}): {seconds} s{value}", trial.why)
}

/// Renders the document as text for a terminal.
pub fn text(document: &TuneDocument) -> String {
    let proposal = &document.proposal;
    let answer = document.best.as_ref().map(|best| conclusion(document, best));
    let answer = answer.map_or(String::new(), |answer| painted(Meaning::Answer, &answer) + "\n\n");
    let mut text =
        format!("{answer}proposed: {}, by {}\n", weights_text(&proposal.weights), proposal.source);
    if document.dry_run {
        return text + &plan(document);
    }
    if document.best.is_none() {
        return format!("{text}nothing is known: {}\n", document.stopped_because);
    }
    text += &format!("\n{}\n", table(document).text());
    text += &format!("done after {}: {}\n", runs(document.runs.len()), document.stopped_because);
    if let Some(noise) = document.noise {
        text += &format!("noise of a run: {:.1} %\n", 100.0 * noise);
    }
    text
}

fn runs(count: usize) -> String {
    counted(count, "run")
}

/// Renders the plan of a dry run as text: the first runs, their settings, and the command.
fn plan(document: &TuneDocument) -> String {
    let mut text = String::from("would be run first:\n");
    for plan in &document.plan {
        let nodes = plan.nodes.iter().map(|node| format!("node {}: {}", node.node, node.weight));
        let nodes: Vec<String> = nodes.collect();
        let weights = weights_text(&plan.weights);
        text += &format!("  {weights} by {}, {}\n", plan.means, nodes.join(", "));
        for setting in &plan.settings {
            text += &format!("    {}: {} -> {}\n", setting.path, setting.was, setting.set);
        }
    }
    let warm_up = match document.warm_up {
        0 => String::new(),
        more => format!(" after {} to warm up", runs(more)),
    };
    text += "each setting is restored after each run\n";
    text += &format!("at most {}{warm_up}: ", runs(document.runs_max));
    text + &shell_text::command(&document.command) + "\n"
}

/// Returns a table of the results, with a row for each choice of weights, sorted by decreasing
/// share of the first tier.
fn table(document: &TuneDocument) -> Table {
    let what = if document.metric.is_some() { "metric" } else { "seconds" };
    let header = ["weights", "first tier %", "runs", what, "least", "most", "speed-up"];
    let mut table = Table::new(&header);
    let mut results = document.results();
    let first = results.first().map(TuneResult::mean);
    results.sort_by(|a, b| b.first_tier_percent().total_cmp(&a.first_tier_percent()));
    for result in &results {
        let (mean, values) = (result.mean(), &result.values);
        let speedup = first.map_or(1.0, |first| match document.higher_is_better {
            true => mean / first,
            false => first / mean,
        });
        table.row([
            weights_text(&result.first.weights),
            format!("{:.1}", result.first_tier_percent()),
            values.len().to_string(),
            number(mean),
            number(values.iter().copied().fold(f64::MAX, f64::min)),
            number(values.iter().copied().fold(0.0, f64::max)),
            format!("{speedup:.3}"),
        ]);
    }
    table
}

/// Renders the search as a page of a report.
pub fn page(document: &TuneDocument) -> Page {
    let answer = match &document.best {
        Some(best) => conclusion(document, best),
        None => format!("nothing is known: {}", document.stopped_because),
    };
    let proposal = &document.proposal;
    let count = counted(document.runs.len(), "run");
    let mut facts = vec![
        format!("proposed: {}, by {}", weights_text(&proposal.weights), proposal.source),
        format!("{count}, at most {}: {}", document.runs_max, document.stopped_because),
    ];
    facts.extend(document.noise.map(|noise| format!("noise of a run: {:.1} %", 100.0 * noise)));
    facts.extend(document.metric.as_ref().map(|metric| {
        let better = if document.higher_is_better { "higher" } else { "lower" };
        format!("metric: {metric}, {better} is better")
    }));
    facts.extend(page::command(&document.command));
    let title = format!("Static weights for {}", page::program(&document.command));
    Page { title, answer, facts, ..Page::default() }
        .with_table("Results by weights", table(document))
        .with_table("All runs", runs_table(document))
        .with_table("Planned settings", settings(document))
}

fn runs_table(document: &TuneDocument) -> Table {
    let header = ["run", "weights", "reason", "exit status", "seconds", "metric"];
    let shown = if document.metric.is_some() { 6 } else { 5 };
    let mut table = Table::new(&header[..shown]);
    for (at, run) in document.runs.iter().enumerate() {
        let signal = run.signal.map(|signal| format!("signal {signal}"));
        let status = run.exit_code.map(|code| code.to_string()).or(signal);
        let cells = [
            (at + 1).to_string(),
            weights_text(&run.weights),
            run.why.to_string(),
            status.unwrap_or_default(),
            number(run.seconds),
            run.value.map_or(String::new(), number),
        ];
        table.row(cells.into_iter().take(shown));
    }
    table
}

/// Returns a table of the kernel settings that the runs would change. The table has no rows unless
/// the document is of a dry run.
fn settings(document: &TuneDocument) -> Table {
    let mut table = Table::new(&["weights", "means", "file", "value", "set to"]);
    for plan in document.plan.iter().filter(|_| document.dry_run) {
        for setting in &plan.settings {
            table.row([
                weights_text(&plan.weights),
                plan.means.to_string(),
                setting.path.clone(),
                setting.was.clone(),
                setting.set.clone(),
            ]);
        }
    }
    table
}

/// Renders the runs as CSV.
pub fn csv(document: &TuneDocument) -> String {
    let mut table = Table::new(&[
        "weights",
        "first_tier_share",
        "why",
        "seconds",
        "value",
        "exit_code",
        "signal",
        "escaped_share",
    ]);
    for run in &document.runs {
        let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let whole = |value: Option<i32>| value.map_or(String::new(), |value| value.to_string());
        table.row([
            weights_text(&run.weights),
            run.tier_share[0].to_string(),
            run.why.to_string(),
            run.seconds.to_string(),
            text(run.value),
            whole(run.exit_code),
            whole(run.signal),
            text(run.escaped_share),
        ]);
    }
    table.csv()
}

/// Returns a sentence on the best weights, with their speed-up and its uncertainty. If no weights
/// are better than the first tier alone by more than the minimum gain, the sentence says so.
fn conclusion(document: &TuneDocument, best: &TuneBest) -> String {
    let (name, min_gain) = (weights_text(&best.weights), 100.0 * document.min_gain);
    let around = (best.speedup_high - best.speedup_low) / 2.0;
    let stopped_early = matches!(document.stopped, TuneStop::Signal | TuneStop::Failed);
    let so_far = if stopped_early { "so far, " } else { "" };
    if document.is_better {
        return format!(
            "{so_far}{name} is best: {:.3} times the first tier alone, \u{b1} {around:.3} (nine \
             times in ten)",
            best.speedup
        );
    }
    let seen = if around > 0.0 {
        format!(": {name} is {:.3} times as fast, \u{b1} {around:.3}", best.speedup)
    } else {
        String::new()
    };
    format!(
        "{so_far}no weights are better than all on the first tier by more than {min_gain} %{seen}"
    )
}
