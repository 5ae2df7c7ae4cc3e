//! The messages between Interleaf and the process of a policy. Each message is one line.

use interleaf_model::{
    machine::TierLayout,
    policy::{Observation, TierObservation},
};
use serde::{Deserialize, Serialize};

/// The schema of the messages, including its version.
const SCHEMA: &str = "interleaf.policy/1";

/// Maximum number of characters of a decision's reason, and of an invalid line that an error
/// quotes.
const TEXT_MAX: usize = 200;

/// The first line that a policy's process gets on its stdin: the domain (socket) and its memory
/// tiers.
#[derive(Debug, Serialize)]
pub(crate) struct StartMessage<'a> {
    schema: &'static str,
    message: &'static str,
    domain: usize,
    tiers: Vec<TierMessage<'a>>,
}

/// A tier, with its bandwidth and latency as the firmware rates them.
#[derive(Debug, Serialize)]
struct TierMessage<'a> {
    name: &'a str,
    kind: String,
    capacity_bytes: u64,
    rated_gbps: f64,
    rated_latency_ns: f64,
}

/// Each later line that a policy's process gets on its stdin: the observation of a period.
#[derive(Debug, Serialize)]
pub(crate) struct PeriodMessage<'a> {
    message: &'static str,
    time_s: f64,
    samples: usize,
    bandwidth_gbps: f64,
    mean_gbps: f64,
    error_gbps: f64,
    tiers: Vec<TierPeriodMessage>,
    target: &'a [f64],
    steered_bytes: Option<u64>,
}

#[derive(Debug, Serialize)]
struct TierPeriodMessage {
    bandwidth_gbps: f64,
    read_share: Option<f64>,
    latency_ns: Option<f64>,
    free_bytes: Option<u64>,
}

/// A valid answer of a policy's process.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// The share of the pages that each tier should have; the shares sum to 1.
    pub(crate) shares: Vec<f64>,
    pub(crate) reason: String,
}

/// A line that a policy's process writes to its stdout: weights of the tiers, and the reason for
/// them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerMessage {
    weights: Vec<f64>,
    #[serde(default)]
    reason: String,
}

impl<'a> StartMessage<'a> {
    pub(crate) fn new(domain: usize, tiers: &'a [TierLayout]) -> Self {
        let tier = |tier: &'a TierLayout| TierMessage {
            name: &tier.name,
            kind: tier.kind.to_string(),
            capacity_bytes: tier.capacity_bytes,
            rated_gbps: tier.rated_gbps,
            rated_latency_ns: tier.rated_latency_ns,
        };
        Self { schema: SCHEMA, message: "start", domain, tiers: tiers.iter().map(tier).collect() }
    }
}

impl<'a> PeriodMessage<'a> {
    pub(crate) fn new(seen: &'a Observation) -> Self {
        let tier = |tier: &TierObservation| TierPeriodMessage {
            bandwidth_gbps: tier.bandwidth_gbps,
            read_share: tier.read_share,
            latency_ns: tier.latency_ns,
            free_bytes: tier.free_bytes,
        };
        Self {
            message: "period",
            time_s: seen.time_s,
            samples: seen.quiet,
            bandwidth_gbps: seen.bandwidth_gbps,
            mean_gbps: seen.mean_gbps,
            error_gbps: seen.error_gbps,
            tiers: seen.tiers.iter().map(tier).collect(),
            target: &seen.target,
            steered_bytes: seen.steered_bytes,
        }
    }
}

impl Answer {
    /// Parses an answer, which is one line of JSON, from the process of a domain (socket) with
    /// `tiers` tiers. The error is a text about the problem.
    pub(crate) fn parse(line: &str, tiers: usize) -> Result<Self, String> {
        let AnswerMessage { weights, reason } = serde_json::from_str(line).map_err(|why| {
            // The answer is a single line, so the error should name only the column, not "line 1".
            let why = why.to_string().replace(" at line 1 column", " at column");
            format!("{why}: \"{}\"", printable(line))
        })?;
        if weights.len() != tiers {
            return Err(format!("weights has {} numbers for {tiers} tiers", weights.len()));
        }
        if let Some(weight) = weights.iter().find(|weight| **weight < 0.0) {
            return Err(format!("weights has {weight}, which is below 0"));
        }
        let sum: f64 = weights.iter().sum();
        if !sum.is_normal() {
            return Err(format!("the sum of weights is {sum}: at least one must be above 0"));
        }
        let shares = weights.iter().map(|weight| weight / sum).collect();
        Ok(Self { shares, reason: printable(&reason) })
    }
}

/// Returns the first `TEXT_MAX` characters of a text, with a space in place of each control
/// character, and without white space at both ends.
fn printable(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_MAX);
    let shown: String = shown.collect();
    shown.trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let good = |line: &str| Answer::parse(line, 2).map(|answer| (answer.shares, answer.reason));
        assert_eq!(good(r#"{"weights": [65, 35]}"#), Ok((vec![0.65, 0.35], String::new())));
        assert_eq!(
            good(r#"{"weights": [0, 3], "reason": "a\u001b[31mb\nc"}"#),
            Ok((vec![0.0, 1.0], "a [31mb c".into()))
        );
        for (line, problem) in [
            ("", "EOF while parsing a value"),
            ("hello", "expected value at column 1: \"hello\""),
            (r#"{"weights": [65, 35"#, "EOF while parsing"),
            (r#"{"weight": [65, 35]}"#, "unknown field `weight`, expected `weights` or `reason`"),
            (r#"{"reason": "none"}"#, "missing field `weights`"),
            (r#"{"weights": "65:35"}"#, "invalid type: string \"65:35\""),
            (r#"{"weights": [NaN, 1]}"#, "expected value"),
            (r#"{"weights": [1e999, 1]}"#, "number out of range"),
            (r#"{"weights": [100]}"#, "weights has 1 numbers for 2 tiers"),
            (r#"{"weights": [1, -2]}"#, "weights has -2, which is below 0"),
            (r#"{"weights": [0, 0]}"#, "the sum of weights is 0: at least one must be above 0"),
            (r#"{"weights": [1e308, 1e308]}"#, "the sum of weights is inf"),
        ] {
            let found = Answer::parse(line, 2).map(|answer| answer.shares);
            assert!(found.as_ref().is_err_and(|why| why.contains(problem)), "{line}: {found:?}");
        }
        let long = format!("{{\"weights\": [\"{}\"]}}", "x".repeat(10_000));
        assert!(Answer::parse(&long, 1).is_err_and(|why| why.len() < 20_000));
    }
}
