//! Reads the demands of a plan with their shares of time from the text of the option `--demand`.
//!
//! ```text
//! hpcg                          one demand, all of the time
//! hpcg=60%,cloverleaf=40%       or hpcg=0.6,cloverleaf=0.4
//! hpcg,cloverleaf,lbm           a third of the time each
//! hpcg=60%,cloverleaf,lbm       equal parts of the rest: 20 % each
//! ```

use interleaf_console::Failure;
use interleaf_model::{demand::Demand, units::Percent};
use interleaf_report::short_number;
use std::path::Path;

/// Largest allowed difference between the sum of the written shares and 1. Users round shares:
/// three shares of 33.3% sum to 0.999. If the difference is allowed, the shares are divided by
/// their sum.
const SUM_MISS_MAX: f64 = 0.005;

/// A demand with its share of time.
#[derive(Clone, Debug, PartialEq)]
pub struct DemandShare {
    pub demand: Demand,
    /// The fraction of the run time on the baseline that the demand takes, above 0. The shares of
    /// all demands of a plan add up to 1.
    pub share: f64,
}

/// Loads the demands of the option `--demand`; `texts` has the text of each `--demand` on the
/// command line. A text is a list of demands, separated by commas. If a text is the path of an
/// existing file, it is one demand, even if the path contains a comma or an equals sign.
///
/// # Errors
/// When a demand does not exist or is invalid, when two demands have one name, when a share is not
/// above 0 and at most 1, or when the shares do not add up to 1.
pub fn demand_shares(texts: &[String]) -> Result<Vec<DemandShare>, Failure> {
    let words = texts.iter().flat_map(|text| match Path::new(text).exists() {
        true => vec![text.as_str()],
        false => text.split(',').map(str::trim).collect(),
    });
    let named: Vec<(&str, Option<f64>)> = words.map(name_and_share).collect::<Result<_, _>>()?;
    let mut demands: Vec<Demand> = vec![];
    for (name, _) in &named {
        let demand = interleaf_catalog::workload_or_demand(name)?;
        if demands.iter().any(|other| other.name == demand.name) {
            return Err(Failure::new(
                format!("--demand: there are two demands with the name {}", demand.name),
                "give each demand once, with the sum of its shares; a demand file has the name \
                 that its key `name` says",
            ));
        }
        demands.push(demand);
    }
    let written: Vec<Option<f64>> = named.iter().map(|(_, share)| *share).collect();
    let shares = completed(&written, |at| named[at].0)?;
    let all = demands.into_iter().zip(shares);
    Ok(all.map(|(demand, share)| DemandShare { demand, share }).collect())
}

/// Parses `NAME` or `NAME=SHARE`: a demand, and its share if one is given.
fn name_and_share(word: &str) -> Result<(&str, Option<f64>), Failure> {
    let (name, text) = match word.rsplit_once('=') {
        Some((name, text)) if !Path::new(word).exists() => (name.trim(), text.trim()),
        _ => return Ok((word, None)),
    };
    let percent = text.parse::<Percent>().map(Percent::fraction);
    let share = percent.ok().or_else(|| text.parse::<f64>().ok());
    let problem = match share.filter(|share| share.is_finite()) {
        None => format!("--demand: {name}: \"{text}\" is not a share of time"),
        Some(share) if share <= 0.0 || share > 1.0 => {
            format!("--demand: {name}: a share of {text} is not above 0% and at most 100%")
        }
        Some(share) => return Ok((name, Some(share))),
    };
    let hint = match share {
        Some(0.0) => format!("leave {name} out, or write a share such as {name}=60%"),
        _ => format!("write a percentage or a fraction of 1, such as {name}=60% or {name}=0.6"),
    };
    Err(Failure::new(problem, hint))
}

