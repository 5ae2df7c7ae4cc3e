//! Renders the memory test of NVRAM cards (`interleaf.simulate.card.test/1`) as text, Markdown,
//! HTML and CSV.

use super::{
    number,
    page::{Page, counted},
    table::Table,
};
use interleaf_record::card_test::{CardTestDocument, CardTestResult};

/// Maximum number of mismatches of a card that the text lists; the document may have more.
const LISTED_MAX: usize = 16;

/// Renders the document as text for a terminal.
pub fn text(document: &CardTestDocument) -> String {
    let settings = settings(document).into_iter().map(|line| line + "\n");
    let text = format!("{}\n{}", settings.collect::<String>(), table(document).text());
    text + &document.cards.iter().map(details).collect::<String>()
}

/// Returns lines with the algorithm of the memory test, its addresses and cycles, and the injected
/// faults.
fn settings(document: &CardTestDocument) -> Vec<String> {
    let mut lines = vec![format!(
        "{} from {} to {}, {}{}",
        document.algorithm,
        document.start,
        document.stop,
        counted(document.cycles, "cycle"),
        if document.init { ", all words 0 at first" } else { "" },
    )];
    if document.algorithm == "pattern" {
        lines.push(format!("pattern {}", document.pattern));
    }
    lines.extend(document.faults.iter().map(|fault| format!("injected: {fault}")));
    lines
}

/// Renders the document as a page of a report.
pub fn page(document: &CardTestDocument) -> Page {
    let failed: Vec<&str> =
        document.cards.iter().filter(|it| !it.passed).map(|it| it.card.as_str()).collect();
    let answer = match failed[..] {
        [] => format!("{} passed", counted(document.cards.len(), "card")),
        _ => format!("failed: {}", failed.join(", ")),
    };
    let (title, facts) = ("Memory test of cards".into(), settings(document));
    let mut page =
        Page { title, answer, facts, ..Page::default() }.with_table("Cards", table(document));
    for card in &document.cards {
        page = page.with_table(&format!("First mismatches of {}", card.card), mismatches(card));
        let mut log = Table::new(&["operation"]);
        card.log.iter().for_each(|line| log.row([line.clone()]));
        page = page.with_table(&format!("Log of {}", card.card), log);
    }
    page
}

fn table(document: &CardTestDocument) -> Table {
    let mut table = Table::new(&[
        "card",
        "result",
        "reads",
        "writes",
        "power cycles",
        "time s",
        "mismatches",
        "failed words",
    ]);
    for card in &document.cards {
        table.row([
            card.card.clone(),
            if card.passed { "passed".into() } else { "FAILED".into() },
            card.reads.to_string(),
            card.writes.to_string(),
            card.power_cycles.to_string(),
            number(card.time_s),
            card.mismatches.to_string(),
            card.failed_words.to_string(),
        ]);
    }
    table
}

fn mismatches(card: &CardTestResult) -> Table {
    let mut table = Table::new(&["cycle", "step", "address", "expected", "read"]);
    for mismatch in card.first.iter().take(LISTED_MAX) {
        table.row([
            mismatch.cycle.to_string(),
            mismatch.step.to_string(),
            mismatch.address.clone(),
            mismatch.expected.clone(),
            mismatch.read.clone(),
        ]);
    }
    table
}

/// Formats the first mismatches of a card that failed the test, and the card's log of operations.
fn details(card: &CardTestResult) -> String {
    let mut text = String::new();
    if !card.passed {
        text += &format!("\n{}: first mismatches\n{}", card.card, mismatches(card).text());
    }
    if !card.log.is_empty() {
        let lines = card.log.iter().map(|line| format!("  {line}\n")).collect::<String>();
        text += &format!("\n{}: log\n{lines}", card.card);
        if card.log_dropped > 0 {
            text += &format!("  ({} more operations)\n", card.log_dropped);
        }
    }
    text
}

/// Renders the document as CSV, with a row for each card.
pub fn csv(document: &CardTestDocument) -> String {
    let mut table = Table::new(&[
        "card",
        "algorithm",
        "start",
        "stop",
        "cycles",
        "passed",
        "reads",
        "writes",
        "power_cycles",
        "time_s",
        "mismatches",
        "failed_words",
    ]);
    for card in &document.cards {
        table.row([
            card.card.clone(),
            document.algorithm.clone(),
            document.start.clone(),
            document.stop.clone(),
            document.cycles.to_string(),
            card.passed.to_string(),
            card.reads.to_string(),
            card.writes.to_string(),
            card.power_cycles.to_string(),
            card.time_s.to_string(),
            card.mismatches.to_string(),
            card.failed_words.to_string(),
        ]);
    }
    table.csv()
}
