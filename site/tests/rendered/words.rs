//! What pages may say and what they may not: no target is called a leader because it was offered
//! more, no run is presented as advice that it can't give, and no page claims an origin that its
//! numbers don't have.

use crate::common::change::{lose_gpu, no_time, of_1b, ours};
use crate::common::provenance::add_limits;
use crate::common::{World, render, run, usual, usual_site, world};
use crate::html::{between, checked, html_of, lacks, says, words, words_of};
use schema::hypothesis::{CaseSelector, Claim};
use schema::key::{CaseKey, CellKey};
use schema::maturity::Dossier;
use schema::origin::Stopped;
use schema::profile::{Sizes, Slo};
use schema::scenario::{Axis, LoadShape};
use site::fmt::{Unit, quantity};
use stats::analysis::{MetricId, Role, Verdict};

const OPEN: &str = "sustained";

/// The synthetic world with sustained load as an open loop, at shares of each target's own
/// capacity.
fn with_open_loop() -> World {
    let mut run = run("cpu", 5, 22);
    run.header.plan.slo = Some(Slo {
        ttft_p90_ms: 1e6,
        itl_p90_ms: 1e6,
    });
    let planned = run.header.plan.scenarios.iter_mut();
    let planned = planned.into_iter().find(|s| s.id == OPEN).unwrap();
    (planned.load, planned.axis) = (LoadShape::Poisson, Axis::LoadPercent);
    for (case, percent) in planned.cases.iter_mut().zip([50, 90]) {
        case.load_percent = Some(percent);
    }
    let mut world = world(vec![run]);
    let text = world.scenarios.iter_mut().find(|s| s.id == OPEN).unwrap();
    (text.load, text.axis) = (LoadShape::Poisson, Axis::LoadPercent);
    text.reports = [
        "goodput_requests_per_s",
        "e2e_ns",
        "offered_requests_per_s",
        "schedule_lag_ns",
    ]
    .map(String::from)
    .to_vec();
    world
}

#[test]
fn nobody_leads_where_each_target_has_a_load_of_its_own() {
    let pages = render(&with_open_loop());
    let text = |path: &str| words_of(&pages, path);
    let scenario = text("scenario/sustained.html");
    let wanted = [
        "Loads differ by target, so none leads; 8 of 8 targets were planned.",
        "At 90 % of its own capacity ",
        " offered; ",
        ", each at a load of its own",
    ];
    says(&scenario, &wanted);
    lacks(&scenario, &["the highest is", "Against the leader"]);
    lacks(&scenario, &["Against the baseline"]);
    let index = text("index.html");
    says(&index, &["of 4 ranked scenarios", "loads differ by target"]);
    says(&index, &["Sustained load , not ranked: At 90 %"]);
    lacks(&index, &["leads sustained load"]);
    let left_out = "Left out: sustained load, where each target is offered a share";
    says(&text("compare.html"), &[left_out]);
    let pair = text("compare/candle.cpu.f32.html");
    lacks(&pair, &["% of its own capacity"]);
    let engine = text("engine/candle.html");
    says(&engine, &["Single request – "]);
    lacks(&engine, &["Sustained load – "]);
    let closed = words_of(usual_site(), "index.html");
    says(&closed, &["of 5 ranked scenarios"]);
}

#[test]
fn who_was_measured_alone_is_not_the_best_of_many() {
    let mut world = with_open_loop();
    let run = &mut world.runs[0];
    let planned = run.header.plan.scenarios.iter_mut();
    let planned = planned.into_iter().find(|s| s.id == OPEN).unwrap();
    planned.targets = vec!["candle.cpu.f32".into()];
    let text = words(&world, "scenario/sustained.html");
    let said = "at 90 % of its own capacity only candle.cpu.f32 was measured: ";
    says(&text, &[said, "1 of 8 targets was planned."]);
}

#[test]
fn a_run_that_may_carry_no_recommendation_says_so_before_it_names_a_leader() {
    let mut world = usual();
    let cant = "The run on this page can’t say: its model has 1\u{202f}234\u{202f}567 parameters, \
                and a choice rests on none under 1\u{a0}B. In it ";
    says(html_of(usual_site(), "index.html"), &[cant]);
    world.models.models[0].parameters = 2_000_000_000;
    let index = words(&world, "index.html");
    lacks(&index, &["The run on this page can’t say"]);
}

#[test]
fn an_engine_of_our_own_is_called_ours_where_it_leads() {
    let own = "(this project’s own engine)";
    lacks(&words_of(usual_site(), "index.html"), &[own]);
    let mut world = usual();
    ours(&mut world, |_| true);
    let leads = format!("{own} leads ");
    let index = words(&world, "index.html");
    says(&index, &[&leads, "Of this project’s own engine: "]);
}

