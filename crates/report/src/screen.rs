//! The terminal that texts are written for: its width, characters and colours. The command sets it
//! once at its start. A pipe or a file gets neither charts nor colours, and without a width its
//! tables are as wide as their cells.

use std::sync::OnceLock;

/// What a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Width in characters; `None` for a pipe or a file, unless `COLUMNS` has a width.
    pub width: Option<usize>,
    /// Charts are drawn below tables.
    pub has_charts: bool,
    pub has_colour: bool,
    /// Characters other than ASCII can be shown.
    pub has_unicode: bool,
}

static SCREEN: OnceLock<Screen> = OnceLock::new();

/// The meaning of a text, shown by its colour. A colour repeats what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Answer,
    Good,
    Bad,
    /// An assumption or a warning.
    Doubtful,
}

/// Sets the terminal of this process. Only the first call counts.
pub fn set(screen: Screen) {
    let _ = SCREEN.set(screen);
}

/// The terminal of this process.
pub fn current() -> Screen {
    SCREEN.get().copied().unwrap_or_default()
}

/// The text in the colour of its meaning, if there are colours.
pub fn painted(meaning: Meaning, text: &str) -> String {
    current().painted(meaning, text)
}

/// The text wrapped between words at the width of the terminal. All lines but the first are
/// indented by `indent` blanks.
pub fn wrapped(text: &str, indent: usize) -> String {
    current().wrapped(text, indent)
}

impl Screen {
    /// Like [`wrapped`], on this screen.
    pub fn wrapped(self, text: &str, indent: usize) -> String {
        let Some(width) = self.width else { return text.to_string() };
        let room = width.saturating_sub(indent).max(20);
        let (mut lines, mut length) = (String::new(), 0);
        for word in text.split(' ') {
            let more = word.chars().count();
            if length > 0 && length + 1 + more > room {
                lines += &format!("\n{:indent$}", "");
                length = 0;
            } else if length > 0 {
                lines.push(' ');
                length += 1;
            }
            lines += word;
            length += more;
        }
        lines
    }

    /// Like [`painted`], on this screen.
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

    #[test]
    fn a_long_text_is_wrapped_between_words() {
        let text = "inputs: published: page streams, coupling of cxl to dram";
        let narrow = Screen { width: Some(30), ..Screen::default() };
        let lines = "inputs: published: page\n  streams, coupling of cxl to\n  dram";
        assert_eq!(narrow.wrapped(text, 2), lines);
        assert_eq!(Screen::default().wrapped(text, 2), text, "a pipe");
    }
}
