//! The pages of the micro suites: every planned variant stands on its suite's page, with its
//! numbers or the reason why there are none, and on the page of the engine it belongs to.

use crate::common::{micro::with_micro, render, run, world};
use crate::html::{html_of, lacks, page, says};
use schema::micro::record::MicroFailed;
use schema::record::Status;

#[test]
fn every_variant_is_on_its_suite_s_page() {
    let pages = render(&world(vec![with_micro(run("cpu", 5, 24))]));
    let suite = html_of(&pages, "micro/adding.html");
    let words = [
        "How long does a sum take?",
        "10 numbers",
        "1000 numbers",
        "plain",
        "the baseline",
        "n = 100 readings, 5 launches",
        "1.5e-7",
        "20 readings of about",
        "Peak memory: of the process while",
        "GFLOP/s",
        "wrong output",
        "the reference has 2 &lt;or so&gt;",
        "A/A: what lay between",
        "instructions: none",
        "micro/adding/simd.i4.jsonl",
        // Exactly twice as fast in the limit of large sums: 2010 ÷ 1010 by the medians.
        "better",
    ];
    says(suite, &words);
    let link = "micro/adding.html";
    let index = html_of(&pages, "micro.html");
    says(index, &[link, "Largest advantage over plain"]);
    let engine = html_of(&pages, "engine/candle.html");
    says(engine, &[link, "What lies below"]);
    lacks(html_of(&pages, "engine/lmrs.html"), &["What lies below"]);
    says(html_of(&pages, "index.html"), &["micro.html"]);
}

#[test]
fn the_suites_rows_are_a_file_of_the_run_that_their_pages_speak_of() {
    let mut first = run("cpu", 5, 24);
    first.header.id = "20990103-030405-cpu-first".into();
    let second = with_micro(run("cpu", 5, 24));
    let dir = format!("data/{}", second.header.id);
    let pages = render(&world(vec![first, second]));
    let csv = html_of(&pages, &format!("{dir}/micro.csv"));
    says(csv, &["micro/adding,many,call_ns,", ",wrong_output,"]);
    let data = html_of(&pages, "data.html");
    for file in ["micro.csv", "results.csv"] {
        says(data, &[&format!("{dir}/{file}")]);
    }
    // Its records are files of the run like any other.
    let hashes = html_of(&pages, &format!("{dir}/records.sha256"));
    let count = hashes.lines().count();
    says(data, &[&format!("<td class=\"num\">{count}</td>")]);
    let files = site::words::plural(count as u64, "record file", "record files");
    let of_run = html_of(&pages, &format!("{}.html", dir.replace("data/", "run/")));
    says(of_run, &[&files, "micro/adding/simd.i4.jsonl"]);
    let others = html_of(&pages, "data/20990103-030405-cpu-first/results.csv");
    lacks(others, &["micro/adding"]);
}

#[test]
fn only_what_is_better_in_equal_precision_is_an_advantage() {
    let index = |change: fn(&mut schema::run::Run)| {
        let mut run = with_micro(run("cpu", 5, 24));
        change(&mut run);
        page(&world(vec![run]), "micro.html")
    };
    let found = "Largest advantage over plain: simd with";
    says(&index(|_| ()), &[found]);
    // The same numbers in another precision are no advantage.
    let halved = index(|run| run.header.plan.micro.suites[0].variants[1].precision = "f16".into());
    lacks(&halved, &["Largest advantage"]);
    let none = "Nothing of equal precision could be compared with plain";
    says(&halved, &[none]);
    // Nor is a variant that is not better.
    let worse = index(|run| {
        let of_simd = |log: &&mut schema::micro::MicroLog| log.launch.variant == "simd";
        for log in run.micro.iter_mut().filter(of_simd) {
            let samples = log.cases.iter_mut().flat_map(|case| &mut case.ns);
            samples.for_each(|ns| *ns *= 3);
        }
    });
    let none = "Nothing of equal precision is better than plain anywhere";
    says(&worse, &[none]);
}

#[test]
fn a_ratio_that_is_missing_says_what_of_the_baseline_is() {
    let fail = |run: &mut schema::run::Run, name: &str| {
        let logs = run.micro.iter_mut();
        for log in logs.filter(|log| log.launch.variant == name) {
            log.failed
                .extend(log.cases.drain(..).map(|case| MicroFailed {
                    case: case.case,
                    status: Status::Crashed,
                    reason: "killed by signal 9".into(),
                }));
        }
    };
    let suite = |run: schema::run::Run| page(&world(vec![run]), "micro/adding.html");
    let lost = |name: &str| {
        let mut run = with_micro(run("cpu", 5, 24));
        fail(&mut run, name);
        suite(run)
    };
    let no_value = "no ratio: plain has no value (crashed)";
    says(&lost("plain"), &[no_value]);
    // The baseline is unharmed.
    let no_floor = "second launches of plain: crashed, killed by signal 9";
    says(&lost("plain@twin"), &[no_floor, "better"]);
    let mut narrow = with_micro(run("cpu", 5, 24));
    let variants = &mut narrow.header.plan.micro.suites[0].variants;
    variants.retain(|variant| variant.id != "plain");
    let narrowed = suite(narrow);
    says(&narrowed, &["no ratio: plain was not run"]);
    lacks(&narrowed, &["too few launches to say"]);
}

#[test]
fn a_run_without_suites_has_no_such_page() {
    let pages = render(&world(vec![run("cpu", 5, 24)]));
    assert!(!pages.keys().any(|path| path.contains("micro")));
}

#[test]
fn a_run_of_suites_alone_has_an_index() {
    let mut alone = with_micro(run("cpu", 5, 24));
    let plan = &mut alone.header.plan;
    plan.targets.clear();
    plan.scenarios.clear();
    plan.launches.clear();
    alone.launches.clear();
    alone.verify.clear();
    alone.checks.clear();
    let pages = render(&world(vec![alone]));
    says(html_of(&pages, "index.html"), &["micro.html"]);
    says(html_of(&pages, "micro/adding.html"), &["plain"]);
}
