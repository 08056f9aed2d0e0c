//! Reads this site's own HTML, enough to check what every page of any site must hold: tags balance,
//! ids are unique, links lead somewhere, numbers are finite, and pages are small enough. It is no
//! parser for HTML in general.
#![allow(dead_code)] // Each test program uses its own part.

use crate::common::{World, render};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// A start tag and its attributes, unescaped.
#[derive(Clone, Debug)]
pub struct Tag {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
}

/// The contents of a page.
pub struct Page {
    pub tags: Vec<Tag>,
    /// All text between tags, unescaped.
    pub text: String,
    ids: OnceCell<BTreeSet<String>>,
}

const VOID: [&str; 6] = ["meta", "link", "br", "img", "input", "hr"];

/// Read a page; panic with the place where tags do not balance.
pub fn read(path: &str, html: &str) -> Page {
    let mut page = Page {
        tags: Vec::new(),
        text: String::new(),
        ids: OnceCell::new(),
    };
    let mut open: Vec<String> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.text.push_str(&unescape(&rest[..at]));
        page.text.push(' ');
        rest = &rest[at + 1..];
        let end = tag_end(rest).unwrap_or_else(|| panic!("{path}: unclosed tag at {:.60}", rest));
        let inner = &rest[..end];
        rest = &rest[end + 1..];
        if inner.starts_with("!doctype") {
            continue;
        }
        if let Some(name) = inner.strip_prefix('/') {
            let last = open.pop();
            assert_eq!(
                last.as_deref(),
                Some(name),
                "{path}: </{name}> closes {last:?}"
            );
            continue;
        }
        let (inner, closed) = match inner.strip_suffix('/') {
            Some(inner) => (inner, true),
            None => (inner, false),
        };
        let tag = read_tag(path, inner);
        if !closed && !VOID.contains(&tag.name.as_str()) {
            open.push(tag.name.clone());
        }
        page.tags.push(tag);
    }
    assert!(open.is_empty(), "{path}: never closed: {open:?}");
    page
}

/// Find the end of a tag: `>` outside quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'>' if !quoted => return Some(index),
            _ => {}
        }
    }
    None
}

fn read_tag(path: &str, inner: &str) -> Tag {
    let (name, mut rest) = match inner.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim()),
        None => (inner, ""),
    };
    let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
    assert!(plain, "{path}: <{inner}> is no tag");
    let mut attributes = BTreeMap::new();
    while !rest.is_empty() {
        let (key, after) = rest
            .split_once("=\"")
            .unwrap_or_else(|| panic!("{path}: <{inner}>"));
        let (value, after) = after
            .split_once('"')
            .unwrap_or_else(|| panic!("{path}: <{inner}>"));
        let twice = attributes.insert(key.to_owned(), unescape(value));
        assert!(twice.is_none(), "{path}: {key} twice in <{inner}>");
        rest = after.trim_start();
    }
    Tag {
        name: name.to_owned(),
        attributes,
    }
}

/// Replace the entities in a text; panic on a bare `&`.
pub fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let (entity, after) = rest[at + 1..]
            .split_once(';')
            .expect("an entity ends in ';'");
        out.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            "#160" => '\u{a0}',
            other => panic!("entity &{other};"),
        });
        rest = after;
    }
    out.push_str(rest);
    out
}

impl Page {
    /// All ids of the page; panics where one stands twice.
    pub fn ids(&self, path: &str) -> &BTreeSet<String> {
        self.ids.get_or_init(|| {
            let mut ids = BTreeSet::new();
            for id in self.tags.iter().filter_map(|tag| tag.attributes.get("id")) {
                assert!(ids.insert(id.clone()), "{path}: id {id:?} stands twice");
            }
            ids
        })
    }

    /// All addresses in `href` and `src` attributes.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().flat_map(|tag| {
            ["href", "src"]
                .into_iter()
                .filter_map(|key| tag.attributes.get(key).map(String::as_str))
        })
    }
}

/// Resolve a relative address on the page `from` to a path in the site and a fragment.
pub fn resolve(from: &str, href: &str) -> (String, Option<String>) {
    let (path, fragment) = match href.split_once('#') {
        Some((path, fragment)) => (path, Some(fragment.to_owned())),
        None => (href, None),
    };
    if path.is_empty() {
        return (from.to_owned(), fragment);
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => {
                parts.pop().expect("a link must not leave the site");
            }
            part => parts.push(part),
        }
    }
    (parts.join("/"), fragment)
}

/// The files of a rendered site, by path.
pub type Pages = BTreeMap<String, Vec<u8>>;

/// The HTML of a page.
pub fn html_of<'a>(pages: &'a Pages, path: &str) -> &'a str {
    std::str::from_utf8(&pages[path]).expect("UTF-8")
}

/// The text of a page, without tags.
pub fn text_of(pages: &Pages, path: &str) -> String {
    read(path, html_of(pages, path)).text
}

/// The text of a page, without tags, and with all whitespace reduced to one space.
pub fn words_of(pages: &Pages, path: &str) -> String {
    let text = text_of(pages, path);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The HTML of one page of the world's site. Whoever reads several pages renders the site once.
pub fn page(world: &World, path: &str) -> String {
    html_of(&render(world), path).to_owned()
}

/// The text of one page of the world's site, as [`words_of`] returns it.
pub fn words(world: &World, path: &str) -> String {
    words_of(&render(world), path)
}

/// The HTML of the world's first run's page.
pub fn run_page(world: &World) -> String {
    page(world, &format!("run/{}.html", world.runs[0].header.id))
}

/// Check that a text has each of these parts.
#[track_caller]
pub fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "it does not say {part:?}:\n{text}");
    }
}

