//! What stands beside the guide's choices, and on the index, so that nobody takes a number for more
//! than it says: how a target was measured, and what other cells and runs know of it.

use crate::common::{World, usual};
use crate::html::{checked, text_of, words};
use crate::several::large;
use schema::maturity::{Fact, Topic};
use schema::record::Ready;

/// The usual run, of a large model, so that choices rest on it.
fn of_1b() -> World {
    let mut world = usual();
    large(&mut world, 0);
    world
}

/// What the world's launches report of their engines.
fn reports(world: &mut World) -> impl Iterator<Item = &mut Ready> {
    let launches = world.runs[0].launches.iter_mut();
    launches.flat_map(|log| &mut log.ready)
}

/// The guide's articles, each from its choice on.
fn articles(guide: &str) -> Vec<String> {
    let text = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    let articles = text.split(" Take ").skip(1);
    articles.map(str::to_owned).collect()
}

#[test]
fn a_defect_that_an_adapter_mends_stands_first_and_on_the_index() {
    let mut world = of_1b();
    let said = "fix of ours";
    assert!(!words(&world, "guide.html").contains(said));
    assert!(!words(&world, "index.html").contains(said));
    for ready in reports(&mut world) {
        ready.notes.push("mended: it forgets a factor".into());
    }
    let pages = checked(&world);
    let articles = articles(&text_of(&pages, "guide.html"));
    assert!(!articles.is_empty());
    for article in articles {
        let engine = article.split('.').next().unwrap();
        let first = format!(
            "⚠ Measured with a fix of ours, which {engine} (synthetic) lacks: it forgets a factor. On "
        );
        assert!(article.contains(&first), "{article}");
        assert!(
            !article.contains("declares: mended"),
            "it stands there once"
        );
    }
    let index = text_of(&pages, "index.html");
    assert!(index.contains("⚠ measured with a fix of ours, which "));
    let lead = "Measured with a fix of ours, which the engine itself lacks: ";
    assert!(index.contains(lead), "{index}");
}

#[test]
fn a_choice_says_that_an_adapter_and_no_server_was_measured() {
    let mut world = of_1b();
    let facts = &mut world.maturity.engines[0].facts;
    facts.push(Fact {
        topic: Topic::Batching,
        short: "continuous (synthetic)".into(),
        ..facts[0].clone()
    });
    let known = world.maturity.engines.remove(0);
    for engine in &world.registry.engines {
        let mut dossier = known.clone();
        dossier.id = engine.id.clone();
        world.maturity.engines.push(dossier);
    }
    for ready in reports(&mut world) {
        ready.batching = "static_equal_length".into();
    }
    let how = "static batches of queued requests of equal length";
    let measured = format!(
        "Measured through an adapter of this project’s, not through a server. Requests that came together: {how}."
    );
    let offered = format!("batching: continuous (synthetic) (measured here: {how})");
    let of = |world: &World| articles(&text_of(&checked(world), "guide.html"));
    for article in of(&world) {
        assert!(article.contains(&measured), "{article}");
        assert!(article.contains(&offered), "{article}");
    }
    for engine in &mut world.registry.engines {
        engine.test_server = Some(engine.build.clone());
    }
    for article in of(&world) {
        assert!(!article.contains("not through a server"), "a client's is");
    }
}

#[test]
fn the_index_says_who_is_taken_among_tied_targets() {
    let index = words(&of_1b(), "index.html");
    let said = "Among tied targets the smallest to ship is taken, in each column";
    assert!(index.contains(said), "{index}");
}