/// Returns the shares of all demands, which add up to 1. The demands whose entry in `written` is
/// `None` divide the rest of the time equally. `name` returns the name of the demand at an index,
/// for errors.
fn completed<'a>(
    written: &[Option<f64>],
    name: impl Fn(usize) -> &'a str,
) -> Result<Vec<f64>, Failure> {
    if written.is_empty() {
        return Ok(vec![]);
    }
    let sum: f64 = written.iter().flatten().sum();
    let missing = written.iter().filter(|share| share.is_none()).count();
    let percent = format!("{} %", short_number(100.0 * sum));
    let hint = "write shares that add up to 100%, or leave out shares: demands without a share \
                have equal parts of the rest";
    if missing == 0 {
        if (sum - 1.0).abs() > SUM_MISS_MAX {
            let problem = match written {
                [_] => format!("--demand: the share of the only demand is {percent}, not 100 %"),
                _ => format!("--demand: the shares of time add up to {percent}, not to 100 %"),
            };
            return Err(Failure::new(problem, hint));
        }
        return Ok(written.iter().flatten().map(|share| share / sum).collect());
    }
    let rest = 1.0 - sum;
    if rest < f64::EPSILON {
        let first = written.iter().position(Option::is_none).map_or("", name);
        let problem = format!("--demand: no time is left for {first}: the others have {percent}");
        return Err(Failure::new(problem, hint));
    }
    Ok(written.iter().map(|share| share.unwrap_or(rest / missing as f64)).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn shares(texts: &[&str]) -> Result<Vec<(String, f64)>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_string()).collect();
        let all = demand_shares(&texts).map_err(|why| why.to_string())?;
        Ok(all.into_iter().map(|one| (one.demand.name, one.share)).collect())
    }

    #[test]
    fn shares_add_up_to_one() {
        for (texts, expected) in [
            (&["hpcg"][..], &[1.0][..]),
            (&["hpcg=100%"], &[1.0]),
            (&["hpcg=60%,lbm=40%"], &[0.6, 0.4]),
            (&["hpcg=0.6, lbm=0.4"], &[0.6, 0.4]),
            (&["hpcg=0.6", "lbm=40%"], &[0.6, 0.4]),
            (&["hpcg,lbm,pr,bc"], &[0.25; 4]),
            (&["hpcg=50%,lbm,pr"], &[0.5, 0.25, 0.25]),
            (&["hpcg=33.3%,lbm=33.3%,pr=33.3%"], &[1.0 / 3.0; 3]),
        ] {
            let found = shares(texts).unwrap();
            assert_eq!(found.len(), expected.len(), "{texts:?}");
            for ((_, found), expected) in found.iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{texts:?}: {found}");
            }
        }
    }

    /// Tests the errors that `crates/cli/tests/bad-input/plan.trycmd` does not test.
    #[test]
    fn wrong_shares_are_refused() {
        for (text, problem) in [
            ("hpcg=,lbm", "\"\" is not a share of time"),
            ("hpcg=nan,lbm", "\"nan\" is not a share of time"),
            ("hpcg=inf,lbm", "\"inf\" is not a share of time"),
            ("hpcg=60,lbm=40", "a share of 60 is not above 0% and at most 100%"),
            ("hpcg=60%", "the share of the only demand is 60 %, not 100 %"),
            ("hpcg=40%,lbm=40%", "the shares of time add up to 80 %, not to 100 %"),
            ("hpcg=60%,pr=40%,lbm", "no time is left for lbm: the others have 100 %"),
            ("hpcg,", "there is no workload \"\""),
        ] {
            let found = shares(&[text]).unwrap_err();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }

    #[test]
    fn a_file_may_have_a_comma_and_an_equals_sign() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../workloads/lbm.toml"
        ));
        let path = std::env::temp_dir().join(format!("a,b=60%-{}.toml", std::process::id()));
        std::fs::write(&path, text.unwrap()).unwrap();
        let found = shares(&[path.to_str().unwrap()]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.unwrap(), [("lbm".to_string(), 1.0)]);
    }
}
