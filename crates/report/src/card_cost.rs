//! `interleaf.simulate.card.cost/1` as text and CSV.

use super::{number, table::Table};
use interleaf_model::units::Bytes;
use interleaf_record::card_cost::CardCostDocument;

/// The document as text for a terminal.
pub fn text(document: &CardCostDocument) -> String {
    let place = match (document.hot_share, document.hot_bytes) {
        (Some(share), Some(bytes)) => {
            format!("{:.0} % of them to {}", 100.0 * share, Bytes::new(bytes))
        }
        _ => "evenly distributed".into(),
    };
    let mut text = format!(
        "I/Os of {}, {} GB/s of writes, {place}, {} power failures a year\n\n{}",
        Bytes::new(document.io_bytes.into()),
        number(document.write_gbps),
        number(document.power_failures_per_year),
        table(document, &number).text(),
    );
    for price in &document.prices {
        text += &format!(
            "\n{}: {} {} ({}, {})",
            price.item,
            number(price.amount),
            price.unit,
            price.source,
            price.date
        );
    }
    text + if document.prices.is_empty() { "" } else { "\n" }
}

/// One row for each quantity.
pub fn csv(document: &CardCostDocument) -> String {
    table(document, &|value| value.to_string()).csv()
}

fn table(document: &CardCostDocument, number: &dyn Fn(f64) -> String) -> Table {
    let header = ["quantity", "unit"].map(String::from).into_iter();
    let mut table = Table::with_header(header.chain(document.cards.iter().cloned()).collect());
    for row in &document.rows {
        let values = row.values.iter().map(|value| value.map_or("-".into(), number));
        table.row([row.quantity.clone(), row.unit.clone()].into_iter().chain(values));
    }
    table
}
