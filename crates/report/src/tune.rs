//! The search for the best static weights (`interleaf.tune/1`) as text.

use super::{
    number,
    screen::{Meaning, painted},
    table::Table,
};
use interleaf_record::{
    tune::{TrialDocument, TuneBest, TuneDocument, TuneStop},
    weights_text,
};

/// The line of a finished run.
pub fn trial(trial: &TrialDocument) -> String {
    let value = trial.value.map(|value| format!(", {}", number(value))).unwrap_or_default();
    let (weights, seconds) = (weights_text(&trial.weights), number(trial.seconds));
    format!("{weights} ({}): {seconds} s{value}", trial.why)
}

/// The document as text for a terminal.
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
    format!("{count} run{}", if count == 1 { "" } else { "s" })
}

/// The plan of a dry run.
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
    text + &document.command.join(" ") + "\n"
}

/// A row for each choice of weights, sorted by decreasing share of the first tier.
fn table(document: &TuneDocument) -> Table {
    let what = if document.metric.is_some() { "metric" } else { "seconds" };
    let header = ["weights", "first tier %", "runs", what, "least", "most", "speed-up"];
    let mut table = Table::new(&header);
    let value = |trial: &TrialDocument| trial.value.unwrap_or(trial.seconds);
    let done = |trial: &&TrialDocument| {
        trial.exit_code == Some(0) && (document.metric.is_none() || trial.value.is_some())
    };
    let mut groups: Vec<(&TrialDocument, Vec<f64>)> = vec![];
    for trial in document.runs.iter().filter(done) {
        match groups.iter_mut().find(|(first, _)| first.tier_share == trial.tier_share) {
            Some((_, values)) => values.push(value(trial)),
            None => groups.push((trial, vec![value(trial)])),
        }
    }
    let mean = |values: &[f64]| {
        libm::exp(values.iter().map(|value| libm::log(*value)).sum::<f64>() / values.len() as f64)
    };
    let first = groups.first().map(|(_, values)| mean(values));
    groups.sort_by(|a, b| b.0.tier_share[0].total_cmp(&a.0.tier_share[0]));
    for (trial, values) in &groups {
        let mean = mean(values);
        let speedup = first.map_or(1.0, |first| match document.higher_is_better {
            true => mean / first,
            false => first / mean,
        });
        table.row([
            weights_text(&trial.weights),
            format!("{:.1}", 100.0 * trial.tier_share[0]),
            values.len().to_string(),
            number(mean),
            number(values.iter().copied().fold(f64::MAX, f64::min)),
            number(values.iter().copied().fold(0.0, f64::max)),
            format!("{speedup:.3}"),
        ]);
    }
    table
}

/// The best weights with their speed-up and its uncertainty, or that no weights are better.
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
