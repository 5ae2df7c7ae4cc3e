//! Files of parts with their prices: `interleaf.parts/1`.
//!
//! ```
//! use interleaf_model::format::parts_toml;
//! let text = r#"
//! schema = "interleaf.parts/1"
//! [[part]]
//! name = "rdimm-6400-64gb"
//! price = "350 USD"
//! source = "quote of a distributor"
//! date = "2025-11"
//! "#;
//! let parts = parts_toml::parse("prices.toml", text)?;
//! assert_eq!(parts.parts["rdimm-6400-64gb"].price, 350.0);
//! # Ok::<(), interleaf_model::format::FileError>(())
//! ```

use super::{
    FileError,
    price_text::{self, PriceText},
    toml_text::TomlText,
};
use crate::parts::{EnergyPrice, Parts, PricedPart};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// The schema of a file of parts.
pub const SCHEMA: &str = "interleaf.parts/1";

/// `POWER_MAX_W` is the maximum power of a part, W. `YEARS_MAX` is the maximum number of years of
/// operation.
const POWER_MAX_W: f64 = 1e5;
const YEARS_MAX: f64 = 50.0;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartsToml {
    /// The schema and its version: `interleaf.parts/1`.
    schema: Spanned<String>,
    /// The price of energy; default: the cost leaves energy out.
    energy: Option<EnergyToml>,
    /// Parts with their prices.
    part: Vec<PartToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EnergyToml {
    /// The price of energy, with its units: "0.15 USD/kWh".
    price: Spanned<String>,
    /// Years of operation whose energy is part of the cost.
    years: Spanned<f64>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
    /// The date of the price.
    date: Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartToml {
    /// The name of the part, as in configurations.
    name: Spanned<String>,
    /// The price of a piece: "350 USD".
    price: Spanned<String>,
    /// Power of a piece, W, if no platform file has the power of the part; default: 0.
    power_w: Option<Spanned<f64>>,
    /// The origin of the figures: a document, a record, a quote.
    source: Spanned<String>,
    /// The date of the price.
    date: Spanned<String>,
}

/// Parses `text`, the parts in the file `file`.
///
/// # Errors
/// If a field is invalid. The error is about the first invalid field.
pub fn parse(file: &str, text: &str) -> Result<Parts, FileError> {
    let text = TomlText::new(file, text);
    let parsed: PartsToml = text.read_as(SCHEMA)?;
    text.schema(&parsed.schema, SCHEMA)?;
    let mut currency = None;
    let energy = match &parsed.energy {
        None => None,
        Some(own) => Some(EnergyPrice {
            per_kwh: amount(&text, "energy.price", &own.price, Some("kWh"), &mut currency)?,
            years: text.positive("energy.years", &own.years, YEARS_MAX)?,
            source: text.said("energy.source", &own.source)?,
            date: price_text::date(&text, "energy.date", &own.date)?,
        }),
    };
    let mut parts = BTreeMap::new();
    for own in &parsed.part {
        let name = text.said("part.name", &own.name)?;
        let power_w = match &own.power_w {
            None => 0.0,
            Some(power) => {
                text.zero_or_above("part.power_w", power, POWER_MAX_W, "write watts of a piece")?
            }
        };
        let part = PricedPart {
            price: amount(&text, "part.price", &own.price, None, &mut currency)?,
            power_w,
            source: text.said("part.source", &own.source)?,
            date: price_text::date(&text, "part.date", &own.date)?,
        };
        if parts.insert(name, part).is_some() {
            let problem = format!("a second price of {}", own.name.get_ref());
            return Err(text.error("part.name", &own.name, problem, "write one of them"));
        }
    }
    Ok(Parts { file: file.into(), currency: currency.unwrap_or_default(), parts, energy })
}

/// Parses `value`, a price for `unit` or, with `None`, for a piece, and returns its amount. All
/// prices of a file have one currency: the first price sets `currency`, and a price in another
/// currency is an error.
fn amount(
    text: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
    unit: Option<&str>,
    currency: &mut Option<String>,
) -> Result<f64, FileError> {
    let form = if unit.is_some() { "0.15 USD/kWh" } else { "350 USD" };
    let hint = format!("write a number, a currency and its unit: \"{form}\"");
    let found = PriceText::parse(text, field, value, &hint)?;
    if found.unit != unit {
        let problem = format!("\"{}\" is not a price in this unit", value.get_ref());
        return Err(text.error(field, value, problem, hint));
    }
    let known = currency.get_or_insert_with(|| found.currency.to_string());
    if known != found.currency {
        let problem = format!("{} beside {known}", found.currency);
        return Err(text.error(field, value, problem, "write all prices in one currency"));
    }
    Ok(found.amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema = \"interleaf.parts/1\"\n[energy]\nprice = \"0.15 USD/kWh\"\n\
        years = 4\nsource = \"a bill\"\ndate = \"2025\"\n[[part]]\nname = \"a\"\n\
        price = \"350 USD\"\npower_w = 8\nsource = \"a quote\"\ndate = \"2025-11\"\n\
        [[part]]\nname = \"b\"\nprice = \"10 USD\"\nsource = \"a quote\"\ndate = \"2025-11\"\n";

    #[test]
    fn parts_have_prices_and_power() {
        let parts = parse("p.toml", TEXT).unwrap();
        let of = |name: &str| (parts.parts[name].price, parts.parts[name].power_w);
        assert_eq!((of("a"), of("b")), ((350.0, 8.0), (10.0, 0.0)));
        // A year has 8766 hours, so 800 W for 4 years are 28,051.2 kWh.
        let energy = parts.energy.unwrap();
        assert!((energy.of(800.0) - 0.15 * 28_051.2).abs() < 1e-9);
    }

    #[test]
    fn errors_name_the_line_and_the_field() {
        for (from, to, line, field, part) in [
            ("parts/1", "prices/1", 1, "schema", "is not"),
            ("0.15 USD/kWh", "0.15 USD", 3, "energy.price", "not a price in this unit"),
            ("years = 4", "years = -4", 4, "energy.years", "not above 0"),
            ("\"a\"", "\"b\"", 14, "part.name", "a second price of b"),
            ("350 USD", "350", 9, "part.price", "\"350\" is not a price"),
            ("350 USD", "-1 USD", 9, "part.price", "-1.0 is not between 0 and 1000000000"),
            (
                "350 USD",
                "350 USD/GB",
                9,
                "part.price",
                "\"350 USD/GB\" is not a price in this unit",
            ),
            ("10 USD", "10 EUR", 15, "part.price", "EUR beside USD"),
            ("power_w = 8", "power_w = -8", 10, "part.power_w", "not between 0"),
            ("2025-11", "May", 12, "part.date", "\"May\" is not a date"),
            ("a quote", " ", 11, "part.source", "it is empty"),
        ] {
            let why = parse("p.toml", &TEXT.replacen(from, to, 1)).unwrap_err();
            let found = (why.line, why.field.as_deref());
            assert_eq!(found, (Some(line), Some(field)), "{from} -> {to}: {why}");
            assert!(why.problem.contains(part), "{from} -> {to}: {why}");
        }
        let why = parse("p.toml", &TEXT.replacen("source = \"a quote\"\n", "", 1)).unwrap_err();
        assert!(why.to_string().contains("missing field `source`"), "{why}");
    }
}
