//! `interleaf simulate card --curves`: a card as a tier of a platform.

use interleaf_console::{Failure, output};
use interleaf_record::card::CardDocument;
use std::path::Path;

/// Writes the curves of the document's card.
pub(super) fn write(target: &Path, document: &CardDocument) -> Result<(), Failure> {
    if document.cards.len() > 1 {
        return Err(Failure::new(
            "--curves: a file has the curves of one card",
            "give one --card, and another file for another card",
        ));
    }
    output::file(target, &interleaf_report::card::curves_csv(document))?;
    output::message(&format!("the curves are in {}", target.display()));
    Ok(())
}
