//! Describes the terminal for which texts are written: its width, characters and colours. The
//! program sets these properties once, at its start. A pipe or a file gets neither charts nor
//! colours. Without a width, tables are as wide as their cells.

use std::sync::OnceLock;

/// The capabilities of a terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Width in characters; `None` for a pipe or a file, unless the environment variable `COLUMNS`
    /// has a width.
    pub width: Option<usize>,
    /// True if charts are drawn below tables.
    pub has_charts: bool,
    pub has_colour: bool,
    /// True if characters other than ASCII can be shown.
    pub has_unicode: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

/// The meaning of a text, which its colour shows. The colour only repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Answer,
    Good,
    Bad,
    /// An assumption or a warning.
    Doubtful,
}

/// Sets the properties of the terminal of this process. Only the first call has an effect.
pub fn set(screen: Screen) {
    let _ = SCREEN.set(screen);
}

/// Returns the properties of the terminal of this process.
pub fn current() -> Screen {
    SCREEN.get().copied().unwrap_or_default()
}

/// Returns `text` in the colour of `meaning`, if the terminal of this process has colours.
pub fn painted(meaning: Meaning, text: &str) -> String {
    current().painted(meaning, text)
}

impl Screen {
    /// Returns `text` in the colour of `meaning`, if the screen has colours.
    pub fn painted(self, meaning: Meaning, text: &str) -> String {
        let code = match meaning {
            Meaning::Answer => "1",
            Meaning::Good => "32",
            Meaning::Bad => "31",
            Meaning::Doubtful => "33",
        };
        match self.has_colour {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        let screen = Screen { has_colour: true, ..Screen::default() };
        assert_eq!(screen.painted(Meaning::Good, "yes"), "\u{1b}[32myes\u{1b}[0m");
        assert_eq!(Screen::default().painted(Meaning::Good, "yes"), "yes");
        assert_eq!(current(), Screen::default(), "a process without a terminal");
    }
}
