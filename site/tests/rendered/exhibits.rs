//! Charts that stand where they answer a question, and only where the records have
//! the answer.

use crate::common::{run, world};
use schema::run::Run;

fn page(runs: Vec<Run>, path: &str) -> String {
    let pages = site::render(&world(runs).input()).expect("renders");
    String::from_utf8(pages[path].clone()).expect("UTF-8")
}

#[test]
fn a_scenario_has_its_fit_its_strips_and_each_engines_best_at_first() {
    let text = page(vec![run("cpu", 5, 22)], "scenario/single_request.html");
    for part in [
        r#"id="fig-by-case-ttft_ns""#,
        "Growth exponent",
        "growth exponents from",
        r#"id="fig-strip-ttft_ns""#,
        r#"class="legend""#,
        r#"class="sr rest""#,
    ] {
        assert!(text.contains(part), "{part}");
    }
    // The baseline is always drawn.
    assert!(text.contains(r#"class="sr" data-s="pytorch.cpu.f32""#));
}

#[test]
fn memory_is_shown_in_its_parts() {
    let text = page(vec![run("cpu", 5, 22)], "scenario/memory.html");
    for part in ["fig-memory-stack", "KV cache", "everything else"] {
        assert!(text.contains(part), "{part}");
    }
}

#[test]
fn a_roof_is_drawn_only_where_it_was_measured() {
    let without = page(vec![run("cpu", 5, 22)], "scenario/single_request.html");
    assert!(!without.contains("fig-roofline"));
    let mut measured = run("cpu", 5, 22);
    for (fact, value) in [
        ("memory_bandwidth_bytes_per_s", "33000000000"),
        ("flops_f32_per_s", "62000000000"),
        ("last_level_cache_bytes", "1000"),
        ("model_params_per_token", "7864320"),
        ("model_params_head", "2097152"),
        ("model_attention_width", "2048"),
    ] {
        let facts = &mut measured.header.provenance.facts;
        facts.insert(fact.into(), value.into());
    }
    let with = page(vec![measured], "scenario/single_request.html");
    assert!(with.contains("fig-roofline") && with.contains(", decode"));
}

#[test]
fn runs_that_compare_have_a_history_and_one_run_has_none() {
    let alone = page(vec![run("cpu", 5, 22), run("smoke", 1, 5)], "index.html");
    assert!(
        !alone.contains("fig-history"),
        "another profile doesn't compare"
    );
    let mut older = run("cpu", 5, 22);
    older.header.id = "20980102-030405-cpu-older".into();
    let both = page(vec![run("cpu", 5, 22), older], "index.html");
    assert!(both.contains("fig-history") && both.contains("20980102-030405-cpu-older"));
}

#[test]
fn the_map_of_coverage_has_a_sign_for_every_cell() {
    let run = run("cpu", 5, 22);
    let cases: usize = run
        .header
        .plan
        .scenarios
        .iter()
        .map(|s| s.cases.len())
        .sum();
    let cells = cases * run.header.plan.targets.len();
    let text = page(vec![run], "coverage.html");
    let map = text.split("id=\"fig-coverage\"").nth(1).unwrap();
    let map = map.split("</svg>").next().unwrap();
    assert_eq!(map.matches("h-").count(), cells);
}

#[test]
fn a_matrix_says_which_engine_runs_which_architecture() {
    let mut world = world(vec![run("cpu", 5, 22)]);
    let [first, second, ..] = world.registry.engines.as_mut_slice() else {
        panic!("the synthetic registry has several engines");
    };
    first.architectures = vec!["llama".into(), "qwen3".into()];
    first.targets[0].architectures = vec!["phi3".into()];
    second.architectures = vec!["*".into()];
    let (name, alone) = (first.name.clone(), first.targets[0].clone());
    let alone = format!("{}.{}.{}", first.id, alone.backend, alone.precision);
    let any = second.name.clone();
    let pages = site::render(&world.input()).expect("renders");
    let text = String::from_utf8(pages["coverage.html"].clone()).expect("UTF-8");
    let matrix = text
        .split("Architectures by engine")
        .nth(1)
        .expect("it is there");
    let matrix = matrix.split("</table>").next().unwrap();
    for head in ["llama", "qwen3", "phi3", "any other"] {
        let head = format!("<th scope=\"col\">{head}</th>");
        assert!(matrix.contains(&head), "{head}");
    }
    let answers = |engine: &str, targets: &str| -> Vec<String> {
        let start = format!("<tr><th scope=\"row\">{engine}</th><td>{targets}");
        let row = matrix.split(&start).nth(1);
        let row = row.unwrap_or_else(|| panic!("{start} in {matrix}"));
        let row = row.split("</tr>").next().unwrap();
        let cells = row.split("<td>").skip(1);
        cells.map(|cell| cell.replace("</td>", "")).collect()
    };
    assert_eq!(answers(&name, &alone), ["no", "no", "yes", "no"]);
    assert_eq!(answers(&any, "all"), ["yes"; 4]);
}
