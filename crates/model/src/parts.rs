//! The prices and the power of the parts of a server, and the price of energy. The user gives all
//! these figures in a file of prices.

use std::collections::BTreeMap;

/// A part that is bought by the piece, with its price.
#[derive(Clone, Debug, PartialEq)]
pub struct PricedPart {
    /// The price of a piece, in the currency of the file ([`Parts::currency`]).
    pub price: f64,
    /// Power of a piece, W, of a part whose power no platform file has, such as a drive. 0 if the
    /// power of the part is in the platform's figures.
    pub power_w: f64,
    /// The source of price and power.
    pub source: String,
    /// The date of the price: `YYYY`, `YYYY-MM` or `YYYY-MM-DD`.
    pub date: String,
}

/// The price of energy over the years for which a server runs.
///
/// At 0.15 USD/kWh, a server of 800 W that runs for 4 years takes 28,051 kWh, which cost 4,208 USD.
#[derive(Clone, Debug, PartialEq)]
pub struct EnergyPrice {
    /// The price of a kWh, in the currency of the file ([`Parts::currency`]).
    pub per_kwh: f64,
    /// The number of years for which the server runs.
    pub years: f64,
    /// The source of the price of a kWh and of the years of operation.
    pub source: String,
    /// The date of the price: `YYYY`, `YYYY-MM` or `YYYY-MM-DD`.
    pub date: String,
}

/// The number of hours in a year.
const HOURS: f64 = 24.0 * 365.25;

impl EnergyPrice {
    /// Returns the cost, in the currency of the file, of the energy that a constant load of
    /// `power_w` W uses in all years of operation.
    pub fn of(&self, power_w: f64) -> f64 {
        self.per_kwh * power_w * 1e-3 * HOURS * self.years
    }
}

/// The content of a file of prices: parts, and the price of energy.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The name of the file, for error messages.
    pub file: String,
    /// The currency of all prices, such as `USD`.
    pub currency: String,
    /// The parts, by the names that configurations use.
    pub parts: BTreeMap<String, PricedPart>,
    /// The price of energy; `None` leaves energy out of the cost.
    pub energy: Option<EnergyPrice>,
}
