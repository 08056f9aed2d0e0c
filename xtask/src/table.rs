//! A table for the terminal.

use comfy_table::{Table, presets};

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
