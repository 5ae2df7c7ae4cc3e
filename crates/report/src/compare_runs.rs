//! Renders a comparison of configurations by runs (`interleaf.compare.runs/1`) as text, Markdown,
//! HTML and CSV.

use super::{
    number,
    screen::{Meaning, painted},
    short_number,
    table::{Table, escaped},
};
use interleaf_model::format::shell_text;
use interleaf_record::compare_runs::{
    CompareRunsDocument, ComparedResult, ComparedRun, ComparedWorkload, RunsStop, RunsVerdict,
    SpeedupDocument,
};

/// Returns the title of the document's page.
pub fn title(document: &CompareRunsDocument) -> String {
    let names: Vec<&str> = document.configurations.iter().map(|it| it.name.as_str()).collect();
    names.join(" against ")
}

/// Formats the line of progress after a finished run of a workload. `name` is the name of the run's
/// configuration.
pub fn run(workload: &ComparedWorkload, name: &str, run: &ComparedRun) -> String {
    let unit = if workload.unit.is_empty() { String::new() } else { format!(" {}", workload.unit) };
    format!("{}, round {}, {name}: {}{unit}", workload.name, run.round, number(run.value))
}

/// Renders the document as text for a terminal.
pub fn text(document: &CompareRunsDocument) -> String {
    let lines = [configurations(document), measured(document)].concat().join("\n");
    if document.stopped == RunsStop::DryRun {
        return format!("{lines}\n\n{}", plan(document).text());
    }
    if document.workloads.iter().all(|workload| workload.results.is_empty()) {
        return format!("{lines}\n\nnothing is known: {}\n", document.stopped_because);
    }
    let verdicts = verdicts(document);
    let answers: String =
        verdicts.iter().map(|line| painted(Meaning::Answer, line) + "\n").collect();
    let notes: String = notes(document).iter().map(|line| format!("{line}\n")).collect();
    format!("{answers}\n{lines}\n\n{}\n{notes}", results(document).text())
}

pub fn markdown(document: &CompareRunsDocument) -> String {
    let (title, results) = (title(document), results(document).markdown());
    let list = |lines: Vec<String>| format!("- {}\n", lines.join("\n- "));
    let verdicts = list([verdicts(document), notes(document)].concat());
    let about = list([configurations(document), measured(document)].concat());
    format!("# {title}\n\n{verdicts}\n{results}\n{about}")
}

/// Renders the document as HTML, for the body of a page. `figures` is the HTML of its figures.
pub fn html(document: &CompareRunsDocument, figures: &str) -> String {
    let list = |lines: Vec<String>| {
        let items = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line)));
        format!("<ul>\n{}</ul>\n", items.collect::<String>())
    };
    let lines = verdicts(document);
    // The last lines are the verdicts on the geometric means over all workloads. If there are such
    // lines, they are the answer of the page.
    let answer = match document.means.len() {
        0 => &lines[..],
        count => &lines[lines.len().saturating_sub(count)..],
    };
    let answer: Vec<String> = answer.iter().map(|line| escaped(line)).collect();
    let answer = match answer.is_empty() {
        true => String::new(),
        false => format!("<p class=\"answer\">{}</p>\n", answer.join("<br>\n")),
    };
    let (verdicts, notes) = (list(lines), list(notes(document)));
    let about = list([configurations(document), measured(document)].concat());
    let mut machine = Table::new(&["", ""]);
    for (name, value) in document.machine.facts() {
        machine.row([name.to_string(), value]);
    }
    format!(
        "{answer}{about}<h2>Is this real?</h2>\n{verdicts}{notes}{figures}\
         <h2>Configurations</h2>\n{}\
         <h2>All runs</h2>\n<details><summary>table</summary>\n{}</details>\n<h2>Machine</h2>\n{}",
        results(document).html(),
        runs(document).html(),
        machine.html(),
    )
}

/// Renders the runs as CSV.
pub fn csv(document: &CompareRunsDocument) -> String {
    runs(document).csv()
}

fn configurations(document: &CompareRunsDocument) -> Vec<String> {
    let line = |(at, it): (usize, &interleaf_record::compare_runs::ConfigurationDocument)| {
        let letter = letter(at);
        match it.name == letter {
            true => format!("{letter}: {}", it.setting),
            false => format!("{letter}: {} ({})", it.name, it.setting),
        }
    };
    document.configurations.iter().enumerate().map(line).collect()
}

/// Returns the letter by which the command line names the configuration with the index `at`: `A`
/// for the first. The letters repeat after `Z`.
pub fn letter(at: usize) -> String {
    char::from(b'A' + (at % 26) as u8).to_string()
}

