//! What holds for the site as a whole: its five destinations, search and feed; and facts about
//! engines beyond what runs measure.

use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{html_of, texts, words};
use crate::report::rows;
use crate::several::{large, with_copy, without};
use schema::registry::KvFormat;
use schema::run::Run;

#[test]
fn what_is_known_of_an_engine_beyond_speed_stands_with_its_source() {
    let pages = usual_site();
    let text = |path: &str| html_of(pages, path);
    let page = text("engine/candle.html");
    assert!(page.contains("It brings no server (synthetic)."));
    assert!(page.contains("but read on 2026-01-02") && page.contains(">read on 2026-01-04<"));
    assert!(page.contains("href=\"https://example.org/\""));
    assert!(page.contains("candle-core: first 0.1.0 of 2023-08-10, newest 0.11.1"));
    let all = text("engines.html");
    assert!(all.contains("0.11.1, 2026-01-01") && all.contains("2026-01-02"));
    assert!(all.contains("href=\"https://prices.example/\""));
    assert!(all.contains("1.0.0, 2025-12-31") && all.contains("No adapter is written."));
    assert!(all.contains(">Read on 2026-01-05.<"));
    assert!(!text("engine/burn.html").contains("Beyond speed"));
    let pair = text("compare/candle.cpu.f32.html");
    assert!(
        pair.contains("Measured: version 0.0.0-synthetic."),
        "{pair}"
    );
}

/// A run whose Candle reports this version and fact of its build, 23 days after a release of its
/// package.
fn run_of_candle(version: &str, (fact, value): (&str, &str)) -> Run {
    let mut run = run("cpu", 5, 22);
    run.header.started = "2026-01-24T03:04:05Z".into();
    for log in &mut run.launches {
        if let Some(ready) = &mut log.ready
            && log.launch.target.starts_with("candle.")
        {
            ready.version = version.into();
            ready.build.insert(fact.into(), value.into());
        }
    }
    run
}

#[test]
fn how_old_a_version_was_on_the_day_of_the_run_stands_beside_it() {
    let run = run_of_candle("0.11.1 (synthetic)", ("profile", "release"));
    let pages = render(&world(vec![run]));
    let text = |path: &str| html_of(&pages, path);
    let words = "0.11.1 of 2026-01-01, 23 days old on the day of the run";
    assert!(text("engine/candle.html").contains(&format!("Measured here: {words}.")));
    assert!(text("compare/candle.cpu.f32.html").contains(&format!("Measured: version {words}.")));
    assert!(text("engines.html").contains(&format!("<td>{words}</td>")));
    let row = |cells: [&str; 3]| format!("<td>{}</td></tr>", cells.join("</td><td>"));
    let dated = row(["0.11.1", "2026-01-01", "23 days"]);
    let candle = format!("<tr><th scope=\"row\">candle (synthetic)</th>{dated}");
    let undated = row(["0.0.0-synthetic", "—", "—"]);
    let of = |name: &str| format!("<tr><th scope=\"row\">{name} (synthetic)</th>{undated}");
    for path in ["scenario/memory.html", "engine/candle.html"] {
        assert_eq!(text(path).matches(&candle).count(), 1, "{path}");
        assert_eq!(text(path).matches(&of("pytorch")).count(), 1, "{path}");
        let all = path.starts_with("scenario");
        assert_eq!(text(path).contains(&of("lmrs")), all, "{path}");
    }
    let other = text("compare/lmrs.cpu.q8_0.html");
    assert!(
        other.contains(&format!("; version {words}</span>")),
        "{other}"
    );
}

#[test]
fn what_an_engine_reports_of_itself_is_another_run_s_where_the_run_shown_lacks_the_engine() {
    let mut world = with_copy("an-older-run");
    let older = &mut world.runs[1];
    older.header.started = "2026-01-24T03:04:05Z".into();
    for ready in older.launches.iter_mut().flat_map(|log| &mut log.ready) {
        ready.version = "0.11.1".into();
    }
    let elsewhere = "(in run an-older-run)";
    let pages = render(&world);
    assert!(!html_of(&pages, "engine/candle.html").contains(elsewhere));
    let planned = &mut world.runs[0].header.plan.targets;
    planned.retain(|target| target.engine != "candle");
    let pages = render(&world);
    let candle = html_of(&pages, "engine/candle.html");
    let age = "0.11.1 of 2026-01-01, 23 days old on the day of the run";
    for said in [
        format!("<dd>0.11.1 {elsewhere}</dd>"),
        format!("<dd>one request at a time; others wait {elsewhere}</dd>"),
        format!("own words {elsewhere}:</p>"),
        "<li>candle.cpu.f32: an invented engine says this of itself.</li>".into(),
        format!("Measured here: {age} {elsewhere}."),
    ] {
        assert!(candle.contains(&said), "{said}: {candle}");
    }
    let all = html_of(&pages, "engines.html");
    assert!(
        all.contains(&format!("<td>{age} {elsewhere}</td>")),
        "{all}"
    );
    assert!(!html_of(&pages, "engine/lmrs.html").contains(elsewhere));
}

