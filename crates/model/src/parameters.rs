//! Parameters that change a platform: `cxl.count=4,dram.capacity=512GiB`.
//!
//! The parameters follow the name of the platform after a colon: `xeon6-cz122:cxl.count=4` has four
//! of the eight expanders that the platform describes. A parameter `count` scales bandwidth,
//! capacity, static power and the limit of the queue counters of its tier in proportion. The
//! latency at each fraction of the maximum bandwidth stays the same.

use crate::{
    configuration::{Count, scaled},
    format::names::suggestion,
    platform::Platform,
    units::Bytes,
};

const EXAMPLE: &str = "write TIER.count=NUMBER or TIER.capacity=SIZE, such as cxl.count=4";

/// A parameter that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ParameterError {
    /// The parameter, and what is wrong with it.
    pub problem: String,
    /// The allowed parameters and values.
    pub hint: String,
}

impl ParameterError {
    fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { problem: problem.into(), hint: hint.into() }
    }
}

/// Splits `name` into the name of a platform and its parameters. The parameters are the text after
/// the last colon, if this text has an equals sign.
pub fn split(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once(':') {
        Some((name, text)) if text.contains('=') => (name, Some(text)),
        _ => (name, None),
    }
}

/// Returns `platform`, changed by the parameters in `text`. The order of the parameters has no
/// effect: a capacity in `text` is not scaled by a count. The name of the changed platform is the
/// name of `platform`, a colon and `text`.
///
/// # Errors
/// If the platform does not have the tier of a parameter, or if a parameter is unknown, given
/// twice, or out of range.
pub fn apply(platform: &Platform, text: &str) -> Result<Platform, ParameterError> {
    let mut changed = platform.clone();
    changed.name = format!("{}:{text}", platform.name);
    let mut parameters: Vec<&str> = text.split(',').collect();
    for (at, parameter) in parameters.iter().enumerate() {
        if parameters[..at].iter().any(|other| key(other) == key(parameter)) {
            let problem = format!("{parameter}: {} is there twice", key(parameter));
            return Err(ParameterError::new(problem, "leave one of the two out"));
        }
    }
    // A count scales the capacity of its tier, so a given capacity is set after all counts.
    parameters.sort_by_key(|parameter| !key(parameter).ends_with(".count"));
    for parameter in parameters {
        change(&mut changed, parameter)?;
    }
    Ok(changed)
}

/// Returns the part of a parameter before its value: `cxl.count` of `cxl.count=4`.
fn key(parameter: &str) -> &str {
    parameter.split_once('=').map_or(parameter, |(key, _)| key)
}

