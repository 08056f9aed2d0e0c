//! Escapes text, and makes names safe for paths, so that a hostile record can neither become markup
//! nor leave the output directory.

/// Escape a text and print what stands between backticks as code; backticks without a partner stay.
pub fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escape(text);
    }
    let print = |(i, part): (usize, &&str)| match i % 2 {
        0 => escape(part),
        _ => format!("<code>{}</code>", escape(part)),
    };
    parts.iter().enumerate().map(print).collect()
}

/// Replace the five characters that mean something in HTML, and make control characters visible.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Turn an id into one path component and fragment: an id that passed the schema's check stays as
/// it is; of any other, each byte that is not allowed is written in hexadecimal.
pub fn slug(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for (index, byte) in id.bytes().enumerate() {
        let plain = byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_+-".contains(&byte);
        if plain || (byte == b'.' && index > 0) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("-{byte:02X}"));
        }
    }
    if out.is_empty() { "-".into() } else { out }
}

/// Cut `text` to at most `chars` characters, with an ellipsis where it was cut.
pub fn shorten(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let head: String = text.chars().take(chars.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_does_not_survive() {
        assert_eq!(
            escape("<b a='x' c=\"y\">&\u{0}"),
            "&lt;b a=&#39;x&#39; c=&quot;y&quot;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn what_stands_between_backticks_is_code() {
        assert_eq!(with_code("`a<b` or c"), "<code>a&lt;b</code> or c");
        assert_eq!(with_code("a ` b"), "a ` b");
    }

    #[test]
    fn a_slug_never_leaves_its_directory_and_keeps_valid_ids() {
        assert_eq!(slug("pytorch+opt.cpu.bf16"), "pytorch+opt.cpu.bf16");
        assert_eq!(slug("../../x"), "-2E.-2F..-2Fx");
        assert_eq!(slug(""), "-");
        assert_ne!(slug("A"), slug("a"));
        for hostile in ["..", ".", "/etc", "a/b", "a\\b", "a b", "é"] {
            let slug = slug(hostile);
            assert!(!slug.contains(['/', '\\', ' ']) && !slug.starts_with('.'));
        }
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("äöüß", 4), "äöüß");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}
