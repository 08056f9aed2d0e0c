//! The pages that compare and price, and the frame around all pages: their claims follow from the
//! statistics, and nothing hostile gets through them.

use crate::common::change::ours;
use crate::common::provenance::add_facts;
use crate::common::{World, add_variants, render, run, usual, usual_site, world};
use crate::html::{self, between, html_of, lacks, page, rows, says, text_of};
use schema::key::CaseKey;
use schema::record::Status;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

#[test]
fn every_pair_is_on_a_page_and_reads_the_same_from_both_sides() {
    let (world, pages) = (usual(), usual_site());
    let targets = world.runs[0].header.plan.targets.iter();
    let targets: Vec<&str> = targets.map(|target| target.id.as_str()).collect();
    let opposite = |verdict: &str| match verdict {
        "faster" => "slower".to_owned(),
        "slower" => "faster".to_owned(),
        "smaller" => "larger".to_owned(),
        "larger" => "smaller".to_owned(),
        same => same.to_owned(),
    };
    // (target, other) → verdicts by case.
    let mut verdicts: BTreeMap<(&str, &str), Vec<(String, String)>> = BTreeMap::new();
    for &target in &targets {
        let path = format!("compare/{}.html", site::html::slug(target));
        let page = html_of(pages, &path);
        let table = between(page, "<table class=\"comparisons\">", "</table>");
        let mut other = "";
        for row in rows(table).into_iter().skip(1) {
            if row.len() == 1 {
                let mut others = targets.iter().copied();
                let named = |t: &&str| row[0].starts_with(&format!("against {t}"));
                other = others.find(named).unwrap();
            } else {
                let of_pair = verdicts.entry((target, other)).or_default();
                of_pair.push((row[0].clone(), row[4].clone()));
            }
        }
    }
    assert_eq!(verdicts.len(), targets.len() * (targets.len() - 1));
    let mut said: BTreeMap<&str, u32> = BTreeMap::new();
    for (&(a, b), cases) in &verdicts {
        let back = &verdicts[&(b, a)];
        assert_eq!(cases.len(), 15, "every case of {a} and {b}");
        for ((case, verdict), (other_case, other)) in cases.iter().zip(back) {
            assert_eq!(case, other_case);
            assert_eq!(&opposite(verdict), other, "{a} {b} {case}");
            let kind = if verdict.starts_with("not comparable: ") {
                "not"
            } else {
                verdict
            };
            *said
                .entry(match kind {
                    "faster" => "faster",
                    "not" => "not",
                    tie if tie.starts_with("no detectable difference: ") => "even",
                    _ => "else",
                })
                .or_default() += 1;
        }
    }
    for kind in ["faster", "not", "even"] {
        assert!(said.contains_key(kind), "{said:?}");
    }
}

#[test]
fn the_overview_counts_what_the_pages_say() {
    let (world, pages) = (usual(), usual_site());
    let targets = &world.runs[0].header.plan.targets;
    let overview = html_of(pages, "compare.html");
    let matrix = rows(between(overview, "<table class=\"duel\">", "</table>"));
    let (a, b) = (&targets[0].id, &targets[3].id);
    let page = html_of(pages, &format!("compare/{a}.html"));
    let group = between(page, &format!("id=\"{b}\""), "</tbody>");
    let count = |class: &str| group.matches(&format!("<td class=\"{class}\">")).count();
    let not = group.matches("not comparable").count() - group.matches("not comparable in").count();
    let expected = format!("{}/{}/{}", count("good"), count("bad"), count("even") - not);
    // The columns are target and total, then one per target.
    assert_eq!(matrix[1][2 + 3], expected);
    assert_eq!(matrix.len(), targets.len() + 1);
}

#[test]
fn a_target_without_numbers_is_not_comparable_and_says_why() {
    let text = text_of(usual_site(), "compare/burn.flex.f32.html");
    says(&text, &["not comparable: burn.flex.f32 out of memory"]);
    says(&text, &["not comparable: burn.flex.f32 timeout"]);
    let one = world(vec![run("smoke", 1, 5)]);
    let text = text_of(&render(&one), "compare/candle.cpu.f32.html");
    says(&text, &["too few launches to say"]);
}

