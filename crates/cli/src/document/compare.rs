//! Two records side by side, as `interleaf.compare/1`.

use super::{
    measure::{MeasureDocument, PointDocument},
    rounded,
};
use serde::{Deserialize, Serialize};

pub(crate) const SCHEMA: &str = "interleaf.compare/1";

/// Two records: what differs between the machines, and between each point that both have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CompareDocument {
    pub(crate) schema: String,
    /// What is compared: measure.
    pub(crate) of: String,
    pub(crate) first: RecordDocument,
    pub(crate) second: RecordDocument,
    /// What the machines, and the settings of the measurements, do not have in common.
    pub(crate) differences: Vec<DifferenceDocument>,
    /// In the order of the first record.
    pub(crate) rows: Vec<RowDocument>,
    /// Points that only one of them has.
    pub(crate) only_in_first: Vec<String>,
    pub(crate) only_in_second: Vec<String>,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RecordDocument {
    pub(crate) name: String,
    pub(crate) what: String,
    pub(crate) quality: String,
}

/// What differs that is no point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DifferenceDocument {
    pub(crate) what: String,
    pub(crate) first: String,
    pub(crate) second: String,
}

/// A point that both have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RowDocument {
    pub(crate) setting: String,
    pub(crate) unit: String,
    pub(crate) first: f64,
    pub(crate) second: f64,
    /// second / first - 1.
    pub(crate) difference: f64,
    /// The spreads of both together, as a part.
    pub(crate) spread: f64,
    /// Whether the difference is more than that.
    pub(crate) beyond_spread: bool,
    /// same, better or worse: what the difference means for the second.
    pub(crate) verdict: String,
    /// Whether both points were good.
    pub(crate) trusted: bool,
}

impl CompareDocument {
    /// Of two measurements, by the names of their files.
    pub(crate) fn of_measure(
        first: (&str, &MeasureDocument),
        second: (&str, &MeasureDocument),
    ) -> Self {
        let record = |(name, record): (&str, &MeasureDocument)| RecordDocument {
            name: name.into(),
            what: record.what.clone(),
            quality: record.quality.clone(),
        };
        let (a, b) = (keyed(first.1), keyed(second.1));
        let other = |key: &str, all: &[(String, &PointDocument)]| {
            all.iter().find(|(known, _)| known == key).map(|(_, point)| (*point).clone())
        };
        let rows = a.iter().filter_map(|(key, point)| row(key, point, &other(key, &b)?));
        let only = |all: &[(String, &PointDocument)], than: &[(String, &PointDocument)]| {
            let keys = all.iter().filter(|(key, _)| than.iter().all(|(known, _)| known != key));
            keys.map(|(key, _)| key.clone()).collect()
        };
        Self {
            schema: SCHEMA.into(),
            of: "measure".into(),
            first: record(first),
            second: record(second),
            differences: differences(first.1, second.1),
            rows: rows.collect(),
            only_in_first: only(&a, &b),
            only_in_second: only(&b, &a),
        }
    }

    /// Whether any difference is beyond the spreads.
    pub(crate) fn differ(&self) -> bool {
        self.rows.iter().any(|row| row.beyond_spread)
    }
}

/// Points by what they are of. The delays that a curve was made of are found as it is measured, so
/// those of two curves differ: of a curve the first point, without load, and the one with the most
/// bandwidth are compared.
fn keyed(record: &MeasureDocument) -> Vec<(String, &PointDocument)> {
    let mut found: Vec<(String, &PointDocument)> = vec![];
    for point in record.points.iter().filter(|point| point.kind != "loaded") {
        let key = point.setting();
        if found.iter().all(|(known, _)| *known != key) {
            found.push((key, point));
        }
    }
    let mut curves: Vec<(String, Vec<&PointDocument>)> = vec![];
    for point in record.of_kind("loaded") {
        let key = PointDocument { delay_ns: None, ..point.clone() }.setting();
        match curves.iter_mut().find(|(known, _)| *known == key) {
            Some((_, points)) => points.push(point),
            None => curves.push((key, vec![point])),
        }
    }
    for (key, points) in curves {
        let load = |point: &&&PointDocument| point.program_gbps.unwrap_or(0.0);
        let least = points.iter().min_by(|a, b| load(a).total_cmp(&load(b)));
        let most = points.iter().max_by(|a, b| load(a).total_cmp(&load(b)));
        found.extend(least.map(|point| (format!("{key}, least load"), *point)));
        found.extend(most.map(|point| (format!("{key}, most load"), *point)));
    }
    found
}

