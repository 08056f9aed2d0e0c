//! Preprocesses Rust source for a few rules: removes comments, contents of strings and tests, and
//! splits the rest into tokens. It is no parser: everything else is passed over.

/// Return the code alone: comments are removed, strings and characters are emptied.
pub fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            comment(rest)
        } else if let Some(length) = raw_string(rest, code.chars().next_back()) {
            length
        } else if first == '"' {
            string(rest)
        } else if first == '\'' {
            character(rest)
        } else {
            0
        };
        let taken = match skipped {
            0 => {
                code.push(first);
                first.len_utf8()
            }
            skipped => {
                code.push(' ');
                skipped
            }
        };
        rest = &rest[taken..];
    }
    code
}

/// Return code without its test modules.
pub fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        kept.push_str(&rest[..at]);
        rest = &rest[at + "#[cfg(test)]".len()..];
        rest = &rest[item(rest)..];
    }
    kept + rest
}

/// Return the length of the first item, which ends at its semicolon or closing brace.
fn item(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, letter) in code.char_indices() {
        match letter {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Split code into names, `::` and single characters.
pub fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("::") {
            2
        } else if is_letter(first) {
            rest.find(|c| !is_letter(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, others) = rest.split_at(length);
        tokens.push(token);
        rest = others.trim_start();
    }
    tokens
}

/// Tell whether a token is a name.
pub fn is_name(token: &str) -> bool {
    token.chars().all(is_letter) && !token.starts_with(|c: char| c.is_ascii_digit())
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Return the length of a block comment, with the comments nested in it.
fn comment(text: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Return the length of a raw string; `None` where none begins here.
fn raw_string(text: &str, before: Option<char>) -> Option<usize> {
    let inside = text.strip_prefix('r')?;
    let hashes = inside.len() - inside.trim_start_matches('#').len();
    // `b` belongs to the string; after any other letter, `r` is the end of a name.
    if before.is_some_and(|c| is_letter(c) && c != 'b') || !inside[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 1;
    let closed = inside[body..].find(&end)?;
    Some(1 + body + closed + end.len())
}

/// Return the length of a string.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Return the length of a character literal; 0 where a lifetime begins.
fn character(text: &str) -> usize {
    let inside = &text[1..];
    if let Some(escape) = inside.strip_prefix('\\') {
        // The escaped letter may be a quote.
        let first = escape.chars().next().map_or(0, char::len_utf8);
        return escape[first..]
            .find('\'')
            .map_or(0, |end| 2 + first + end + 1);
    }
    let letter = inside.chars().next().map_or(0, char::len_utf8);
    match inside[letter..].starts_with('\'') {
        true => 1 + letter + 1,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_gone_and_code_stays() {
        let text = r##"a /* b /* c */ d */ e "f \" g" h 'i' '\'' 'j: &'k str; br"l" r#"m " n"# var"o" // p"##;
        let words: Vec<String> = code(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["a", "e", "h", "'j:", "&'k", "str;", "b", "var"]);
    }

    #[test]
    fn a_test_module_goes_and_what_follows_it_stays() {
        let kept =
            without_tests("a #[cfg(test)] mod tests; b #[cfg(test)] mod x { fn f() { g } } c");
        let words: Vec<&str> = kept.split_whitespace().collect();
        assert_eq!(words, ["a", "b", "c"]);
    }

    #[test]
    fn tokens_are_names_paths_and_the_rest() {
        assert_eq!(
            tokens("use a_1::{b, *};"),
            ["use", "a_1", "::", "{", "b", ",", "*", "}", ";"]
        );
        assert!(is_name("a_1") && !is_name("1a") && !is_name("{"));
    }
}