#[test]
fn many_targets_keep_every_page_small() {
    let all = run("cpu", 5, 5);
    let mut none = all.clone();
    none.header.plan.targets.clear();
    none.header.plan.launches.clear();
    none.launches.clear();
    let mut many = none.clone();
    for copy in 0..12 {
        add_variants(&mut many, &all, &format!("v{copy}"));
    }
    // Another run measured some of these targets in other cases, for which the page has no room.
    let mut of_others = none;
    of_others.header.id = "of-others".into();
    add_variants(&mut of_others, &all, "v0");
    for scenario in &mut of_others.header.plan.scenarios {
        let memory = scenario.id == "memory";
        for case in scenario.cases.iter_mut().filter(|_| memory) {
            case.prompt_tokens += 1;
        }
    }
    let pages = render(&world(vec![many, of_others]));
    let compared: Vec<_> = pages
        .iter()
        .filter(|(path, _)| path.starts_with("compare"))
        .collect();
    assert_eq!(
        compared.len(),
        65,
        "an overview, and a page each for so many"
    );
    for (path, bytes) in compared {
        assert!(bytes.len() <= 300_000, "{path} has {} bytes", bytes.len());
    }
    let overview = text_of(&pages, "compare.html");
    says(&overview, &["have no page of their own"]);
    let candle = text_of(&pages, "compare/candle+v0.cpu.f32.html");
    let left_out = "18 comparisons that only other runs have are left out for length";
    says(&candle, &["Only the case that stands for its scenario"]);
    says(&candle, &[left_out]);
}

/// The world's page of costs.
fn cost_page(world: &World) -> html::Page {
    html::read("cost.html", &page(world, "cost.html"))
}

/// The synthetic run, with limits on latency.
fn with_slo(ttft_p90_ms: f64) -> World {
    let mut run = run("cpu", 5, 24);
    run.header.plan.slo = Some(schema::profile::Slo {
        ttft_p90_ms,
        itl_p90_ms: 1000.0,
    });
    world(vec![run])
}

#[test]
fn a_price_counts_only_for_the_machine_that_was_measured() {
    let mut world = with_slo(1e6);
    // The synthetic machine names itself "synthetic data, no machine" with 2 CPUs.
    let priced = "Synthetic Cloud asks $0.36 an hour for this device";
    says(&cost_page(&world).text, &[priced]);
    add_facts(&mut world.runs[0], &[("cpu_model", "another machine")]);
    let page = cost_page(&world);
    let words = [
        "No offer in the price table of 2099-01-01 is this machine",
        "output tokens a core-hour, the most of",
        "the table needs the model of its device",
    ];
    says(&page.text, &words);
    lacks(&page.text, &["an hour, a million output tokens cost"]);
    lacks(&page.text, &["If the price or the load is another"]);
    let find = |key: &str, value: &str| {
        let is_it = |tag: &&html::Tag| tag.attributes.get(key).is_some_and(|v| v == value);
        page.tags.iter().find(is_it)
    };
    let price = find("name", "price").expect("it can be typed in");
    assert_eq!(price.attributes["value"], "");
    assert!(find("data-k", "cost").is_some(), "the script fills them in");
    world.prices = None;
    says(&cost_page(&world).text, &["There is no price table"]);
}

#[test]
fn an_engine_of_our_own_doesn_t_open_the_cost_page_though_it_gives_the_most() {
    let mut world = with_slo(1e6);
    let opens = " with lmrs.cpu.q8_0, the least of ";
    let own =
        "This project’s own engine, which has no server, tokeniser or sampling, is ahead of it: ";
    let all = cost_page(&world).text;
    says(&all, &[opens]);
    lacks(&all, &[own, "that others maintain"]);
    ours(&mut world, |id| id == "lmrs");
    let others = cost_page(&world).text;
    lacks(&others, &[opens]);
    says(&others, &[" targets that others maintain"]);
    says(&others, &[&format!("{own}lmrs.cpu.q8_0 ($")]);
    // Nothing else was measured.
    ours(&mut world, |_| true);
    let alone = cost_page(&world).text;
    says(&alone, &[opens]);
    lacks(&alone, &[own]);
}

#[test]
fn a_load_that_two_scenarios_show_counts_once() {
    let mut world = with_slo(1e6);
    let before = render(&world);
    let compare = text_of(&before, "compare.html");
    says(&compare, &["Of 420 pairs of cells, "]);
    let (borrowed, own) = ("Concurrent users, 4 users", "Sustained load, 4 in flight");
    says(&text_of(&before, "cost.html"), &[borrowed]);
    let planned = &mut world.runs[0].header.plan.scenarios;
    let concurrent = planned.iter_mut().find(|s| s.id == "concurrent").unwrap();
    let case = concurrent.cases.iter_mut().find(|c| c.id == "u4").unwrap();
    case.measured_by = Some(CaseKey::new("sustained", "c4"));
    let after = render(&world);
    // The two scenarios compare the load by different metrics, so both count.
    let compare = text_of(&after, "compare.html");
    says(&compare, &["Of 420 pairs of cells, "]);
    let cost = text_of(&after, "cost.html");
    lacks(&cost, &[borrowed]);
    says(&cost, &[own]);

    let planned = &mut world.runs[0].header.plan.scenarios;
    let long = planned.iter_mut().find(|s| s.id == "long_context").unwrap();
    long.cases[0].measured_by = Some(CaseKey::new("single_request", "p10"));
    let compare = text_of(&render(&world), "compare.html");
    says(&compare, &["Of 392 pairs of cells, "]);
    says(&compare, &["was measured once. It counts once where"]);
}

