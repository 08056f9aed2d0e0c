//! What holds for the site as a whole: its five destinations and feed; and facts about engines
//! beyond what runs measure.

use crate::common::change::{of_1b, only_candle_is_a_crate, reports, with_copy, without_engine};
use crate::common::provenance::add_facts;
use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{between, html_of, lacks, says, texts, words_of};
use schema::registry::KvFormat;
use schema::run::Run;

#[test]
fn what_is_known_of_an_engine_beyond_speed_stands_with_its_source() {
    let pages = usual_site();
    let text = |path: &str| html_of(pages, path);
    let of_candle = [
        "It brings no server (synthetic).",
        "but read on 2026-01-02",
        ">read on 2026-01-04<",
        "href=\"https://example.org/\"",
        "candle-core: first 0.1.0 of 2023-08-10, newest 0.11.1",
    ];
    says(text("engine/candle.html"), &of_candle);
    let of_all = [
        "0.11.1, 2026-01-01",
        "2026-01-02",
        "href=\"https://prices.example/\"",
        "1.0.0, 2025-12-31",
        "No adapter is written.",
        ">Read on 2026-01-05.<",
    ];
    says(text("engines.html"), &of_all);
    lacks(text("engine/burn.html"), &["Beyond speed"]);
    let pair = text("compare/candle.cpu.f32.html");
    says(pair, &["Measured: version 0.0.0-synthetic."]);
}

#[test]
fn releases_name_the_registry_that_has_them() {
    let check = |world: &World, engine: &str, package: &str| {
        let pages = render(world);
        let of_engine = format!("{package}: first 0.1.0 of 2023-08-10, newest 0.11.1");
        let path = format!("engine/{engine}.html");
        says(html_of(&pages, &path), &[&of_engine]);
        let cells = [package, "0.1.0, 2023-08-10", "0.11.1, 2026-01-01"];
        let row = format!("<td>{}</td>", cells.join("</td><td>"));
        says(html_of(&pages, "engines.html"), &[&row]);
    };
    let mut world = usual();
    // Where a dossier names the page of its releases, that page stands for a registry.
    check(&world, "candle", "candle-core");
    world.maturity.engines[0].releases_source.clear();
    check(&world, "candle", "candle-core on crates.io");
    only_candle_is_a_crate(&mut world);
    world.maturity.engines[0].id = "burn".into();
    check(&world, "burn", "candle-core on PyPI");
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
    let engine = text("engine/candle.html");
    says(engine, &[&format!("Measured here: {words}.")]);
    let pair = text("compare/candle.cpu.f32.html");
    says(pair, &[&format!("Measured: version {words}.")]);
    let other = text("compare/lmrs.cpu.q8_0.html");
    says(other, &[&format!("; version {words}</span>")]);
    says(text("engines.html"), &[&format!("<td>{words}</td>")]);
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
}

#[test]
fn what_an_engine_reports_of_itself_is_another_run_s_where_the_run_shown_lacks_the_engine() {
    let mut world = with_copy("an-older-run");
    let older = &mut world.runs[1];
    older.header.started = "2026-01-24T03:04:05Z".into();
    for ready in reports(older) {
        ready.version = "0.11.1".into();
    }
    let elsewhere = "(in run an-older-run)";
    let pages = render(&world);
    lacks(html_of(&pages, "engine/candle.html"), &[elsewhere]);
    without_engine(&mut world.runs[0], "candle");
    let pages = render(&world);
    let age = "0.11.1 of 2026-01-01, 23 days old on the day of the run";
    let words: [&str; 5] = [
        &format!("<dd>0.11.1 {elsewhere}</dd>"),
        &format!("<dd>one request at a time; others wait {elsewhere}</dd>"),
        &format!("own words {elsewhere}:</p>"),
        "<li>candle.cpu.f32: an invented engine says this of itself.</li>",
        &format!("Measured here: {age} {elsewhere}."),
    ];
    says(html_of(&pages, "engine/candle.html"), &words);
    let all = html_of(&pages, "engines.html");
    says(all, &[&format!("<td>{age} {elsewhere}</td>")]);
    lacks(html_of(&pages, "engine/lmrs.html"), &[elsewhere]);
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
        says(engine, &[&format!("Measured here: {words}.")]);
        let all = html_of(&pages, "engines.html");
        says(all, &[&format!("<td>{words}</td>")]);
    }
}

#[test]
fn every_page_belongs_to_one_of_five_destinations() {
    let pages = usual_site();
    for (path, html) in texts(pages) {
        let top = between(html, "<nav aria-label=\"Site\">", "</nav>");
        assert_eq!(top.matches("<li>").count(), 5, "{path}");
        assert_eq!(top.matches("aria-current").count(), 1, "{path}: {top}");
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
    says(&feed, &["<link href=\"https://a.example/b/run/"]);
}

#[test]
fn keys_and_values_in_another_format_than_the_weights_stand_beside_the_target() {
    let mut world = of_1b();
    let run_page = format!("run/{}.html", world.runs[0].header.id);
    let paths = [run_page.as_str(), "engine/candle.html"];
    let declared = |world: &mut World, kv: Option<KvFormat>| {
        let targets = &mut world.runs[0].header.plan.targets;
        targets.iter_mut().for_each(|target| target.kv = kv);
        render(world)
    };
    let pages = declared(&mut world, Some(KvFormat::F16));
    for path in paths {
        says(&words_of(&pages, path), &["keys and values in f16"]);
    }
    let guide = words_of(&pages, "guide.html");
    says(&guide, &["Keys and values f16 Weight file"]);
    // In f32 they are what the weights of f32 targets are.
    let pages = declared(&mut world, Some(KvFormat::F32));
    let text = words_of(&pages, &run_page);
    lacks(&text, &["candle.cpu.f32 keys and values"]);
    says(&text, &["candle.cpu.q8_0 keys and values in f32"]);
    // A run whose targets declared nothing has what their engines report, 4096 bytes.
    let pages = declared(&mut world, None);
    for path in paths {
        lacks(&words_of(&pages, path), &["keys and values in"]);
    }
    let facts = [("model_kv_values_per_token", "2048")];
    add_facts(&mut world.runs[0], &facts);
    let pages = render(&world);
    for path in paths {
        let said = "keys and values in 16 bits, as the engine reports";
        says(&words_of(&pages, path), &[said]);
    }
}
