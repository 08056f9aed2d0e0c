//! What must hold for every rendered site, whatever the data: links lead somewhere, ids are unique,
//! tags balance, equal data give equal bytes, every drawn number is in a table, and no failure is
//! left out.

use crate::common::launch::with_twins;
use crate::common::{World, add_variants, render, run, usual_site, world};
use crate::html::{check, checked, html_of, text_of, texts};
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
    let page = |world: &World, path: &str| text_of(&render(world), path);
    let paths = [
        "run/20990102-030405-cpu-synthetic.html",
        "engine/candle.html",
    ];
    for path in paths {
        assert!(!page(&world, path).contains("Kept from some"), "{path}");
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
    for path in paths {
        let text = page(&world, path);
        assert!(text.contains("LIB_MAX=B: it describes no tiles"), "{path}");
    }
    let text = page(&world, paths[0]);
    assert!(text.contains("LIB_MAX=B target/release/candle-bench"));
}

#[test]
fn an_engine_says_what_adopting_it_costs() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    let page =
        |world: &World, engine: &str| text_of(&render(world), &format!("engine/{engine}.html"));
    let text = page(&world, "candle");
    for word in [
        "What adopting it costs",
        "11.8 MiB",
        "libsynthetic.so.1, 3.00 GiB",
        "321",
        "61.5 s",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let python = page(&world, "pytorch");
    assert!(python.contains("57, 7.00 GiB"), "{python}");
    assert!(python.contains("was built before this run"), "{python}");
    // The page of a run without that measurement has no such section.
    world.runs[0].header.provenance.adoption.clear();
    assert!(!page(&world, "candle").contains("What adopting it costs"));
}

#[test]
fn equal_data_gives_equal_bytes() {
    let make = || render(&world(vec![run("cpu", 5, 5)]));
    assert!(make() == make());
}

#[test]
fn without_a_run_the_index_says_what_to_run() {
    let pages = checked(&world(vec![]));
    assert!(html_of(&pages, "index.html").contains("cargo xtask bench-all"));
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
    assert!(index.contains("Nothing can be ranked yet"));
    assert!(!index.contains("rank 1"));
    let scenario = html_of(&pages, "scenario/single_request.html");
    assert!(scenario.contains("too few launches to say"));
}

#[test]
fn no_failure_is_left_out() {
    let world = world(vec![run("cpu", 5, 5)]);
    let pages = render(&world);
    let analysis = world.analyse().remove(0);
    let failed: Vec<_> = analysis
        .cells
        .iter()
        .filter(|cell| cell.status != Status::Ok)
        .collect();
    assert!(failed.len() >= 4, "the synthetic run has failures");
    let page = |path: &str| text_of(&pages, path);
    let coverage = page("coverage.html");
    let index = page("index.html");
    for cell in failed {
        assert!(coverage.contains(&cell.reason), "{cell:?}");
        let scenario = page(&format!("scenario/{}.html", cell.scenario));
        assert!(scenario.contains(&cell.reason), "{cell:?}");
        let engine = cell.target.split('.').next().unwrap();
        assert!(
            page(&format!("engine/{engine}.html")).contains(&cell.reason),
            "{cell:?}"
        );
    }
    for word in [
        "crashed",
        "out of memory",
        "timeout",
        "not verified that far",
    ] {
        assert!(index.contains(word), "{word}");
    }
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
    assert!(html_of(without, page).contains(no_twins));
    assert!(html_of(&with, page).contains("A/A: what lay between a target and itself"));
    assert!(html_of(&with, "index.html").contains("class=\"nf\""));
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
    for said in ["The statistics on trial", "95.1", "1.2", "17"] {
        assert!(methodology.contains(said), "{said}");
    }
    // What each name's own factor does to runs that go on, and slow launches to a tail's interval.
    for said in [
        "<td>10 compared, A/A pairs, names ±2.50 %</td>",
        "held the truth in 94.0 %, and equal cells were called different in 3.10 %.",
        "<td>25.0 %</td><td>p90</td><td>64.0 %</td><td>28.2 %</td><td>12.3 %</td>",
        "that of p90 then held the truth in 93.7 %, and in 28.2 % where some launches are slow.",
    ] {
        assert!(methodology.contains(said), "{said}");
    }
    let scaling = text("scenario/concurrent.html");
    assert!(scaling.contains("Of linear") && scaling.contains("No scalability law is fitted"));
    let serial = text("scenario/single_request.html");
    assert!(serial.contains("Early ÷ late") && !serial.contains("Of linear"));
}

#[test]
fn each_row_of_the_adapters_costs_says_how_many_pairs_it_rests_on() {
    let mut world = world(vec![]);
    world.adapters.rows[1].pairs = 15;
    let pages = render(&world);
    let methodology = html_of(&pages, "methodology.html");
    let (_, table) = methodology.split_once("id=\"adapters\"").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
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
    assert!(text.contains(&named(&all)), "{text}");
    world.adapters.rows[0].engine = world.registry.engines[0].id.clone();
    let text = text_of(&render(&world), "methodology.html");
    assert!(text.contains(&named(&all[1..])), "{text}");
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
    assert!(coverage.contains("Kernels not traced"), "{coverage}");
    assert!(coverage.contains("its trace is synthetic"), "{coverage}");
}

