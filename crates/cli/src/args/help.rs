//! Help texts: joins the lines of paragraphs, so that clap wraps the paragraphs; makes the short
//! help from the long help; and rewrites `help VERB`.

use std::ffi::OsString;

/// Joins the lines of each paragraph of the help of a command and of its subcommands, so that clap
/// wraps the paragraph at the width of the terminal. The short help is the first sentence.
pub(super) fn refilled(mut command: clap::Command) -> clap::Command {
    let long = command.get_long_about().or(command.get_about());
    if let Some(long) = long.map(|text| unfilled(&text.to_string())) {
        command = command.about(first_sentence(&long)).long_about(long);
    }
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_string()).collect();
    names.iter().fold(command, |command, name| command.mut_subcommand(name, refilled))
}

/// The text with one line for each paragraph; indented lines, such as examples, stay as they are.
fn unfilled(text: &str) -> String {
    let mut lines: Vec<String> = vec![];
    let mut is_open = false;
    for line in text.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        match lines.last_mut() {
            Some(last) if is_open && is_prose => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push(line.to_string()),
        }
        is_open = is_prose && !line.ends_with(':');
    }
    lines.join("\n")
}

fn first_sentence(text: &str) -> String {
    let paragraph = text.lines().next().unwrap_or_default();
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    paragraph[..end].trim_end_matches('.').to_string()
}

/// Rewrites `help VERB` to `VERB --help`. Other arguments stay as they are.
pub(super) fn help_verb(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_some_and(|word| word == "help") {
        arguments.remove(1);
        arguments.push("--help".into());
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_have_a_line_and_examples_stay() {
        let text = "Runs a workload, checks its\nresults. Twice.\n\nExamples:\n  one\n  two";
        let expected = "Runs a workload, checks its results. Twice.\n\nExamples:\n  one\n  two";
        assert_eq!(unfilled(text), expected);
        assert_eq!(first_sentence(expected), "Runs a workload, checks its results");
    }

    #[test]
    fn no_text_of_help_has_lines_that_are_wrapped_twice() {
        fn check(command: &clap::Command) {
            for text in [command.get_about(), command.get_long_about()].into_iter().flatten() {
                let text = text.to_string();
                assert_eq!(unfilled(&text), text, "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&super::super::command());
    }
}
