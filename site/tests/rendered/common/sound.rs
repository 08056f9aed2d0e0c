//! What holds for every page of any site: tags, links, numbers, sizes.

use crate::html;
use std::collections::BTreeMap;

type Pages = BTreeMap<String, Vec<u8>>;

pub fn texts(pages: &Pages) -> impl Iterator<Item = (&str, &str)> {
    pages
        .iter()
        .filter(|(path, _)| path.ends_with(".html"))
        .map(|(path, bytes)| (path.as_str(), std::str::from_utf8(bytes).expect("UTF-8")))
}

/// Everything that holds for any site.
pub fn check(pages: &Pages) {
    let read: BTreeMap<&str, html::Page> = texts(pages)
        .map(|(path, text)| (path, html::read(path, text)))
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
            let broken = ["NaN", "nan", "inf", "Infinity", "undefined", "None", "null"];
            // The data page speaks of types, which have these names.
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
                !tag.attributes.keys().any(|key| key.starts_with("on")),
                "{path}: {tag:?}"
            );
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
    for (path, bytes) in pages {
        // What is downloaded is no page.
        let limit = match path.ends_with(".html") {
            true => 300_000,
            false => 10_000_000,
        };
        assert!(bytes.len() <= limit, "{path} has {} bytes", bytes.len());
        assert!(!path.contains("..") && !path.starts_with('/'), "{path}");
    }
}

fn check_link(read: &BTreeMap<&str, html::Page>, pages: &Pages, from: &str, link: &str) {
    let outside = ["data:,", "https://example.org/", "https://prices.example/"];
    if outside.contains(&link) {
        return;
    }
    assert!(!link.contains(':'), "{from} links {link}");
    let (path, fragment) = html::resolve(from, link);
    assert!(pages.contains_key(&path), "{from}: {link} leads nowhere");
    if let Some(fragment) = fragment {
        let there = read[path.as_str()].ids(&path).contains(fragment.as_str());
        assert!(there, "{from}: {link} has no such place");
    }
}
