//! Measures how many predictions per second Rust computes; `tests/python-calls` compares this rate
//! with that of Python. `predictions COUNT` first computes the record of one choice of weights many
//! times, then predicts `COUNT` choices of weights in one call. It prints the seconds for one
//! record, and the choices of weights per second.

use interleaf_job::{
    option::{LoadChoice, WeightsChoice},
    predict::{PredictJob, Traffic},
};
use interleaf_model::{mix::Mix, weights::Weights};
use std::{env, error::Error, io::Write as _, time::Instant};

/// Number of records that are computed to measure the time of one record.
const RECORDS: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let count = env::args().nth(1).map_or(Ok(65_535), |text| text.parse::<usize>())?;
    let platform = interleaf_catalog::platform("xeon6-cz122").map_err(|why| why.to_string())?;
    let job = PredictJob {
        platform: &platform,
        traffic: Traffic::Mix(Mix::READ),
        threads: None,
        weights: Some(WeightsChoice::List(vec!["3:1".parse::<Weights>()?])),
        load: LoadChoice::Max,
    };
    let began = Instant::now();
    for _ in 0..RECORDS {
        let record = job.run(&()).map_err(|why| why.to_string())?;
        std::hint::black_box(interleaf_record::json(&record));
    }
    let record_s = began.elapsed().as_secs_f64() / f64::from(RECORDS);
    let ratios = Weights::every_ratio(2, 255);
    let weights: Vec<Weights> = ratios.iter().cycle().take(count).cloned().collect();
    let began = Instant::now();
    let rows = job.rows(&weights, &(), |row| row.speedup.mean).map_err(|why| why.to_string())?;
    let rate = rows.len() as f64 / began.elapsed().as_secs_f64();
    writeln!(std::io::stdout(), "{record_s:.9} {rate:.0}")?;
    Ok(())
}
