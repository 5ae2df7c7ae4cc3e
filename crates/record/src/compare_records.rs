//! A comparison of two records of `interleaf measure`, as `interleaf.compare/1`.
//!
//! A point is *significantly* different in the two records if the difference exceeds the noise of
//! both. The spread of a point, the distance of the quartiles of a few repetitions, is itself
//! uncertain: among 30 pairs of points with equal true values and 3 repetitions each, nearly always
//! one pair differs by more than the sum of its spreads. So a spread counts as at least the median
//! spread of all points of the same [`PointKind`] in both records, and a significant difference
//! exceeds [`NOISE_FACTOR`] times the sum of both spreads. With spreads of 1 % and 2 % and a median
//! of 1.5 %, this limit is 2 x (1.5 + 2) = 7 %.

mod figures;

use super::{
    check::{Check, Checked},
    measure::{MeasureDocument, MeasuredPoint, PointKind, Quality},
    rounded,
};
use interleaf_model::statistics;
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.compare/1";

/// A significant difference exceeds this multiple of the sum of both spreads. With a factor of 2,
/// at most 2 in 100 pairs of records of the same machine are reported as different (a test below
/// simulates such pairs). With a factor of 1, 98 in 100 pairs are.
const NOISE_FACTOR: f64 = 2.0;

/// Comparison of two records: the differences between their machines, and between the points that
/// both records have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareDocument {
    pub schema: String,
    /// Kind of both records; always `measure`.
    pub of: String,
    pub first: RecordDocument,
    pub second: RecordDocument,
    /// Differences between the machines and the settings of the two records.
    pub differences: Vec<DifferenceDocument>,
    /// Points that both records have, in the order of the first record.
    pub rows: Vec<CompareRow>,
    /// Settings of the points that are only in the first record.
    pub only_in_first: Vec<String>,
    /// Settings of the points that are only in the second record.
    pub only_in_second: Vec<String>,
}

/// One of the two records that are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordDocument {
    pub name: String,
    pub what: String,
    pub quality: Quality,
}

/// The verdict on a point of the second record, compared with this point of the first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The point has more bandwidth or less latency, and the difference exceeds the noise.
    Better,
    /// The point has less bandwidth or more latency, and the difference exceeds the noise.
    Worse,
    /// The difference is within the noise.
    Same,
    /// The noise is unknown: the point has too few repetitions.
    Unknown,
}

display_word!(Verdict);

/// The verdict on the whole second record, compared with the first. It is based on points of good
/// quality only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overall {
    /// The second record is better in one point or more, and worse in none.
    Faster,
    /// The second record is worse in one point or more, and better in none.
    Slower,
    /// The second record is better in some points and worse in others.
    Mixed,
    /// All differences with a known noise are within this noise.
    Same,
    /// Only points of noisy quality differ.
    Noisy,
    /// No noise is known: all points have too few repetitions.
    Unknown,
}

/// A difference between the machines or the settings of the two records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DifferenceDocument {
    pub what: String,
    pub first: String,
    pub second: String,
}

/// A point that both records have, and the verdict on the second record at this point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareRow {
    pub setting: String,
    pub unit: String,
    pub first: f64,
    pub second: f64,
    /// Relative difference of the values: `second` / `first` - 1.
    pub difference: f64,
    /// Sum of the point's spreads in both records, a fraction; null when a record has too few
    /// repetitions of it.
    pub spread: Option<f64>,
    /// Smallest absolute value of `difference` that is significant, a fraction; null when `spread`
    /// is null.
    #[serde(default)]
    pub noise: Option<f64>,
    /// True if `difference` is significant; false when `noise` is null.
    pub beyond_spread: bool,
    /// Verdict on the second record at this point: same, better or worse; unknown when `noise` is
    /// null.
    pub verdict: Verdict,
    /// True if the point is of good quality in both records.
    pub trusted: bool,
}

impl Check for CompareDocument {
    fn check(&self) -> Checked {
        // `check_numbers` checks each number. No rule relates several fields of this document.
        Ok(())
    }
}

