//! Writes the rows of a sweep as a Parquet file, with the types of the columns.

use interleaf_console::Failure;
use interleaf_record::sweep::{Column, ColumnKind};
use parquet::{
    basic::{LogicalType, Repetition, Type as PhysicalType},
    data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{properties::WriterProperties, writer::SerializedFileWriter},
    schema::types::Type,
};
use std::sync::Arc;

/// Converts `text`, the CSV file of a sweep whose columns are `columns`, to a Parquet file with the
/// same rows. An empty cell becomes null.
///
/// # Errors
/// When a cell does not have the type of its column.
pub fn file(columns: &[Column], text: &str) -> Result<Vec<u8>, Failure> {
    let rows: Result<Vec<csv::StringRecord>, csv::Error> =
        csv::Reader::from_reader(text.as_bytes()).into_records().collect();
    let rows = rows.map_err(|why| failure(&why.to_string()))?;
    written(columns, &rows).map_err(|why| failure(&why.to_string()))
}

fn failure(problem: &str) -> Failure {
    Failure::new(format!("the rows cannot be written as Parquet: {problem}"), "use the CSV file")
}

fn written(columns: &[Column], rows: &[csv::StringRecord]) -> Result<Vec<u8>, ParquetError> {
    let fields: Result<Vec<_>, _> = columns.iter().map(|it| field(*it).map(Arc::new)).collect();
    let schema = Type::group_type_builder("sweep").with_fields(fields?).build()?;
    let mut file = vec![];
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(&mut file, Arc::new(schema), properties)?;
    let mut group = writer.next_row_group()?;
    for (at, column) in columns.iter().enumerate() {
        let Some(mut cells) = group.next_column()? else { break };
        let texts = || rows.iter().map(|row| row.get(at).unwrap_or_default());
        // The definition level of Parquet is 1 for a cell with a value, and 0 for a null.
        let levels: Vec<i16> = texts().map(|text| i16::from(!text.is_empty())).collect();
        let present = texts().filter(|text| !text.is_empty());
        match column.kind {
            ColumnKind::Whole => {
                let values = parsed::<i64>(column.name, present)?;
                cells.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnKind::Number => {
                let values = parsed::<f64>(column.name, present)?;
                cells.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            ColumnKind::Text => {
                let values: Vec<ByteArray> = present.map(ByteArray::from).collect();
                cells.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        cells.close()?;
    }
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn field(column: Column) -> Result<Type, ParquetError> {
    let (kind, logical) = match column.kind {
        ColumnKind::Whole => (PhysicalType::INT64, None),
        ColumnKind::Number => (PhysicalType::DOUBLE, None),
        ColumnKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
    };
    Type::primitive_type_builder(column.name, kind)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

fn parsed<'a, T: std::str::FromStr>(
    column: &str,
    texts: impl Iterator<Item = &'a str>,
) -> Result<Vec<T>, ParquetError> {
    let number = |text: &str| {
        let problem = || ParquetError::General(format!("{column}: {text} is not a number"));
        text.parse().map_err(|_| problem())
    };
    texts.map(number).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use interleaf_record::sweep::{dimm::COLUMNS, header};
    use parquet::{file::reader::SerializedFileReader, record::RowAccessor};
    use std::io::Write as _;

    const ROW: &str = "7,\"a, b\",m,,16Gb,x4,2,stream,288,65.0,adaptive,\
                       all-bank,100000,1,R,,80.5,0.8,200.5,190,400,500,0.5,,5.5,23.0,a,b";

    fn file_of(row: &str) -> Result<Vec<u8>, Failure> {
        file(&COLUMNS, &format!("{}\n{row}\n{row}\n", header(&COLUMNS)))
    }

    #[test]
    fn cells_are_read_back_with_their_types() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&file_of(ROW).unwrap()).unwrap();
        let rows = SerializedFileReader::new(file).unwrap().into_iter();
        let rows: Vec<_> = rows.map(Result::unwrap).collect();
        assert_eq!(rows.len(), 2);
        let at = |name: &str| COLUMNS.iter().position(|column| column.name == name).unwrap();
        assert_eq!(rows[1].get_long(at("case")).unwrap(), 7);
        assert_eq!(rows[1].get_string(at("device")).unwrap(), "a, b");
        assert!(rows[1].get_string(at("server")).is_err(), "an empty cell is null");
        assert!(rows[1].get_double(at("offered_gbps")).is_err());
        assert_eq!(rows[1].get_double(at("bandwidth_gbps")).unwrap(), 80.5);
        assert_eq!(rows[1].get_long(at("latency_p99_9_ns")).unwrap(), 500);
    }

    #[test]
    fn a_cell_of_another_type_is_an_error() {
        let Failure::Error { problem, .. } = file_of(&ROW.replace("80.5", "fast")).unwrap_err()
        else {
            panic!("an error")
        };
        assert!(problem.ends_with("bandwidth_gbps: fast is not a number"), "{problem}");
    }
}
