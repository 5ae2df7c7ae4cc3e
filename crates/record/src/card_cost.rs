//! Energy, endurance and price of cards, as `interleaf.simulate.card.cost/1`.
//!
//! `interleaf simulate card cost` writes the document. It has the load under which the cards are
//! compared, and a table with a row for each quantity and a column for each card.

use super::{
    check::{Check, Checked, same_length},
    rounded,
};
use interleaf_card::cost::{ComparisonRow, CostInputs, CostSettings, Item, Locality, Prices};
use serde::{Deserialize, Serialize};

pub const SCHEMA: &str = "interleaf.simulate.card.cost/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CardCostDocument {
    pub schema: String,
    pub cards: Vec<String>,
    pub io_bytes: u32,
    pub write_gbps: f64,
    /// Fraction of the writes that go to a hot range of `hot_bytes` bytes; null when all writes are
    /// spread evenly.
    pub hot_share: Option<f64>,
    pub hot_bytes: Option<u64>,
    pub power_failures_per_year: f64,
    pub rows: Vec<CostRow>,
    /// All prices of the price file, with their sources; empty without a price file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<PriceDocument>,
}

impl Check for CardCostDocument {
    fn check(&self) -> Checked {
        let cards = self.cards.len();
        let mut rows = self.rows.iter().enumerate();
        rows.try_for_each(|(at, row)| {
            same_length(format!("rows[{at}].values"), row.values.len(), cards, "cards")
        })
    }
}

/// A row of the table: a quantity, and its value for each card.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostRow {
    pub quantity: String,
    pub unit: String,
    /// Value of the quantity for each card, in `unit`; null when the card does not have this
    /// quantity.
    pub values: Vec<Option<f64>>,
}

/// The price of an item, per piece or per GB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceDocument {
    pub item: String,
    pub amount: f64,
    pub unit: String,
    pub source: String,
    pub date: String,
}

impl CardCostDocument {
    pub fn new(
        cards: &[CostInputs],
        settings: &CostSettings,
        rows: &[ComparisonRow],
        prices: Option<&Prices>,
    ) -> Self {
        let (hot_share, hot_bytes) = match settings.locality {
            Locality::Uniform => (None, None),
            Locality::Hot { part, bytes } => (Some(rounded(part)), Some(bytes)),
        };
        let row = |row: &ComparisonRow| CostRow {
            quantity: row.name.clone(),
            unit: row.unit.clone(),
            values: row.values.iter().map(|value| value.map(rounded)).collect(),
        };
        Self {
            schema: SCHEMA.into(),
            cards: cards.iter().map(|card| card.name.clone()).collect(),
            io_bytes: settings.io_bytes,
            write_gbps: rounded(1e-9 * settings.write_rate),
            hot_share,
            hot_bytes,
            power_failures_per_year: rounded(settings.failures_a_year),
            rows: rows.iter().map(row).collect(),
            prices: prices.map(of_file).unwrap_or_default(),
        }
    }
}

fn of_file(prices: &Prices) -> Vec<PriceDocument> {
    let unit = |item: Item| match item.is_by_capacity() {
        true => format!("{}/GB", prices.currency),
        false => prices.currency.clone(),
    };
    let document = |(item, price): (Item, &interleaf_card::cost::Price)| PriceDocument {
        item: item.name().into(),
        amount: rounded(price.amount),
        unit: unit(item),
        source: price.source.clone(),
        date: price.date.clone(),
    };
    prices.all().map(document).collect()
}
