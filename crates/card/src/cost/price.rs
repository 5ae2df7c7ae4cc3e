//! Reads the prices that the user gives in a file with the schema `interleaf.prices/1`.
//!
//! ```
//! use interleaf_card::cost::{Item, Prices};
//! let text = r#"
//! schema = "interleaf.prices/1"
//! [[price]]
//! item = "dram"
//! price = "7.50 USD/GB"
//! source = "contract price of DDR3, some exchange"
//! date = "2017-08-08"
//! "#;
//! let prices = Prices::in_file("prices.toml", text)?;
//! assert_eq!(prices.of(Item::Dram).map(|price| price.amount), Some(7.5));
//! # Ok::<(), interleaf_model::format::FileError>(())
//! ```

use interleaf_model::format::{
    FileError,
    price_text::{self, PriceText},
    toml_text::TomlText,
};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

const SCHEMA: &str = "interleaf.prices/1";

/// A part of a card that has a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Item {
    /// DRAM, priced per GB.
    Dram,
    /// STT-MRAM, priced per GB.
    SttMram,
    /// NAND, priced per GB.
    Nand,
    /// Super-capacitor and converter, priced per piece.
    Capacitor,
    /// Controller, priced per piece.
    Controller,
    /// Board and assembly, priced per piece.
    Board,
}

const ITEMS: [(&str, Item); 6] = [
    ("dram", Item::Dram),
    ("stt-mram", Item::SttMram),
    ("nand", Item::Nand),
    ("capacitor", Item::Capacitor),
    ("controller", Item::Controller),
    ("board", Item::Board),
];

impl Item {
    /// Returns true if the item is priced per GB, false if it is priced per piece.
    pub fn is_by_capacity(self) -> bool {
        matches!(self, Self::Dram | Self::SttMram | Self::Nand)
    }

    /// Returns the name of the item in price files and in tables.
    pub fn name(self) -> &'static str {
        ITEMS.iter().find(|(_, item)| *item == self).map_or("", |(name, _)| name)
    }
}

/// A price with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Price {
    /// The price per GB or per piece, in the currency of the price file.
    pub amount: f64,
    /// The publication that states the price.
    pub source: String,
    /// The date of the price: `YYYY`, `YYYY-MM` or `YYYY-MM-DD`.
    pub date: String,
}

/// The prices in a price file, with their currency.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// The currency, such as `USD`.
    pub currency: String,
    prices: BTreeMap<Item, Price>,
}

/// The price of a card by its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct CardPrice {
    /// The currency of the prices.
    pub currency: String,
    /// The parts of the card for which the price file has a price. The number is the price of the
    /// part in this card, for example 16 USD for 2 GB at 8 USD/GB.
    pub parts: Vec<(Item, f64)>,
    /// The price of all `parts` together, divided by the capacity of the card in GB.
    pub per_gb: f64,
    /// Parts of the card for which the price file has no price; `per_gb` does not include them.
    pub missing: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PricesToml {
    schema: Spanned<String>,
    price: Vec<PriceToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceToml {
    item: Spanned<String>,
    price: Spanned<String>,
    source: Spanned<String>,
    date: Spanned<String>,
}

impl Prices {
    /// Reads prices from `text`, the content of the file `file`.
    ///
    /// # Errors
    /// If the text is invalid.
    pub fn in_file(file: &str, text: &str) -> Result<Self, FileError> {
        let text = TomlText::new(file, text);
        let parsed: PricesToml = text.read_as(SCHEMA)?;
        text.schema(&parsed.schema, SCHEMA)?;
        let mut prices = BTreeMap::new();
        let mut currency = None::<String>;
        for of in &parsed.price {
            let name = of.item.get_ref().as_str();
            let Some((_, item)) = ITEMS.iter().find(|(known, _)| *known == name) else {
                let names: Vec<&str> = ITEMS.iter().map(|(name, _)| *name).collect();
                let problem = format!("\"{name}\" is not a part of a card");
                let hint = format!("write {}", names.join(", "));
                return Err(text.error("price.item", &of.item, problem, hint));
            };
            let form = if item.is_by_capacity() { "7.50 USD/GB" } else { "25 USD" };
            let hint = format!("write a number, a currency and its unit: \"{form}\"");
            let PriceText { amount, currency: own, unit } =
                PriceText::parse(&text, "price.price", &of.price, &hint)?;
            if unit != item.is_by_capacity().then_some("GB") {
                let unit = if item.is_by_capacity() { "a GB" } else { "a piece" };
                let problem = format!("the price of {name} is for {unit}");
                return Err(text.error("price.price", &of.price, problem, hint));
            }
            if currency.as_deref().is_some_and(|known| known != own) {
                let problem = format!("{own} beside another currency");
                let hint = "write all prices in one currency";
                return Err(text.error("price.price", &of.price, problem, hint));
            }
            currency = Some(own.into());
            let price = Price {
                amount,
                source: text.said("price.source", &of.source)?,
                date: price_text::date(&text, "price.date", &of.date)?,
            };
            if prices.insert(*item, price).is_some() {
                let problem = format!("a second price of {name}");
                return Err(text.error("price.item", &of.item, problem, "write one of them"));
            }
        }
        Ok(Self { currency: currency.unwrap_or_default(), prices })
    }

    /// Returns the price of an item; `None` if the file has no price for the item.
    pub fn of(&self, item: Item) -> Option<&Price> {
        self.prices.get(&item)
    }

    /// Returns all items of the price file, each with its price.
    pub fn all(&self) -> impl Iterator<Item = (Item, &Price)> {
        self.prices.iter().map(|(item, price)| (*item, price))
    }

    /// Returns the price of a card of `capacity` bytes. `parts` lists the items of the card, each
    /// with its number of GB or pieces.
    pub fn of_card(&self, parts: &[(Item, f64)], capacity: u64) -> CardPrice {
        let mut priced = vec![];
        let mut missing = vec![];
        for (item, count) in parts {
            match self.of(*item) {
                Some(price) => priced.push((*item, price.amount * count)),
                None => missing.push(*item),
            }
        }
        let sum: f64 = priced.iter().map(|(_, amount)| amount).sum();
        let per_gb = sum / (capacity as f64 / 1e9);
        CardPrice { currency: self.currency.clone(), parts: priced, per_gb, missing }
    }
}
