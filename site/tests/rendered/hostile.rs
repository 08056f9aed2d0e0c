//! Records that are false, broken or hostile: the site must stay whole, show what it can, and never
//! print a number that isn't finite.

use crate::common::change::{of_1b, reports};
use crate::common::provenance::add_facts;
use crate::common::{World, run, world};
use crate::html::{self, Pages, html_of, says, texts};
use schema::record::Status;
use stats::analysis::Analysis;

const EVIL: &str = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'&\u{0}";

/// Render the site, and check all of it.
fn check(world: &World, analyses: &[Analysis]) -> Pages {
    let pages = site::render_analysed(&world.input(), analyses).expect("renders");
    html::check_without(&pages, &["NaN", "inf", "Infinity", "undefined"]);
    pages
}

#[test]
fn markup_in_any_text_is_text() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    world.registry.engines[0].name = EVIL.into();
    world.registry.engines[0].about = EVIL.into();
    world.registry.engines[0].homepage = format!("javascript:alert(1)//{EVIL}");
    world.scenarios[0].title = EVIL.into();
    world.scenarios[0].question = EVIL.into();
    world.scenarios[0].analysis = format!("{EVIL} [x](javascript:alert(1))");
    world.models.models[0].name = EVIL.into();
    let header = &mut world.runs[0].header;
    header.argv.push(EVIL.into());
    header.started = EVIL.into();
    header.provenance.facts.insert(EVIL.into(), EVIL.into());
    header.provenance.git_revision = Some(EVIL.into());
    header.provenance.git_dirty = Some(true);
    for log in &mut world.runs[0].launches {
        if let Some(ready) = &mut log.ready {
            ready.version = EVIL.into();
            ready.batching = EVIL.into();
            ready.notes = vec![EVIL.into()];
        }
        if let Some(end) = &mut log.end {
            end.stderr_tail = EVIL.into();
        }
    }
    for record in world.runs[0].verify.values_mut() {
        record.reason = EVIL.into();
        record.scope = EVIL.into();
        record.kl_nats = Some(f64::NAN);
        record.argmax_agreement = Some(f64::INFINITY);
    }
    for record in world.runs[0].checks.values_mut() {
        record.method = EVIL.into();
        record.gap_nats_max = f64::NAN;
    }
    let prices = world.prices.as_mut().expect("there are prices");
    prices.date = EVIL.into();
    prices.about = EVIL.into();
    for offer in &mut prices.offers {
        offer.provider = EVIL.into();
        offer.product = EVIL.into();
        offer.note = EVIL.into();
        offer.source.url = format!("javascript:alert(1)//{EVIL}");
    }
    prices.electricity[0].place = EVIL.into();
    prices.apis[0].provider = EVIL.into();
    let mut analyses = world.analyse();
    for cell in &mut analyses[0].cells {
        if cell.status != Status::Ok {
            cell.reason = EVIL.into();
        }
    }
    let pages = check(&world, &analyses);
    says(html_of(&pages, "index.html"), &["&lt;script&gt;"]);
}

#[test]
fn ids_that_would_leave_the_directory_do_not() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    let evil = "../../etc/x";
    let header = &mut world.runs[0].header;
    header.id = format!("{evil}.run");
    header.plan.scenarios[0].id = evil.into();
    header.plan.scenarios[0].cases[0].id = format!("{evil}#\"><b>");
    header.plan.targets[0].engine = evil.into();
    header.plan.targets[1].id = format!("{evil} y");
    let analyses = world.analyse();
    let pages = check(&world, &analyses);
    for (path, _) in texts(&pages) {
        assert!(path.matches('/').count() <= 1, "{path}");
        assert!(!path.starts_with(['.', '/']), "{path}");
    }
    let root = tempfile::tempdir().unwrap();
    site::write(&pages, &root.path().join("site")).unwrap();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn absurd_numbers_become_dashes_or_exponents() {
    let world = world(vec![run("cpu", 5, 5)]);
    for value in [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e308,
        f64::MIN_POSITIVE,
        0.0,
        -1.0,
    ] {
        let mut analyses = world.analyse();
        for (index, cell) in analyses[0].cells.iter_mut().enumerate() {
            for metric in cell.metrics.iter_mut().filter(|_| index % 3 != 0) {
                metric.value = value;
                metric.ci95 = Some((-value, value));
                metric.cv_invocations = Some(value);
                metric.by_invocation = vec![value; 5];
                if let Some(shape) = &mut metric.shape {
                    shape.p50 = value;
                    shape.mad = value;
                    shape.p90 = Some(value);
                    shape.quantiles = vec![value; 7];
                }
            }
        }
        for (index, comparison) in analyses[0].comparisons.iter_mut().enumerate() {
            if index % 3 != 0 {
                comparison.ratio = value;
                comparison.ci95 = Some((value, -value));
                comparison.p_holm = Some(value);
                comparison.cliffs_delta = Some(value);
            }
        }
        check(&world, &analyses);
    }
}

