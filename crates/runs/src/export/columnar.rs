//! Writes rows as Parquet, for queries over many runs. Only with the feature `parquet`, which is
//! off by default because the library takes too long to compile.

use anyhow::{Context, Result};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;
use site::export::COLUMNS;
use std::sync::Arc;

/// The columns of optional numbers. `n` is a count that is always there; all others are text.
const NUMBERS: [&str; 3] = ["value", "ci_low", "ci_high"];

/// Write one file with one row group: the columns of the CSV under their names.
pub(super) fn parquet(rows: &[Value]) -> Result<Vec<u8>> {
    let fields = COLUMNS.map(|(column, _)| match column {
        "n" => "REQUIRED INT64 n;".to_owned(),
        _ if NUMBERS.contains(&column) => format!("OPTIONAL DOUBLE {column};"),
        _ => format!("REQUIRED BYTE_ARRAY {column} (UTF8);"),
    });
    let schema = parse_message_type(&format!("message rows {{ {} }}", fields.join(" ")))?;
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), properties)?;
    let mut group = file.next_row_group()?;
    for (column, _) in COLUMNS {
        let values = rows.iter().map(|row| &row[column]);
        let mut to = group
            .next_column()?
            .context("the schema has every column")?;
        match column {
            "n" => {
                let values: Vec<i64> = values.filter_map(Value::as_i64).collect();
                to.typed::<Int64Type>().write_batch(&values, None, None)?;
            }
            _ if NUMBERS.contains(&column) => {
                let defined: Vec<i16> = values.clone().map(|v| v.is_number().into()).collect();
                let values: Vec<f64> = values.filter_map(Value::as_f64).collect();
                let to = to.typed::<DoubleType>();
                to.write_batch(&values, Some(&defined), None)?;
            }
            _ => {
                let text = |value: &Value| ByteArray::from(value.as_str().unwrap_or_default());
                let values: Vec<ByteArray> = values.map(text).collect();
                to.typed::<ByteArrayType>()
                    .write_batch(&values, None, None)?;
            }
        }
        to.close()?;
    }
    group.close()?;
    Ok(file.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::io::Write;

    #[test]
    fn every_row_comes_back() {
        let row = |reason: &str, value: Value| {
            let mut row = Value::Object(
                COLUMNS
                    .map(|(c, _)| (c.to_owned(), "x".into()))
                    .into_iter()
                    .collect(),
            );
            row["n"] = 20.into();
            row["value"] = value;
            row["ci_low"] = Value::Null;
            row["ci_high"] = 1.5.into();
            row["reason"] = reason.into();
            row
        };
        let bytes = parquet(&[row("", 2.5.into()), row("größer", Value::Null)]).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let file = SerializedFileReader::new(file).unwrap();
        let rows: Vec<String> = file
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().to_string())
            .collect();
        assert_eq!(rows.len(), 2);
        assert!(
            rows[0].contains("value: 2.5") && rows[1].contains("value: null"),
            "{rows:?}"
        );
        assert!(
            rows[1].contains("größer") && rows[1].contains("n: 20"),
            "{rows:?}"
        );
    }
}
