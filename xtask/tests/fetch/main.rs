//! Tests of `fetch` against a hub on loopback: what succeeds, what resumes, and what every failure
//! says and leaves behind. No network.

mod brought;
mod failures;
mod hub;
mod world;

use hub::Fault;
use provision::fetch::{How, Options, missing};
use std::path::Path;
use world::{WEIGHTS, World, child, fetch_into, inode, models, says, weights};

#[test]
fn files_arrive_are_recorded_and_asked_for_once() {
    let mut world = World::new();
    let models_dir = world.dir.path().join("models");
    assert_eq!(missing(&models(), "m", &models_dir).unwrap().len(), 2);

    let fetched = world.fetch().unwrap();
    assert!(fetched.iter().all(|file| file.how == How::Downloaded));
    world.has_weights();
    let sha256 = schema::hash::sha256_hex(&weights());
    assert_eq!(fetched[1].sha256, sha256);
    assert_eq!(fetched[1].size_bytes, weights().len() as u64);
    let line = format!("\"{WEIGHTS}\" = \"{sha256}\"");
    says(&world.lock_text(), &[&line]);
    assert_eq!(missing(&models(), "m", &models_dir).unwrap().len(), 0);

    let before = world.hub.requests().len();
    let again = world.fetch().unwrap();
    assert!(again.iter().all(|file| file.how == How::Present));
    world.options.full = true;
    world.fetch().unwrap();
    assert_eq!(world.hub.requests().len(), before);
}

#[test]
fn nothing_is_stored_twice_and_the_cache_is_used() {
    let world = World::new();
    world.fetch().unwrap();
    assert_eq!(inode(&world.path(WEIGHTS)), inode(&world.blob()));

    std::fs::remove_dir_all(world.dir.path().join("models")).unwrap();
    let before = world.hub.requests().len();
    let fetched = world.fetch().unwrap();
    assert!(fetched.iter().all(|file| file.how == How::Cached));
    assert_eq!(world.hub.requests().len(), before);
}

#[test]
fn a_truncated_body_is_an_error_and_resumed_by_the_next_fetch() {
    let world = World::new();
    world.hub.fault(Fault::Truncate(2)); // config.json, whole
    world.hub.fault(Fault::Truncate(100_000));
    world.fails(&[
        "weights/model.safetensors of owner/repo",
        "broke off",
        "what arrived (100.0 kB) is kept",
    ]);
    assert!(!world.path(WEIGHTS).exists());

    world.fetch().unwrap();
    world.has_weights();
    assert_eq!(world.hub.body_ranges().last().unwrap(), "bytes=100000-");
}

#[test]
fn a_hiccup_is_retried_from_where_it_was() {
    let mut world = World::new();
    world.options.retries = 3;
    world.hub.status(503);
    world.hub.fault(Fault::Truncate(2));
    world.hub.fault(Fault::Truncate(100_000));
    world.hub.fault(Fault::Truncate(50_000));
    world.fetch().unwrap();
    world.has_weights();
    let ranges = world.hub.body_ranges();
    assert!(ranges.contains(&"bytes=100000-".into()), "{ranges:?}");
    assert!(ranges.contains(&"bytes=150000-".into()), "{ranges:?}");
}

#[test]
fn a_complete_partial_file_is_used() {
    let world = World::new();
    world.has_part(&weights());
    world.fetch().unwrap();
    world.has_weights();
    assert_eq!(world.hub.body_ranges().last().unwrap(), "bytes=299999-");
}

#[test]
fn a_server_that_ignores_ranges_does_not_corrupt_the_file() {
    let mut world = World::new();
    world.has_part(&weights()[..1000]);
    world.hub.fault(Fault::IgnoreRange); // config.json: no difference
    world.hub.fault(Fault::IgnoreRange);
    world.fails(&["301000 bytes arrived where the hub declared 300000"]);
    world.options.retries = 1;
    world.fetch().unwrap();
    world.has_weights();
}

#[test]
fn the_environment_names_hub_cache_and_token() {
    let world = World::new();
    let output = child("child_fetches", &world).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    says(&text, &["fetched 2 files"]);
    assert!(world.blob().exists(), "HF_HOME is honoured");
    let requests = world.hub.requests();
    let mut tokens = requests.iter().map(|r| r.authorization.as_deref());
    assert!(tokens.any(|token| token == Some("Bearer hf_env")));
}

#[test]
#[ignore = "run as a child process by other tests"]
fn child_fetches() {
    let Some(dir) = std::env::var_os("FETCH_TEST_DIR") else {
        return;
    };
    match fetch_into(Path::new(&dir), &Options::from_env(), &models()) {
        Ok(fetched) => println!("fetched {} files", fetched.len()),
        Err(error) => println!("{error:#}"),
    }
}
