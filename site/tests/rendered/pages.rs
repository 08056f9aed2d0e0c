//! What must hold for every rendered site, whatever the data: links lead somewhere, ids are unique,
//! tags balance, equal data give equal bytes, every drawn number is in a table, and no failure is
//! left out.

use crate::common::change::{lose_gpu, no_time, of_1b};
use crate::common::launch::with_twins;
use crate::common::provenance::add_facts;
use crate::common::{World, add_variants, render, run, usual_site, world};
use crate::html::{between, check, checked, html_of, lacks, read, rows, says, text_of, texts};
use schema::key::CellKey;
use schema::record::Status;

#[test]
fn a_full_site_holds_together() {
    let pages = checked(&world(vec![run("cpu", 5, 22), run("smoke", 1, 5)]));
    for path in [
        "index.html",
        "coverage.html",
        "methodology.html",
        "scenario/single_request.html",
        "engine/burn.html",
        "run/20990102-030405-cpu-synthetic.html",
        "run/20990102-030405-smoke-synthetic.html",
        "assets/site.css",
    ] {
        assert!(pages.contains_key(path), "{path}");
    }
}

#[test]
fn what_a_library_was_kept_from_is_said_of_the_run_and_of_the_engine() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    let run_page = "run/20990102-030405-cpu-synthetic.html";
    let paths = [run_page, "engine/candle.html"];
    let pages = render(&world);
    for path in paths {
        lacks(&text_of(&pages, path), &["Kept from some"]);
    }
    let limit = schema::record::IsaLimit {
        variable: "LIB_MAX".into(),
        value: "B".into(),
        why: "it describes no tiles".into(),
    };
    let launches = world.runs[0].launches.iter_mut();
    for log in launches.filter(|log| log.launch.target == "candle.cpu.f32") {
        log.launch.isa_limit = Some(limit.clone());
    }
    let pages = render(&world);
    for path in paths {
        let text = text_of(&pages, path);
        says(&text, &["LIB_MAX=B: it describes no tiles"]);
    }
    let text = text_of(&pages, run_page);
    says(&text, &["LIB_MAX=B target/release/candle-bench"]);
}

#[test]
fn an_engine_says_what_adopting_it_costs() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    let section = "What adopting it costs";
    let pages = render(&world);
    let candle = text_of(&pages, "engine/candle.html");
    says(&candle, &[section, "11.8 MiB", "321", "61.5 s"]);
    says(&candle, &["libsynthetic.so.1, 3.00 GiB"]);
    let python = text_of(&pages, "engine/pytorch.html");
    says(&python, &["57, 7.00 GiB", "was built before this run"]);
    // The page of a run without that measurement has no such section.
    world.runs[0].header.provenance.adoption.clear();
    let without = text_of(&render(&world), "engine/candle.html");
    lacks(&without, &[section]);
}

#[test]
fn equal_data_gives_equal_bytes() {
    let make = || render(&world(vec![run("cpu", 5, 5)]));
    assert!(make() == make());
}

#[test]
fn without_a_run_the_index_says_what_to_run() {
    let pages = checked(&world(vec![]));
    says(html_of(&pages, "index.html"), &["cargo xtask bench-all"]);
}

#[test]
fn a_profile_that_is_not_publishable_says_so_on_every_page() {
    let smoke = checked(&world(vec![run("smoke", 1, 5)]));
    for (path, text) in texts(&smoke) {
        assert!(text.contains("Not for publication"), "{path}");
    }
    for (path, text) in texts(&render(&world(vec![run("cpu", 5, 5)]))) {
        assert!(!text.contains("Not for publication"), "{path}");
    }
}

#[test]
fn a_first_look_says_on_every_page_what_it_is() {
    let look = world(vec![run("smoke", 1, 5)]);
    let mut input = look.input();
    input.publishing.banner = Some("A first look, not the report.");
    let pages = site::render(&input).unwrap();
    check(&pages);
    for (path, text) in texts(&pages) {
        assert!(text.contains("A first look, not the report."), "{path}");
        assert!(!text.contains("Not for publication"), "{path}: said twice");
    }
}

#[test]
fn one_invocation_gives_no_interval_no_rank_and_no_leader() {
    let pages = render(&world(vec![run("smoke", 1, 5)]));
    let index = html_of(&pages, "index.html");
    says(index, &["Nothing can be ranked yet"]);
    lacks(index, &["rank 1"]);
    let scenario = html_of(&pages, "scenario/single_request.html");
    says(scenario, &["too few launches to say"]);
}

#[test]
fn no_failure_is_left_out() {
    let world = world(vec![run("cpu", 5, 5)]);
    let pages = render(&world);
    let analysis = world.analyse().remove(0);
    let cells = analysis.cells.iter();
    let failed: Vec<_> = cells.filter(|cell| cell.status != Status::Ok).collect();
    assert!(failed.len() >= 4, "the synthetic run has failures");
    let coverage = text_of(&pages, "coverage.html");
    for cell in failed {
        assert!(coverage.contains(&cell.reason), "{cell:?}");
        let engine = cell.target.split('.').next().unwrap();
        for path in [
            format!("scenario/{}.html", cell.scenario),
            format!("engine/{engine}.html"),
        ] {
            let text = text_of(&pages, &path);
            assert!(text.contains(&cell.reason), "{path}: {cell:?}");
        }
    }
    let index = text_of(&pages, "index.html");
    says(&index, &["crashed", "out of memory", "timeout"]);
    says(&index, &["not verified that far"]);
}

