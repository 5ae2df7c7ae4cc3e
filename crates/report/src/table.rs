//! Renders tables: a table is a single set of cells, which is rendered for a terminal, as Markdown,
//! as HTML or as CSV.

mod layout;

use crate::screen;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};
use layout::Column;

/// A table of texts with a header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// The names of the columns that a narrow terminal leaves out first, in this order.
    minor: Vec<String>,
}

impl Table {
    /// Creates a table with the columns `header` and without rows.
    pub fn new(header: &[&str]) -> Self {
        Self {
            header: header.iter().map(ToString::to_string).collect(),
            rows: vec![],
            minor: vec![],
        }
    }

    /// Creates a table with a computed header and without rows.
    pub fn with_header(header: Vec<String>) -> Self {
        Self { header, rows: vec![], minor: vec![] }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Returns the number of rows below the header.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the table with `columns` as its minor columns, which a narrow terminal leaves out
    /// first, in the order of `columns`. After them, the other columns are left out from the right.
    pub fn with_minor(self, columns: &[&str]) -> Self {
        Self { minor: columns.iter().map(ToString::to_string).collect(), ..self }
    }

    /// Renders the table as lines of text, with columns of numbers aligned to the right. On a
    /// terminal the table fits the width: texts are wrapped, and if this does not suffice, columns
    /// are left out. A line below the table names the columns that were left out.
    pub fn text(&self) -> String {
        match screen::current().width {
            Some(width) => self.text_within(width),
            None => self.drawn(presets::NOTHING, &vec![None; self.header.len()]),
        }
    }

    fn text_within(&self, width: usize) -> String {
        let columns: Vec<Column> = (0..self.header.len()).map(|at| self.measured(at)).collect();
        let widths = layout::widths(&columns, &self.by_importance(), width);
        let kept: Vec<usize> = (0..self.header.len()).filter(|at| widths[*at].is_some()).collect();
        let cells = |row: &Vec<String>| {
            kept.iter().map(|at| row.get(*at).cloned().unwrap_or_default()).collect()
        };
        let table = Self {
            header: cells(&self.header),
            rows: self.rows.iter().map(cells).collect(),
            minor: vec![],
        };
        let fixed: Vec<Option<usize>> = kept.iter().map(|at| widths[*at]).collect();
        let text = table.drawn(presets::NOTHING, &fixed);
        let missing = (0..self.header.len()).filter(|at| widths[*at].is_none());
        let missing = missing.map(|at| self.header[at].as_str()).filter(|name| !name.is_empty());
        let missing: Vec<&str> = missing.collect();
        match missing.is_empty() {
            true => text,
            false => {
                format!("{text} (not shown at this width: {})\n", missing.join(", "))
            }
        }
    }

    /// Returns the indices of the columns by decreasing importance.
    fn by_importance(&self) -> Vec<usize> {
        let minor = |at: &usize| self.minor.iter().position(|name| *name == self.header[*at]);
        let mut order: Vec<usize> = (0..self.header.len()).collect();
        // The sort is stable, so columns that are not minor keep their order.
        order.sort_by_key(|at| minor(at).map_or(0, |place| self.minor.len() - place));
        order
    }

    fn measured(&self, column: usize) -> Column {
        let cells = || {
            let rows = self.rows.iter().filter_map(move |row| row.get(column));
            std::iter::once(&self.header[column]).chain(rows)
        };
        let widest = |parts: &mut dyn Iterator<Item = usize>| parts.max().unwrap_or(0).max(1);
        let natural = widest(&mut cells().map(|cell| cell.chars().count()));
        let words = cells().flat_map(|cell| cell.split(' ')).map(|word| word.chars().count());
        let least = if self.is_numeric(column) { natural } else { widest(&mut { words }) };
        Column { natural, least }
    }

    /// Renders the table as Markdown. A row is one line, so control characters of a cell, such as
    /// line breaks, become spaces. The character `|`, which ends a cell, is escaped.
    pub fn markdown(&self) -> String {
        let cell = |text: &String| text.replace(char::is_control, " ").replace('|', "\\|");
        let cells = |row: &Vec<String>| row.iter().map(cell).collect::<Vec<_>>();
        let rows = self.rows.iter().map(cells).collect();
        let table = Self { header: cells(&self.header), rows, minor: vec![] };
        table.drawn(presets::ASCII_MARKDOWN, &vec![None; table.header.len()])
    }

    /// Renders the table as text in the style `preset`. `widths` has the width of each column in
    /// characters; a column without a width is as wide as its texts.
    fn drawn(&self, preset: comfy_table::TableStyle, widths: &[Option<usize>]) -> String {
        let mut table = comfy_table::Table::new();
        let is_fixed = widths.iter().any(Option::is_some);
        table.load_style(preset).set_content_arrangement(match is_fixed {
            true => ContentArrangement::Dynamic,
            false => ContentArrangement::Disabled,
        });
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            if self.is_numeric(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
            if let Some(width) = widths.get(at).copied().flatten() {
                let width = u16::try_from(width + 2).unwrap_or(u16::MAX);
                column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        lines.join("\n") + "\n"
    }

    /// Renders the table as HTML, for the body of a page.
    pub fn html(&self) -> String {
        let cell = |tag: &str, at: usize, text: &str| {
            let class = if self.is_numeric(at) { " class=\"n\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escaped(text))
        };
        let line = |tag: &str, cells: &[String]| {
            let cells = cells.iter().enumerate().map(|(at, text)| cell(tag, at, text));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let rows: String = self.rows.iter().map(|row| line("td", row)).collect();
        format!(
            "<table>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n",
            line("th", &self.header)
        )
    }

    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(vec![]);
        for row in std::iter::once(&self.header).chain(&self.rows) {
            // Writing to memory does not fail, and each row is as long as the header.
            let _ = writer.write_record(row);
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True if each cell of the column `column` is empty or begins like a number.
    fn is_numeric(&self, column: usize) -> bool {
        let begins = |text: &String| {
            text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        };
        self.rows.iter().all(|row| row.get(column).is_none_or(begins))
    }
}

/// Formats a number as a cell of CSV; an unknown number becomes an empty cell.
pub fn csv_number(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// Escapes the special characters of `text` for HTML and XML. Characters that XML 1.0 forbids, such
/// as most control characters, are left out: no viewer opens an SVG file with one of them.
pub fn escaped(text: &str) -> String {
    let is_allowed = |c: &char| matches!(*c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    let text: String = text.chars().filter(is_allowed).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table =
            Table::new(&["policy", "workload", "speed-up", "settled s", "why it stopped"]);
        let why = "the bandwidth of the second tier is exhausted, and latency rises";
        let cells = ["guided", "cloverleaf", "1.291", "120", why];
        table.row(cells.map(String::from));
        table.with_minor(&["settled s"])
    }

    #[test]
    fn a_cell_of_markdown_is_on_one_line() {
        let mut table = Table::new(&["a|b", "rate"]);
        table.row(["two\nlines | x".into(), "1".into()]);
        let rows = "| a\\|b           | rate |\n|----------------|------|\n\
                    | two lines \\| x |    1 |\n";
        assert_eq!(table.markdown(), rows);
    }

    #[test]
    fn no_text_breaks_html_and_xml() {
        assert_eq!(escaped("<b>|&\"x"), "&lt;b&gt;|&amp;&quot;x");
        assert_eq!(escaped("a\u{1b}[31m\u{0}b\u{ffff}\tc\nd"), "a[31mb\tc\nd");
    }

    #[test]
    fn a_table_fits_and_no_word_is_cut() {
        let whole = table().drawn(presets::NOTHING, &[None; 5]);
        for width in [160, 100, 80, 60, 52] {
            let text = table().text_within(width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            for word in whole.split_whitespace().filter(|word| !"settled120s".contains(word)) {
                assert!(text.split_whitespace().any(|it| it == word), "{width}: {word}\n{text}");
            }
        }
        assert_eq!(table().text_within(160), whole);
        let narrow = table().text_within(52);
        assert!(narrow.ends_with(" (not shown at this width: settled s)\n"), "{narrow}");
    }
}
