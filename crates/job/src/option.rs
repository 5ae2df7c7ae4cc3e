//! Parses the texts of options, with their units and ranges.
//!
//! An error has the form `PROBLEM: write ALLOWED`. The command line prints `write ALLOWED` as a
//! hint.

use interleaf_model::{
    mix::Mix,
    units::{Bandwidth, Bytes, Percent, Time, UnitError},
    weights::{Weights, WeightsError},
};
use interleaf_sim::{
    dimm::{
        closed_loop::Pattern,
        config::{Refresh, RowPolicy},
    },
    machine::scenario::{BANDWIDTH_MAX_GBPS, DURATION_S, NOISE_MAX},
};
use std::{fmt::Display, str::FromStr};

/// The highest number of threads of a prediction or a simulation.
pub const THREADS_MAX: u32 = 65536;

/// The largest relative error, positive or negative, of the curves that a policy uses.
pub const CURVE_ERROR_MAX: f64 = 0.9;

/// The access patterns of a DIMM simulation, by name.
pub const PATTERNS: [(&str, Pattern); 3] =
    [("random", Pattern::Random), ("stream", Pattern::Stream), ("hot-bank", Pattern::HotBank)];

/// The choices of weights for which a prediction has rows.
#[derive(Clone, Debug, PartialEq)]
pub enum WeightsChoice {
    /// Each ratio of whole numbers from 0 to 10; an error if the platform has too many tiers.
    All,
    /// The weights to try, in order.
    List(Vec<Weights>),
}

/// The choice of the load of a traffic mix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadChoice {
    /// The load that reaches the highest bandwidth.
    Max,
    /// Several loads, from nearly no traffic to the highest bandwidth.
    Sweep,
    /// The given bandwidth.
    At(Bandwidth),
}

/// Parses a traffic mix: a name of MLC, or a read share.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn mix(text: &str) -> Result<Mix, String> {
    text.parse().map_err(|why| format!("{why}: {}", interleaf_model::mix::MixError::hint()))
}

/// Parses a list of weights with commas between them, or `all`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn weights_choice(text: &str) -> Result<WeightsChoice, String> {
    if text == "all" {
        return Ok(WeightsChoice::All);
    }
    let list = text.split(',').map(|weights| weights.trim().parse());
    let list: Result<Vec<Weights>, _> = list.collect();
    list.map(WeightsChoice::List).map_err(|why| wrong_weights(text, &why, "3:1,2:1"))
}

/// Parses weights such as `3:1`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn weights(text: &str) -> Result<Weights, String> {
    text.parse().map_err(|why| wrong_weights(text, &why, "3:1"))
}

/// Returns the error of a text that is not a valid list of weights. If the text has numbers with
/// another separator, such as `3/1`, the error proposes the same numbers with colons.
fn wrong_weights(text: &str, why: &WeightsError, example: &str) -> String {
    let digits = |word: &&str| !word.is_empty();
    let words = text.split(|c: char| !c.is_ascii_digit()).filter(digits).collect::<Vec<_>>();
    let is_meant = words.len() > 1
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_digit() || "-/,;:% ".contains(c))
        && (!text.contains(',') || !text.contains([':', '-', '/']));
    let proposal = words.join(":");
    match is_meant && proposal.parse::<Weights>().is_ok() {
        true => format!("{why}: write {proposal}, pages on each tier in one round"),
        false => format!("{why}: write pages on each tier in one round, such as {example}"),
    }
}

/// Returns a parser of whole numbers from `least` to `most`. The parser's error shows the valid
/// number `example`.
pub fn within<T>(
    least: T,
    most: T,
    example: T,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: Copy + Display + FromStr + PartialOrd + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number: &T| (least..=most).contains(number));
        number.ok_or_else(|| {
            format!("it is not a whole number from {least} to {most}: write one such as {example}")
        })
    }
}

/// Parses a number of threads, 1 to [`THREADS_MAX`].
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn threads(text: &str) -> Result<u32, String> {
    within(1, THREADS_MAX, 16)(text)
}

/// Parses a seed.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn seed(text: &str) -> Result<u64, String> {
    within(0, u64::MAX, 1)(text)
}

/// Parses `max`, `sweep`, or a bandwidth with its unit.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn load(text: &str) -> Result<LoadChoice, String> {
    match text {
        "max" => Ok(LoadChoice::Max),
        "sweep" => Ok(LoadChoice::Sweep),
        _ => match text.parse::<Bandwidth>() {
            Ok(bandwidth) if bandwidth.gbps() > 0.0 => Ok(LoadChoice::At(bandwidth)),
            Ok(_) => Err("a load of nothing has no answer: write max, sweep or 150GB/s".into()),
            Err(why) => {
                Err(format!("{why}: write max, sweep, or a number with one of {}", why.allowed))
            }
        },
    }
}

/// Parses a quantity with a unit. The error shows the valid text `example`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn quantity<T: FromStr<Err = UnitError>>(text: &str, example: &str) -> Result<T, String> {
    text.parse().map_err(|why: UnitError| why.with_example(example))
}