#[test]
fn every_drawn_number_is_in_the_data_table_below() {
    let pages = usual_site();
    let mut drawn = 0;
    for (path, text) in texts(pages) {
        for figure in text.split("<figure ").skip(1) {
            let figure = figure.split("</figure>").next().unwrap();
            let (picture, table) = figure.split_once("<details>").expect("a table behind it");
            let (head, rows) = table.split_once("<tbody>").expect("a table");
            for title in picture.split("<title>").skip(1) {
                let title = title.split("</title>").next().unwrap();
                // A mark's title is the name of its row, then parts of cells or headings.
                let Some((name, parts)) = title.split_once(" · ") else {
                    continue;
                };
                drawn += 1;
                let row = rows.split("<tr>").find(|row| {
                    let holds = |part: &str| row.contains(part) || head.contains(part);
                    row.contains(&format!(">{name}<")) && parts.split(" · ").all(holds)
                });
                assert!(row.is_some(), "{path}: {title} is in no row");
            }
        }
    }
    assert!(drawn > 100, "{drawn}");
}

#[test]
fn a_a_pairs_stand_beside_what_they_decide_and_a_twin_is_no_target() {
    let without = usual_site();
    let with = checked(&world(vec![with_twins(run("cpu", 5, 22), 22)]));
    let page = "scenario/single_request.html";
    let no_twins = "No target ran twice: errors are what launches show.";
    says(html_of(without, page), &[no_twins]);
    let noise = "A/A: what lay between a target and itself";
    says(html_of(&with, page), &[noise]);
    says(html_of(&with, "index.html"), &["class=\"nf\""]);
    assert_eq!(
        with.keys().collect::<Vec<_>>(),
        without.keys().collect::<Vec<_>>(),
        "no page of its own"
    );
    for (path, text) in texts(&with) {
        assert_eq!(
            text.contains("@twin"),
            path.starts_with("run"),
            "{path}: its records are listed with their hashes, and nothing else is"
        );
    }
}

#[test]
fn what_the_statistics_can_do_is_said_with_its_numbers() {
    let pages = usual_site();
    let text = |path: &str| html_of(pages, path);
    let methodology = text("methodology.html");
    says(methodology, &["The statistics on trial"]);
    says(methodology, &["95.1", "1.2", "17"]);
    // What each name's own factor does to runs that go on, and slow launches to a tail's interval.
    let words = [
        "<td>10 compared, A/A pairs, names ±2.50 %</td>",
        "held the truth in 94.0 %, and equal cells were called different in 3.10 %.",
        "<td>25.0 %</td><td>p90</td><td>64.0 %</td><td>28.2 %</td><td>12.3 %</td>",
        "that of p90 then held the truth in 93.7 %, and in 28.2 % where some launches are slow.",
    ];
    says(methodology, &words);
    let scaling = text("scenario/concurrent.html");
    says(scaling, &["Of linear", "No scalability law is fitted"]);
    let serial = text("scenario/single_request.html");
    says(serial, &["Early ÷ late"]);
    lacks(serial, &["Of linear"]);
}

#[test]
fn each_row_of_the_adapters_costs_says_how_many_pairs_it_rests_on() {
    let mut world = world(vec![]);
    world.adapters.rows[1].pairs = 15;
    let pages = render(&world);
    let methodology = html_of(&pages, "methodology.html");
    let table = between(methodology, "id=\"adapters\"", "</table>");
    assert_eq!(table.matches("<td>10</td>").count(), 2, "{table}");
    assert_eq!(table.matches("<td>15</td>").count(), 1, "{table}");
    // It names the engines of the registry that it has no row of.
    let text = text_of(&pages, "methodology.html");
    let named = |not_timed: &[&str]| {
        let (last, others) = not_timed.split_last().unwrap();
        format!(
            "What the adapters of {} and {last} cost was not timed.",
            others.join(", ")
        )
    };
    let names = world
        .registry
        .engines
        .iter()
        .filter(|engine| !engine.hidden);
    let names: Vec<String> = names.map(|engine| engine.name.clone()).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    says(&text, &[&named(&all)]);
    world.adapters.rows[0].engine = world.registry.engines[0].id.clone();
    let text = text_of(&render(&world), "methodology.html");
    says(&text, &[&named(&all[1..])]);
}

#[test]
fn many_targets_still_fit_on_a_page() {
    let all = run("cpu", 5, 22);
    let mut twice = all.clone();
    add_variants(&mut twice, &all, "opt");
    checked(&world(vec![twice]));
}

