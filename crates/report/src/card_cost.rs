//! Renders energy, endurance and price of NVRAM cards (`interleaf.simulate.card.cost/1`) as text,
//! Markdown, HTML and CSV.

use super::{number, page::Page, table::Table};
use interleaf_model::units::Bytes;
use interleaf_record::card_cost::{CardCostDocument, PriceDocument};

/// Renders the document as text for a terminal.
pub fn text(document: &CardCostDocument) -> String {
    let mut text = format!("{}\n\n{}", load(document), table(document, &number).text());
    document.prices.iter().for_each(|it| text += &format!("\n{}", price(it)));
    text + if document.prices.is_empty() { "" } else { "\n" }
}

/// Formats the load for which the cards are compared, in one line.
fn load(document: &CardCostDocument) -> String {
    let place = match (document.hot_share, document.hot_bytes) {
        (Some(share), Some(bytes)) => {
            format!("{:.0} % of them to {}", 100.0 * share, Bytes::new(bytes))
        }
        _ => "evenly distributed".into(),
    };
    format!(
        "I/Os of {}, {} GB/s of writes, {place}, {} power failures a year",
        Bytes::new(document.io_bytes.into()),
        number(document.write_gbps),
        number(document.power_failures_per_year),
    )
}

fn price(it: &PriceDocument) -> String {
    format!("{}: {} {} ({}, {})", it.item, number(it.amount), it.unit, it.source, it.date)
}

/// Renders the document as a page of a report.
pub fn page(document: &CardCostDocument) -> Page {
    let title = format!("Energy, endurance and price: {}", document.cards.join(", "));
    let notes = document.prices.iter().map(price).collect();
    Page { title, answer: load(document), notes, ..Page::default() }
        .with_table("Cards", table(document, &number))
}

/// Renders the document as CSV, with a row for each quantity.
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