fn row(key: &str, first: &PointDocument, second: &PointDocument) -> Option<RowDocument> {
    let ((a, unit), (b, _)) = (first.value()?, second.value()?);
    if a <= 0.0 {
        return None;
    }
    let (difference, spread) = (b / a - 1.0, first.spread + second.spread);
    let beyond_spread = difference.abs() > spread;
    let is_better = (difference > 0.0) == (unit == "GB/s");
    let verdict = match (beyond_spread, is_better) {
        (false, _) => "same",
        (true, true) => "better",
        (true, false) => "worse",
    };
    Some(RowDocument {
        setting: key.into(),
        unit: unit.into(),
        first: rounded(a),
        second: rounded(b),
        difference: rounded(difference),
        spread: rounded(spread),
        beyond_spread,
        verdict: verdict.into(),
        trusted: first.quality == "good" && second.quality == "good",
    })
}

fn differences(first: &MeasureDocument, second: &MeasureDocument) -> Vec<DifferenceDocument> {
    let facts = |record: &MeasureDocument| {
        let settings = &record.settings;
        let mut facts: Vec<(String, String)> = record
            .machine
            .facts()
            .into_iter()
            .map(|(name, text)| (name.to_string(), text))
            .collect();
        facts.extend([
            ("instructions".into(), settings.isa.clone()),
            ("pages asked for".into(), settings.pages.clone()),
            ("buffer".into(), super::measure::size_text(settings.buffer_bytes)),
            ("chase".into(), super::measure::size_text(settings.chase_bytes)),
            ("stride".into(), super::measure::size_text(settings.stride_bytes)),
            ("seed".into(), settings.seed.to_string()),
        ]);
        facts
    };
    let pairs = facts(first).into_iter().zip(facts(second));
    let differ = pairs.filter(|((_, a), (_, b))| a != b);
    differ.map(|((what, first), (_, second))| DifferenceDocument { what, first, second }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::document::measure::tests::record;

    fn point(kind: &str, value: f64, spread: f64) -> PointDocument {
        let (gbps, ns) = if kind == "idle" { (None, Some(value)) } else { (Some(value), None) };
        PointDocument {
            kind: kind.into(),
            program_gbps: gbps,
            latency_ns: ns,
            spread,
            quality: "good".into(),
            ..PointDocument::default()
        }
    }

    #[test]
    fn only_what_is_beyond_the_spreads_differs() {
        let (mut a, mut b) = (record(), record());
        b.machine.kernel = Some("7.2".into());
        for (kind, first, second) in
            [("bandwidth", 100.0, 104.0), ("idle", 100.0, 110.0), ("interleave", 100.0, 120.0)]
        {
            a.points.push(point(kind, first, 0.025));
            b.points.push(point(kind, second, 0.025));
        }
        a.points.push(point("histogram", 1.0, 0.0));
        let compared = CompareDocument::of_measure(("a", &a), ("b", &b));
        let verdicts: Vec<&str> = compared.rows.iter().map(|row| row.verdict.as_str()).collect();
        // More latency is worse, more bandwidth better.
        assert_eq!(verdicts, ["same", "worse", "better"]);
        assert!(compared.differ());
        assert_eq!(compared.differences.len(), 1, "{:?}", compared.differences);
        assert_eq!(compared.differences[0].what, "kernel");
        assert_eq!((compared.only_in_first.len(), compared.only_in_second.len()), (1, 0));
    }

    #[test]
    fn a_record_is_the_same_as_itself() {
        let mut a = record();
        for (gbps, ns) in [(0.0, 100.0), (10.0, 150.0), (20.0, 300.0)] {
            let latency_ns = Some(ns);
            a.points.push(PointDocument { latency_ns, ..point("loaded", gbps, 0.0) });
        }
        let compared = CompareDocument::of_measure(("a", &a), ("a", &a));
        assert_eq!(compared.rows.len(), 2, "the ends of the curve");
        assert!(!compared.differ() && compared.differences.is_empty());
    }
}
