//! Text of others, made harmless: what an engine wrote may hold anything, and it reaches
//! records, terminals and comments on pull requests. Pages have `site`'s own escaping.

/// Without terminal escapes, control characters, and marks that reverse the direction of
/// what follows; lines and tabs stay.
pub fn plain(text: &str) -> String {
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

/// The same of a line that a program printed. What it drew over itself counts as it was left.
pub fn said(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    plain(text.trim_end().rsplit('\r').next().unwrap_or_default())
}

/// The same in one line of at most so many characters.
pub fn line(text: &str, chars_max: usize) -> String {
    let plain = plain(text);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= chars_max {
        return line;
    }
    let head: String = line.chars().take(chars_max.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The same as Markdown, in a table's cell or elsewhere: as code, in which nothing is markup,
/// a link, or somebody's name. What would end the code or the cell is replaced, because
/// renderers disagree on how to escape it there.
pub fn code(text: &str, chars_max: usize) -> String {
    let line = line(text, chars_max).replace('`', "'").replace('|', "¦");
    match line.is_empty() {
        true => line,
        false => format!("`{line}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_terminals_language_is_left() {
        let hostile = "\u{1b}[2J\u{1b}]0;title\u{7}\u{1b}[31mred\u{1b}[0m\u{8}\r\0 a\tb\nc\u{202e}d\u{9b}1mx\u{1b}";
        assert_eq!(plain(hostile), "red a\tb\ncdx");
        assert_eq!(plain("größer → 5 µs"), "größer → 5 µs");
        assert_eq!(
            said(b"10 %\r20 %\x1b[K\r\xff \x1b[1mdone\r\n"),
            "\u{fffd} done"
        );
        assert_eq!(line(" a\n\n b\tc ", 10), "a b c");
        assert_eq!(line("abcdef", 4), "abc…");
    }

    #[test]
    fn nothing_is_markup_in_a_comment() {
        let hostile = "a`b` | <img src=x> @someone #1 ](javascript:x)\n\n# b ```";
        assert_eq!(
            code(hostile, 100),
            "`a'b' ¦ <img src=x> @someone #1 ](javascript:x) # b '''`"
        );
        assert_eq!(code(" \n", 10), "");
    }
}