fn change(platform: &mut Platform, parameter: &str) -> Result<(), ParameterError> {
    let parts = parameter.split_once('=').and_then(|(key, value)| {
        let (tier, field) = key.rsplit_once('.')?;
        Some((tier, field, value))
    });
    let Some((name, field, value)) = parts else {
        let problem = match parameter.trim() {
            "" => "a parameter beside a comma is empty".into(),
            _ => format!("{parameter}: no parameter"),
        };
        return Err(ParameterError::new(problem, EXAMPLE));
    };
    let names: Vec<&str> = platform.tiers.iter().map(|tier| tier.name.as_str()).collect();
    let Some(at) = names.iter().position(|own| *own == name) else {
        let hint = format!("{}the tiers are {}", suggestion(name, &names), names.join(", "));
        let problem = format!("{parameter}: {} has no tier \"{name}\"", platform.name);
        return Err(ParameterError::new(problem, hint));
    };
    let tier = &platform.tiers[at];
    match field {
        "count" => {
            let Some(of) = tier.count else {
                let problem = format!("{parameter}: {name} has no count in the platform file");
                let hint = "add count = NUMBER to the [[tier]]: the channels or expanders that its \
                            curves and capacity are of";
                return Err(ParameterError::new(problem, hint));
            };
            let most = of.saturating_mul(Count::FACTOR_MAX);
            let used = value.parse().ok().filter(|used| (1..=most).contains(used));
            let used = used.ok_or_else(|| {
                let problem =
                    format!("{parameter}: {value} is not a whole number from 1 to {most}");
                ParameterError::new(problem, EXAMPLE)
            })?;
            let scaled = scaled(tier, Count { used, of });
            let mut scaled = scaled.map_err(|why| ParameterError::new(why.to_string(), EXAMPLE))?;
            scaled.count = Some(used);
            platform.tiers[at] = scaled;
        }
        "capacity" => {
            let capacity = value.parse::<Bytes>().map_err(|why| why.to_string());
            let above_0 = capacity.and_then(|size| match size.get() {
                0 => Err(format!("{value} is not a size above 0")),
                _ => Ok(size),
            });
            platform.tiers[at].capacity = above_0.map_err(|why| {
                let problem = format!("{parameter}: {why}");
                ParameterError::new(problem, "write a size such as 512GiB")
            })?;
        }
        other => {
            let fields = ["count", "capacity"];
            let hint = format!("{}{EXAMPLE}", suggestion(other, &fields));
            let problem = format!("{parameter}: a tier has no parameter \"{other}\"");
            return Err(ParameterError::new(problem, hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        machine::{DomainLayout, Layout, TierLayout},
        mix::Mix,
        rated,
        tier::TierKind,
    };

    fn two_tiers() -> Platform {
        let tier = |name: &str, kind, gbps| TierLayout {
            name: name.into(),
            kind,
            capacity_bytes: 256 << 30,
            rated_gbps: gbps,
            rated_latency_ns: 100.0,
        };
        let tiers = vec![tier("near", TierKind::Dram, 400.0), tier("far", TierKind::Cxl, 200.0)];
        let domain = DomainLayout { name: "socket0".into(), cores: 8, tiers: vec![0, 1] };
        let mut platform =
            rated::platform(&Layout { domains: vec![domain], tiers, scopes: vec![] });
        platform.tiers[1].count = Some(8);
        platform
    }

    #[test]
    fn a_name_has_parameters_if_they_have_an_equals_sign() {
        assert_eq!(split("xeon6-cz122:cxl.count=4"), ("xeon6-cz122", Some("cxl.count=4")));
        assert_eq!(split("xeon6-cz122:cxl"), ("xeon6-cz122:cxl", None));
        assert_eq!(split("dir/mine.toml"), ("dir/mine.toml", None));
    }

    #[test]
    fn a_count_scales_the_tier() {
        let platform = two_tiers();
        let half = apply(&platform, "far.count=4,near.capacity=64GiB").unwrap();
        assert_eq!(half.name, format!("{}:far.count=4,near.capacity=64GiB", platform.name));
        assert_eq!(half.tiers[1].count, Some(4));
        assert_eq!(half.tiers[1].capacity.get() * 2, platform.tiers[1].capacity.get());
        let max = |own: &Platform| own.tiers[1].curves.of(Mix::READ).unwrap().max_bandwidth_gbps();
        assert!((max(&half) / max(&platform) - 0.5).abs() < 1e-9);
        assert_eq!(half.tiers[0].capacity.get(), 64 << 30);
        assert_eq!(half.tiers[0].curves, platform.tiers[0].curves);
        let other_order = apply(&platform, "far.capacity=64GiB,far.count=4").unwrap();
        assert_eq!(other_order.tiers[1].capacity.get(), 64 << 30);
        assert_eq!(other_order.tiers[1].curves, half.tiers[1].curves);
        // The tier has eight expanders already, so a count of 8 changes only the name of the
        // platform.
        let all = apply(&platform, "far.count=8").unwrap();
        assert_eq!(all.tiers, platform.tiers);
    }

    #[test]
    fn errors_name_the_parameter_and_what_is_allowed() {
        let platform = two_tiers();
        for (text, problem, hint) in [
            ("far.count=0", "far.count=0: 0 is not a whole number from 1 to 128", "TIER.count"),
            ("far.count=129", "is not a whole number from 1 to 128", "such as cxl.count=4"),
            ("near.count=4", "near has no count in the platform file", "add count = NUMBER"),
            ("fra.count=4", "has no tier \"fra\"", "did you mean far? the tiers are near, far"),
            ("far.capacty=1GiB", "no parameter \"capacty\"", "did you mean capacity?"),
            ("far.count=4,far.count=4", "far.count is there twice", "leave one of the two out"),
            ("far.capacity=0GiB", "0GiB is not a size above 0", "512GiB"),
            ("far.capacity=999999999TiB", "number of bytes below 8 EiB", "512GiB"),
            ("far.capacity=512", "\"512\" is not a size: it has no unit", "512GiB"),
            ("count=4", "count=4: no parameter", "TIER.count"),
            ("far.count=4,", "a parameter beside a comma is empty", "TIER.count"),
        ] {
            let why = apply(&platform, text).unwrap_err();
            assert!(why.problem.contains(problem) && why.hint.contains(hint), "{text}: {why:?}");
        }
    }
}
