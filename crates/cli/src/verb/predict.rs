//! `interleaf predict`: predicts the bandwidth of a mix, or the speed-up of a workload, by weights.

use crate::args::{LoadChoice, PredictArgs, WeightsChoice};
use interleaf_console::{Failure, output, support};
use interleaf_model::{
    demand::{Demand, Metric},
    mix::Mix,
    platform::Platform,
    predict::{Forecast, LoadPoint, MixLoad, Row, load_steps, saturating_load},
    weights::Weights,
};
use interleaf_record::predict::{PredictDocument, Subject};
use rayon::prelude::*;

/// Limit of the number of weight ratios that are predicted.
const RATIOS_MAX: u64 = 20_000;

/// Points of a load sweep.
const SWEEP_STEPS: usize = 25;

pub(super) fn run(args: &PredictArgs) -> Result<(), Failure> {
    output::check_writable(args.output.output.as_deref())?;
    let platform = interleaf_catalog::platform(&args.platform)?;
    let weights = weights(&platform, args.weights.as_ref())?;
    let document = match (&args.mix, &args.workload, &args.demand) {
        (Some(mix), ..) => of_mix(&platform, *mix, args, &weights)?,
        (_, Some(name), _) => {
            of_demand(&platform, &interleaf_catalog::workload(name)?, args, &weights)?
        }
        (_, _, Some(path)) => {
            of_demand(&platform, &interleaf_catalog::demand(path)?, args, &weights)?
        }
        // clap requires one of the three.
        (None, None, None) => return Ok(()),
    };
    let every_row = args.weights.is_some();
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::predict::csv(&document),
        || interleaf_report::predict::text(&document, every_row),
    )
}

fn weights(platform: &Platform, choice: Option<&WeightsChoice>) -> Result<Vec<Weights>, Failure> {
    let names = platform.tier_names();
    if let Some(WeightsChoice::List(list)) = choice {
        return list
            .iter()
            .map(|weights| weights.clone().for_tiers(&names))
            .collect::<Result<_, _>>()
            .map_err(|why| {
                Failure::new(why.to_string(), "give one weight for each tier, 0 keeps one out")
            });
    }
    let ratios = |limit: u64| (limit + 1).saturating_pow(names.len() as u32);
    let fitting = (1..=10).rev().find(|limit| ratios(*limit) <= RATIOS_MAX);
    match (choice, fitting) {
        (None, Some(limit)) => Ok(Weights::every_ratio(names.len(), limit as u16)),
        (Some(_), Some(10)) => Ok(Weights::every_ratio(names.len(), 10)),
        _ => Err(Failure::new(
            format!("{} tiers have too many ratios to try each", names.len()),
            "name the weights to try, such as --weights 4:2:1,3:2:1",
        )),
    }
}

fn of_mix(
    platform: &Platform,
    mix: Mix,
    args: &PredictArgs,
    weights: &[Weights],
) -> Result<PredictDocument, Failure> {
    let most = saturating_load(platform, mix);
    let most = MixLoad { threads: args.threads.map_or(most.threads, f64::from), ..most };
    let load = match args.load {
        LoadChoice::At(bandwidth) => {
            let answer = platform.answer(0, &platform.spread(), mix);
            let most_gbps = answer.response.max_bandwidth_gbps();
            if bandwidth.gbps() > most_gbps {
                return Err(Failure::new(
                    format!(
                        "{} alone carries {most_gbps:.0} GB/s of {mix}, not {bandwidth}",
                        platform.tiers[0].name
                    ),
                    "ask for less, or for all there is with --load max",
                ));
            }
            most.at_bandwidth(platform, bandwidth.gbps())
        }
        LoadChoice::Max | LoadChoice::Sweep => most.clone(),
    };
    let subject = Subject { workload: mix.to_string(), result_unit: None };
    let sweep: Vec<LoadPoint> = if args.load == LoadChoice::Sweep {
        let steps = load_steps(platform, mix, Some(most.threads), SWEEP_STEPS);
        each(&steps, "loads", |step| step.point(platform, weights))
    } else {
        vec![]
    };
    let at = load.at(platform);
    let prediction = at.prediction(rows(weights, |weights| at.row(weights)));
    Ok(PredictDocument::new(platform, subject, &prediction, &sweep))
}

/// Returns a row for each choice of weights.
fn rows(weights: &[Weights], row: impl Fn(&Weights) -> Row + Sync) -> Vec<Row> {
    each(weights, "choices of weights", row)
}

/// Computes `compute` for each item on all cores, in the order of the items, with a progress bar.
fn each<T: Sync, R: Send>(items: &[T], what: &str, compute: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let progress = output::progress(items.len() as u64, what);
    let counted = |item: &T| {
        let result = compute(item);
        progress.inc(1);
        result
    };
    let results = items.par_iter().map(counted).collect();
    progress.finish_and_clear();
    results
}

fn of_demand(
    platform: &Platform,
    demand: &Demand,
    args: &PredictArgs,
    weights: &[Weights],
) -> Result<PredictDocument, Failure> {
    if args.load != LoadChoice::Max {
        return Err(Failure::new(
            "--load goes with --mix: a workload asks for what it asks for",
            "leave --load out, or give a mix in place of the workload",
        ));
    }
    let measured_on = interleaf_catalog::measured_on(platform, demand)?;
    let usual = demand.threads().min(platform.cpu.cores);
    let threads = f64::from(args.threads.unwrap_or(usual));
    let forecast = Forecast::new(platform, &measured_on, demand);
    let at = forecast.at(threads);
    let prediction = at.prediction(rows(weights, |weights| at.row(weights)));
    let result_unit = match &demand.metric {
        Metric::Runtime => "s".to_string(),
        Metric::Rate(unit) => unit.clone(),
    };
    let subject = Subject { workload: demand.name.clone(), result_unit: Some(result_unit) };
    Ok(PredictDocument::new(platform, subject, &prediction, &[]))
}