/// Returns a line for each workload, with its metric.
fn measured(document: &CompareRunsDocument) -> Vec<String> {
    let line = |workload: &ComparedWorkload| {
        let unit =
            if workload.unit.is_empty() { String::new() } else { format!(" in {}", workload.unit) };
        let better = if workload.higher_is_better { "higher" } else { "lower" };
        let metric = &workload.metric;
        format!("{}: {metric}{unit}, {better} is better", workload.name)
    };
    document.workloads.iter().map(line).collect()
}

/// Returns a table of the commands that the comparison would run, for a dry run.
fn plan(document: &CompareRunsDocument) -> Table {
    let mut table = Table::new(&["workload", "configuration", "command"]);
    for workload in &document.workloads {
        for configuration in &document.configurations {
            let (prefix, suffix) = (&configuration.prefix[..], &configuration.suffix[..]);
            let words = [prefix, &workload.command, suffix].concat();
            table.row([
                workload.name.clone(),
                configuration.name.clone(),
                shell_text::command(&words),
            ]);
        }
    }
    table
}

fn results(document: &CompareRunsDocument) -> Table {
    let mut table = Table::new(&[
        "workload",
        "configuration",
        "metric",
        "unit",
        "noise",
        "user s",
        "system s",
        "memory MiB",
        "faults",
        "major",
        "read MiB",
        "written MiB",
        "speed-up",
        "interval",
    ]);
    let mib = |bytes: f64| number(bytes / f64::from(1 << 20));
    for workload in &document.workloads {
        for (configuration, result) in document.configurations.iter().zip(&workload.results) {
            let speedup = result.speedup.as_ref();
            table.row([
                workload.name.clone(),
                configuration.name.clone(),
                number(result.value),
                workload.unit.clone(),
                result.noise.map_or(String::new(), |noise| format!("{:.1} %", 100.0 * noise)),
                number(result.user_s),
                number(result.system_s),
                result.resident_max_bytes.map_or(String::new(), mib),
                format!("{:.0}", result.minor_faults),
                format!("{:.0}", result.major_faults),
                mib(result.read_bytes),
                mib(result.written_bytes),
                speedup.map_or(String::new(), |it| format!("{:.3}", it.speedup)),
                speedup.map_or(String::new(), interval),
            ]);
        }
    }
    let mean = document.means.iter();
    for it in mean {
        let name = document.configurations[it.configuration].name.clone();
        let mut cells = vec!["geometric mean".to_string(), name];
        cells.resize(12, String::new());
        cells.extend([format!("{:.3}", it.speedup), interval(it)]);
        table.row(cells);
    }
    table
}

fn interval(speedup: &SpeedupDocument) -> String {
    format!("{:.3} to {:.3}", speedup.speedup_low, speedup.speedup_high)
}

fn runs(document: &CompareRunsDocument) -> Table {
    let mut table = Table::new(&[
        "workload",
        "round",
        "configuration",
        "value",
        "unit",
        "wall_s",
        "user_s",
        "system_s",
        "resident_max_bytes",
        "minor_faults",
        "major_faults",
        "read_bytes",
        "written_bytes",
        "outlier",
    ]);
    for workload in &document.workloads {
        for run in &workload.runs {
            let result = workload.results.get(run.configuration);
            let is_outlier = result.is_some_and(|result| result.outliers.contains(&run.round));
            table.row([
                workload.name.clone(),
                run.round.to_string(),
                document.configurations[run.configuration].name.clone(),
                run.value.to_string(),
                workload.unit.clone(),
                run.wall_s.to_string(),
                run.user_s.to_string(),
                run.system_s.to_string(),
                run.resident_max_bytes.map_or(String::new(), |bytes| bytes.to_string()),
                run.minor_faults.to_string(),
                run.major_faults.to_string(),
                run.read_bytes.to_string(),
                run.written_bytes.to_string(),
                is_outlier.to_string(),
            ]);
        }
    }
    table
}

/// Returns, for each workload, a line for each configuration after the first: its difference from
/// the first configuration, and whether the difference is significant. With several workloads,
/// lines on the geometric means follow.
pub fn verdicts(document: &CompareRunsDocument) -> Vec<String> {
    let first = document.configurations.first().map_or("", |first| &first.name);
    let line = |what: &str, rounds: usize, it: &SpeedupDocument| {
        let name = &document.configurations[it.configuration].name;
        let least = document.design.min_difference;
        format!("{what}: {name} against {first}: {}", verdict(it, rounds, least))
    };
    let mut lines = vec![];
    for workload in &document.workloads {
        for result in workload.results.iter().skip(1) {
            lines.push(match &result.speedup {
                Some(speedup) => line(&workload.name, result.rounds, speedup),
                None => format!("{}: too few rounds for an answer", workload.name),
            });
        }
    }
    let rounds = document.workloads.iter().flat_map(|it| &it.results).map(|it| it.rounds).min();
    lines.extend(
        document.means.iter().map(|mean| line("geometric mean", rounds.unwrap_or(0), mean)),
    );
    lines
}

