//! Renders the documents of `interleaf balance` as text, pages and CSV: control periods
//! (`interleaf.balance/1`), the advice for a domain (`interleaf.balance.advice/1`), and the plan of
//! a dry run (`interleaf.balance.plan/1`).

use super::{
    number,
    page::{Page, counted},
    table::Table,
};
use interleaf_model::units::Bytes;
use interleaf_record::balance::{
    ActuatorName, AdviceDocument, BalanceLog, BalancePeriod, BalancePlanDocument, GainBasis,
    PointsDocument, SummaryDocument, WriteDocument,
};
use interleaf_sim::machine::Outcome;

/// Formats a period of a domain in one line:
/// `    12.0 s  cpu0  431.2 GB/s  node0 92 (91.8), node1 8 (8.2)  step: bandwidth rose`.
/// In `92 (91.8)`, 92 is the target share and 91.8 the reached share of the pages, percent.
pub fn line(period: &BalancePeriod) -> String {
    let nodes = period.nodes.iter().zip(&period.target_weights).enumerate();
    let nodes: Vec<String> = nodes
        .map(|(at, (node, points))| match &period.reached_share {
            Some(shares) => format!("node{node} {points} ({:.1})", 100.0 * shares[at]),
            None => format!("node{node} {points}"),
        })
        .collect();
    let bandwidth = match period.bandwidth_gbps {
        Some(gbps) => format!("{} GB/s", number(gbps)),
        None => "not counted".into(),
    };
    let moved = match period.migrated_bytes {
        0 => String::new(),
        bytes => format!(", {} moved", Bytes::new(bytes)),
    };
    let (decision, reason) = (&period.decision, &period.reason);
    let (time, domain) = (period.time_s, &period.domain);
    let advice = period.advice.as_ref().map_or(String::new(), |it| format!("; {}", advice(it)));
    format!(
        "{time:>8.1} s  {domain}  {bandwidth}  {}{moved}  {decision}: {reason}{advice}",
        nodes.join(", ")
    )
}

/// Formats the advice in one line: `advised 63:37, predicted 1.34 times the bandwidth, 17.8 GiB
/// would move`.
fn advice(advice: &AdviceDocument) -> String {
    let weights = advice.advised_weights.as_ref().map(|points| {
        let points: Vec<String> = points.iter().map(u16::to_string).collect();
        points.join(":")
    });
    let weights = weights.map_or("advised nothing".into(), |it| format!("advised {it}"));
    let moves = match advice.would_move_bytes {
        Some(0) => ", nothing would move".into(),
        Some(bytes) => format!(", {} would move", Bytes::new(bytes)),
        None => ", bytes to move unknown".into(),
    };
    format!("{weights}, {}{moves}", gain(advice))
}

/// A gain of bandwidth below this fraction is shown as no gain: with two decimals it would be shown
/// as 1.00 times the bandwidth.
const NO_GAIN: f64 = 0.005;

fn gain(advice: &AdviceDocument) -> String {
    let times = advice.gain.map(|gain| format!("{:.2} times the bandwidth", 1.0 + gain));
    match (times, advice.gain_is) {
        (_, _) if advice.is_unsaturated => {
            "no gain: the first tier is not saturated, and alone as good".into()
        }
        _ if advice.gain.is_some_and(|gain| gain < NO_GAIN) => "no gain".into(),
        (Some(times), GainBasis::Predicted) => format!("predicted {times}"),
        (Some(times), word) => format!("{word} {times}"),
        (None, _) => "gain unknown".into(),
    }
}

/// Renders the advice for a domain as text for a terminal.
pub fn summary(summary: &SummaryDocument) -> String {
    let of = |points: &[u16]| {
        let nodes = summary.nodes.iter().zip(points);
        nodes.map(|(node, points)| format!("node{node} {points}")).collect::<Vec<_>>().join(", ")
    };
    let now = summary.reached_share.as_ref().map_or(String::new(), |shares| {
        let nodes = summary.nodes.iter().zip(shares);
        let nodes = nodes.map(|(node, share)| format!("node{node} {:.1} %", 100.0 * share));
        format!(", with pages at {}", nodes.collect::<Vec<_>>().join(", "))
    });
    let SummaryDocument { domain, periods, policy, way, .. } = summary;
    let s = if *periods == 1 { "" } else { "s" };
    let by = match (&summary.curves, summary.advice.gain_is) {
        (Some(curves), _) => format!("by the curves of {curves}, corrected by what was counted"),
        (None, GainBasis::AtMost) => {
            "by the firmware's ratings, which bound it: --curves NAME|FILE says \
                              more"
                .into()
        }
        (None, _) => {
            "neither curves nor ratings of the firmware say more: give --curves NAME|FILE".into()
        }
    };
    format!(
        "{domain}: {} GB/s in {periods} period{s}{now}\n  {} ({by})\n  the daemon \
         would begin with {}, and its policy {policy} then go to {}; pages would move by {way}\n  \
         nothing was changed\n",
        number(summary.bandwidth_gbps),
        advice(&summary.advice),
        of(&summary.start_weights),
        of(&summary.first_weights),
    )
}