#[test]
fn the_index_says_who_gives_the_whole_answer_sooner_than_the_leader() {
    let whole = "the whole answer: ";
    lacks(&words_of(usual_site(), "index.html"), &[whole]);
    let mut world = usual();
    // Make the targets that lead by the first token slow after it.
    let analysis = &world.analyse()[0];
    let leads = |target: &str| {
        let mut cells = analysis.cells.iter();
        cells.any(|c| c.scenario == "single_request" && c.target == target && c.rank == Some(1))
    };
    let logs = world.runs[0].launches.iter_mut();
    for log in logs.filter(|log| leads(&log.launch.target)) {
        for request in log.requests.iter_mut() {
            for at in request.token_ns.iter_mut().skip(1) {
                *at += 1_000_000_000;
            }
            request.answered_ns += 1_000_000_000;
        }
    }
    let index = words(&world, "index.html");
    let sooner = between(&index, whole, " has ");
    assert!(!leads(sooner), "{sooner}");
}

#[test]
fn the_index_says_which_size_it_shows() {
    let said = "at the size that the most targets had time for, the largest if several tie";
    let smallest = "; here that is the smallest size of every scenario";
    let mut world = usual();
    let index = words_of(usual_site(), "index.html");
    says(&index, &[said]);
    lacks(&index, &[smallest]);
    let places = [
        ", 8 users",
        ", 8 in flight",
        ", batch 4",
        "200 prompt",
        "512 prompt",
    ];
    let named = |place: &&str| {
        index.contains(&format!("{place} tokens)")) || index.contains(&format!("{place})"))
    };
    assert!(places.iter().any(named), "{index}");
    // One target had time only for the smallest size.
    let mut over = Vec::new();
    for scenario in &world.runs[0].header.plan.scenarios {
        let value = |case: &schema::plan::Case| case.axis_value(scenario.axis);
        let least = scenario.cases.iter().map(value).min();
        for case in scenario.cases.iter().filter(|c| Some(value(c)) != least) {
            over.push(CellKey::new("candle.cpu.f32", &scenario.id, &case.id));
        }
    }
    no_time(&mut world.runs[0], over);
    says(&words(&world, "index.html"), &[smallest]);
}

#[test]
fn a_pair_of_a_disturbed_launch_is_counted_beside_the_answer() {
    lacks(&words_of(usual_site(), "index.html"), &["disturbed"]);
    let mut world = usual();
    // The last case is the one that stands for the scenario.
    lose_gpu(&mut world.runs[0], "c8", "the GPU was lost: synthetic");
    let index = words(&world, "index.html");
    says(&index, &["⚠ 1 comparison disturbed"]);
}

#[test]
fn what_engines_offer_beyond_speed_stands_beside_a_choice_and_changes_none() {
    let mut world = of_1b();
    let known = world.maturity.engines.remove(0);
    let bare = words(&world, "guide.html");
    let engines = world.registry.engines.iter();
    let dossiers = engines.map(|engine| Dossier {
        id: engine.id.clone(),
        read: Some("2026-01-03".into()),
        ..known.clone()
    });
    world.maturity.engines = dossiers.collect();
    let guide = words_of(&checked(&world), "guide.html");
    let said = "newest candle-core 0.11.1 of 2026-01-01, 7 stable releases in the year before \
                2026-01-03; server: none (synthetic); nothing was read on batching and devices.";
    let taken = |guide: &str| -> Vec<String> {
        let after = guide.split(" Take ").skip(1);
        let target = |after: &str| after.split(' ').next().unwrap_or_default().to_owned();
        after.map(target).collect()
    };
    let choices = taken(&guide);
    assert!(!choices.is_empty() && taken(&bare) == choices, "{guide}");
    // Without a word on any engine, nothing stands beside the choices.
    lacks(&bare, &["Beyond speed", "runner-up"]);
    assert_eq!(guide.matches("(the choice): newest").count(), choices.len());
    assert_eq!(guide.matches(said).count(), 2 * choices.len(), "{guide}");
    for (choice, after) in choices.iter().zip(guide.split("(runner-up ").skip(1)) {
        let of = |target: &str| target.split(['.', '+']).next().unwrap().to_owned();
        assert_ne!(of(after), of(choice), "{after}");
    }
    says(&guide, &["does not change the choice"]);
}

#[test]
fn the_opening_sentence_counts_who_is_detectably_worse() {
    let world = usual();
    let analysis = world.analyse().remove(0);
    let at = CaseKey::new(OPEN, "c8");
    let others = || analysis.comparisons_of(&at, Role::Leader);
    let worse = others().filter(|c| c.verdict == Verdict::Worse).count();
    assert!(worse > 1, "the synthetic engines differ");
    let who = match others().count() {
        all if all == worse => "Every other measured target is".to_owned(),
        all => format!("{worse} of {all} other targets are"),
    };
    let text = words_of(usual_site(), &format!("scenario/{OPEN}.html"));
    says(&text, &[&format!(". {who} detectably worse (p ")]);
    says(&text, &[" after Holm’s correction; 5 launches each)."]);
}

