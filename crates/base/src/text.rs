//! Text for people.
//!
//! Foreign text is made harmless: what an engine wrote may hold anything, and it reaches records,
//! terminals and comments on pull requests. Pages have `site`'s own escaping.
//!
//! Tables have aligned columns. Where a width is given, the last column is wrapped, so that no line
//! is wider.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, presets};
use std::borrow::Borrow;
use std::path::Path;

/// Format a duration in seconds: `14 s`, `23 min 12 s`.
pub fn lasted(s: u64) -> String {
    match (s / 60, s % 60) {
        (0, s) => format!("{s} s"),
        (minutes, s) => format!("{minutes} min {s} s"),
    }
}

/// List the first `max` of these names, and say how many more there are.
pub fn few<S: Borrow<str>>(names: &[S], max: usize, between: &str) -> String {
    let (named, others) = names.split_at(names.len().min(max));
    let named = named.join(between);
    match others.len() {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Remove terminal escapes, control characters, and marks that reverse the direction of the text
/// after them. Line breaks and tabs stay.
pub fn without_escapes(text: &str) -> String {
    let text = console::strip_ansi_codes(text);
    let is_harmless = |c: &char| match c {
        '\n' | '\t' => true,
        '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => false,
        c => !c.is_control(),
    };
    text.chars().filter(is_harmless).collect()
}

/// Clean a line that a program printed, as [`without_escapes`] does. Where the program overwrote
/// text after a carriage return, only the last version stays.
pub fn last_printed(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    without_escapes(text.trim_end().rsplit('\r').next().unwrap_or_default())
}

/// Clean text as [`without_escapes`] does, and put it in one line of at most `chars_max`
/// characters.
pub fn line(text: &str, chars_max: usize) -> String {
    let plain = without_escapes(text);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let head: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{head}…")
}

/// Quote a path for a POSIX shell, where it needs that, so that a printed command can be copied.
pub fn shell_word(path: &Path) -> String {
    let word = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=+,@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Format text as Markdown code, for a table's cell or elsewhere: nothing in it is markup, a link,
/// or somebody's name. Characters that would end the code or the cell are replaced, because
/// renderers disagree on how to escape them there.
pub fn markdown_code(text: &str, chars_max: usize) -> String {
    let line = line(text, chars_max).replace('`', "'").replace('|', "¦");
    match line.is_empty() {
        true => line,
        false => format!("`{line}`"),
    }
}

/// Format rows as a table: columns as wide as their widest cell, two spaces apart. A cell is one
/// line.
pub fn aligned<const COLUMNS: usize>(rows: impl IntoIterator<Item = [String; COLUMNS]>) -> String {
    fitted(rows, u16::MAX)
}

/// Widest line of what is printed (columns).
pub const WIDTH_MAX: u16 = 100;

/// Format rows as a table with two spaces between columns. The last column is wrapped, so that
/// lines have at most `width` columns where the columns before leave room for that.
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
    fn nothing_of_a_terminals_language_is_left() {
        let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[31mred\u{1b}[0m\u{8}\r\0 a\tb\nc\u{202e}d\u{9b}1mx\u{1b}";
        assert_eq!(without_escapes(hostile), "red a\tb\ncdx");
        assert_eq!(without_escapes("größer → 5 µs"), "größer → 5 µs");
        assert_eq!(
            last_printed(b"10 %\r20 %\x1b[K\r\xff \x1b[1mdone\r\n"),
            "\u{fffd} done"
        );
        assert_eq!(line(" a\n\n b\tc ", 10), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        let word = |path: &str| shell_word(Path::new(path));
        assert_eq!(word("/tmp/runs-2/a_b.c"), "/tmp/runs-2/a_b.c");
        assert_eq!(word("/tmp/sp ace/$x"), "'/tmp/sp ace/$x'");
        assert_eq!(word("it's;`x`"), r"'it'\''s;`x`'");
        assert_eq!(word("~"), "'~'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn nothing_is_markup_in_a_comment() {
        let hostile = "a`b` | <img src=x> @someone #1 ](javascript:x)\n\n# b ```";
        assert_eq!(
            markdown_code(hostile, 100),
            "`a'b' ¦ <img src=x> @someone #1 ](javascript:x) # b '''`"
        );
        assert_eq!(markdown_code(" \n", 10), "");
    }

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
