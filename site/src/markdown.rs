//! Renders authored texts as HTML: CommonMark by `pulldown-cmark`, without what an author must not
//! use here. Raw HTML becomes text, an image becomes its words, and a link goes only to http(s) or
//! to a relative address, so that a scenario's author can't bring a script in.

use crate::html::slug;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd, html};

/// Render `text` as HTML; a first-level heading becomes `<h{level}>`.
pub fn render(text: &str, level: usize) -> String {
    let is_bad = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    let text = text.replace(is_bad, "\u{fffd}");
    let mut events: Vec<Event> = Vec::new();
    // Where the open heading began, and whether the open link is kept.
    let (mut heading, mut is_link) = (0, false);
    for event in Parser::new(&text) {
        let event = match event {
            Event::Html(html) | Event::InlineHtml(html) => Event::Text(html),
            Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
            Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
            Event::SoftBreak => Event::Text(" ".into()),
            // A tabindex lets readers scroll the block by keys, without a mouse.
            Event::Start(Tag::CodeBlock(_)) => Event::Html("<pre tabindex=\"0\"><code>".into()),
            Event::End(TagEnd::CodeBlock) => Event::Html("</code></pre>\n".into()),
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => continue,
            Event::Start(Tag::Link { ref dest_url, .. }) => {
                is_link = safe_href(dest_url);
                match is_link {
                    true => event,
                    false => continue,
                }
            }
            Event::End(TagEnd::Link) if !is_link => continue,
            Event::Start(Tag::Heading { .. }) => {
                heading = events.len();
                event
            }
            Event::End(TagEnd::Heading(rank)) => {
                let rank = (level + rank as usize - 1).min(6);
                let rank = HeadingLevel::try_from(rank).unwrap_or(HeadingLevel::H6);
                let id = slug(&words(&events[heading..]).to_lowercase().replace(' ', "-"));
                events[heading] = Event::Start(Tag::Heading {
                    level: rank,
                    id: Some(id.into()),
                    classes: Vec::new(),
                    attrs: Vec::new(),
                });
                Event::End(TagEnd::Heading(rank))
            }
            event => event,
        };
        events.push(event);
    }
    let mut out = String::new();
    html::push_html(&mut out, events.into_iter());
    out
}

/// The text of some events, without their markup.
fn words(events: &[Event]) -> String {
    let word = |event: &Event| match event {
        Event::Text(text) | Event::Code(text) => text.to_string(),
        _ => String::new(),
    };
    events.iter().map(word).collect()
}

/// Whether an address may be linked to: http(s), or relative without a scheme.
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
            "# A `title`\n\nOne\ntwo.\n- a\n  more\n- b\n\n1. x\n2. y\n\n```sh\n<b>\n```\n",
            2,
        );
        assert_eq!(
            html,
            "<h2 id=\"a-title\">A <code>title</code></h2>\n<p>One two.</p>\n<ul>\n<li>a more</li>\n<li>b</li>\n</ul>\n\
             <ol>\n<li>x</li>\n<li>y</li>\n</ol>\n<pre tabindex=\"0\"><code>&lt;b&gt;\n</code></pre>\n"
        );
        assert_eq!(render("##### x", 4), "<h6 id=\"x\">x</h6>\n");
    }

    #[test]
    fn spans() {
        assert_eq!(
            render("a `b*c*` *d* **e** [f](https://g.example) 2 * 3 `[h`", 2),
            "<p>a <code>b*c*</code> <em>d</em> <strong>e</strong> <a href=\"https://g.example\">f</a> 2 * 3 <code>[h</code></p>\n"
        );
    }

    #[test]
    fn nothing_executes() {
        let html = render(
            "x <script>x</script> [a](javascript:alert) [b](//evil) [c](\"onclick=) `</code>`\n\n\
             <img src=x onerror=alert(1)>\n\n![d](https://e.example/x.png) <javascript:x> [f](g.html \"<h>\")\n\n\
             <div>\n\n[i]\n\n[i]: javascript:alert\n\u{1b}[31m",
            2,
        );
        for tag in [
            "<script",
            "<img",
            "<div",
            "\u{1b}",
            "href=\"javascript",
            "href=\"//",
        ] {
            assert!(!html.contains(tag), "{tag} in {html}");
        }
        assert!(html.contains("<code>&lt;/code&gt;</code>"), "{html}");
        assert!(
            html.contains("&lt;img src=x onerror=alert(1)&gt;"),
            "{html}"
        );
        assert!(
            html.contains("<a href=\"g.html\" title=\"&lt;h&gt;\">f</a>"),
            "{html}"
        );
        assert!(html.contains("<a href=\"%22onclick=\">c</a>"), "{html}");
        assert_eq!(html.matches("<a ").count(), 2, "{html}");
    }
}