#[test]
fn the_cost_is_the_price_over_the_tokens() {
    let world = with_slo(1e6);
    let analysis = world.analyse().remove(0);
    let best = analysis
        .cells
        .iter()
        .filter(|c| {
            c.target == "candle.cpu.f32"
                && ["sustained", "concurrent"].contains(&c.scenario.as_str())
        })
        .filter(|c| c.status == Status::Ok)
        .filter_map(|c| c.metrics.iter().find(|m| m.id == MetricId::OutputTokPerS))
        .map(|m| m.value)
        .fold(0.0, f64::max);
    let usd = 0.36 / (3600.0 * best) * 1e6;
    let expected = format!("${}", site::fmt::quantity(site::fmt::Unit::Plain, usd));
    let page = page(&world, "cost.html");
    let table = page.split("<table class=\"costs\">").nth(2).unwrap();
    let all = rows(table);
    let mut heads = all[0].iter();
    let at = heads.position(|head| head == "$ per M output tokens");
    let at = at.expect("the costs have a column");
    let mut targets = all.iter();
    let row = targets.find(|row| row[0].contains("candle.cpu.f32"));
    let row = row.expect("the target has a row");
    let digits = |text: &str| {
        text.split(' ')
            .next()
            .unwrap()
            .trim_start_matches('$')
            .parse::<f64>()
            .unwrap()
    };
    assert!(
        (digits(&row[at]) - digits(&expected)).abs() < 0.01 * digits(&expected),
        "{row:?} {expected}"
    );
    // No energy counter, no energy cost.
    lacks(table, &["<th scope=\"col\">Energy"]);
}

#[test]
fn without_a_load_within_the_limits_the_row_says_so() {
    let text = cost_page(&with_slo(1e-3)).text;
    says(&text, &["no measured load keeps the limits"]);
    says(&text, &["so no cost can be stated"]);
}

#[test]
fn what_the_script_starts_from_is_a_number() {
    let pages = render(&with_slo(1e6));
    let page = html::read("cost.html", html_of(&pages, "cost.html"));
    let has_value = |tag: &&html::Tag| tag.attributes.contains_key("data-k");
    let cells: Vec<&html::Tag> = page.tags.iter().filter(has_value).collect();
    let is_number = |text: &str| text.parse::<f64>().unwrap().is_finite();
    for tag in &cells {
        let of = &tag.attributes;
        assert!(is_number(&of["data-v"]), "{tag:?}");
        for key in ["data-l", "data-h"] {
            assert!(of[key].is_empty() || is_number(&of[key]), "{tag:?}");
        }
    }
    assert!(cells.len() > 40, "{}", cells.len());
    let script = std::str::from_utf8(&pages["assets/cost.js"]).unwrap();
    assert!(script.len() < 10_000);
    lacks(script, &["http", "fetch", "innerHTML", "eval", "import"]);
}

#[test]
fn addresses_and_a_picture_stand_only_where_they_were_given() {
    let world = world(vec![run("cpu", 5, 5)]);
    for (path, text) in html::texts(&render(&world)) {
        assert!(text.contains("og:title"), "{path}");
        for given in ["og:url", "og:image", "canonical"] {
            assert!(!text.contains(given), "{path}: {given}");
        }
    }
    let mut input = world.input();
    let id = world.runs[0].header.id.clone();
    let records = BTreeMap::from([(id, b"gz".to_vec())]);
    input.publishing = site::Publishing {
        base_url: Some("https://a.example/b"),
        picture: Some(b"png"),
        records: Some(&records),
        banner: None,
    };
    let pages = site::render(&input).unwrap();
    let engine = html_of(&pages, "engine/burn.html");
    let address = "og:url\" content=\"https://a.example/b/engine/burn.html\"";
    says(engine, &[address]);
    says(engine, &["https://a.example/b/assets/preview.png"]);
    assert_eq!(pages[site::PICTURE], b"png");
    assert!(pages.keys().any(|path| path.ends_with("records.tar.zst")));
}

#[test]
fn what_is_being_written_counts_instead_of_what_was_compiled() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    for (path, text) in [
        ("pages/changelog.md", "# Of late"),
        ("templates/text.html", "{{ text|safe }} by hand"),
        ("assets/site.css", "p{color:red}"),
    ] {
        world.authored.insert(path.into(), text.into());
    }
    let pages = render(&world);
    assert_eq!(
        html_of(&pages, "changelog.html"),
        "<h2 id=\"of-late\">Of late</h2>\n by hand"
    );
    assert!(html_of(&pages, "assets/site.css").ends_with("p{color:red}"));
    let broken = "{{ nonsense }}".into();
    world.authored.insert("templates/text.html".into(), broken);
    let error = format!("{:#}", site::render(&world.input()).unwrap_err());
    says(&error, &["text.html"]);
}