#[test]
fn a_trace_that_was_measured_has_a_page() {
    let mut world = traced();
    // Pretend that it was measured: this page is never written to disk.
    let trace = world.runs[0].kernels[0].trace.as_mut().expect("it loads");
    trace.header.synthetic = false;
    let pages = checked(&world);
    let kernels = text_of(&pages, "kernels.html");
    for word in [
        "synthetic.cuda.f16",
        "4.00", // kernels a token
        "80.0 %",
        "100 µs", // gaps
        "71.2 %", // matmul
        "synthetic_gemm_down",
        "nothing here is compared or ranked",
    ] {
        assert!(
            kernels.contains(word),
            "{word} is not on the page: {kernels}"
        );
    }
    assert!(!text_of(&pages, "coverage.html").contains("Kernels not traced"));
}

#[test]
fn a_run_without_a_trace_says_why() {
    let pages = render(&world(vec![run("cpu", 5, 5)]));
    let coverage = text_of(&pages, "coverage.html");
    assert!(
        coverage.contains("no target of this run is on CUDA"),
        "{coverage}"
    );
    let mut world = traced();
    world.runs[0].kernels.clear();
    let coverage = |world: &World| text_of(&render(world), "coverage.html");
    assert!(coverage(&world).contains("the machine has no NVIDIA device"));
    let facts = &mut world.runs[0].header.provenance.facts;
    facts.insert("gpu".into(), "synthetic".into());
    assert!(coverage(&world).contains("cargo xtask trace"));
    world.runs[0].verify.remove("synthetic.cuda.f16");
    assert!(coverage(&world).contains("has not passed the parity gate"));
}

#[test]
fn a_disturbed_launch_is_flagged_beside_its_numbers_and_explained() {
    let mut run = run("cpu", 5, 22);
    let (target, scenario) = ("candle.cpu.f32", "sustained");
    let log = run
        .launches
        .iter_mut()
        .find(|log| {
            let of = &log.launch;
            of.target == target && of.scenario == scenario && of.invocation == 2
        })
        .expect("the launch is there");
    // A lost GPU is a disturbance without any other counter.
    let end = log.case_ends.first().expect("a case is complete").clone();
    log.telemetry = vec![schema::record::Telemetry {
        case: end.case,
        t_ns: end.start_ns,
        gpu_lost: Some("the GPU was lost: a synthetic <reason>".into()),
        ..Default::default()
    }];
    let id = run.header.id.clone();
    let pages = checked(&world(vec![run]));
    let text = |path: &str| text_of(&pages, path);
    let run_page = text(&format!("run/{id}.html"));
    assert!(run_page.contains("a synthetic &lt;reason&gt;") || run_page.contains("<reason>"));
    let scenario_page = text("scenario/sustained.html");
    let flags = scenario_page.matches("1 of 5 launches disturbed").count();
    assert_eq!(flags, 1, "once for all metrics of the cell");
    assert!(scenario_page.contains("disturbed in block 2"));
    assert!(!text("scenario/memory.html").contains("launches disturbed"));
}

#[test]
fn the_index_shows_the_largest_size_that_most_targets_had_time_for() {
    let shows_largest = |one_had_no_time: bool| {
        let mut run = run("cpu", 5, 22);
        let plan = &run.header.plan;
        let scenario = plan.scenarios.iter().find(|s| s.id == "single_request");
        let cases = &scenario.expect("it is planned").cases;
        let largest = cases.iter().max_by_key(|case| case.prompt_tokens);
        let largest = largest.expect("there are cases").clone();
        let over = one_had_no_time.then(|| schema::budget::OverBudget {
            target: "candle.cpu.f32".into(),
            scenario: "single_request".into(),
            case: largest.id.clone(),
            estimate_s: 1.0,
            reason: "no time".into(),
        });
        run.budget = Some(schema::budget::Budget {
            budget_s: 1.0,
            share_s: Some(1.0),
            pilots: Vec::new(),
            over: over.into_iter().collect(),
            twins: Vec::new(),
        });
        let words = format!(
            "Time to first token, {} prompt tokens",
            largest.prompt_tokens
        );
        text_of(&render(&world(vec![run])), "index.html").contains(&words)
    };
    assert!(shows_largest(false));
    assert!(!shows_largest(true));
}

#[test]
fn what_a_trained_model_writes_is_shown_and_what_is_wrong_with_it_said() {
    let pages = usual_site();
    let methodology = html_of(pages, "methodology.html");
    for said in [
        "its perplexity is 1.456",
        "cargo xtask train --steps 1500",
        "1 of 2 end by themselves",
        "<strong>Mia was a kind girl.</strong> She had a &lt;red&gt; ball.",
        "It departs from the grammar.",
    ] {
        assert!(methodology.contains(said), "{said}");
    }
}
