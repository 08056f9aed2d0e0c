//! The way around the site, and what stands on it beside what was measured.

use crate::common::{run, world};

#[test]
fn what_is_known_of_an_engine_beyond_speed_stands_with_its_source() {
    let pages = site::render(&world(vec![run("cpu", 5, 22)]).input()).expect("renders");
    let text = |path: &str| String::from_utf8(pages[path].clone()).unwrap();
    let page = text("engine/candle.html");
    assert!(page.contains("It brings no server (synthetic)."));
    assert!(page.contains("href=\"https://example.org/\""));
    assert!(page.contains("candle-core: first 0.1.0 of 2023-08-10, newest 0.11.1"));
    let all = text("engines.html");
    assert!(all.contains("0.11.1, 2026-01-01") && all.contains("2026-01-02"));
    assert!(all.contains("href=\"https://prices.example/\""));
    assert!(all.contains("1.0.0, 2025-12-31") && all.contains("No adapter is written."));
    assert!(!text("engine/burn.html").contains("Beyond speed"));
}

#[test]
fn every_page_belongs_to_one_of_five_destinations() {
    let pages = site::render(&world(vec![run("cpu", 5, 22)]).input()).expect("renders");
    for (path, bytes) in &pages {
        if !path.ends_with(".html") {
            continue;
        }
        let html = String::from_utf8_lossy(bytes);
        let (_, rest) = html.split_once("<nav aria-label=\"Site\">").expect(path);
        let (top, _) = rest.split_once("</nav>").expect(path);
        assert_eq!(top.matches("<li>").count(), 5, "{path}");
        assert_eq!(top.matches("aria-current").count(), 1, "{path}: {top}");
    }
}
