//! Tests of comparing two made-up runs whose truth is known.

use crate::common::{self, Engine, Made, check, made};
use schema::capacity::Capacity;
use schema::own_prompts::OwnPrompts;
use schema::record::Status;
use schema::scenario::{Axis, LoadShape, PromptSource};
use stats::analysis::{MetricId, Verdict};
use stats::between::{Change, between};
use std::collections::BTreeMap;

/// Make ten targets, the first of them slower by `factor`; `chance` seeds how launches vary.
fn ten(id: &str, factor: f64, chance: u64) -> Made {
    let names = [
        "a.cpu.f32",
        "b.cpu.f32",
        "c.cpu.f32",
        "d.cpu.f32",
        "e.cpu.f32",
        "f.cpu.f32",
        "g.cpu.f32",
        "h.cpu.f32",
        "i.cpu.f32",
        "j.cpu.f32",
    ];
    let mut engines = names.map(Engine::plain);
    engines[0] = engines[0].clone().slowed(factor);
    let mut made = made(&engines, 5, 22);
    made.run = fixtures::run(&engines, 5, 22, chance);
    made.run.header.id = id.into();
    made
}

fn compare_on(a: &Made, b: &Made, metric: Option<MetricId>) -> Vec<Change> {
    between(&a.run, &b.run, &a.scenarios, metric).changes
}

fn compare(a: &Made, b: &Made) -> Vec<Change> {
    compare_on(a, b, None)
}

fn verdicts(changes: &[Change]) -> Vec<Verdict> {
    changes.iter().map(|change| change.verdict).collect()
}

#[test]
fn an_engine_slowed_by_a_tenth_is_found_and_no_other_is_called_changed() {
    let (a, b) = (ten("a", 1.0, 98), ten("b", 1.1, 500_097));
    let changes = compare(&a, &b);
    assert_eq!(verdicts(&changes)[0], Verdict::Worse);
    assert!(changes[0].is_regression());
    // The first token comes 3.03 ms after its request is due, against 3.33 ms.
    let ratio = changes[0].ratio.unwrap();
    assert!((ratio - 0.91).abs() < 0.01, "{ratio}");
    let (low, high) = changes[0].ci95.unwrap();
    assert!(low < ratio && ratio < high && high < 1.0);
    assert_eq!(changes.len(), 10);
    assert!(verdicts(&changes)[1..].iter().all(|said| said.is_tie()));
    assert!(changes.iter().all(|c| c.metric == Some(MetricId::TtftNs)));
}

#[test]
fn the_other_way_round_it_is_faster_by_the_same_ratio() {
    let (a, b) = (ten("a", 1.0, 98), ten("b", 1.1, 500_097));
    let (there, back) = (compare(&a, &b), compare(&b, &a));
    assert_eq!(back[0].verdict, Verdict::Better);
    assert!(!back[0].is_regression());
    common::assert_close(there[0].ratio.unwrap() * back[0].ratio.unwrap(), 1.0);
}

#[test]
fn a_metric_of_which_more_is_better_keeps_the_sense() {
    let (a, b) = (ten("a", 1.0, 98), ten("b", 1.1, 500_097));
    let changes = compare_on(&a, &b, Some(MetricId::OutputTokPerS));
    assert_eq!(changes[0].verdict, Verdict::Worse);
    assert!(changes[0].ratio.unwrap() < 1.0);
}

#[test]
fn two_runs_of_the_same_targets_agree_on_what_lies_between_these() {
    let (a, b) = (ten("a", 1.0, 98), ten("b", 1.0, 500_097));
    let agree = between(&a.run, &b.run, &a.scenarios, None).agreement;
    // Ten targets in one case make 45 pairs.
    assert_eq!((agree.pairs, agree.with_intervals), (45, 45));
    assert_eq!(agree.contradictory, 0, "{agree:?}");
    assert!(agree.within_errors >= agree.held, "{agree:?}");
    // The first target is twice as slow in the second run.
    let (a, c) = (ten("a", 1.0, 98), ten("c", 2.0, 500_097));
    let differ = between(&a.run, &c.run, &a.scenarios, None).agreement;
    assert!(
        differ.within_errors <= agree.within_errors - 8,
        "{differ:?}"
    );
}

/// Let the first target of a run run twice, and the second time `times` as long in every block.
fn with_twin(mut made: Made, times: f64) -> Made {
    let engine = Engine::plain("a.cpu.f32").slowed(times);
    let second = |block| common::log(&engine, block, 22, u64::from(block) + 77);
    made.twice(engine.target, (0..5).map(second));
    made
}

