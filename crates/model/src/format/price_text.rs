//! Prices and their dates as text: `7.50 USD/GB`, `2017-08`.

use super::{FileError, toml_text::TomlText};
use toml::Spanned;

/// The highest valid amount of a price, in its currency.
const AMOUNT_MAX: f64 = 1e9;

/// A price, split into amount, currency and unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceText<'a> {
    /// The amount, in `currency`.
    pub amount: f64,
    /// The currency: three capital letters.
    pub currency: &'a str,
    /// The unit to which the price applies, such as `GB`; `None` if the price is for a piece.
    pub unit: Option<&'a str>,
}

impl<'a> PriceText<'a> {
    /// Splits `value`, the value of `field` such as `7.50 USD/GB`, into amount, currency and unit.
    /// `hint` is the remedy if the value is not a price.
    ///
    /// # Errors
    /// If the value is not a price, or its amount is out of range.
    pub fn parse(
        text: &TomlText<'_>,
        field: &str,
        value: &'a Spanned<String>,
        hint: &str,
    ) -> Result<Self, FileError> {
        let Some(found) = Self::split(value.get_ref()) else {
            let problem = format!("\"{}\" is not a price", value.get_ref());
            return Err(text.error(field, value, problem, hint));
        };
        if !(0.0..=AMOUNT_MAX).contains(&found.amount) {
            let problem = format!("{:?} is not between 0 and {AMOUNT_MAX}", found.amount);
            return Err(text.error(field, value, problem, hint));
        }
        Ok(found)
    }

    fn split(text: &'a str) -> Option<Self> {
        let (amount, unit) = text.split_once(' ')?;
        let (currency, unit) = match unit.split_once('/') {
            Some((currency, unit)) => (currency, Some(unit)),
            None => (unit, None),
        };
        let is_currency =
            currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let amount = amount.parse().ok()?;
        is_currency.then_some(Self { amount, currency, unit })
    }
}

/// Returns `value`, the value of `field`, if it is a date: `YYYY`, `YYYY-MM` or `YYYY-MM-DD`.
///
/// # Errors
/// If the value is not such a date.
pub fn date(
    text: &TomlText<'_>,
    field: &str,
    value: &Spanned<String>,
) -> Result<String, FileError> {
    if is_date(value.get_ref()) {
        return Ok(value.get_ref().clone());
    }
    let problem = format!("\"{}\" is not a date", value.get_ref());
    Err(text.error(field, value, problem, "write a year, a month or a day: \"2017-08-08\""))
}

/// True if `text` has the form `YYYY`, `YYYY-MM` or `YYYY-MM-DD`, and year, month and day are in
/// range.
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut has = |length: usize, range: core::ops::RangeInclusive<u32>| match parts.next() {
        None => true,
        Some(part) => {
            part.len() == length && part.parse().is_ok_and(|number| range.contains(&number))
        }
    };
    has(4, 1970..=2999) && has(2, 1..=12) && has(2, 1..=31) && parts.next().is_none()
}
