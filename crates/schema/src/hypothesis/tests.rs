//! Tests which files of hypotheses are accepted, and that faulty ones are refused with the place
//! and the field.

use super::*;
use crate::registry::tests::repository;

/// Load a file; its path may be relative to this repository.
fn load(path: &Path) -> Result<Hypotheses, DataError> {
    let (root, registry) = repository();
    let scenarios = Scenario::load_all(&root.join("data/scenarios")).unwrap();
    Hypotheses::load(&root.join(path), &registry, &scenarios)
}

const GOOD: &str = "
[[place]]
id = 'anywhere'
about = 'any machine'
command = 'cargo xtask bench-all'

[[hypothesis]]
id = 'a'
group = 'G'
says = 's'
reading = 'r'
place = 'anywhere'
metric = 'ttft_ns'
scenarios = ['single_request']
at = 50
of = { engines = ['candle'] }
claim = { kind = 'range', max = 4e7 }

[[hypothesis]]
id = 'b'
group = 'G'
says = 's'
reading = 'r'
place = 'anywhere'
at = 'largest'
claim = { kind = 'ratio', against = ['pytorch.cpu.f32'], min = 2.0 }
";

fn parse(text: &str) -> Result<Hypotheses, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hypotheses.toml");
    std::fs::write(&path, text).unwrap();
    load(&path).map_err(|error| error.to_string())
}

#[test]
fn the_repository_s_own_file_loads_and_holds_every_prediction() {
    let all = load(Path::new("data/hypotheses.toml")).unwrap();
    assert!(all.hypotheses.len() >= 28, "{}", all.hypotheses.len());
}

#[test]
fn the_prediction_about_every_engine_in_rust_names_each() {
    let all = load(Path::new("data/hypotheses.toml")).unwrap().hypotheses;
    let mut all = all.into_iter();
    let named = all.find(|hypothesis| hypothesis.id == "speed-up-rust");
    let named = named.expect("the prediction is there").of.engines;
    let (_, registry) = repository();
    for engine in registry.engines.iter().filter(|e| e.in_rust && !e.hidden) {
        let id = &engine.id;
        assert!(named.contains(id), "add {id} to `of` of speed-up-rust");
    }
}

#[test]
fn a_good_file_says_what_it_says() {
    let all = parse(GOOD).unwrap();
    let [a, b] = &all.hypotheses[..] else {
        panic!("two hypotheses")
    };
    assert_eq!(
        (a.at, b.at),
        (
            CaseSelector::Value(50),
            CaseSelector::Word(NamedCases::Largest)
        )
    );
    assert!(matches!(a.claim, Claim::Range { min: None, max: Some(max) } if max == 4e7));
    assert!(!a.any && !a.per_engine);
    let (_, registry) = repository();
    let meant = registry.targets().into_iter().filter(|t| a.of.has(t));
    assert!(meant.count() > 1);
    assert!(registry.targets().iter().all(|t| b.of.has(t)));
}

#[test]
fn a_fault_is_refused_with_file_hypothesis_and_field() {
    let cases = [
        (
            "id = 'b'",
            "id = 'a'",
            r#""a", field `id`: is listed twice"#,
        ),
        ("metric = 'ttft_ns'\n", "", r#""a", field `metric`"#),
        (
            "'single_request'",
            "'nothing'",
            r#""a", field `scenarios`: "nothing" is no scenario"#,
        ),
        (
            "'candle'",
            "'wick'",
            r#""a", field `of`: "wick" is no engine"#,
        ),
        (
            "'pytorch.cpu.f32'",
            "'x'",
            r#""b", field `claim.against`: "x" is no target"#,
        ),
        (
            "= 2.0",
            "= 2.0, max = 1.0",
            r#""b", field `claim`: `min` 2 is more than `max` 1"#,
        ),
        (
            "= 2.0",
            "= -2.0",
            r#""b", field `claim`: a ratio is more than 0"#,
        ),
        (", max = 4e7", "", r#""a", field `claim`: has neither"#),
        (
            ", max = 4e7",
            ", max = nan",
            r#""a", field `claim`: a bound is not"#,
        ),
        ("says = 's'", "says = ' '", "field `says`: is empty"),
        ("'any machine'", "''", r#""anywhere", field `about`"#),
        ("at = 50", "at = 'middle'", "did not match"),
        ("at = 50", "att = 50", "att"),
        (
            "'anywhere'\nmetric",
            "'moon'\nmetric",
            r#""a", field `place`: "moon""#,
        ),
    ];
    for (from, to, wanted) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let error = parse(&text).expect_err(from);
        assert!(error.contains("hypotheses.toml"), "{error}");
        assert!(error.contains(wanted), "{from}: {error}");
    }
}

#[test]
fn shares_and_counts_have_bounds_too() {
    for (claim, field) in [
        ("'variation', max = 0.0", "claim.max"),
        ("'samples', min = 0", "claim.min"),
        ("'linear', min = 1.5", "claim.min"),
        ("'unmeasured', why = ''", "claim.why"),
        ("'highest', among = { precisions = ['f7'] }", "claim.among"),
    ] {
        let text = GOOD.replacen("'range', max = 4e7", claim, 1);
        let error = parse(&text).expect_err(claim);
        assert!(
            error.contains(&format!("\"a\", field `{field}`")),
            "{error}"
        );
    }
}

#[test]
fn what_speaks_of_suites_names_suites_and_variants() {
    let micro = MicroRegistry::load(&repository().0.join("engines/micro.toml")).unwrap();
    let own = load(Path::new("data/hypotheses.toml")).unwrap();
    own.check_suites(&micro).unwrap();
    let of_suites = own.hypotheses.iter().filter(|h| h.speaks_of_suites());
    assert!(of_suites.count() > 0);
    let text = GOOD
        .replace("single_request", "micro/sdpa")
        .replace("engines = ['candle']", "targets = ['candle.cpu.f32']")
        .replace("at = 50\n", "");
    parse(&text).unwrap().check_suites(&micro).unwrap();
    for (from, to, field, kind) in [
        ("micro/sdpa", "micro/spda", "scenarios", "suite"),
        ("candle.cpu.f32", "candle.cpu.q8_0", "of", "variant"),
    ] {
        let error = parse(&text.replace(from, to)).unwrap();
        let error = error.check_suites(&micro).expect_err(from);
        let wanted = format!("\"a\", field `{field}`: {to:?} is no {kind}");
        assert!(error.contains(&wanted), "{error}");
    }
}
