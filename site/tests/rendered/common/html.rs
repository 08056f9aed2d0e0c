//! A small reader of our own HTML, enough to hold it to promises: tags balance,
//! ids are unique, links lead somewhere. Not a parser of the web's HTML.
#![allow(dead_code)] // Each test program uses its own part.

use std::collections::{BTreeMap, BTreeSet};

/// A start tag and its attributes, unescaped.
#[derive(Clone, Debug)]
pub struct Tag {
    pub name: String,
    pub attributes: BTreeMap<String, String>,
}

/// What stands on a page.
pub struct Page {
    pub tags: Vec<Tag>,
    /// All text between tags, unescaped.
    pub text: String,
}

const VOID: [&str; 6] = ["meta", "link", "br", "img", "input", "hr"];

/// Read a page; panics with the place where tags do not balance.
pub fn read(path: &str, html: &str) -> Page {
    let mut page = Page {
        tags: Vec::new(),
        text: String::new(),
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

/// Where the tag ends: `>` outside quotes.
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

/// Text with its entities replaced; panics on a bare `&`.
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
    /// All ids; panics where one stands twice.
    pub fn ids(&self, path: &str) -> BTreeSet<&str> {
        let mut ids = BTreeSet::new();
        for id in self.tags.iter().filter_map(|tag| tag.attributes.get("id")) {
            assert!(ids.insert(id.as_str()), "{path}: id {id:?} stands twice");
        }
        ids
    }

    /// All addresses in `href` and `src`.
    pub fn links(&self) -> impl Iterator<Item = &str> {
        self.tags.iter().flat_map(|tag| {
            ["href", "src"]
                .into_iter()
                .filter_map(|key| tag.attributes.get(key).map(String::as_str))
        })
    }
}

/// A relative address seen from a page, as path in the site and fragment.
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
