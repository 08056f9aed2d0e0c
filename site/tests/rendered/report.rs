//! The pages that compare, price and hand out: what they claim follows from the
//! statistics, and nothing hostile gets through them.

use crate::common::{World, run, world};
use crate::html;
use schema::record::Status;
use stats::analysis::MetricId;
use std::collections::BTreeMap;

type Pages = BTreeMap<String, Vec<u8>>;

fn render(world: &World) -> Pages {
    site::render(&world.input()).expect("renders")
}

fn html_of<'a>(pages: &'a Pages, path: &str) -> &'a str {
    std::str::from_utf8(&pages[path]).expect("UTF-8")
}

fn text_of(pages: &Pages, path: &str) -> String {
    html::read(path, html_of(pages, path)).text
}

/// Rows of a page by what stands in their cells.
fn rows(html: &str) -> Vec<Vec<String>> {
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
    let world = world(vec![run("cpu", 5, 22)]);
    let pages = render(&world);
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
        let page = html_of(
            &pages,
            &format!("compare/{}.html", site::html::slug(target)),
        );
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
    let world = world(vec![run("cpu", 5, 22)]);
    let pages = render(&world);
    let targets = &world.runs[0].header.plan.targets;
    let overview = html_of(&pages, "compare.html");
    let matrix = overview.split("<table class=\"duel\">").nth(1).unwrap();
    let matrix = rows(matrix.split("</table>").next().unwrap());
    let (a, b) = (&targets[0].id, &targets[3].id);
    let page = html_of(&pages, &format!("compare/{a}.html"));
    let group = page.split(&format!("id=\"{b}\"")).nth(1).unwrap();
    let group = group.split("</tbody>").next().unwrap();
    let count = |class: &str| group.matches(&format!("<td class=\"{class}\">")).count();
    let not = group.matches("not comparable").count() - group.matches("not comparable in").count();
    let expected = format!("{}/{}/{}", count("good"), count("bad"), count("even") - not);
    // Target, total, then a column per target.
    assert_eq!(matrix[1][2 + 3], expected);
    assert_eq!(matrix.len(), targets.len() + 1);
}

#[test]
fn a_target_without_numbers_is_not_comparable_and_says_why() {
    let world = world(vec![run("cpu", 5, 22)]);
    let pages = render(&world);
    let text = text_of(&pages, "compare/burn.flex.f32.html");
    assert!(
        text.contains("not comparable: burn.flex.f32 out of memory"),
        "{text}"
    );
    assert!(text.contains("not comparable: burn.flex.f32 timeout"));
    let one = world_of_one_launch();
    let text = text_of(&render(&one), "compare/candle.cpu.f32.html");
    assert!(text.contains("too few launches to say"));
}

fn world_of_one_launch() -> World {
    world(vec![run("smoke", 1, 5)])
}

#[test]
fn many_targets_keep_every_page_small() {
    let mut run = run("cpu", 5, 5);
    let mut targets = Vec::new();
    let mut launches = Vec::new();
    let mut logs = Vec::new();
    for copy in 0..12 {
        let rename = |id: &str| id.replacen('.', &format!("+v{copy}."), 1);
        for mut target in run.header.plan.targets.clone() {
            target.id = rename(&target.id);
            let mut judged = run.verify.values().next().unwrap().clone();
            judged.target = target.id.clone();
            run.verify.insert(target.id.clone(), judged);
            targets.push(target);
        }
        for mut launch in run.header.plan.launches.clone() {
            launch.target = rename(&launch.target);
            launches.push(launch);
        }
        for mut log in run.launches.clone() {
            log.launch.target = rename(&log.launch.target);
            logs.push(log);
        }
    }
    run.header.plan.targets = targets;
    run.header.plan.launches = launches;
    run.launches = logs;
    let pages = render(&world(vec![run]));
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
}

/// The synthetic run with limits on latency.
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
    assert!(text.contains("At $1.00 an hour (no real price: see below)"));
    other.prices = None;
    assert!(text_of(&render(&other), "cost.html").contains("There is no price table"));
}

