//! Keys that what watches on a terminal has in common.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Whether a key ends the watching.
pub(super) fn ends(key: KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'd') => control,
        _ => false,
    }
}
