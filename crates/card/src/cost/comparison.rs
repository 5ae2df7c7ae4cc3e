//! Compares the energy, endurance and price of several cards in one table.

use super::{
    endurance::{Locality, Wear},
    energy::{CardEnergy, IoEnergy},
    price::{CardPrice, Item, Prices},
};
use crate::{
    card::{Card, SEGMENT_BYTES},
    power::{EnergySpec, PowerSpec},
};
use interleaf_sim::dimm::device::Device;

/// The properties of a card that the comparison needs.
#[derive(Clone, Debug)]
pub struct CostInputs {
    /// The name of the card.
    pub name: String,
    /// The memory module of each channel, with the card's number of ranks.
    pub device: Device,
    /// The number of memory channels, each with one module.
    pub channels: u32,
    /// The capacity of the memory, bytes.
    pub capacity: u64,
    /// Bytes that one access transfers from or to a row of the memory.
    pub segment_bytes: u32,
    /// Time that a core of the controller works on a command and its completion, fs.
    pub command_fs: u64,
    /// Power and energy of the link and the controller.
    pub energy: EnergySpec,
    /// The card's behaviour at a power failure.
    pub power: PowerSpec,
}

/// The use for which cards are compared: size of the I/Os, rate and distribution of the writes, and
/// number of power failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostSettings {
    /// Size of an I/O, bytes.
    pub io_bytes: u32,
    /// Rate at which the host writes, bytes per second.
    pub write_rate: f64,
    /// The distribution of the writes over the addresses.
    pub locality: Locality,
    /// Number of power failures per year.
    pub failures_a_year: f64,
}

impl Default for CostSettings {
    /// Returns assumed values: I/Os of 4 KiB; writes of 100 MB/s, of which nine tenths go to a
    /// range of 1 MiB, as in the log of a database; one power failure a month.
    fn default() -> Self {
        Self {
            io_bytes: 4096,
            write_rate: 100e6,
            locality: Locality::Hot { part: 0.9, bytes: 1 << 20 },
            failures_a_year: 12.0,
        }
    }
}

/// Energy, power, lifetimes and price of one card.
#[derive(Clone, Debug, PartialEq)]
pub struct CardFigures {
    /// The name of the card.
    pub name: String,
    /// Energy that a read adds to the idle energy of the same span of time, by component, J.
    pub read: IoEnergy,
    /// Energy that a write adds to the idle energy of the same span of time, by component, J.
    pub write: IoEnergy,
    /// Power without I/O, W. It includes refresh and the leakage of the capacitor.
    pub idle_w: f64,
    /// Power without I/O and without refresh, W. It includes the leakage of the capacitor.
    pub idle_without_refresh_w: f64,
    /// Power while the card writes at the rate `CostSettings::write_rate`, W.
    pub writing_w: f64,
    /// Power that keeps the capacitor charged, W; `None` without a capacitor.
    pub capacitor_w: Option<f64>,
    /// Energy to save the memory to NAND, J; `None` if the card does not save.
    pub save_j: Option<f64>,
    /// Energy that the aged capacitor delivers behind its converter, J; `None` without a capacitor.
    /// The capacitor has the age at which it must still power a save (`CapacitorSpec::years`).
    pub capacitor_j: Option<f64>,
    /// Years until the first memory cell fails, with wear levelling; `None` if writes do not wear
    /// out the memory.
    pub levelled_years: Option<f64>,
    /// Years until the first memory cell fails, without wear levelling; `None` if writes do not
    /// wear out the memory.
    pub unlevelled_years: Option<f64>,
    /// Years until the number of saves reaches the endurance of the NAND, the number of program and
    /// erase cycles that a block withstands; `None` if the card does not save.
    pub nand_years: Option<f64>,
    /// The price of the card; `None` if the user gave no prices.
    pub price: Option<CardPrice>,
}

/// A row of the table that compares cards: one figure, with a value for each card.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// The name of the figure, for the first column of the table.
    pub name: String,
    /// The unit of the values.
    pub unit: String,
    /// A value for each card, in the order given to `compare`; `None` if a card has no such value.
    pub values: Vec<Option<f64>>,
}

impl CostInputs {
    /// Takes the inputs of the comparison from the description of a card.
    pub fn of(card: &Card) -> Self {
        Self {
            name: card.name.clone(),
            device: card.memory.device.clone(),
            channels: card.memory.channels,
            capacity: card.memory.capacity,
            segment_bytes: SEGMENT_BYTES,
            command_fs: card.controller.command_fs + card.controller.completion_fs,
            energy: card.energy,
            power: card.power.clone(),
        }
    }
}