#[test]
fn the_cost_is_the_price_over_the_tokens() {
    let world = with_slo(1e6);
    let analysis = stats::analyse(&world.runs[0], &world.scenarios, &world.registry.baseline);
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
    assert_eq!(row[6], "—", "no energy counter, no energy cost");
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
fn the_downloads_are_what_the_page_says_of_them() {
    let world = world(vec![run("cpu", 5, 22)]);
    let pages = render(&world);
    let dir = "data/20990102-030405-cpu-synthetic";
    let text = text_of(&pages, "data.html");
    for name in ["results.json", "results.csv", "records.sha256"] {
        let bytes = &pages[&format!("{dir}/{name}")];
        assert!(text.contains(&schema::hash::sha256_hex(bytes)), "{name}");
    }
    let results: serde_json::Value =
        serde_json::from_slice(&pages[&format!("{dir}/results.json")]).unwrap();
    let analysis = stats::analyse(&world.runs[0], &world.scenarios, &world.registry.baseline);
    assert_eq!(
        results["cells"].as_array().unwrap().len(),
        analysis.cells.len()
    );
    let csv = html_of(&pages, &format!("{dir}/results.csv"));
    let numbers: usize = analysis.cells.iter().map(|c| 1 + c.metrics.len()).sum();
    assert_eq!(csv.matches("\r\n").count(), 1 + numbers);
    let list = html_of(&pages, &format!("{dir}/records.sha256"));
    assert_eq!(list.lines().count(), world.runs[0].launches.len());
    assert!(
        list.lines()
            .all(|line| line.len() > 66 && &line[64..66] == "  ")
    );
}

#[test]
fn every_run_has_its_downloads_and_only_a_packed_one_its_records() {
    let world = world(vec![run("cpu", 5, 5), run("smoke", 1, 5)]);
    let mut input = world.input();
    let earlier = world.runs[1].header.id.clone();
    let records = BTreeMap::from([(earlier.clone(), b"packed".to_vec())]);
    input.publishing.records = Some(&records);
    let pages = site::render(&input).unwrap();
    html::check(&pages);
    for run in &world.runs {
        let id = &run.header.id;
        let page = html_of(&pages, &format!("run/{id}.html"));
        for name in ["results.json", "results.csv", "records.sha256"] {
            let path = format!("data/{id}/{name}");
            assert!(pages.contains_key(&path), "{path}");
            assert!(page.contains(&format!("href=\"../{path}\"")), "{path}");
            let link = format!("href=\"{path}\"");
            assert!(html_of(&pages, "data.html").contains(&link), "{path}");
        }
        let path = format!("data/{id}/records.tar.zst");
        assert_eq!(pages.contains_key(&path), *id == earlier);
        assert_eq!(page.contains(&path), *id == earlier);
    }
}

#[test]
fn every_field_of_results_json_is_described() {
    let world = world(vec![run("cpu", 5, 22)]);
    let pages = render(&world);
    let text = text_of(&pages, "data.html");
    let path = "data/20990102-030405-cpu-synthetic/results.json";
    let results: serde_json::Value = serde_json::from_slice(&pages[path]).unwrap();
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let metric = results["cells"][0]["metrics"]
        .as_object()
        .unwrap()
        .values()
        .next()
        .unwrap();
    let mut all = keys(&results);
    all.extend(keys(&results["cells"][0]));
    all.extend(keys(metric));
    all.extend(keys(&results["comparisons"][0]));
    for key in all {
        assert!(text.contains(&key), "{key}");
    }
    for record in [
        "RequestRecord",
        "token_ns",
        "Readings",
        "CaseEnd",
        "Provenance",
        "Offer",
    ] {
        assert!(text.contains(record), "{record}");
    }
}

#[test]
fn the_dataset_is_described_for_machines_and_cannot_end_its_script() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    world.runs[0].header.started = "</script><b>&".into();
    let pages = render(&world);
    let page = html_of(&pages, "data.html");
    let json = page.split("application/ld+json\">").nth(1).unwrap();
    let json = json.split("</script>").next().unwrap();
    let dataset: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(dataset["@type"], "Dataset");
    assert_eq!(dataset["dateCreated"], "</script><b>&");
    assert_eq!(dataset["distribution"].as_array().unwrap().len(), 3);
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
