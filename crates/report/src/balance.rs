//! Documents of the daemon as text: periods, advice and plan.

use super::number;
use interleaf_model::units::Bytes;
use interleaf_record::balance::{
    ActuatorName, AdviceDocument, BalancePeriod, BalancePlanDocument, GainBasis, PointsDocument,
    SummaryDocument, WriteDocument,
};
use interleaf_sim::machine::Outcome;

/// `    12.0 s  431.2 GB/s  node0 92 (91.8), node1 8 (8.2)  step: bandwidth rose`
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

/// `advised 63:37, predicted 1.34 times the bandwidth, 17.8 GiB would move`
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

/// Smaller gains are shown as no gain.
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

/// The advice for a domain.
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

/// The result of a policy on a simulated machine.
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

/// The plan of a dry run.
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

/// `node0 75, node2 25; node1 75, node3 25`
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