impl CardFigures {
    /// Computes the figures of `card` for the I/O size, the write rate and the power failures in
    /// `settings`. The figures include the price of the card if `prices` are given.
    pub fn of(card: &CostInputs, settings: &CostSettings, prices: Option<&Prices>) -> Self {
        let energy = CardEnergy::new(
            &card.energy,
            &card.device,
            card.channels,
            card.command_fs,
            card.segment_bytes,
        );
        let gb = |bytes: f64| bytes / 1e9;
        let capacity = card.capacity;
        let common = [(Item::Controller, 1.0), (Item::Board, 1.0)];
        let mut parts = vec![];
        let (save, wear) = match &card.power {
            PowerSpec::Save(save) => {
                parts.push((Item::Dram, gb(capacity as f64)));
                parts.push((Item::Nand, gb(save.nand.capacity() as f64)));
                parts.push((Item::Capacitor, 1.0));
                (Some(save), None)
            }
            PowerSpec::Precharge { .. } => {
                parts.push((Item::SttMram, gb(capacity as f64)));
                (None, Some(Wear::stt_mram(capacity, card.segment_bytes)))
            }
        };
        parts.extend(common);
        let capacitor_w = save.map(|save| save.capacitor.leakage_w());
        let without_refresh = energy.idle_w() + capacitor_w.unwrap_or(0.0);
        let rate = settings.write_rate;
        let write = energy.of_io(settings.io_bytes, true);
        let idle_w = without_refresh + energy.refresh_w();
        Self {
            name: card.name.clone(),
            read: energy.of_io(settings.io_bytes, false),
            write,
            idle_w,
            writing_w: idle_w + rate / f64::from(settings.io_bytes) * write.total(),
            idle_without_refresh_w: without_refresh,
            capacitor_w,
            save_j: save.map(|save| save.needed_j(capacity)),
            capacitor_j: save.map(|save| save.aged_capacitor().usable_j(save.save_w())),
            levelled_years: wear.map(|wear| wear.levelled_years(rate)),
            unlevelled_years: wear.map(|wear| wear.unlevelled_years(rate, settings.locality)),
            nand_years: save.map(|save| f64::from(save.nand.endurance) / settings.failures_a_year),
            price: prices.map(|prices| prices.of_card(&parts, capacity)),
        }
    }
}

/// Returns the figures of each card, and the rows of a table that compares the cards. The table has
/// rows of prices only if `prices` are given.
pub fn compare(
    cards: &[CostInputs],
    settings: &CostSettings,
    prices: Option<&Prices>,
) -> (Vec<CardFigures>, Vec<ComparisonRow>) {
    let figures: Vec<CardFigures> =
        cards.iter().map(|card| CardFigures::of(card, settings, prices)).collect();
    let row = |name: &str, unit: &str, value: &dyn Fn(&CardFigures) -> Option<f64>| {
        let values: Vec<Option<f64>> = figures.iter().map(value).collect();
        ComparisonRow { name: name.into(), unit: unit.into(), values }
    };
    let micro = |joules: f64| Some(joules * 1e6);
    let mut rows = vec![
        row("energy of a read", "uJ", &|card| micro(card.read.total())),
        row("energy of a read: link", "uJ", &|card| micro(card.read.link)),
        row("energy of a read: controller", "uJ", &|card| micro(card.read.controller)),
        row("energy of a read: memory", "uJ", &|card| micro(card.read.memory)),
        row("energy of a write", "uJ", &|card| micro(card.write.total())),
        row("energy of a write: link", "uJ", &|card| micro(card.write.link)),
        row("energy of a write: controller", "uJ", &|card| micro(card.write.controller)),
        row("energy of a write: memory", "uJ", &|card| micro(card.write.memory)),
        row("power without I/O", "W", &|card| Some(card.idle_w)),
        row("the same without refresh", "W", &|card| Some(card.idle_without_refresh_w)),
        row("power at the write rate", "W", &|card| Some(card.writing_w)),
        row("power for the charge of the capacitor", "W", &|card| card.capacitor_w),
        row("energy of a save", "J", &|card| card.save_j),
        row("energy of the aged capacitor", "J", &|card| card.capacitor_j),
        row("life with wear levelling", "years", &|card| card.levelled_years),
        row("life without wear levelling", "years", &|card| card.unlevelled_years),
        row("life of the NAND", "years", &|card| card.nand_years),
    ];
    if let Some(prices) = prices {
        let currency = &prices.currency;
        for (item, _) in prices.all() {
            let part = |card: &CardFigures| {
                let parts = &card.price.as_ref()?.parts;
                parts.iter().find(|(own, _)| *own == item).map(|(_, amount)| *amount)
            };
            rows.push(row(&format!("price of {}", item.name()), currency, &part));
        }
        // The price of a GB is shown only if each item of the card has a price. Without the price
        // of an item, the sum would be too low.
        let per_gb = |card: &CardFigures| {
            let price = card.price.as_ref()?;
            price.missing.is_empty().then_some(price.per_gb)
        };
        rows.push(row("price of a GB", &format!("{currency}/GB"), &per_gb));
    }
    (figures, rows)
}