/// A run with one more target, on CUDA, and that target's synthetic trace.
fn traced() -> World {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates/stats/tests/data/kernels.synthetic");
    let mut run = run("cpu", 5, 5);
    let mut target = run.header.plan.targets[0].clone();
    target.id = "synthetic.cuda.f16".into();
    target.backend = "cuda".into();
    let mut judged = run.verify.values().next().expect("there is one").clone();
    judged.target = target.id.clone();
    judged.status = Status::Ok;
    run.verify.insert(target.id.clone(), judged);
    run.header.plan.targets.push(target);
    let files = schema::run_files::RunFiles::open(&dir).expect("it is a run's directory");
    run.kernels = schema::kernels::TracedLaunch::load_all(&files).expect("the record loads");
    assert_eq!(run.kernels.len(), 1);
    world(vec![run])
}

#[test]
fn a_synthetic_trace_is_refused_and_named() {
    let pages = checked(&traced());
    assert!(!pages.contains_key("kernels.html"));
    let coverage = text_of(&pages, "coverage.html");
    says(&coverage, &["Kernels not traced", "its trace is synthetic"]);
}

#[test]
fn a_trace_that_was_measured_has_a_page() {
    let mut world = traced();
    // Pretend that it was measured: this page is never written to disk.
    let trace = world.runs[0].kernels[0].trace.as_mut().expect("it loads");
    trace.header.synthetic = false;
    let pages = checked(&world);
    let words = [
        "synthetic.cuda.f16",
        "4.00", // kernels a token
        "80.0 %",
        "100 µs", // gaps
        "71.2 %", // matmul
        "synthetic_gemm_down",
        "nothing here is compared or ranked",
    ];
    says(&text_of(&pages, "kernels.html"), &words);
    lacks(&text_of(&pages, "coverage.html"), &["Kernels not traced"]);
}

#[test]
fn a_run_without_a_trace_says_why() {
    let coverage = text_of(usual_site(), "coverage.html");
    says(&coverage, &["no target of this run is on CUDA"]);
    let mut world = traced();
    world.runs[0].kernels.clear();
    let coverage = |world: &World| text_of(&render(world), "coverage.html");
    says(&coverage(&world), &["the machine has no NVIDIA device"]);
    add_facts(&mut world.runs[0], &[("gpu", "synthetic")]);
    says(&coverage(&world), &["cargo xtask trace"]);
    world.runs[0].verify.remove("synthetic.cuda.f16");
    says(&coverage(&world), &["has not passed the parity gate"]);
}

#[test]
fn a_disturbed_launch_is_flagged_beside_its_numbers_and_explained() {
    let mut run = run("cpu", 5, 22);
    lose_gpu(&mut run, "c4", "the GPU was lost: a synthetic <reason>");
    let id = run.header.id.clone();
    let pages = checked(&world(vec![run]));
    let text = |path: &str| text_of(&pages, path);
    let run_page = text(&format!("run/{id}.html"));
    assert!(run_page.contains("a synthetic &lt;reason&gt;") || run_page.contains("<reason>"));
    let scenario_page = text("scenario/sustained.html");
    let flags = scenario_page.matches("1 of 5 launches disturbed").count();
    assert_eq!(flags, 1, "once for all metrics of the cell");
    says(&scenario_page, &["disturbed in block 2"]);
    lacks(&text("scenario/memory.html"), &["launches disturbed"]);
}

#[test]
fn each_cell_of_the_first_page_s_answers_names_its_column() {
    // Where the page is narrow a row is a card without the table's head.
    let pages = render(&of_1b());
    let index = html_of(&pages, "index.html");
    let tables = index.split("<table class=\"answers\">").skip(1);
    let mut named = 0;
    for table in tables {
        let table = table.split("</table>").next().unwrap();
        let heads = &rows(table)[0];
        for row in table.split("<tr>").skip(2) {
            let row = row.split("</tr>").next().unwrap();
            let tags = read("a row", row).tags.into_iter();
            let cells =
                tags.filter(|tag| tag.name == "td" && !tag.attributes.contains_key("colspan"));
            for (cell, head) in cells.zip(&heads[1..]) {
                assert_eq!(cell.attributes.get("data-label"), Some(head), "{row}");
                named += 1;
            }
        }
    }
    assert!(named > 25, "{named}");
}

#[test]
fn the_index_shows_the_largest_size_that_most_targets_had_time_for() {
    let shows_largest = |one_had_no_time: bool| {
        let mut run = run("cpu", 5, 22);
        let largest = CellKey::new("candle.cpu.f32", "single_request", "p200");
        no_time(&mut run, one_had_no_time.then_some(largest));
        let index = text_of(&render(&world(vec![run])), "index.html");
        index.contains("Time to first token, 200 prompt tokens")
    };
    assert!(shows_largest(false));
    assert!(!shows_largest(true));
}

#[test]
fn what_a_trained_model_writes_is_shown_and_what_is_wrong_with_it_said() {
    let words = [
        "its perplexity is 1.456",
        "cargo xtask train --steps 1500",
        "1 of 2 end by themselves",
        "<strong>Mia was a kind girl.</strong> She had a &lt;red&gt; ball.",
        "It departs from the grammar.",
    ];
    says(html_of(usual_site(), "methodology.html"), &words);
}