#[test]
fn absurd_prices_become_dashes_or_exponents() {
    let mut world = world(vec![run("cpu", 5, 24)]);
    let slo = schema::profile::Slo {
        ttft_p90_ms: 1e308,
        itl_p90_ms: 1e308,
    };
    world.runs[0].header.plan.slo = Some(slo);
    let analyses = world.analyse();
    for value in [f64::NAN, f64::INFINITY, 1e308, f64::MIN_POSITIVE, 0.0, -1.0] {
        let prices = world.prices.as_mut().expect("there are prices");
        for offer in &mut prices.offers {
            offer.usd_per_h_on_demand = Some(value);
            offer.units = 2;
        }
        prices.electricity[0].usd_per_kwh = value;
        prices.apis[0].usd_per_m_input = value;
        prices.apis[0].usd_per_m_output = value;
        check(&world, &analyses);
    }
}

#[test]
fn nothing_measured_is_still_a_site() {
    let world = world(vec![run("cpu", 5, 5)]);
    let mut failed = world.analyse();
    for cell in &mut failed[0].cells {
        cell.status = Status::Crashed;
        cell.reason = "all is lost".into();
        cell.metrics.clear();
        cell.rank = None;
    }
    failed[0].comparisons.clear();
    let pages = check(&world, &failed);
    let index = html_of(&pages, "index.html");
    says(index, &["Nothing can be ranked yet", "all is lost"]);

    // First status ok without any metric, then no cell at all.
    let mut bare = world.analyse();
    for cell in &mut bare[0].cells {
        cell.metrics.clear();
    }
    check(&world, &bare);
    let nothing = Analysis {
        matters: 1.02,
        ..Analysis::default()
    };
    check(&world, &[nothing]);
}

#[test]
fn a_plan_the_repository_no_longer_knows_is_shown_as_far_as_it_goes() {
    let mut world = world(vec![run("cpu", 5, 5)]);
    let analyses = world.analyse();
    world.scenarios.clear();
    world.registry.engines.clear();
    world.models.models.clear();
    world.profiles.clear();
    check(&world, &analyses);
    let plan = &mut world.runs[0].header.plan;
    plan.targets.clear();
    plan.scenarios[0].cases.clear();
    check(&world, &analyses);
}

#[test]
fn a_run_that_stands_twice_is_an_error() {
    let world = world(vec![run("cpu", 5, 5), run("cpu", 5, 5)]);
    let error = site::render(&world.input()).unwrap_err().to_string();
    says(&error, &["an id is used twice"]);
}

#[test]
fn markup_in_what_the_new_pages_print_is_text() {
    let evil = "</td><script>alert(1)</script>\"'&";
    let mut world = of_1b();
    for hypothesis in &mut world.hypotheses.hypotheses {
        hypothesis.says = format!("{} {evil}", hypothesis.says);
        hypothesis.reading = evil.into();
        hypothesis.group = evil.into();
    }
    for place in &mut world.hypotheses.places {
        place.about = evil.into();
        place.command = evil.into();
    }
    for model in &mut world.models.models {
        model.name = evil.into();
        model.about = evil.into();
    }
    add_facts(&mut world.runs[0], &[("gpu", evil)]);
    for ready in reports(&mut world.runs[0]) {
        ready.notes = vec![evil.into()];
        ready.build.insert(evil.into(), evil.into());
    }
    for engine in &mut world.registry.engines {
        engine.about = evil.into();
    }
    check(&world, &world.analyse());
}
