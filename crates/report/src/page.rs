//! A page is a report in parts: an answer, facts, figures, tables and notes. Its Markdown and its
//! HTML are made from these parts.

use super::table::{Table, escaped};
use core::fmt::Display;
use interleaf_model::format::shell_text;

/// Tables with more rows than this are folded in HTML.
const ROWS_MAX: usize = 40;

/// The parts of a report, in the order in which they are shown. Figures are shown after the facts.
#[derive(Debug, Default)]
pub struct Page {
    /// The title. All texts of a page are plain, without HTML and Markdown.
    pub title: String,
    /// The result of the report, in a sentence.
    pub answer: String,
    /// Sentences below the answer.
    pub facts: Vec<String>,
    /// Pairs of a heading and a table; a table without rows is left out.
    pub tables: Vec<(String, Table)>,
    /// Sources and assumptions, which are shown at the end.
    pub notes: Vec<String>,
}

impl Page {
    pub fn with_table(mut self, heading: &str, table: Table) -> Self {
        self.tables.push((heading.into(), table));
        self
    }

    fn shown_tables(&self) -> impl Iterator<Item = &(String, Table)> {
        self.tables.iter().filter(|(_, table)| table.row_count() > 0)
    }

    /// Renders the report as Markdown, without figures.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}\n", self.title, self.answer);
        let list = |lines: &[String]| format!("\n- {}\n", lines.join("\n- "));
        if !self.facts.is_empty() {
            text += &list(&self.facts);
        }
        for (heading, table) in self.shown_tables() {
            text += &format!("\n## {heading}\n\n{}", table.markdown());
        }
        if !self.notes.is_empty() {
            text += &format!("\n## Notes\n{}", list(&self.notes));
        }
        text
    }

    /// Renders the HTML below the title. `figures` is the HTML of the figures, which follow the
    /// facts.
    pub fn html(&self, figures: &str) -> String {
        let mut html = format!("<p class=\"answer\">{}</p>\n", escaped(&self.answer));
        let list = |lines: &[String]| {
            let items = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line)));
            format!("<ul>\n{}</ul>\n", items.collect::<String>())
        };
        if !self.facts.is_empty() {
            html += &list(&self.facts);
        }
        html += figures;
        for (heading, table) in self.shown_tables() {
            let (count, table) = (table.row_count(), table.html());
            html += &format!("<h2>{}</h2>\n", escaped(heading));
            html += &match count > ROWS_MAX {
                true => format!("<details><summary>{count} rows</summary>\n{table}</details>\n"),
                false => table,
            };
        }
        if !self.notes.is_empty() {
            html += &format!("<h2>Notes</h2>\n{}", list(&self.notes));
        }
        html
    }
}

/// Formats `count` with its noun: `1 fault`, `2 faults`.
pub fn counted(count: impl Display, noun: &str) -> String {
    let count = count.to_string();
    format!("{count} {noun}{}", if count == "1" { "" } else { "s" })
}

/// Converts the lines of a text to sentences. An indented line, which is a hint, is appended to the
/// sentence before it.
pub fn sentences(text: &str) -> Vec<String> {
    let mut found: Vec<String> = vec![];
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        match found.last_mut() {
            Some(last) if line.starts_with(' ') => *last += &format!("; {}", line.trim()),
            _ => found.push(line.trim().into()),
        }
    }
    found
}

/// Returns the name of a command's program, without its folder.
pub fn program(command: &[String]) -> String {
    let path = command.first().map_or("", String::as_str);
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "no command".into() } else { name.into() }
}

/// Formats a command as a fact: `command: ./solver input.dat`. Returns `None` without a command.
pub fn command(words: &[String]) -> Option<String> {
    (!words.is_empty()).then(|| format!("command: {}", shell_text::command(words)))
}

/// Formats the failure of a command: `the command ended with exit status 3`. Returns `None` after a
/// success.
pub fn failure(exit_code: Option<i32>, signal: Option<i32>) -> Option<String> {
    match (exit_code, signal) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("the command ended with exit status {code}")),
        (None, Some(signal)) => Some(format!("the command was ended by signal {signal}")),
        (None, None) => Some("the command had not ended".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_join_the_line_before_them() {
        let text = "4 GiB bypassed the policy\n  use it\n\nstopped\n";
        assert_eq!(sentences(text), ["4 GiB bypassed the policy; use it", "stopped"]);
        assert_eq!(sentences("  alone"), ["alone"]);
    }

    #[test]
    fn a_page_leaves_out_empty_parts() {
        let mut table = Table::new(&["a"]);
        let empty =
            Page { answer: "<yes>".into(), ..Page::default() }.with_table("x", table.clone());
        assert_eq!(empty.html(""), "<p class=\"answer\">&lt;yes&gt;</p>\n");
        (0..=ROWS_MAX).for_each(|at| table.row([at.to_string()]));
        let html = Page::default().with_table("x", table).html("<figure/>");
        let figure = html.find("<figure/>").zip(html.find("<details><summary>41 rows"));
        assert!(figure.is_some_and(|(figure, table)| figure < table), "{html}");
    }

    #[test]
    fn the_end_of_a_command_is_a_fact_unless_it_succeeded() {
        assert_eq!(failure(Some(0), None), None);
        assert_eq!(failure(None, Some(9)).as_deref(), Some("the command was ended by signal 9"));
        assert_eq!(program(&["/opt/app/solver".into(), "x".into()]), "solver");
        assert_eq!((program(&[]), command(&[])), ("no command".into(), None));
    }
}
