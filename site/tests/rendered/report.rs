//! The pages that compare and price, and the frame around all pages: their claims follow from the
//! statistics, and nothing hostile gets through them.

use crate::common::{World, add_variants, render, run, usual, usual_site, world};
use crate::html::{self, html_of, text_of};
use schema::key::CaseKey;
use schema::record::Status;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

/// The texts of all table cells of a page, row by row.
pub(crate) fn rows(html: &str) -> Vec<Vec<String>> {
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
                    html::unescape(&text)
                })
                .collect()
        })
        .collect()
}

#[test]
fn every_pair_is_on_a_page_and_reads_the_same_from_both_sides() {
    let (world, pages) = (usual(), usual_site());
    let targets: Vec<&str> = world.runs[0]
        .header
        .plan
        .targets
        .iter()
        .map(|t| t.id.as_str())
        .collect();
    let opposite = |verdict: &str| match verdict {
        "faster" => "slower".to_owned(),
        "slower" => "faster".to_owned(),
        "smaller" => "larger".to_owned(),
        "larger" => "smaller".to_owned(),
        same => same.to_owned(),
    };
    // (target, other) → verdicts by case.
    let mut verdicts: BTreeMap<(String, String), Vec<(String, String)>> = BTreeMap::new();
    for target in &targets {
        let path = format!("compare/{}.html", site::html::slug(target));
        let page = html_of(pages, &path);
        let table = page.split("<table class=\"comparisons\">").nth(1).unwrap();
        let mut other = String::new();
        for row in rows(table.split("</table>").next().unwrap())
            .into_iter()
            .skip(1)
        {
            if row.len() == 1 {
                other = targets
                    .iter()
                    .find(|t| row[0].starts_with(&format!("against {t}")))
                    .unwrap()
                    .to_string();
            } else {
                let key = (target.to_string(), other.clone());
                verdicts
                    .entry(key)
                    .or_default()
                    .push((row[0].clone(), row[4].clone()));
            }
        }
    }
    assert_eq!(verdicts.len(), targets.len() * (targets.len() - 1));
    let mut said: BTreeMap<&str, u32> = BTreeMap::new();
    for ((a, b), cases) in &verdicts {
        let back = &verdicts[&(b.clone(), a.clone())];
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
    let matrix = overview.split("<table class=\"duel\">").nth(1).unwrap();
    let matrix = rows(matrix.split("</table>").next().unwrap());
    let (a, b) = (&targets[0].id, &targets[3].id);
    let page = html_of(pages, &format!("compare/{a}.html"));
    let group = page.split(&format!("id=\"{b}\"")).nth(1).unwrap();
    let group = group.split("</tbody>").next().unwrap();
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
    assert!(
        text.contains("not comparable: burn.flex.f32 out of memory"),
        "{text}"
    );
    assert!(text.contains("not comparable: burn.flex.f32 timeout"));
    let one = world(vec![run("smoke", 1, 5)]);
    let text = text_of(&render(&one), "compare/candle.cpu.f32.html");
    assert!(text.contains("too few launches to say"));
}

#[test]
fn many_targets_keep_every_page_small() {
    let all = run("cpu", 5, 5);
    let mut many = all.clone();
    many.header.plan.targets.clear();
    many.header.plan.launches.clear();
    many.launches.clear();
    for copy in 0..12 {
        add_variants(&mut many, &all, &format!("v{copy}"));
    }
    // Another run measured some of these targets in other cases, for which the page has no room.
    let mut of_others = all.clone();
    of_others.header.id = "of-others".into();
    of_others.header.plan.targets.clear();
    of_others.header.plan.launches.clear();
    of_others.launches.clear();
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
    assert!(text_of(&pages, "compare.html").contains("have no page of their own"));
    assert!(
        text_of(&pages, "compare/candle+v0.cpu.f32.html")
            .contains("Only the case that stands for its scenario")
    );
    assert!(
        text_of(&pages, "compare/candle+v0.cpu.f32.html")
            .contains("18 comparisons that only other runs have are left out for length")
    );
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
    let world = with_slo(1e6);
    let text = text_of(&render(&world), "cost.html");
    // The synthetic machine names itself "synthetic data, no machine" with 2 CPUs.
    assert!(
        text.contains("Synthetic Cloud asks $0.36 an hour for this device"),
        "{text}"
    );
    let mut other = with_slo(1e6);
    let facts = &mut other.runs[0].header.provenance.facts;
    facts.insert("cpu_model".into(), "another machine".into());
    let text = text_of(&render(&other), "cost.html");
    assert!(text.contains("No offer in the price table of 2099-01-01 is this machine"));
    assert!(
        text.contains("output tokens a core-hour, the most of"),
        "{text}"
    );
    assert!(text.contains("the table needs the model of its device"));
    assert!(!text.contains("an hour, a million output tokens cost"));
    assert!(!text.contains("If the price or the load is another"));
    let pages = render(&other);
    let page = html::read("cost.html", html_of(&pages, "cost.html"));
    let of = |tag: &html::Tag, key: &str| tag.attributes.get(key).cloned();
    let price = page
        .tags
        .iter()
        .find(|tag| of(tag, "name").as_deref() == Some("price"));
    assert_eq!(
        of(price.expect("it can be typed in"), "value").as_deref(),
        Some("")
    );
    let costs = page
        .tags
        .iter()
        .filter(|tag| of(tag, "data-k").as_deref() == Some("cost"));
    assert!(costs.count() > 0, "the script fills them in");
    other.prices = None;
    assert!(text_of(&render(&other), "cost.html").contains("There is no price table"));
}

#[test]
fn an_engine_of_our_own_doesn_t_open_the_cost_page_though_it_gives_the_most() {
    let mut world = with_slo(1e6);
    let text = |world: &World| text_of(&render(world), "cost.html");
    let own =
        "This project’s own engine, which has no server, tokeniser or sampling, is ahead of it: ";
    let all = text(&world);
    assert!(all.contains(" with lmrs.cpu.q8_0, the least of "), "{all}");
    assert!(!all.contains(own) && !all.contains("that others maintain"));
    for engine in &mut world.registry.engines {
        engine.ours = engine.id == "lmrs";
    }
    let others = text(&world);
    assert!(!others.contains(" with lmrs.cpu.q8_0, the least of "));
    assert!(others.contains(" targets that others maintain"), "{others}");
    assert!(
        others.contains(&format!("{own}lmrs.cpu.q8_0 ($")),
        "{others}"
    );
    for engine in &mut world.registry.engines {
        engine.ours = true;
    }
    let ours = text(&world);
    assert!(
        ours.contains(" with lmrs.cpu.q8_0, the least of "),
        "nothing else was measured"
    );
    assert!(!ours.contains(own));
}

#[test]
fn a_load_that_two_scenarios_show_counts_once() {
    let mut world = with_slo(1e6);
    let before = render(&world);
    assert!(text_of(&before, "compare.html").contains("Of 420 pairs of cells, "));
    let (borrowed, own) = ("Concurrent users, 4 users", "Sustained load, 4 in flight");
    assert!(text_of(&before, "cost.html").contains(borrowed));
    let planned = &mut world.runs[0].header.plan.scenarios;
    let concurrent = planned.iter_mut().find(|s| s.id == "concurrent").unwrap();
    let case = concurrent.cases.iter_mut().find(|c| c.id == "u4").unwrap();
    case.measured_by = Some(CaseKey::new("sustained", "c4"));
    let after = render(&world);
    let compare = text_of(&after, "compare.html");
    assert!(compare.contains("Of 392 pairs of cells, "), "{compare}");
    assert!(compare.contains("was measured once, and counts once"));
    let cost = text_of(&after, "cost.html");
    assert!(!cost.contains(borrowed) && cost.contains(own), "{cost}");
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
    let pages = render(&world);
    let table = html_of(&pages, "cost.html")
        .split("<table class=\"costs\">")
        .nth(2)
        .unwrap();
    let row = rows(table)
        .into_iter()
        .find(|row| row[0].contains("candle.cpu.f32"))
        .unwrap();
    let digits = |text: &str| {
        text.split(' ')
            .next()
            .unwrap()
            .trim_start_matches('$')
            .parse::<f64>()
            .unwrap()
    };
    assert!(
        (digits(&row[3]) - digits(&expected)).abs() < 0.01 * digits(&expected),
        "{row:?} {expected}"
    );
    assert!(
        !table.contains("<th scope=\"col\">Energy"),
        "no energy counter, no energy cost"
    );
}

#[test]
fn without_a_load_within_the_limits_the_row_says_so() {
    let text = text_of(&render(&with_slo(1e-3)), "cost.html");
    assert!(text.contains("no measured load keeps the limits"));
    assert!(text.contains("so no cost can be stated"));
}

#[test]
fn what_the_script_starts_from_is_a_number() {
    let pages = render(&with_slo(1e6));
    let page = html::read("cost.html", html_of(&pages, "cost.html"));
    let mut cells = 0;
    for tag in page
        .tags
        .iter()
        .filter(|tag| tag.attributes.contains_key("data-k"))
    {
        cells += 1;
        assert!(
            tag.attributes["data-v"].parse::<f64>().unwrap().is_finite(),
            "{tag:?}"
        );
        for key in ["data-l", "data-h"] {
            let text = &tag.attributes[key];
            assert!(
                text.is_empty() || text.parse::<f64>().unwrap().is_finite(),
                "{tag:?}"
            );
        }
    }
    assert!(cells > 40, "{cells}");
    let script = std::str::from_utf8(&pages["assets/cost.js"]).unwrap();
    assert!(script.len() < 10_000);
    for forbidden in ["http", "fetch", "innerHTML", "eval", "import"] {
        assert!(!script.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn addresses_and_a_picture_stand_only_where_they_were_given() {
    let world = world(vec![run("cpu", 5, 5)]);
    let plain = render(&world);
    for (path, bytes) in &plain {
        if path.ends_with(".html") {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(
                text.contains("og:title") && !text.contains("og:url"),
                "{path}"
            );
            assert!(
                !text.contains("og:image") && !text.contains("canonical"),
                "{path}"
            );
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
    assert!(engine.contains("og:url\" content=\"https://a.example/b/engine/burn.html\""));
    assert!(engine.contains("https://a.example/b/assets/preview.png"));
    assert_eq!(pages[site::PICTURE], b"png");
    assert!(pages.keys().any(|path| path.ends_with("records.tar.zst")));
}

#[test]
fn what_is_being_written_counts_instead_of_what_was_compiled() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    world
        .authored
        .insert("pages/changelog.md".into(), "# Of late".into());
    world.authored.insert(
        "templates/text.html".into(),
        "{{ text|safe }} by hand".into(),
    );
    world
        .authored
        .insert("assets/site.css".into(), "p{color:red}".into());
    let pages = render(&world);
    assert_eq!(
        html_of(&pages, "changelog.html"),
        "<h2 id=\"of-late\">Of late</h2>\n by hand"
    );
    assert!(html_of(&pages, "assets/site.css").ends_with("p{color:red}"));
    world
        .authored
        .insert("templates/text.html".into(), "{{ nonsense }}".into());
    let error = format!("{:#}", site::render(&world.input()).unwrap_err());
    assert!(error.contains("text.html"), "{error}");
}
