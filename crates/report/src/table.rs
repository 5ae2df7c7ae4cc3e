//! Tables: one set of cells, shown in a terminal, in Markdown, in HTML or as CSV.

use comfy_table::{CellAlignment, ContentArrangement, presets};

/// A table of texts with a header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(header: &[&str]) -> Self {
        Self { header: header.iter().map(ToString::to_string).collect(), rows: vec![] }
    }

    /// As [`Table::new`], for a computed header.
    pub fn with_header(header: Vec<String>) -> Self {
        Self { header, rows: vec![] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as lines of text, with columns of numbers aligned to the right.
    pub fn text(&self) -> String {
        self.drawn(presets::NOTHING)
    }

    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        self.drawn(presets::ASCII_MARKDOWN)
    }

    fn drawn(&self, preset: comfy_table::TableStyle) -> String {
        let mut table = comfy_table::Table::new();
        table.load_style(preset).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row);
        }
        for (at, column) in table.column_iter_mut().enumerate() {
            if self.is_numeric(at) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        lines.join("\n") + "\n"
    }

    /// The table as HTML, a part of a page.
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

    /// The table as CSV.
    pub fn csv(&self) -> String {
        let mut writer = csv::Writer::from_writer(vec![]);
        for row in std::iter::once(&self.header).chain(&self.rows) {
            // Writing to memory does not fail, and all rows are as long as the header.
            let _ = writer.write_record(row);
        }
        let bytes = writer.into_inner().unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// True if each cell of a column begins like a number or is empty.
    fn is_numeric(&self, column: usize) -> bool {
        let begins = |text: &String| {
            text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        };
        self.rows.iter().all(|row| row.get(column).is_none_or(begins))
    }
}

/// `text` with the special characters of HTML escaped.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