/// Formats a speed-up and its interval: `faster by 3.1 % (2.2 to 4.0)`.
fn verdict(it: &SpeedupDocument, rounds: usize, min_difference: f64) -> String {
    let more = |ratio: f64| format!("{:.1}", 100.0 * (ratio - 1.0));
    // `slower by 3 %` means that the run takes 3 % longer, not that the speed is 3 % lower.
    let faster = format!(
        "faster by {} % ({} to {})",
        more(it.speedup),
        more(it.speedup_low),
        more(it.speedup_high)
    );
    let slower = format!(
        "slower by {} % ({} to {})",
        more(1.0 / it.speedup),
        more(1.0 / it.speedup_high),
        more(1.0 / it.speedup_low)
    );
    let end = |ratio: f64| match ratio >= 1.0 {
        true => format!("{} % faster", more(ratio)),
        false => format!("{} % slower", more(1.0 / ratio)),
    };
    // Few rounds give wide intervals. An interval that reaches beyond a factor of 3 is printed in
    // factors, because its percentages would be hard to read.
    let range = if it.speedup_low < 1.0 / 3.0 || it.speedup_high > 3.0 {
        let [low, high] = [it.speedup_low, it.speedup_high].map(short_number);
        format!("{low} to {high} times the speed: too few rounds")
    } else {
        format!("{} to {}", end(it.speedup_low), end(it.speedup_high))
    };
    let small = |difference: &str| {
        let percent = 100.0 * min_difference;
        format!("no difference that matters: {difference}, less than {percent} %")
    };
    match it.verdict {
        RunsVerdict::Faster => faster,
        RunsVerdict::Slower => slower,
        RunsVerdict::Same if it.speedup_low > 1.0 => small(&faster),
        RunsVerdict::Same if it.speedup_high < 1.0 => small(&slower),
        RunsVerdict::Same => format!("no difference ({range})"),
        RunsVerdict::Uncertain => format!("not certain after {rounds} rounds ({range})"),
    }
}

/// Returns notes: outliers, verdicts by CPU time for which wall time gives no verdict,
/// configurations whose results differ from those of the first configuration, and the reason why
/// the comparison ended.
fn notes(document: &CompareRunsDocument) -> Vec<String> {
    let mut lines = vec![];
    let of = |result: &ComparedResult| &document.configurations[result.configuration].name;
    let least = document.design.min_difference;
    for workload in &document.workloads {
        for result in &workload.results {
            let rounds: Vec<String> = result.outliers.iter().map(usize::to_string).collect();
            if !rounds.is_empty() {
                let s = if rounds.len() == 1 { "" } else { "s" };
                lines.push(format!(
                    "{}: outliers of {} in round{s} {}, which are not removed",
                    workload.name,
                    of(result),
                    rounds.join(", ")
                ));
            }
            let first = &document.configurations[0].name;
            if let Some(speedup) = workload.speedup_by_cpu_time(result, &document.design) {
                lines.push(format!(
                    "{}: by CPU time, which has less noise here, {} against {first}: {}; \
                     `--quantity cpu` compares CPU times",
                    workload.name,
                    of(result),
                    verdict(&speedup, result.rounds, least)
                ));
            }
            if result.same_result == Some(false) {
                let (name, other) = (&workload.name, of(result));
                lines.push(format!("{name}: the results of {other} differ from those of {first}"));
            }
        }
    }
    let rounds = document.workloads.iter().flat_map(|it| it.results.first()).map(|it| it.rounds);
    let rounds: usize = rounds.sum();
    let s = if rounds == 1 { "" } else { "s" };
    lines.push(format!("stopped after {rounds} round{s}: {}", document.stopped_because));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_sentences() {
        let it = |speedup, speedup_low, speedup_high, verdict| SpeedupDocument {
            configuration: 1,
            speedup,
            speedup_low,
            speedup_high,
            verdict,
        };
        for (speedup, text) in [
            (it(1.031, 1.022, 1.04, RunsVerdict::Faster), "faster by 3.1 % (2.2 to 4.0)"),
            (it(0.97, 0.96, 0.98, RunsVerdict::Slower), "slower by 3.1 % (2.0 to 4.2)"),
            (
                it(1.001, 0.995, 1.008, RunsVerdict::Same),
                "no difference (0.5 % slower to 0.8 % faster)",
            ),
            (
                it(1.008, 1.003, 1.013, RunsVerdict::Same),
                "no difference that matters: faster by 0.8 % (0.3 to 1.3), less than 2 %",
            ),
            (
                it(1.01, 0.98, 1.05, RunsVerdict::Uncertain),
                "not certain after 40 rounds (2.0 % slower to 5.0 % faster)",
            ),
            (
                it(1.02, 0.003, 1133.36, RunsVerdict::Uncertain),
                "not certain after 40 rounds (0.003 to 1133 times the speed: too few rounds)",
            ),
        ] {
            assert_eq!(verdict(&speedup, 40, 0.02), text);
        }
    }
}
