//! `interleaf simulate card --curves`: writes the loaded-latency curves of a card to a file. A tier
//! of a platform file can name this file.

use interleaf_console::{Failure, output};
use interleaf_record::card::CardDocument;
use std::path::Path;

/// Rejects `--curves` with several cards, before they are simulated: a file has one card's curves.
pub(super) fn check(cards: usize) -> Result<(), Failure> {
    match cards {
        0..=1 => Ok(()),
        _ => Err(Failure::new(
            "--curves: a file has the curves of one card",
            "give one --card, and another file for another card",
        )),
    }
}

/// Writes the curves of the card in `document` to the file `target`. `commands` are the command
/// lines that simulate the points again.
pub(super) fn write(
    target: &Path,
    document: &CardDocument,
    commands: &[String],
) -> Result<(), Failure> {
    output::file(target, &interleaf_report::card::curves_csv(document, commands))?;
    output::message(&format!("the curves are in {}", target.display()));
    Ok(())
}