#[test]
fn errors_are_as_large_as_the_pairs_of_either_run_say() {
    let (a, b) = (|| ten("a", 1.0, 98), || ten("b", 1.06, 500_097));
    let without = &compare(&a(), &b())[0];
    assert_eq!(without.verdict, Verdict::Worse, "found without pairs");
    assert_eq!(without.inflation, None);
    let off = [
        compare(&with_twin(a(), 1.5), &b()),
        compare(&a(), &with_twin(b(), 1.5)),
        compare(&with_twin(a(), 1.5), &with_twin(b(), 1.06)),
    ];
    for with in off.map(|changes| changes[0].clone()) {
        assert_eq!(with.verdict, Verdict::Undecided);
        assert!(with.inflation.unwrap() > 10.0, "{with:?}");
        assert!(with.p_holm > without.p_holm);
    }
}

#[test]
fn the_whole_table_is_one_family() {
    let (a, b) = (ten("a", 1.0, 98), ten("b", 1.1, 500_097));
    let alone = |made: &Made| {
        let mut one = made.clone();
        one.run.header.plan.targets.truncate(1);
        let launches = &mut one.run.launches;
        launches.retain(|l| l.launch.target == "a.cpu.f32");
        one
    };
    let p_of_ten = compare(&a, &b)[0].p_holm.unwrap();
    let p_alone = compare(&alone(&a), &alone(&b))[0].p_holm.unwrap();
    common::assert_close(p_of_ten, 10.0 * p_alone);
}

/// Return the reason of the first cell, which must be the only one not comparable, and whether it
/// is broken.
fn refused(a: &Made, b: &Made) -> (String, bool) {
    let changes = compare(a, b);
    assert_eq!(changes[0].verdict, Verdict::Unknown);
    assert_eq!((changes[0].p_holm, changes[0].ratio), (None, None));
    let others = &changes[1..];
    assert!(others.iter().all(|c| c.p_holm.is_some()), "{others:?}");
    (changes[0].reason.clone(), changes[0].broken)
}

#[test]
fn what_cannot_be_compared_says_why() {
    let a = ten("a", 1.0, 98);
    let changed = |change: &dyn Fn(&mut Made)| {
        let mut b = ten("b", 1.0, 99);
        change(&mut b);
        refused(&a, &b)
    };
    for (status, why, said, is_broken) in [
        (Status::Crashed, "signal 6", "crashed in b: signal 6", true),
        (Status::Unavailable, "x", "unavailable in b: x", false),
    ] {
        let (reason, broken) = changed(&|b| {
            let verify = b.run.verify.get_mut("a.cpu.f32").unwrap();
            (verify.status, verify.reason) = (status, why.into());
        });
        assert_eq!((reason.as_str(), broken), (said, is_broken));
    }
    let (reason, _) = changed(&|b| b.judge(check("a.cpu.f32", 3)));
    let rejected = "wrong_output in b: the reference rejects 3";
    assert!(reason.starts_with(rejected), "{reason}");
    let weights = |b: &mut Made| b.run.header.plan.targets[0].weights = "other.gguf".into();
    let (reason, _) = changed(&weights);
    assert_eq!(reason, "weights model.safetensors in a, other.gguf in b");
    // The cell is in the second run's plan alone, and so last in the list.
    let mut less = a.clone();
    less.run.header.plan.targets.remove(0);
    let changes = compare(&less, &ten("b", 1.0, 99));
    assert_eq!(changes.len(), 10);
    assert_eq!(
        (changes[9].target.as_str(), changes[9].reason.as_str()),
        ("a.cpu.f32", "not in the plan of a")
    );
    assert_eq!(
        compare(&ten("b", 1.0, 99), &less)[0].reason,
        "not in the plan of a"
    );
}