/// Check that a text has none of these parts.
#[track_caller]
pub fn lacks(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(!text.contains(part), "it says {part:?}:\n{text}");
    }
}

/// The part of a text that follows the first `from`, up to the next `to`.
#[track_caller]
pub fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let Some((_, rest)) = text.split_once(from) else {
        panic!("there is no {from:?}:\n{text}");
    };
    let Some((part, _)) = rest.split_once(to) else {
        panic!("there is no {to:?} after {from:?}:\n{text}");
    };
    part
}

/// The texts of all table cells of a page, row by row.
pub fn rows(html: &str) -> Vec<Vec<String>> {
    html.split("<tr")
        .skip(1)
        .map(|row| {
            let row = row.split("</tr>").next().unwrap();
            row.split("<t")
                .skip(1)
                .map(|cell| {
                    let cell = cell.split_once('>').unwrap().1;
                    let cell = cell.split("</t").next().unwrap();
                    let mut text = String::new();
                    for part in cell.split('<') {
                        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
                    }
                    unescape(&text)
                })
                .collect()
        })
        .collect()
}

/// Path and HTML of every page.
pub fn texts(pages: &Pages) -> impl Iterator<Item = (&str, &str)> {
    pages
        .iter()
        .filter(|(path, _)| path.ends_with(".html"))
        .map(|(path, bytes)| (path.as_str(), std::str::from_utf8(bytes).expect("UTF-8")))
}

/// Render the world's site, and check everything that must hold for any.
pub fn checked(world: &World) -> Pages {
    let pages = render(world);
    check(&pages);
    pages
}

/// Check everything that must hold for any site.
pub fn check(pages: &Pages) {
    let words = ["NaN", "nan", "inf", "Infinity", "undefined", "None", "null"];
    check_without(pages, &words);
    for (path, bytes) in pages {
        // A download is no page and may be larger.
        let limit = match path.ends_with(".html") {
            true => 300_000,
            false => 10_000_000,
        };
        assert!(bytes.len() <= limit, "{path} has {} bytes", bytes.len());
    }
}

/// Check everything but sizes that must hold for any site, whose pages say none of the `broken`
/// words.
pub fn check_without(pages: &Pages, broken: &[&str]) {
    let read: BTreeMap<&str, Page> = texts(pages)
        .map(|(path, text)| (path, read(path, text)))
        .collect();
    for (&path, page) in &read {
        page.ids(path);
        let count = |name: &str| page.tags.iter().filter(|tag| tag.name == name).count();
        assert_eq!(count("h1"), 1, "{path}");
        let mut scripts = 0;
        for script in page.tags.iter().filter(|tag| tag.name == "script") {
            let of = |key: &str| script.attributes.get(key).map(String::as_str);
            let source = of("src").unwrap_or_default();
            scripts += usize::from(source.ends_with("assets/site.js"));
            let data = of("type") == Some("application/ld+json");
            let ours = ["assets/site.js", "assets/cost.js"];
            assert!(
                data || ours.contains(&source.trim_start_matches("../")),
                "{path}: {script:?}"
            );
        }
        assert_eq!(scripts, 1, "{path}");
        let html = &page.tags[0];
        assert_eq!(
            html.attributes.get("lang").map(String::as_str),
            Some("en"),
            "{path}"
        );
        for link in page.links() {
            check_link(&read, pages, path, link);
        }
        for word in page.text.split(|c: char| !c.is_alphanumeric()) {
            // The data page lists types, which have these names.
            let of_a_type = path == "data.html" && ["None", "null"].contains(&word);
            assert!(of_a_type || !broken.contains(&word), "{path} says {word}");
        }
        for tag in &page.tags {
            for name in ["d", "x", "y", "viewBox"] {
                let value = tag.attributes.get(name).map_or("", String::as_str);
                assert!(
                    !value.contains("NaN") && !value.contains("inf"),
                    "{path}: {tag:?}"
                );
            }
            assert!(
                tag.name != "img" && !tag.attributes.keys().any(|key| key.starts_with("on")),
                "{path}: {tag:?}"
            );
            for value in tag.attributes.values() {
                assert!(!value.starts_with("javascript:"), "{path}: {tag:?}");
            }
            if tag.name == "th" {
                assert!(tag.attributes.contains_key("scope"), "{path}: {tag:?}");
            }
        }
        assert_eq!(
            count("table"),
            count("caption"),
            "{path}: a table without a caption"
        );
    }
    for path in pages.keys() {
        let leaves = path.split('/').any(|part| part == "..");
        assert!(!leaves && !path.starts_with('/'), "{path}");
    }
}

fn check_link(read: &BTreeMap<&str, Page>, pages: &Pages, from: &str, link: &str) {
    let outside = [
        "data:,",
        "https://claims.example/",
        "https://example.org/",
        "https://prices.example/",
    ];
    if outside.contains(&link) {
        return;
    }
    assert!(!link.contains(':'), "{from} links {link}");
    let (path, fragment) = resolve(from, link);
    assert!(pages.contains_key(&path), "{from}: {link} leads nowhere");
    if let Some(fragment) = fragment {
        let there = read[path.as_str()].ids(&path).contains(fragment.as_str());
        assert!(there, "{from}: {link} has no such place");
    }
}
