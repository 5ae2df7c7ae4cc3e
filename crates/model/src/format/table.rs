//! CSV tables with a header. Errors about a table name the line and the column.

use super::FileError;

/// A CSV table: its header and its rows.
pub(super) struct Table<'a> {
    file: &'a str,
    header: Vec<String>,
    rows: Vec<TableRow>,
}

/// A row of a table, with its 1-based line number.
pub(super) struct TableRow {
    pub(super) line: usize,
    fields: Vec<String>,
}

impl<'a> Table<'a> {
    /// Reads the table in `text`. The header must have all columns of `required`. With a list
    /// `optional`, a column that is in neither list is an error; with `None`, any column is
    /// allowed.
    pub(super) fn read(
        file: &'a str,
        text: &str,
        required: &[&str],
        optional: Option<&[&str]>,
    ) -> Result<Self, FileError> {
        // Append a comment line to detect a quoted field without a closing quote: such a field
        // contains the line break before the comment. The code below reports the field.
        let ended = format!("{text}\n#\n");
        let mut reader = csv::ReaderBuilder::new()
            .comment(Some(b'#'))
            .trim(csv::Trim::All)
            .from_reader(ended.as_bytes());
        let error = |line: Option<usize>, problem: String, hint: String| FileError {
            file: file.into(),
            line,
            field: None,
            problem,
            hint,
        };
        let unended = |line: usize| {
            let problem = "a quoted field does not end on its line".into();
            error(Some(line), problem, "end the field with a quote".into())
        };
        let lines: Vec<&str> = text.lines().collect();
        let top = Some(row_line(&lines, 1));
        let columns = || {
            let all = required.iter().chain(optional.unwrap_or_default());
            format!("the columns are {}", all.copied().collect::<Vec<_>>().join(", "))
        };
        let header: Vec<String> = match reader.headers() {
            Ok(header) => header.iter().map(String::from).collect(),
            Err(why) => return Err(error(top, why.to_string(), columns())),
        };
        if header.iter().any(|name| name.contains('\n')) {
            return Err(unended(row_line(&lines, 1)));
        }
        if header.iter().all(String::is_empty) {
            return Err(error(None, "the table is empty".into(), columns()));
        }
        if let Some(missing) = required.iter().find(|name| !header.iter().any(|h| h == **name)) {
            return Err(error(top, format!("there is no column \"{missing}\""), columns()));
        }
        for (at, name) in header.iter().enumerate() {
            let known = |names: &[&str]| names.contains(&name.as_str());
            if optional.is_some_and(|optional| !known(required) && !known(optional)) {
                let problem = format!("there is a column \"{name}\" that is not known");
                return Err(error(top, problem, columns()));
            }
            if header[..at].contains(name) {
                let problem = format!("the column \"{name}\" is there twice");
                return Err(error(top, problem, columns()));
            }
        }
        let mut rows = vec![];
        for record in reader.records() {
            match record {
                Ok(record) => {
                    let line = record.position().map_or(0, |position| position.line() as usize);
                    let line = row_line(&lines, line);
                    if record.iter().any(|field| field.contains('\n')) {
                        return Err(unended(line));
                    }
                    rows.push(TableRow { line, fields: record.iter().map(String::from).collect() });
                }
                Err(why) => {
                    let line =
                        why.position().map(|position| row_line(&lines, position.line() as usize));
                    let hint = "write one field for each column, and quote a field that has a \
                                comma in it";
                    return Err(error(line, row_problem(&why), hint.into()));
                }
            }
        }
        Ok(Self { file, header, rows })
    }

    pub(super) fn rows(&self) -> &[TableRow] {
        &self.rows
    }

    /// Returns the text in `column` of `row`; empty if the table has no such column.
    pub(super) fn text<'r>(&self, row: &'r TableRow, column: &str) -> &'r str {
        let at = self.header.iter().position(|name| name == column);
        at.and_then(|at| row.fields.get(at)).map_or("", String::as_str)
    }

    /// Returns the number in `column` of `row`, or an error if the text of the field is not a
    /// number.
    pub(super) fn number(&self, row: &TableRow, column: &str) -> Result<f64, FileError> {
        let text = self.text(row, column);
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.ok_or_else(|| {
            let problem = format!("\"{text}\" is not a number");
            self.error(row, column, problem, "write a plain decimal number".into())
        })
    }

    /// Creates an error about `column` of `row`.
    pub(super) fn error(
        &self,
        row: &TableRow,
        column: &str,
        problem: String,
        hint: String,
    ) -> FileError {
        FileError {
            file: self.file.into(),
            line: Some(row.line),
            field: Some(column.into()),
            problem,
            hint,
        }
    }
}

/// Describes the problem of a row that the CSV reader cannot read.
fn row_problem(why: &csv::Error) -> String {
    match why.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} fields, the header has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "the row is not valid UTF-8".into(),
        _ => why.to_string(),
    }
}

/// Returns the 1-based line of the first row at or after line `from`. It skips empty lines and
/// comments. This is necessary because the CSV reader reports, as the position of a row, the end of
/// the previous row.
fn row_line(lines: &[&str], from: usize) -> usize {
    let skipped = |line: &&&str| line.is_empty() || line.starts_with('#');
    from + lines.iter().skip(from.saturating_sub(1)).take_while(skipped).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_field_ends_on_its_line() {
        let read = |text: &str| Table::read("a.csv", text, &["a", "b"], None);
        let table = read("a,b\n1,\"x, y\"\n# comment\n2,\"z\"").unwrap();
        let rows = table.rows().iter();
        let found: Vec<_> = rows.map(|row| (row.line, table.text(row, "b"))).collect();
        assert_eq!(found, [(2, "x, y"), (4, "z")]);
        for (text, line) in [("a,b\n1,\"x\n2,y", 2), ("a,b\n1,x\n2,\"y", 3), ("a,\"b\n1,x", 1)] {
            let Err(error) = read(text) else { panic!("{text} is refused") };
            assert_eq!(error.line, Some(line), "{error}");
        }
    }
}
