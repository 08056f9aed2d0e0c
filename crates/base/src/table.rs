//! Tables for people to read: columns aligned, and where a width is given the last one
//! wrapped, so that no line is wider.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};

/// Rows with their columns padded to the widest, two spaces apart. A cell is a line.
pub fn aligned<const COLUMNS: usize>(rows: impl IntoIterator<Item = [String; COLUMNS]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    match table.row_count() {
        0 => String::new(),
        _ => table.trim_fmt() + "\n",
    }
}

/// Widest line of what is printed.
pub const WIDTH_MAX: u16 = 100;

/// The rows under each other, two blanks between columns, in lines of at most `width` where
/// the columns before the last leave room for that.
pub fn fitted<R: Into<Row>>(rows: impl IntoIterator<Item = R>, width: u16) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .add_rows(rows);
    let last = table.column_count().saturating_sub(1);
    for (index, column) in table.column_iter_mut().enumerate() {
        let gap = if index < last { 2 } else { 0 };
        column.set_padding((0, gap));
        if index < last {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    match table.row_count() {
        0 => String::new(),
        _ => table.trim_fmt() + "\n",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_no_line_ends_in_blanks() {
        let rows = [["id", "n", "about"], ["a-long-one", "12", ""]];
        let text = fitted(rows, WIDTH_MAX);
        assert_eq!(text, "id          n   about\na-long-one  12\n");
        assert_eq!(fitted::<[String; 3]>([], WIDTH_MAX), "");
    }

    #[test]
    fn the_last_column_alone_is_wrapped_and_stays_under_itself() {
        let long = "word ".repeat(40);
        let text = fitted([["a name", "b", long.trim()]], WIDTH_MAX);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= 100), "{text}");
        assert!(lines[0].starts_with("a name  b  word word"), "{text}");
        assert!(lines[0].len() > 95, "a line is filled: {text}");
        assert!(lines[1].starts_with("           word"), "{text}");
        assert_eq!(text.matches("word").count(), 40);
    }
}