/// Formats the result of a policy on a simulated machine, in one line.
pub fn simulated(outcome: &Outcome) -> String {
    let mut text = String::from("interleaf: simulated");
    for task in &outcome.tasks {
        if let Some(speedup) = task.speedup() {
            text += &format!(", {speedup:.2} times as fast as with all pages on the first tier");
        }
    }
    if let (Some(best), Some(task)) = (&outcome.best_static, outcome.tasks.first()) {
        let fixed = task.best_static.as_ref().map(|best| task.local.runtime_s / best.runtime_s);
        let points: Vec<String> = best.points[0].iter().map(|points| points.to_string()).collect();
        if let Some(fixed) = fixed {
            text += &format!(" (the best fixed weights, {}: {fixed:.2})", points.join(":"));
        }
    }
    text + &format!("; {} moved; this machine was left alone", Bytes::new(outcome.moved_bytes))
}

/// Renders the plan of a dry run as text for a terminal.
pub fn plan(plan: &BalancePlanDocument) -> String {
    let mut text = String::new();
    let domains = plan.domains.iter().map(|domain| {
        let nodes: Vec<String> = domain.nodes.iter().map(u32::to_string).collect();
        format!("{}: nodes {}", domain.name, nodes.join(", "))
    });
    text += &format!("{}\n", domains.collect::<Vec<_>>().join("; "));
    text += &format!("steered: {}{}, by the policy {}\n", plan.scope, processes(plan), plan.policy);
    text += &format!("pages move by {}: {}\n", plan.way, plan.way_description);
    for way in &plan.ways_missing {
        text += &format!("  not by {way}\n");
    }
    let source = &plan.source;
    text += &match (source.is_there, &source.remedy) {
        (false, remedy) => format!(
            "nothing counts: {}\n  {}\n",
            source.what,
            remedy.as_deref().unwrap_or_default()
        ),
        (true, _) => format!("counted by: {}; not opened in a dry run\n", source.what),
    };
    for note in &plan.notes {
        text += &format!("{note}\n");
    }
    text += &format!("\nat first, {}{}", points(&plan.start), writes(&plan.writes));
    if !plan.next.is_empty() {
        let (next, writes) = (points(&plan.next), writes(&plan.next_writes));
        text += &format!("with each decision, such as {next}{writes}");
    }
    text += match (plan.writes.is_empty(), plan.way) {
        (false, _) => "at the end all of it is restored, the last change first\n",
        (true, ActuatorName::Pages) => {
            "nothing is written: pages move by a system call, move_pages(2)\n"
        }
        (true, _) => "nothing is written before there is a process to steer\n",
    };
    text
}

fn processes(plan: &BalancePlanDocument) -> String {
    match plan.processes.as_deref() {
        None => String::new(),
        Some([]) => " (none runs now: they join when they come)".into(),
        Some(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!(" (now {})", pids.join(", "))
        }
    }
}

/// Formats the target of each domain in one line, as percentages of the pages: `node0 75, node2 25;
/// node1 75, node3 25`.
fn points(domains: &[PointsDocument]) -> String {
    let domains = domains.iter().map(|domain| {
        let nodes = domain.nodes.iter().map(|node| format!("node{} {}", node.node, node.points));
        nodes.collect::<Vec<_>>().join(", ")
    });
    domains.collect::<Vec<_>>().join("; ")
}

