//! Simulates the bandwidth of CXL expanders, command by command, and compares it with measurements.
//!
//! Each of the eight expanders is simulated alone, and the bandwidths are added. The published
//! values were measured with Intel MLC (eight expanders, by mix) and with the Mess benchmark (one
//! expander).

use super::{advance, cxl_interleaving::TierRow, published::table};
use interleaf_console::Failure;
use interleaf_job::Progress;
use interleaf_model::mix::Mix;
use interleaf_record::reproduce::{ReproduceRow, StudyDocument};
use interleaf_sim::cxl::{self, Expander, ExpanderLoad};
use rayon::prelude::*;
use serde::Deserialize;

pub(super) const NAME: &str = "cz122";

/// Number of progress steps: one for each row.
pub(super) const STEPS: u64 = 7;

const TITLE: &str = "Bandwidth of eight CXL expanders, and of one, by link, controller and DRAM";
const SOURCE: &str = "Micron white paper CCM004-676576390-11778, section III: 8 x CZ122 with \
                      Xeon 6 6900P, loaded by Intel MLC; product brief; curves of Mess";
const TIERS: &str = include_str!("../../../reproduce/cxl-interleaving/tiers.csv");
const ONE: &str = include_str!("../../../reproduce/cz122/one.csv");

/// Number of accesses that are simulated on each expander.
const ACCESSES: u64 = 200_000;
const EXPANDERS: u32 = 8;

/// Pairs of a mix's name in the white paper's table and its name in MLC.
const MIXES: [(&str, &str); 5] =
    [("read_only", "R"), ("3r1w", "W3"), ("2r1w", "W2"), ("2r1w_nt", "W10"), ("1r1w", "W5")];

#[derive(Deserialize)]
struct OneRow {
    mix: String,
    bandwidth_gbps: f64,
}

pub(super) fn reproduce(progress: &dyn Progress) -> Result<StudyDocument, Failure> {
    let expander = cxl::by_name(NAME).map_err(|why| Failure::new(why.to_string(), why.hint()))?;
    let mut rows = vec![];
    for row in table::<TierRow>("tiers.csv", TIERS)?.iter().filter(|row| row.tier == "cxl") {
        let Some((_, mix)) = MIXES.iter().find(|(name, _)| *name == row.mix) else { continue };
        let ours = bandwidth(&expander, mix, EXPANDERS)?;
        let what = format!("{mix}, {EXPANDERS} expanders");
        let row = ReproduceRow::new("eight expanders", what, "GB/s", row.bandwidth_gbps, ours);
        // The row of read-only traffic was not used for the fit: the link limits it, and the speed
        // of the link is not fitted to the measurements. All other mixes were used for the fit.
        rows.push(row.used_for_fit(*mix != "R"));
        advance(progress, 1)?;
    }
    for row in table::<OneRow>("one.csv", ONE)? {
        let ours = bandwidth(&expander, &row.mix, 1)?;
        let what = format!("{}, one expander alone", row.mix);
        let row = ReproduceRow::new("one expander", what, "GB/s", row.bandwidth_gbps, ours);
        let row = row.with_note("a CZ120, with the same link");
        rows.push(row.explained(|| {
            "not explained: the link from the expander is full here, and the measured one reads \
             more than an eighth of what eight did under MLC"
                .into()
        }));
        advance(progress, 1)?;
    }
    let fitted = vec![
        "what the host moves to and from all expanders: 212 GB/s (W3, W2, W5)".into(),
        format!(
            "stores that bypass the cache and are on their way: {} (W10)",
            expander.host_nontemporal
        ),
    ];
    Ok(StudyDocument::new(NAME, TITLE, SOURCE, rows, fitted))
}

/// Returns the sum of the bandwidths, GB/s, of `expanders` expanders, each simulated alone.
fn bandwidth(expander: &Expander, mix: &str, expanders: u32) -> Result<f64, Failure> {
    let mix: Mix = mix.parse().map_err(|why: interleaf_model::mix::MixError| {
        Failure::new(why.to_string(), "the table is part of the program: report it")
    })?;
    let each = |number: u32| {
        let load = ExpanderLoad { mix, expanders, seed: u64::from(number) + 1 };
        expander.run(&load, ACCESSES, &mut ()).bandwidth_gbps
    };
    Ok((0..expanders).into_par_iter().map(each).collect::<Vec<f64>>().iter().sum())
}
