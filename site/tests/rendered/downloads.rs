//! The site's downloads: the files of every run, as described by the pages that offer them.

use crate::common::launch::{audit, with_twins};
use crate::common::{render, run, usual, usual_site, world};
use crate::html::{self, Pages, between, html_of, says, text_of};
use serde_json::Value;
use std::collections::BTreeMap;

/// The directory of the usual run's downloads.
const DIR: &str = "data/20990102-030405-cpu-synthetic";
/// The names of every run's downloads.
const NAMES: [&str; 3] = ["results.json", "results.csv", "records.sha256"];

/// The usual run's results.
fn results(pages: &Pages) -> Value {
    let json = &pages[&format!("{DIR}/results.json")];
    serde_json::from_slice(json).expect("it is JSON")
}

/// The results of all cells.
fn cells(results: &Value) -> &[Value] {
    results["cells"].as_array().expect("there are cells")
}

#[test]
fn the_downloads_are_what_the_page_says_of_them() {
    let (world, pages) = (usual(), usual_site());
    let text = text_of(pages, "data.html");
    for name in NAMES {
        let bytes = &pages[&format!("{DIR}/{name}")];
        assert!(text.contains(&schema::hash::sha256_hex(bytes)), "{name}");
    }
    let analysis = world.analyse().remove(0);
    assert_eq!(cells(&results(pages)).len(), analysis.cells.len());
    let csv = html_of(pages, &format!("{DIR}/results.csv"));
    let numbers: usize = analysis.cells.iter().map(|c| 1 + c.metrics.len()).sum();
    assert_eq!(csv.matches("\r\n").count(), 1 + numbers);
    let list = html_of(pages, &format!("{DIR}/records.sha256"));
    assert_eq!(list.lines().count(), world.runs[0].launches.len());
    for line in list.lines() {
        assert!(line.len() > 66 && &line[64..66] == "  ", "{line}");
    }
}

#[test]
fn the_error_of_stamps_is_in_both_downloads_where_it_was_checked() {
    let mut world = usual();
    let target = "lmrs.cpu.q8_0";
    audit(&mut world.runs[0], target);
    let pages = render(&world);
    let results = results(&pages);
    let csv = html_of(&pages, &format!("{DIR}/results.csv"));
    let described = text_of(&pages, "data.html");
    // The same values as on the scenario's page.
    for (name, ns) in [
        ("first_stamp_error_ns", 29_957.0),
        ("first_stamp_error_mean_ns", 0.0),
        ("later_stamp_error_ns", 35_043.0),
        ("later_stamp_error_mean_ns", 16_667.0),
    ] {
        let mut checked = 0;
        for cell in cells(&results) {
            let found = cell[name].as_f64();
            let is_checked = cell["target"] == target;
            assert_eq!(found.is_some(), is_checked, "{cell}");
            checked += usize::from(is_checked);
            assert!(found.is_none_or(|found| (found - ns).abs() < 1.0), "{cell}");
        }
        assert_eq!(csv.matches(&format!(",{name},ns,5000,")).count(), checked);
        assert!(checked > 10 && described.contains(name), "{name}");
    }
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
        for name in NAMES {
            let path = format!("data/{id}/{name}");
            assert!(pages.contains_key(&path), "{path}");
            says(page, &[&format!("href=\"../{path}\"")]);
            let data = html_of(&pages, "data.html");
            says(data, &[&format!("href=\"{path}\"")]);
        }
        let path = format!("data/{id}/records.tar.zst");
        assert_eq!(pages.contains_key(&path), *id == earlier);
        assert_eq!(page.contains(&path), *id == earlier);
    }
}

#[test]
fn charts_of_the_index_and_of_scenarios_are_files_too() {
    let pages = usual_site();
    html::check(pages);
    for (from, path) in [
        ("index.html", "chart/index.speed-up.svg"),
        (
            "scenario/memory.html",
            "chart/scenario.memory.memory-stack.svg",
        ),
    ] {
        says(html_of(pages, from), &[&format!("{path}\">SVG</a>")]);
        let svg = html_of(pages, path);
        html::read(path, svg).ids(path);
        let parts = [
            "xmlns=\"http://www.w3.org/2000/svg\"",
            "prefers-color-scheme:dark",
            "class=\"title\"",
            "20990102-030405-cpu-synthetic",
        ];
        says(svg, &parts);
    }
}

#[test]
fn every_field_of_results_json_is_described() {
    let world = world(vec![with_twins(run("cpu", 5, 22), 22)]);
    let pages = render(&world);
    let text = text_of(&pages, "data.html");
    let results = results(&pages);
    let cell = &results["cells"][0];
    let mut metrics = cell["metrics"].as_object().unwrap().values();
    let described = [
        &results,
        cell,
        metrics.next().unwrap(),
        &results["comparisons"][0],
        &results["noise"][0],
        &results["noise"][0]["pairs"][0],
    ];
    for value in described {
        for key in value.as_object().unwrap().keys() {
            says(&text, &[key]);
        }
    }
    says(&text, &["RequestRecord", "token_ns", "Readings"]);
    says(&text, &["CaseEnd", "Provenance", "Offer"]);
}

#[test]
fn the_dataset_is_described_for_machines_and_cannot_end_its_script() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    world.runs[0].header.started = "</script><b>&".into();
    let pages = render(&world);
    let page = html_of(&pages, "data.html");
    let json = between(page, "application/ld+json\">", "</script>");
    let dataset: Value = serde_json::from_str(json).unwrap();
    assert_eq!(dataset["@type"], "Dataset");
    assert_eq!(dataset["dateCreated"], "</script><b>&");
    assert_eq!(dataset["distribution"].as_array().unwrap().len(), 3);
}