fn writes(writes: &[WriteDocument]) -> String {
    if writes.is_empty() {
        return "\n".into();
    }
    let line = |write: &WriteDocument| {
        let was = write.was.as_ref().map_or(String::new(), |was| format!("  (now {was})"));
        format!("  {} > {}{was}\n", write.text, write.path)
    };
    [":\n".into()].into_iter().chain(writes.iter().map(line)).collect()
}

/// Renders the control periods of the last run in the log as a page of a report.
pub fn page(log: &BalanceLog) -> Page {
    let periods = log.last_periods();
    let mut lines = last_targets(periods).into_iter();
    let answer = lines.next().unwrap_or_else(|| "no period was recorded".into());
    let mut facts: Vec<String> = lines.collect();
    let all: usize = log.runs.iter().map(|run| run.periods.len()).sum();
    let earlier = all - periods.len();
    if earlier > 0 {
        facts.push(format!("{} of earlier runs left out", counted(earlier, "period")));
    }
    for advice in log.runs.last().iter().flat_map(|run| &run.advice) {
        facts.extend(summary(advice).lines().map(|line| line.trim().to_string()));
    }
    let title = "Periods of a balance".into();
    Page { title, answer, facts, ..Page::default() }.with_table("All periods", table(periods))
}

/// Returns a line for each domain, with its last target and the number of its periods in which
/// pages migrated.
pub(super) fn last_targets(periods: &[BalancePeriod]) -> Vec<String> {
    let mut domains: Vec<&BalancePeriod> = vec![];
    for period in periods {
        match domains.iter_mut().find(|known| known.domain == period.domain) {
            Some(last) => *last = period,
            None => domains.push(period),
        }
    }
    let lines = domains.iter().map(|last| {
        let counts = periods.iter().filter(|it| it.domain == last.domain);
        let moves = counts.clone().filter(|it| it.migrated_bytes > 0).count();
        let periods = counted(counts.count(), "period");
        let target = target(last);
        format!("{}: target {target} after {periods}; pages migrated in {moves}", last.domain)
    });
    lines.collect()
}

/// Formats the target of a period in one line: `node0 92 %, node1 8 %`.
fn target(period: &BalancePeriod) -> String {
    let nodes = period.nodes.iter().zip(&period.target_weights);
    let nodes: Vec<String> = nodes.map(|(node, points)| format!("node{node} {points} %")).collect();
    nodes.join(", ")
}

/// Returns a table of control periods. Each entry of `periods` is one period of one domain, and
/// becomes a row.
pub(super) fn table(periods: &[BalancePeriod]) -> Table {
    let mut table = Table::new(&[
        "time s", "domain", "GB/s", "target", "reached", "migrated", "decision", "reason",
    ]);
    for period in periods {
        let reached = period.reached_share.as_ref().map_or(String::new(), |shares| {
            let nodes = period.nodes.iter().zip(shares);
            let nodes = nodes.map(|(node, share)| format!("node{node} {:.1} %", 100.0 * share));
            nodes.collect::<Vec<_>>().join(", ")
        });
        table.row([
            format!("{:.1}", period.time_s),
            period.domain.clone(),
            period.bandwidth_gbps.map_or(String::new(), number),
            target(period),
            reached,
            Bytes::new(period.migrated_bytes).to_string(),
            period.decision.clone(),
            period.reason.clone(),
        ]);
    }
    table
}

/// Renders the control periods as CSV, with a row for each combination of period, domain and node.
pub fn csv(periods: &[BalancePeriod]) -> String {
    let mut table = Table::new(&[
        "time_s",
        "domain",
        "node",
        "target_weight",
        "reached_share",
        "bandwidth_gbps",
        "node_bandwidth_gbps",
        "node_latency_ns",
        "migrated_bytes",
        "decision",
        "reason",
    ]);
    let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for period in periods {
        for (at, node) in period.nodes.iter().enumerate() {
            let share = period.reached_share.as_ref().and_then(|shares| shares.get(at));
            table.row([
                period.time_s.to_string(),
                period.domain.clone(),
                node.to_string(),
                period.target_weights.get(at).map_or(String::new(), u16::to_string),
                text(share.copied()),
                text(period.bandwidth_gbps),
                text(period.tier_bandwidth_gbps.get(at).copied()),
                text(period.tier_latency_ns.get(at).copied().flatten()),
                period.migrated_bytes.to_string(),
                period.decision.clone(),
                period.reason.clone(),
            ]);
        }
    }
    table.csv()
}