#[test]
fn a_choice_for_one_machine_names_the_command_for_another() {
    let mut world = of_1b();
    let profile = &mut world.profiles[0];
    profile.model = "synthetic-1b".into();
    profile.scenarios.insert(OPEN.into(), Sizes::default());
    let said = "To get a recommendation for other hardware, run: cargo xtask bench-all --profile \
                cpu --scenarios sustained on cpu, flex of another machine, with synthetic-1b";
    says(&words(&world, "guide.html"), &[said]);
}

#[test]
fn the_index_says_which_runs_are_not_publishable_and_that_none_measured_a_gpu() {
    let said = "No run that may be published has measured a GPU yet.";
    let marked = "profile smoke; not publishable: ";
    let mut world = world(vec![run("cpu", 5, 22), run("smoke", 1, 5)]);
    says(&words(&world, "index.html"), &[said]);
    // Flex is a device of its own now.
    let backends = &mut world.registry.backends;
    backends.insert("flex".into(), Vec::new());
    let index = words(&world, "index.html");
    lacks(&index, &[said]);
    says(&index, &[&format!("{marked}too few samples")]);
    // Such a target counts only where it has a number, in a run that may be published.
    let launches = &mut world.runs[0].launches;
    launches.retain(|log| !log.launch.target.contains("flex"));
    let (whole, planned) = (3, 5);
    world.runs[1].header.origin.stopped = Some(Stopped { whole, planned });
    let stopped = format!("{marked}stopped after 3 of 5 blocks, too few samples");
    says(&words(&world, "index.html"), &[said, &stopped]);
}

#[test]
fn a_run_of_an_older_scenario_has_no_ranks_there() {
    let mut world = usual();
    let text = world.scenarios.iter_mut().find(|s| s.id == OPEN).unwrap();
    text.version += 1;
    let why = "There are no ranks here: the scenario has changed since this run.";
    says(&words(&world, &format!("scenario/{OPEN}.html")), &[why]);
}

#[test]
fn what_no_run_gave_claims_no_run() {
    let pages = usual_site();
    let claim = "very number on this page comes from run";
    for path in ["methodology.html", "glossary.html", "changelog.html"] {
        lacks(html_of(pages, path), &[claim]);
    }
    says(html_of(pages, "index.html"), &[claim]);
    let methodology = html_of(pages, "methodology.html");
    says(methodology, &["data/parity.toml</code>, not from a run"]);
}

#[test]
fn an_interval_that_reaches_under_zero_is_explained_where_it_stands() {
    let note = "An interval that reaches under 0 says";
    let path = "scenario/single_request.html";
    lacks(&words_of(usual_site(), path), &[note]);
    let mut world = usual();
    // One launch waits a thousand times as long for its first tokens as the others.
    let logs = world.runs[0].launches.iter_mut();
    let of = |log: &&mut schema::launch_log::LaunchLog| {
        log.launch.invocation == 1 && log.launch.scenario == "single_request"
    };
    for log in logs.filter(of) {
        let mut late = 0;
        for request in &mut log.requests {
            let wait = 1000 * (request.token_ns[0] - request.started_ns);
            request.scheduled_ns += late;
            request.sent_ns += late;
            request.received_ns += late;
            request.started_ns += late;
            late += wait;
            for ns in &mut request.token_ns {
                *ns += late;
            }
            request.answered_ns += late;
        }
        for end in &mut log.case_ends {
            end.end_ns += late;
        }
    }
    says(&words(&world, path), &[note]);
}

#[test]
fn a_cold_start_whose_interval_would_reach_under_zero_has_its_shortest_and_longest_launch() {
    let note = "Where the interval of a time that each launch has once would reach under 0";
    let path = "scenario/single_request.html";
    lacks(&words_of(usual_site(), path), &[note]);
    let mut world = usual();
    // One launch takes a hundred seconds longer to be ready than the others.
    for log in &mut world.runs[0].launches {
        if log.launch.invocation == 1 && log.launch.scenario == "single_request" {
            log.launch.start_ns -= 100_000_000_000;
        }
    }
    let analysis = world.analyse().remove(0);
    let cell = analysis.cell(&CellKey::new("candle.cpu.q8_0", "single_request", "p200"));
    let found = cell.unwrap().metric(MetricId::ColdStartNs).unwrap();
    assert!(found.ci95.unwrap().0 < 0.0, "{found:?}");
    let launches = || found.by_invocation.iter().copied();
    let of = |ns: Option<f64>| quantity(Unit::Ns, ns.unwrap());
    let range = format!(
        "{} ({} to {} in 5 launches)",
        of(Some(found.value)),
        of(launches().reduce(f64::min)),
        of(launches().reduce(f64::max))
    );
    let pages = checked(&world);
    let text = words_of(&pages, path);
    says(&text, &[note, &format!("candle.cpu.q8_0 {range} 5 5 ")]);
    lacks(&text, &["[−"]);
    // The downloads keep the interval.
    let path = format!("data/{}/results.json", world.runs[0].header.id);
    let results: serde_json::Value = serde_json::from_slice(&pages[&path]).unwrap();
    let mut cells = results["cells"].as_array().unwrap().iter();
    let cell = cells.find(|c| c["target"] == "candle.cpu.q8_0" && c["case"] == "p200");
    let low = &cell.unwrap()["metrics"]["cold_start_ns"]["ci95"][0];
    assert!(low.as_f64().unwrap() < 0.0, "{low}");
}

