//! The little Markdown that authored texts use, rendered safely: paragraphs,
//! headings, lists, fenced code, `code`, *emphasis*, **strength** and links.
//!
//! Raw HTML is text here, and a link goes only to http(s) or to a relative
//! address: a scenario's author can explain, not script. A full Markdown library
//! would bring what we would then have to switch off.

use crate::html::{escape, slug};

/// Render `text`; a first-level heading becomes `<h{level}>`.
pub fn render(text: &str, level: usize) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        if let Some(heading) = heading(trimmed) {
            let rank = (level + heading.0 - 1).min(6);
            let words = heading.1;
            let id = slug(&words.to_lowercase().replace(' ', "-"));
            out.push_str(&format!(
                "<h{rank} id=\"{id}\">{}</h{rank}>\n",
                inline(words)
            ));
        } else if trimmed.starts_with("```") {
            let mut code = String::new();
            for line in lines.by_ref() {
                if line.trim().starts_with("```") {
                    break;
                }
                code.push_str(line);
                code.push('\n');
            }
            out.push_str(&format!(
                "<pre tabindex=\"0\"><code>{}</code></pre>\n",
                escape(&code)
            ));
        } else if let Some(ordered) = list_item(trimmed).map(|(ordered, _)| ordered) {
            let tag = if ordered { "ol" } else { "ul" };
            let mut items = vec![list_item(trimmed).map_or("", |(_, text)| text).to_owned()];
            while let Some(next) = lines.peek().map(|line| line.trim()) {
                match list_item(next) {
                    Some((kind, text)) if kind == ordered => items.push(text.to_owned()),
                    None if !next.is_empty() => {
                        if let Some(item) = items.last_mut() {
                            item.push(' ');
                            item.push_str(next);
                        }
                    }
                    _ => break,
                }
                lines.next();
            }
            out.push_str(&format!("<{tag}>\n"));
            for item in items {
                out.push_str(&format!("<li>{}</li>\n", inline(&item)));
            }
            out.push_str(&format!("</{tag}>\n"));
        } else {
            let mut paragraph = trimmed.to_owned();
            while let Some(next) = lines.peek().map(|line| line.trim()) {
                let ends = next.is_empty()
                    || heading_like(next)
                    || next.starts_with("```")
                    || list_item(next).is_some();
                if ends {
                    break;
                }
                paragraph.push(' ');
                paragraph.push_str(next);
                lines.next();
            }
            out.push_str(&format!("<p>{}</p>\n", inline(&paragraph)));
        }
    }
    out
}

fn heading_like(line: &str) -> bool {
    heading(line).is_some()
}

fn heading(line: &str) -> Option<(usize, &str)> {
    let rank = line.bytes().take_while(|&b| b == b'#').count();
    let text = line[rank..].strip_prefix(' ')?;
    (1..=6).contains(&rank).then(|| (rank, text.trim()))
}

/// Whether the item is of an ordered list, and its text.
fn list_item(line: &str) -> Option<(bool, &str)> {
    if let Some(text) = line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")) {
        return Some((false, text));
    }
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let text = line[digits..].strip_prefix(". ")?;
    (1..=3).contains(&digits).then_some((true, text))
}

/// One line of text with its spans.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        out.push_str(&escape(&rest[..at]));
        rest = &rest[at..];
        let (html, used) = span(rest).unwrap_or_else(|| (escape(&rest[..1]), 1));
        out.push_str(&html);
        rest = &rest[used..];
    }
    out.push_str(&escape(rest));
    out
}

/// The span at the start of `text` and how many bytes it takes.
fn span(text: &str) -> Option<(String, usize)> {
    if let Some(rest) = text.strip_prefix('`') {
        let end = rest.find('`')?;
        return Some((format!("<code>{}</code>", escape(&rest[..end])), end + 2));
    }
    for (mark, tag) in [("**", "strong"), ("*", "em")] {
        if let Some(rest) = text.strip_prefix(mark) {
            let end = rest.find(mark).filter(|&end| end > 0)?;
            if rest.starts_with(' ') {
                return None;
            }
            let inner = inline(&rest[..end]);
            return Some((format!("<{tag}>{inner}</{tag}>"), end + 2 * mark.len()));
        }
    }
    let rest = text.strip_prefix('[')?;
    let close = rest.find("](")?;
    let end = close + 2 + rest[close + 2..].find(')')?;
    let href = &rest[close + 2..end];
    let label = inline(&rest[..close]);
    let html = match safe_href(href) {
        true => format!("<a href=\"{}\">{label}</a>", escape(href)),
        false => label,
    };
    Some((html, end + 2))
}

/// Whether an address may stand in a link: http(s), or relative without a scheme.
pub fn safe_href(href: &str) -> bool {
    let http = href.starts_with("https://") || href.starts_with("http://");
    let relative = !href.contains(':') && !href.starts_with("//") && !href.contains('\\');
    !href.is_empty() && (http || relative) && !href.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks() {
        let html = render(
            "# Title\n\nOne\ntwo.\n- a\n  more\n- b\n\n1. x\n2. y\n\n```\n<b>\n```\n",
            2,
        );
        assert_eq!(
            html,
            "<h2 id=\"title\">Title</h2>\n<p>One two.</p>\n<ul>\n<li>a more</li>\n<li>b</li>\n</ul>\n\
             <ol>\n<li>x</li>\n<li>y</li>\n</ol>\n<pre tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>\n"
        );
    }

    #[test]
    fn spans() {
        assert_eq!(
            inline("a `b*c*` *d* **e** [f](https://g.example) 2 * 3"),
            "a <code>b*c*</code> <em>d</em> <strong>e</strong> <a href=\"https://g.example\">f</a> 2 * 3"
        );
    }

    #[test]
    fn nothing_executes() {
        let html = render(
            "<script>x</script> [a](javascript:alert) [b](//evil) [c](\"onclick=) `</code>`",
            2,
        );
        assert!(!html.contains("<script") && !html.contains("href=\"javascript"));
        assert!(!html.contains("href=\"//") && !html.contains("\"\""));
        assert!(html.contains("<code>&lt;/code&gt;</code>"));
    }

    #[test]
    fn unfinished_spans_are_text() {
        for text in ["*", "**", "`", "[a", "[a](", "[a](b", "a*", "é*é"] {
            assert_eq!(inline(text), escape(text));
        }
    }
}