/// Renders the advice for a domain, as a page of a report.
pub fn advice_page(document: &SummaryDocument) -> Page {
    let text = summary(document);
    let mut lines = text.lines().map(|line| line.trim().to_string());
    let measured = lines.next().unwrap_or_default();
    let answer = lines.next().unwrap_or_default();
    let facts = [measured].into_iter().chain(lines).collect();
    Page { title: format!("Advice for {}", document.domain), answer, facts, ..Page::default() }
        .with_table("Nodes", advised_nodes(document))
}

fn advised_nodes(document: &SummaryDocument) -> Table {
    let mut table =
        Table::new(&["node", "pages now %", "advised", "daemon begins with", "then goes to"]);
    let advised = document.advice.advised_weights.as_ref();
    for (at, node) in document.nodes.iter().enumerate() {
        let points = |list: &[u16]| list.get(at).map_or("-".into(), u16::to_string);
        let reached = document.reached_share.as_ref().and_then(|shares| shares.get(at));
        table.row([
            node.to_string(),
            reached.map_or("-".into(), |share| format!("{:.1}", 100.0 * share)),
            advised.map_or("-".into(), |advised| points(advised)),
            points(&document.start_weights),
            points(&document.first_weights),
        ]);
    }
    table
}

/// Renders the advice as CSV, with a row for each combination of domain and node.
pub fn advice_csv(documents: &[SummaryDocument]) -> String {
    let mut table = Table::new(&[
        "domain",
        "node",
        "reached_share",
        "advised_weight",
        "start_weight",
        "first_weight",
        "bandwidth_gbps",
        "gain",
    ]);
    for document in documents {
        let text = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for (at, node) in document.nodes.iter().enumerate() {
            let points = |list: &[u16]| list.get(at).map_or(String::new(), u16::to_string);
            let reached = document.reached_share.as_ref().and_then(|shares| shares.get(at));
            table.row([
                document.domain.clone(),
                node.to_string(),
                text(reached.copied()),
                document.advice.advised_weights.as_deref().map_or(String::new(), points),
                points(&document.start_weights),
                points(&document.first_weights),
                document.bandwidth_gbps.to_string(),
                text(document.advice.gain),
            ]);
        }
    }
    table.csv()
}

/// Renders the plan of a dry run, as a page of a report.
pub fn plan_page(document: &BalancePlanDocument) -> Page {
    let BalancePlanDocument { policy, way, way_description, .. } = document;
    let answer = match (document.source.is_there, way) {
        (_, ActuatorName::None) => "no domain would be steered".to_string(),
        (false, _) => "nothing counts the traffic: no page would move".to_string(),
        (true, way) => format!("{policy} would steer {} by {way}", document.scope),
    };
    let mut facts = vec![
        format!("steered: {}{}, by the policy {policy}", document.scope, processes(document)),
        format!("pages move by {way}: {way_description}"),
        format!("counted by: {}", document.source.summary_line()),
    ];
    facts.extend(document.source.remedy.clone());
    facts.extend(document.ways_missing.iter().map(|way| format!("not by {way}")));
    facts.extend(document.notes.iter().cloned());
    facts.push(format!("first target: {}", points(&document.start)));
    if !document.next.is_empty() {
        facts.push(format!("with a decision, such as: {}", points(&document.next)));
    }
    let title = "Plan of a balance".into();
    Page { title, answer, facts, ..Page::default() }
        .with_table("Files written at first", written_files(&document.writes))
        .with_table("Files written by a decision", written_files(&document.next_writes))
}

fn written_files(writes: &[WriteDocument]) -> Table {
    let mut table = Table::new(&["file", "text", "content now"]);
    for write in writes {
        let was = write.was.clone().unwrap_or_else(|| "does not exist".into());
        table.row([write.path.clone(), write.text.clone(), was]);
    }
    table
}

/// Renders the plan as CSV, with a row for each value that would be written to a file of the
/// kernel: first the rows for the first target (`start`), then those for a later decision (`next`).
pub fn plan_csv(document: &BalancePlanDocument) -> String {
    let mut table = Table::new(&["target", "path", "text", "was"]);
    for (target, writes) in [("start", &document.writes), ("next", &document.next_writes)] {
        for write in writes {
            let was = write.was.clone().unwrap_or_default();
            table.row([target.into(), write.path.clone(), write.text.clone(), was]);
        }
    }
    table.csv()
}
