//! Commands as they are typed in a shell, for hints, plans and records.

/// Returns `words` as a command line: each as [`word`] writes it, with spaces between them.
pub fn command(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|text| word(text.as_ref())).collect::<Vec<_>>().join(" ")
}

/// Returns `text` as a word of a command line: in quotes if a shell would interpret a character.
pub fn word(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "-_./+,:=@%".contains(it);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_interpret_are_quoted() {
        for (text, expected) in [
            ("./solver", "./solver"),
            ("--dram=50%", "--dram=50%"),
            ("my folder/solver", "'my folder/solver'"),
            ("it's", "'it'\\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ] {
            assert_eq!(word(text), expected);
        }
        assert_eq!(command(&["sh", "-c", "echo 1"]), "sh -c 'echo 1'");
    }
}