/// Parses a percentage that must be within `range`, percent. The error shows the valid text
/// `example`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn percent(text: &str, range: [f64; 2], example: &str) -> Result<Percent, String> {
    let [least, most] = range;
    let percent: Percent = quantity(text, example)?;
    if (least..=most).contains(&(100.0 * percent.fraction())) {
        return Ok(percent);
    }
    Err(format!("{text} is not between {least}% and {most}%: write a percentage such as {example}"))
}

/// Parses a simulated time with its unit, from 1 ms to 24 h ([`DURATION_S`]).
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn time(text: &str) -> Result<Time, String> {
    let time: Time = quantity(text, "600s")?;
    let [least, most] = DURATION_S;
    if (least..=most).contains(&time.seconds()) {
        return Ok(time);
    }
    Err(format!("{text} is not between 1ms and 24h: write a time such as 600s"))
}

/// Parses a size with its unit, above 0.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn size(text: &str) -> Result<Bytes, String> {
    let size: Bytes = quantity(text, "48GiB")?;
    if size.get() > 0 {
        return Ok(size);
    }
    Err(format!("{text} is not a size above 0: write a size such as 48GiB"))
}

/// Returns a parser of sizes that are a multiple of `unit`, from `unit` to `most`. The parser's
/// error shows the valid size `example`.
pub fn multiple(
    unit: Bytes,
    most: Bytes,
    example: &'static str,
) -> impl Fn(&str) -> Result<Bytes, String> + Clone + Send + Sync + 'static {
    move |text| {
        let size: Bytes = quantity(text, example)?;
        if size.get().is_multiple_of(unit.get()) && (unit..=most).contains(&size) {
            return Ok(size);
        }
        Err(format!(
            "{text} is not a multiple of {unit} up to {most}: write a size such as {example}"
        ))
    }
}

/// Parses a migration rate with its unit, above 0 and at most 100 TB/s.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn rate(text: &str) -> Result<Bandwidth, String> {
    let rate: Bandwidth = quantity(text, "4GB/s")?;
    if rate.gbps() > 0.0 && rate.gbps() <= BANDWIDTH_MAX_GBPS {
        return Ok(rate);
    }
    Err(format!("{text} is not above 0 and at most 100 TB/s: write a bandwidth such as 4GB/s"))
}

/// Parses the relative standard deviation of a counter, 0% to 50%.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn noise(text: &str) -> Result<Percent, String> {
    let noise: Percent = quantity(text, "2%")?;
    if (0.0..=NOISE_MAX).contains(&noise.fraction()) {
        return Ok(noise);
    }
    Err(format!("a noise of {text} is not between 0% and 50%: write a percentage such as 2%"))
}

/// Parses a relative error of curves, -90% to 90%.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn curve_error(text: &str) -> Result<Percent, String> {
    let error: Percent = quantity(text, "20%")?;
    if error.fraction().abs() <= CURVE_ERROR_MAX {
        return Ok(error);
    }
    Err(format!("an error of {text} is not between -90% and 90%: write a percentage such as 20%"))
}

/// Parses the percentage by which `plan` varies assumed figures, 1% to 90%; the sign `%` may be
/// left out. Returns it as a fraction.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn vary(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse().ok().filter(|percent| (1..=90).contains(percent));
    percent.map(|percent: u8| f64::from(percent) / 100.0).ok_or_else(|| {
        format!("{text} is not a whole percentage from 1% to 90%: write one such as 20%")
    })
}

/// Parses the access pattern of a DIMM simulation: `random`, `stream` or `hot-bank`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn pattern(text: &str) -> Result<Pattern, String> {
    named("pattern", text, &PATTERNS)
}

/// Parses the name of a row policy: `open`, `closed` or `adaptive`.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn row_policy(text: &str) -> Result<RowPolicy, String> {
    named("row policy", text, &RowPolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Parses the name of a refresh mode.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn refresh(text: &str) -> Result<Refresh, String> {
    named("refresh mode", text, &Refresh::ALL.map(|refresh| (refresh.name(), refresh)))
}

/// Returns the value with the name `text` among `values`. The error calls a value a `kind`, such as
/// "row policy".
fn named<T: Copy>(kind: &str, text: &str, values: &[(&str, T)]) -> Result<T, String> {
    let known = values.iter().find(|(name, _)| *name == text);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        format!("there is no {kind} \"{text}\": write one of {}", names.join(", "))
    })
}

/// Parses the round-trip latency between a core and the memory controller, 0 to 10000 ns.
///
/// # Errors
/// When `text` is invalid. The error has the form `PROBLEM: write ALLOWED`.
pub fn uncore(text: &str) -> Result<f64, String> {
    let ns = text.parse::<f64>().ok().filter(|ns| (0.0..=10_000.0).contains(ns));
    ns.ok_or_else(|| {
        let allowed = "write a number such as 65.0";
        format!("\"{text}\" is not a number of nanoseconds from 0 to 10000: {allowed}")
    })
}
