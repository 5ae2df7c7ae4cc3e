//! `interleaf simulate card cost`: compares the energy, endurance and price of cards in one table.

use crate::args::CardCostArgs;
use interleaf_card::cost::{CostInputs, CostSettings, Locality, Prices, compare};
use interleaf_console::{Failure, output, support};
use interleaf_job::card::cards;
use interleaf_model::units::Bytes;
use interleaf_record::card_cost::CardCostDocument;
use std::process::ExitCode;

/// The price file that `--example-prices` prints.
const EXAMPLE: &str = include_str!("../../../../../../devices/prices/example.toml");

pub(super) fn run(args: &CardCostArgs) -> Result<ExitCode, Failure> {
    if args.example_prices {
        output::data(EXAMPLE)?;
        return Ok(ExitCode::SUCCESS);
    }
    support::check_outputs(args.output.output.as_deref(), None, &[])?;
    let cards: Vec<CostInputs> = cards(&args.card)?.iter().map(CostInputs::of).collect();
    let prices = match &args.prices {
        None => None,
        Some(path) => {
            let hint = "`interleaf simulate card cost --example-prices` prints an example";
            let text = interleaf_catalog::text(path, hint)?;
            Some(Prices::in_file(&path.display().to_string(), &text)?)
        }
    };
    let is_hot = args.hot_share.fraction() > 0.0;
    if let Some(small) = cards.iter().find(|card| is_hot && card.capacity < args.hot_size) {
        return Err(Failure::new(
            format!(
                "--hot-size {} is more than the {} of {}",
                Bytes::new(args.hot_size),
                Bytes::new(small.capacity),
                small.name
            ),
            "write a size within the card",
        ));
    }
    let settings = CostSettings {
        io_bytes: args.bs,
        write_rate: 1e9 * args.write_rate.gbps(),
        locality: match args.hot_share.fraction() {
            0.0 => Locality::Uniform,
            part => Locality::Hot { part, bytes: args.hot_size },
        },
        failures_a_year: f64::from(args.power_failures),
    };
    let (_, rows) = compare(&cards, &settings, prices.as_ref());
    let document = CardCostDocument::new(&cards, &settings, &rows, prices.as_ref());
    support::print_document(
        args.output.options(),
        &interleaf_record::json(&document),
        || interleaf_report::card_cost::csv(&document),
        || interleaf_report::card_cost::text(&document),
    )?;
    Ok(ExitCode::SUCCESS)
}
