//! Splits Rust source into tokens for a few rules, and leaves out comments and tests.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Return the names, literals, brackets and punctuation characters of a file, in order. Comments
/// and items with `#[cfg(test)]` are left out; a doc comment is the literal of a `#[doc]`. Fails
/// on text that is no Rust, such as a bracket that is not closed.
pub fn tokens(name: &str, text: &str) -> Result<Vec<String>> {
    // The error can't be handed on as it is: it isn't `Send`.
    let stream = text.parse::<TokenStream>();
    let stream = stream.map_err(|error| anyhow!("{name}: {error}"))?;
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    Ok(tokens)
}

fn flatten(stream: TokenStream, tokens: &mut Vec<String>) {
    let mut trees = stream.into_iter();
    while let Some(tree) = trees.next() {
        let TokenTree::Group(group) = tree else {
            tokens.push(tree.to_string());
            continue;
        };
        let is_attribute = tokens.last().is_some_and(|last| last == "#");
        if is_attribute && group.stream().to_string() == "cfg (test)" {
            tokens.pop();
            trees.find(ends_item);
            continue;
        }
        let (open, close) = match group.delimiter() {
            Delimiter::Parenthesis => ("(", ")"),
            Delimiter::Bracket => ("[", "]"),
            Delimiter::Brace => ("{", "}"),
            Delimiter::None => ("", ""),
        };
        tokens.push(open.to_owned());
        flatten(group.stream(), tokens);
        tokens.push(close.to_owned());
    }
}

/// Tell whether a token is an item's last one: its semicolon or its body in braces.
fn ends_item(tree: &TokenTree) -> bool {
    match tree {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Ident(_) | TokenTree::Literal(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_tests_are_left_out_and_literals_are_whole() {
        for (text, expected) in [
            ("a /* b /* c */ d */ e // f", "a e"),
            (r#""a \" b" c '"' '\'' d"#, r#""a \" b" c '"' '\'' d"#),
            (r##"br"a" r#"b " c"# d"e""##, r##"br"a" r#"b " c"# d "e""##),
            ("'a: &'b str;", "' a : & ' b str ;"),
            ("use a_1::{b, *};", "use a_1 : : { b , * } ;"),
            ("a #[cfg(test)] mod b; c", "a c"),
            ("a #[cfg(test)] mod b { fn c() { d } } e", "a e"),
            ("a #[cfg(test)] fn b(c: [u8; 2]) { d } e", "a e"),
            ("\"#[cfg(test)]\" a; b", "\"#[cfg(test)]\" a ; b"),
        ] {
            assert_eq!(tokens("x.rs", text).unwrap().join(" "), expected);
        }
    }

    #[test]
    fn text_that_is_no_rust_is_an_error_with_the_file_s_name() {
        let error = tokens("x.rs", "a { b").unwrap_err();
        assert!(error.to_string().starts_with("x.rs: "), "{error}");
    }
}