impl CompareDocument {
    /// Compares two records, each given as (name of its file, record).
    pub fn of_measure(first: (&str, &MeasureDocument), second: (&str, &MeasureDocument)) -> Self {
        let record = |(name, record): (&str, &MeasureDocument)| RecordDocument {
            name: name.into(),
            what: record.what.clone(),
            quality: record.quality.clone(),
        };
        let (a, b) = (keyed(first.1), keyed(second.1));
        let other = |key: &str, all: &[(String, &MeasuredPoint)]| {
            all.iter().find(|(known, _)| known == key).map(|(_, point)| (*point).clone())
        };
        let typical = |kind: PointKind| typical_spread(&[first.1, second.1], kind);
        let rows = a.iter().filter_map(|(key, point)| row(key, point, &other(key, &b)?, &typical));
        let only = |all: &[(String, &MeasuredPoint)], than: &[(String, &MeasuredPoint)]| {
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

    /// Returns the verdict on the whole second record, compared with the first.
    pub fn overall(&self) -> Overall {
        let any = |verdict: Verdict, is_trusted: bool| {
            self.rows.iter().any(|row| row.verdict == verdict && (row.trusted || !is_trusted))
        };
        match (any(Verdict::Better, true), any(Verdict::Worse, true)) {
            (true, false) => Overall::Faster,
            (false, true) => Overall::Slower,
            (true, true) => Overall::Mixed,
            _ if self.rows.iter().any(|row| row.beyond_spread) => Overall::Noisy,
            _ if any(Verdict::Same, false) => Overall::Same,
            _ => Overall::Unknown,
        }
    }

    /// True if a point of good quality differs significantly. `None` if no point of good quality
    /// has known noise.
    pub fn differ(&self) -> Option<bool> {
        let mut telling =
            self.rows.iter().filter(|row| row.trusted && row.noise.is_some()).peekable();
        telling.peek()?;
        Some(telling.any(|row| row.beyond_spread))
    }
}

/// Returns the points of a record that can be compared, as pairs of (key, point). The key is the
/// setting of the point: points of two records with equal keys are compared. Of a loaded-latency
/// curve, only the point with the lowest load and the point with the highest bandwidth are
/// returned: the delays of the other points are chosen during the measurement, so these points have
/// no counterpart.
fn keyed(record: &MeasureDocument) -> Vec<(String, &MeasuredPoint)> {
    let mut found: Vec<(String, &MeasuredPoint)> = vec![];
    for point in record.points.iter().filter(|point| point.kind != PointKind::Loaded) {
        let key = point.setting();
        if found.iter().all(|(known, _)| *known != key) {
            found.push((key, point));
        }
    }
    let mut curves: Vec<(String, Vec<&MeasuredPoint>)> = vec![];
    for point in record.points_of_kind(PointKind::Loaded) {
        let key = MeasuredPoint { delay_ns: None, ..point.clone() }.setting();
        match curves.iter_mut().find(|(known, _)| *known == key) {
            Some((_, points)) => points.push(point),
            None => curves.push((key, vec![point])),
        }
    }
    for (key, points) in curves {
        let load = |point: &&&MeasuredPoint| point.program_gbps.unwrap_or(0.0);
        let least = points.iter().min_by(|a, b| load(a).total_cmp(&load(b)));
        let most = points.iter().max_by(|a, b| load(a).total_cmp(&load(b)));
        found.extend(least.map(|point| (format!("{key}, least load"), *point)));
        found.extend(most.map(|point| (format!("{key}, most load"), *point)));
    }
    found
}

/// Returns the median of the known spreads of all points of `kind`, or `None` if no spread is
/// known.
fn typical_spread(records: &[&MeasureDocument], kind: PointKind) -> Option<f64> {
    let points = records.iter().flat_map(|record| record.points_of_kind(kind));
    statistics::median(points.filter_map(MeasuredPoint::known_spread).collect())
}

fn row(
    key: &str,
    first: &MeasuredPoint,
    second: &MeasuredPoint,
    typical: &dyn Fn(PointKind) -> Option<f64>,
) -> Option<CompareRow> {
    let ((a, unit), (b, _)) = (first.value()?, second.value()?);
    if a <= 0.0 {
        return None;
    }
    let difference = b / a - 1.0;
    let spreads = first.known_spread().zip(second.known_spread());
    let spread = spreads.map(|(first, second)| first + second);
    let noise = spreads.zip(typical(first.kind)).map(|((first, second), typical)| {
        NOISE_FACTOR * (first.max(typical) + second.max(typical))
    });
    let beyond_spread = noise.is_some_and(|noise| difference.abs() > noise);
    let is_better = (difference > 0.0) == (unit == "GB/s");
    let verdict = match (noise, beyond_spread, is_better) {
        (None, ..) => Verdict::Unknown,
        (_, false, _) => Verdict::Same,
        (_, true, true) => Verdict::Better,
        (_, true, false) => Verdict::Worse,
    };
    Some(CompareRow {
        setting: key.into(),
        unit: unit.into(),
        first: rounded(a),
        second: rounded(b),
        difference: rounded(difference),
        spread: spread.map(rounded),
        noise: noise.map(rounded),
        beyond_spread,
        verdict,
        trusted: first.quality == Quality::Good && second.quality == Quality::Good,
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
    use crate::measure::tests::record;

    fn point(kind: PointKind, value: f64, spread: f64) -> MeasuredPoint {
        let (gbps, ns) =
            if kind == PointKind::Idle { (None, Some(value)) } else { (Some(value), None) };
        MeasuredPoint {
            kind,
            program_gbps: gbps,
            latency_ns: ns,
            spread,
            repeats: 3,
            quality: Quality::Good,
            ..MeasuredPoint::default()
        }
    }

    #[test]
    fn only_differences_beyond_the_spreads_count() {
        let (mut a, mut b) = (record(), record());
        b.machine.kernel = Some("7.2".into());
        for (kind, first, second) in [
            (PointKind::Bandwidth, 100.0, 104.0),
            (PointKind::Idle, 100.0, 111.0),
            (PointKind::Interleave, 100.0, 120.0),
        ] {
            a.points.push(point(kind, first, 0.025));
            b.points.push(point(kind, second, 0.025));
        }
        a.points.push(point(PointKind::Histogram, 1.0, 0.0));
        let compared = CompareDocument::of_measure(("a", &a), ("b", &b));
        let verdicts: Vec<Verdict> = compared.rows.iter().map(|row| row.verdict).collect();
        // A higher latency is worse, and a higher bandwidth is better.
        assert_eq!(verdicts, [Verdict::Same, Verdict::Worse, Verdict::Better]);
        assert_eq!((compared.differ(), compared.overall()), (Some(true), Overall::Mixed));
        assert_eq!(compared.differences.len(), 1, "{:?}", compared.differences);
        assert_eq!(compared.differences[0].what, "kernel");
        assert_eq!((compared.only_in_first.len(), compared.only_in_second.len()), (1, 0));
    }

    /// The spreads of the four points are 1 %, 1 %, 3 % and 3 %, with a median of 2 %. The limit of
    /// the first pair is twice the sum of two spreads, which count as 2 % each.
    #[test]
    fn the_typical_spread_is_the_median() {
        let (mut a, mut b) = (record(), record());
        for (record, value) in [(&mut a, 100.0), (&mut b, 109.0)] {
            record.points.push(point(PointKind::Bandwidth, value, 0.01));
            let mix = Some("2:1".into());
            record.points.push(MeasuredPoint { mix, ..point(PointKind::Bandwidth, 90.0, 0.03) });
        }
        let compared = CompareDocument::of_measure(("a", &a), ("b", &b));
        let noise: Vec<Option<f64>> = compared.rows.iter().map(|row| row.noise).collect();
        assert_eq!(noise, [Some(0.08), Some(0.12)]);
        assert_eq!(compared.rows[0].verdict, Verdict::Better);
    }

    #[test]
    fn a_record_is_the_same_as_itself() {
        let mut a = record();
        for (gbps, ns) in [(0.0, 100.0), (10.0, 150.0), (20.0, 300.0)] {
            let latency_ns = Some(ns);
            a.points.push(MeasuredPoint { latency_ns, ..point(PointKind::Loaded, gbps, 0.0) });
        }
        let compared = CompareDocument::of_measure(("a", &a), ("a", &a));
        assert_eq!(compared.rows.len(), 2, "the ends of the curve");
        assert!(compared.differ() == Some(false) && compared.differences.is_empty());
    }

    #[test]
    fn points_without_a_spread_are_inconclusive() {
        let (mut a, mut b) = (record(), record());
        let once = |ns: f64| MeasuredPoint {
            kind: PointKind::Cache,
            repeats: 1,
            ..point(PointKind::Idle, ns, 0.0)
        };
        a.points.push(once(1.40));
        b.points.push(once(1.41));
        let compared = CompareDocument::of_measure(("a", &a), ("b", &b));
        let row = &compared.rows[0];
        assert_eq!((row.verdict, row.beyond_spread), (Verdict::Unknown, false));
        assert_eq!((row.spread, row.noise, compared.differ()), (None, None, None));
        assert_eq!(compared.overall(), Overall::Unknown);
        // The points differ by more than their spreads, but they are of noisy quality, so `differ`
        // ignores them.
        let noisy = |value: f64| MeasuredPoint {
            quality: Quality::Noisy("others kept 2.0 CPUs busy".into()),
            ..point(PointKind::Bandwidth, value, 0.01)
        };
        a.points.push(noisy(10.0));
        b.points.push(noisy(20.0));
        let compared = CompareDocument::of_measure(("a", &a), ("b", &b));
        assert_eq!((compared.rows[1].beyond_spread, compared.differ()), (true, None));
        assert_eq!(compared.overall(), Overall::Noisy);
        for (record, value) in [(&mut a, 100.0), (&mut b, 100.5)] {
            record.points.push(point(PointKind::Idle, value, 0.01));
        }
        assert_eq!(CompareDocument::of_measure(("a", &a), ("b", &b)).differ(), Some(false));
    }

    /// The test simulates 100 pairs of records of one machine. Each point is the median of 3
    /// repetitions with normally distributed noise. At most 2 pairs may be reported as different.
    #[test]
    fn records_that_differ_in_nothing_are_the_same() {
        use interleaf_measure::spread::spread;
        let mut state = 1_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        // The sum of twelve uniform numbers is nearly normal, with a standard deviation of 1.
        let mut normal = || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        let mut measured = || {
            let mut record = record();
            for at in 0..30 {
                let repeats = [normal(), normal(), normal()].map(|it| 100.0 + it);
                let found = spread(&repeats).unwrap();
                let mix = Some(format!("{at}%"));
                let kind = if at < 15 { PointKind::Bandwidth } else { PointKind::Interleave };
                let point = point(kind, found.median, found.relative);
                record.points.push(MeasuredPoint { mix, ..point });
            }
            record
        };
        let pairs = 100;
        let differ = (0..pairs).filter(|_| {
            let (a, b) = (measured(), measured());
            CompareDocument::of_measure(("a", &a), ("b", &b)).differ() == Some(true)
        });
        let count = differ.count();
        assert!(count <= pairs / 50, "{count} of {pairs}");
    }
}