#[test]
fn other_questions_are_not_compared() {
    let a = ten("a", 1.0, 98);
    let reasons = |change: &dyn Fn(&mut Made)| {
        let mut b = ten("b", 1.0, 99);
        change(&mut b);
        let changes = compare(&a, &b);
        let all: Vec<Verdict> = verdicts(&changes);
        assert_eq!(all, [Verdict::Unknown; 10]);
        changes[4].reason.clone()
    };
    let model = reasons(&|b| b.run.header.plan.model = "other".into());
    assert_eq!(model, "model tiny-llama in a, other in b");
    let size = reasons(&|b| b.run.header.plan.scenarios[0].cases[0].prompt_tokens = 11);
    assert!(
        size.contains("10 → 4 tokens") && size.contains("11 → 4 tokens"),
        "{size}"
    );
    let version = reasons(&|b| b.run.header.plan.scenarios[0].version = 2);
    assert!(
        version.contains("version 1 (") && version.contains("version 2 ("),
        "{version}"
    );
    let single = reasons(&|b| {
        b.run.launches.retain(|log| log.launch.invocation == 0);
        b.run.header.plan.launches.retain(|l| l.invocation == 0);
    });
    assert!(single.contains("b has only one invocation"), "{single}");

    let hashed = |made: &mut Made, file: &str, prompts: &str| {
        let provenance = &mut made.run.header.provenance;
        let file = ("tiny-llama/model.safetensors".to_owned(), file.to_owned());
        provenance.model_files = BTreeMap::from([file]);
        provenance.facts = BTreeMap::from([("prompts_sha256".to_owned(), prompts.to_owned())]);
    };
    let mut a = ten("a", 1.0, 98);
    hashed(&mut a, "0123456789abcdef", "p");
    for (file, prompts, wanted) in [
        (
            "f",
            "p",
            "tiny-llama/model.safetensors is 0123456789ab in a, f in b",
        ),
        ("0123456789abcdef", "q", "other prompts: p in a, q in b"),
    ] {
        let mut b = ten("b", 1.0, 99);
        hashed(&mut b, file, prompts);
        assert_eq!(compare(&a, &b)[0].reason, wanted);
    }
    // Prompts that a run drew for itself differ, but have the same lengths.
    let mut drawn = ten("b", 1.0, 99);
    hashed(&mut drawn, "0123456789abcdef", "q");
    drawn.run.header.plan.prompt_seed = Some(7);
    assert_ne!(compare(&a, &drawn)[0].verdict, Verdict::Unknown);
    // With equal seeds, prompts can only differ by their text or tokenizer.
    drawn.run.header.plan.prompt_seed = Some(a.run.header.plan.seed);
    let reason = compare(&a, &drawn)[0].reason.clone();
    assert_eq!(reason, "other prompts: p in a, q in b");
}

#[test]
fn an_open_loop_is_compared_only_under_the_same_load() {
    let run = |id: &str, capacity: f64| {
        let mut made = ten(id, 1.0, 104);
        let scenario = &mut made.run.header.plan.scenarios[0];
        (scenario.load, scenario.axis) = (LoadShape::Poisson, Axis::LoadPercent);
        let case = &mut scenario.cases[0];
        case.load_percent = Some(50);
        let of = |target: &schema::registry::Target| Capacity {
            target: target.id.clone(),
            prompt_tokens: case.prompt_tokens,
            new_tokens: case.new_tokens,
            concurrency: case.concurrency,
            status: Status::Ok,
            requests_per_s: capacity,
            ..Capacity::default()
        };
        made.run.capacities = made.run.header.plan.targets.iter().map(of).collect();
        made
    };
    let before = run("before", 10.0);
    let other_load = compare(&before, &run("after", 15.0));
    assert!(!other_load.is_empty());
    for change in other_load {
        assert_eq!(change.verdict, Verdict::Unknown);
        let said = "another load: offered 5.00 requests/s in before, 7.50 requests/s in after";
        assert_eq!(change.reason, said);
    }
    for change in compare(&before, &run("after", 10.0)) {
        assert!(change.verdict.is_tie(), "{change:?}");
    }
}

#[test]
fn prompts_of_the_users_compare_where_they_are_the_same_tokens() {
    let run = |id: &str, file: &str, tokens: &[u32]| {
        let mut made = ten(id, 1.0, 104);
        let plan = &mut made.run.header.plan;
        plan.scenarios[0].prompts = PromptSource::Own;
        plan.prompts = Some(OwnPrompts {
            file: file.into(),
            sha256: id.into(),
            tokens: vec![tokens.to_vec(); 3],
        });
        made
    };
    let a = run("a", "one.jsonl", &[1, 2]);
    let other = compare(&a, &run("b", "two.jsonl", &[1, 3]));
    for change in &other {
        assert_eq!(change.verdict, Verdict::Unknown);
        assert!(
            change.reason.starts_with("other prompts: one.jsonl (")
                && change.reason.contains(" in a, two.jsonl ("),
            "{}",
            change.reason
        );
    }
    for change in compare(&a, &run("b", "copy.jsonl", &[1, 2])) {
        assert_ne!(change.verdict, Verdict::Unknown, "{}", change.reason);
    }
}
