//! The terminal that texts are written for: its width, characters and colours. The command sets it
//! once at its start. Without it, texts are for a pipe or a file: tables of any width, neither
//! charts nor colours.

use std::sync::OnceLock;

/// What a terminal can show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Width in characters; `None` for a pipe or a file.
    pub width: Option<usize>,
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

impl Screen {
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
}