#[test]
fn arithmetic_alone_says_nothing_of_where_time_is_left() {
    let roadmap = words_of(usual_site(), "roadmap.html");
    let wanted = [
        "No limit of this machine was measured in this run",
        "so nothing can be said of where time is left. By arithmetic alone, the target furthest \
         from linear growth is ",
        "on 2 CPUs, which one request can fill, most of that can’t be had.",
        "whether it can be reached isn’t known",
    ];
    says(&roadmap, &wanted);
    let unreachable = "it may not be reachable";
    lacks(&roadmap, &[unreachable]);
    let mut world = usual();
    add_limits(&mut world.runs[0]);
    says(&words(&world, "roadmap.html"), &[unreachable]);
}

#[test]
fn an_open_prediction_says_what_keeps_it_open() {
    let mut world = usual();
    let target = "candle.cpu.f32";
    let analysis = world.analyse().remove(0);
    let mut cells = analysis.cells.iter();
    let of = |scenario: &str, case: &str| scenario == "single_request" && case == "p10";
    let cell = cells.find(|c| of(&c.scenario, &c.case) && c.target == target);
    let seen = cell.and_then(|c| c.metric(MetricId::TtftNs)).unwrap();
    let wide = &mut world.hypotheses.hypotheses[0];
    assert_eq!(wide.metric.as_deref(), Some("ttft_ns"));
    wide.of.targets = vec![target.into()];
    wide.at = CaseSelector::Value(10);
    // The interval lies on both sides of the bound, and the value just within.
    wide.claim = Claim::Range {
        min: Some(0.9999 * seen.value),
        max: None,
    };
    let text = words(&world, "hypotheses.html");
    let said = "It stays open: the intervals of 1 of 1 number allow either (values within the \
                bound: 1), and more launches would narrow them.";
    says(&text, &[said]);
    let (open, said) = ("? inconclusive", "It stays open: ");
    assert_eq!(text.matches(said).count(), text.matches(open).count());
}

#[test]
fn what_holds_by_construction_is_no_confirmed_prediction() {
    let mut world = usual();
    let text = |world: &World| words(world, "hypotheses.html");
    let confirmed = |text: &str| text.matches("✓ confirmed").count();
    // The bounds of this prediction hold whatever was measured.
    assert_eq!(world.hypotheses.hypotheses[0].id, "wide");
    world.hypotheses.hypotheses[0].of.targets = vec!["candle.cpu.f32".into()];
    let findings = text(&world);
    lacks(&findings, &[", 1 is true by construction, "]);
    world.hypotheses.hypotheses[0].by_construction = true;
    let marked = text(&world);
    says(&marked, &[", 1 is true by construction, "]);
    assert_eq!(marked.matches("✓ true by construction").count(), 1);
    assert_eq!(confirmed(&marked) + 1, confirmed(&findings));
    // A prediction that doesn't hold is refuted, even if it is marked as true by construction.
    assert_eq!(world.hypotheses.hypotheses[1].id, "narrow");
    world.hypotheses.hypotheses[1].by_construction = true;
    assert_eq!(text(&world).matches("✓ true by construction").count(), 1);
}

#[test]
fn the_most_telling_cell_of_a_prediction_stands_first() {
    let text = html_of(usual_site(), "hypotheses.html");
    says(text, &["Within, corrected"]);
    lacks(text, &[">Alone<"]);
    let of = "The cells behind “Synthetic prediction narrow.”";
    let (_, cells) = text.split_once(of).expect("it has cells");
    let rows = between(cells, "<tbody>", "</tbody>");
    // Between 1 and 2 ns was predicted; what took longest, the longest prompts, is furthest from
    // that.
    let mut rows = rows.split("</tr>");
    let (first, second) = (rows.next().unwrap(), rows.next().unwrap());
    for row in [first, second] {
        says(row, &["200 prompt"]);
    }
}