#[test]
fn a_version_of_another_library_stands_with_that_of_the_package() {
    let age = "0.11.1 of 2026-01-01, 23 days old on the day of the run";
    let of_package = format!("2.9.0 (candle-core {age})");
    for (fact, value, words) in [
        ("crate", "candle-core 0.11.1", of_package.as_str()),
        ("candle-core", "0.11.1", of_package.as_str()),
        ("crate", "another 0.11.1", "2.9.0"),
    ] {
        let pages = render(&world(vec![run_of_candle("2.9.0", (fact, value))]));
        let pair = html_of(&pages, "compare/candle.cpu.f32.html");
        let said = format!("Measured: version {words}.");
        assert!(pair.contains(&said), "{fact} {value}: {pair}");
        let engine = html_of(&pages, "engine/candle.html");
        assert!(engine.contains(&format!("Measured here: {words}.")));
        assert!(html_of(&pages, "engines.html").contains(&format!("<td>{words}</td>")));
    }
}

#[test]
fn every_page_belongs_to_one_of_five_destinations() {
    let pages = usual_site();
    for (path, html) in texts(pages) {
        let (_, rest) = html.split_once("<nav aria-label=\"Site\">").expect(path);
        let (top, _) = rest.split_once("</nav>").expect(path);
        assert_eq!(top.matches("<li>").count(), 5, "{path}");
        assert_eq!(top.matches("aria-current").count(), 1, "{path}: {top}");
    }
}

#[test]
fn whatever_can_be_looked_for_stands_in_one_table() {
    let pages = usual_site();
    let search = html_of(pages, "search.html");
    for kind in [
        "comparison",
        "scenario",
        "case",
        "engine",
        "target",
        "page",
        "metric",
        "term",
    ] {
        assert!(search.contains(&format!("<td>{kind}</td>")), "{kind}");
    }
    let pair = "<a href=\"compare/lmrs.cpu.q8_0.html#pytorch.cpu.f32\">lmrs.cpu.q8_0 against pytorch.cpu.f32</a>";
    assert!(search.contains(pair));
    for (path, html) in texts(pages) {
        assert!(html.contains("search.html\">Search</a>"), "{path}");
    }
}

#[test]
fn every_example_of_a_search_finds_a_row() {
    let mut world = usual();
    for last in ["8 in flight", "200 prompt tokens"] {
        let pages = render(&world);
        let search = html_of(&pages, "search.html");
        let (_, said) = search.split_once("Type into the filter: ").unwrap();
        let (said, _) = said.split_once(". All words must occur").unwrap();
        let quoted = said.split(", ");
        let plain = quoted.map(|e| e.trim_start_matches('“').trim_end_matches('”'));
        let examples: Vec<&str> = plain.collect();
        assert_eq!(examples, ["pytorch f32", last, "interval"]);
        let rows = rows(search).into_iter();
        let rows: Vec<String> = rows.map(|row| row.concat().to_lowercase()).collect();
        for example in examples {
            // As the page's script filters.
            let has_all = |row: &String| example.split(' ').all(|word| row.contains(word));
            assert!(rows.iter().any(has_all), "{example}");
        }
        without(&mut world.runs[0], "sustained");
    }
}

#[test]
fn a_published_site_has_a_feed_of_its_runs() {
    let world = world(vec![run("cpu", 5, 5), run("smoke", 1, 5)]);
    let mut input = world.input();
    let plain = site::render(&input).expect("renders");
    assert!(
        !plain.contains_key("feed.xml"),
        "its links would lead nowhere"
    );
    input.publishing.base_url = Some("https://a.example/b");
    let pages = site::render(&input).expect("renders");
    let feed = String::from_utf8_lossy(&pages["feed.xml"]);
    assert_eq!(feed.matches("<entry>").count(), 2);
    assert!(
        feed.contains("<link href=\"https://a.example/b/run/"),
        "{feed}"
    );
}

#[test]
fn keys_and_values_in_another_format_than_the_weights_stand_beside_the_target() {
    let mut world = usual();
    large(&mut world, 0);
    let run_page = format!("run/{}.html", world.runs[0].header.id);
    let pages = [run_page.as_str(), "engine/candle.html"];
    let declared = |world: &mut World, kv: Option<KvFormat>| {
        let targets = &mut world.runs[0].header.plan.targets;
        targets.iter_mut().for_each(|target| target.kv = kv);
    };
    declared(&mut world, Some(KvFormat::F16));
    for path in pages {
        let text = words(&world, path);
        assert!(text.contains("keys and values in f16"), "{path}: {text}");
    }
    assert!(words(&world, "guide.html").contains("Keys and values f16 Weight file"));
    // In f32 they are what the weights of f32 targets are.
    declared(&mut world, Some(KvFormat::F32));
    let text = words(&world, &run_page);
    assert!(!text.contains("candle.cpu.f32 keys and values"), "{text}");
    assert!(
        text.contains("candle.cpu.q8_0 keys and values in f32"),
        "{text}"
    );
    // A run whose targets declared nothing has what their engines report, 4096 bytes.
    declared(&mut world, None);
    for path in pages {
        assert!(
            !words(&world, path).contains("keys and values in"),
            "{path}"
        );
    }
    let facts = &mut world.runs[0].header.provenance.facts;
    facts.insert("model_kv_values_per_token".into(), "2048".into());
    for path in pages {
        let text = words(&world, path);
        let said = "keys and values in 16 bits, as the engine reports";
        assert!(text.contains(said), "{path}: {text}");
    }
}
