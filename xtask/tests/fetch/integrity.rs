//! No byte that isn't vouched for stands under a final name.

use crate::hub::Fault;
use crate::world::{WEIGHTS, World, fetch_into, list, models, weights};
use provision::fetch::{How, Options, Verify};
use schema::model::Source;

#[test]
fn a_partial_file_of_other_bytes_is_seen_by_the_hash() {
    let world = World::new();
    std::fs::create_dir_all(world.part().parent().unwrap()).unwrap();
    std::fs::write(world.part(), [0; 1000]).unwrap();
    let error = world.error();
    assert!(error.contains("was damaged on the way"), "{error}");
    assert!(!world.path(WEIGHTS).exists() && !world.blob().exists());
    assert!(
        !world.lock_text().contains(WEIGHTS),
        "nothing bad is recorded"
    );
    world.fetch().unwrap();
}

#[test]
fn a_file_the_lock_does_not_expect_is_refused() {
    let world = World::new();
    let other = "00".repeat(32);
    std::fs::write(world.lock(), format!("[m]\n\"{WEIGHTS}\" = \"{other}\"\n")).unwrap();
    let error = world.error();
    let found = schema::hash::sha256_hex(&weights());
    for part in [WEIGHTS, &other, &found, "delete the line", "models.lock"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert!(!world.path(WEIGHTS).exists());

    // The hub vouches for the file, so accepting the change costs no download.
    std::fs::remove_file(world.lock()).unwrap();
    let before = world.hub.requests().len();
    assert_eq!(world.fetch().unwrap()[1].how, How::Cached);
    assert_eq!(world.hub.requests().len(), before);
}

#[test]
fn a_small_file_the_lock_does_not_expect_is_refused_too() {
    let world = World::new();
    let other = "11".repeat(32);
    std::fs::write(
        world.lock(),
        format!("[m]\n\"config.json\" = \"{other}\"\n"),
    )
    .unwrap();
    assert!(world.error().contains(&other));
    assert!(!world.path("config.json").exists());
}

#[test]
fn damage_on_disk_is_found_moved_away_and_mended() {
    let world = World::new();
    world.fetch().unwrap();
    let mut bytes = weights();
    bytes[7] ^= 1;
    std::fs::write(world.path(WEIGHTS), &bytes).unwrap();
    // Whether or not the clock moved since: hash everything.
    let full = Options {
        verify: Verify::Full,
        ..world.options.clone()
    };
    let error = format!(
        "{:#}",
        fetch_into(world.dir.path(), &full, &models()).unwrap_err()
    );
    assert!(
        error.contains("changed or damaged after it was fetched"),
        "{error}"
    );
    assert!(!world.path(WEIGHTS).exists());
    assert!(world.path("model.safetensors.rejected").exists());

    // The cache shares the damaged bytes, so it is no source either.
    assert_eq!(world.fetch().unwrap()[1].how, How::Downloaded);
    assert_eq!(std::fs::read(world.path(WEIGHTS)).unwrap(), weights());
}

#[test]
fn damage_on_the_way_is_found_by_the_hash_the_hub_declares() {
    let world = World::new();
    world.hub.fault(Fault::Truncate(2));
    world.hub.fault(Fault::Damage);
    let error = world.error();
    assert!(error.contains("was damaged on the way"), "{error}");
    assert!(!world.path(WEIGHTS).exists());
    world.fetch().unwrap();
}

#[test]
fn a_file_brought_by_hand_counts_if_the_lock_vouches_for_it() {
    let world = World::new();
    world.fetch().unwrap();
    for hidden in [".verified.json", "config.json"] {
        std::fs::remove_file(world.path(hidden)).unwrap();
    }
    std::fs::write(world.path("config.json"), "{}").unwrap();
    let before = world.hub.requests().len();
    assert!(world.fetch().unwrap().iter().all(|f| f.how == How::Present));
    assert_eq!(world.hub.requests().len(), before);
}

#[test]
fn what_comes_from_elsewhere_is_another_file() {
    let world = World::new();
    world.fetch().unwrap();
    let mut models = models();
    let Source::Hub { files } = &mut models.models[0].source else {
        unreachable!()
    };
    files[1].path = "weights/other".into();
    // The bytes in place match the lock, but nobody knows yet that the new source
    // has the same.
    let fetched = fetch_into(world.dir.path(), &world.options, &models);
    let error = format!("{:#}", fetched.unwrap_err());
    assert!(error.contains("404"), "{error}");
}

#[test]
fn an_embedded_model_is_made_once_and_must_match_the_lock() {
    let world = World::new();
    let models = list("tiny-llama", Source::Embedded);
    let fetch = || fetch_into(world.dir.path(), &world.options, &models);
    let made = fetch().unwrap();
    assert!(made.iter().all(|file| file.how == How::Generated));
    assert!(fetch().unwrap().iter().all(|f| f.how == How::Present));

    // The lock now vouches for another config.json, so this one isn't accepted.
    let config = made.iter().find(|f| f.name == "config.json").unwrap();
    let lock = world.lock_text().replace(&config.sha256, &"00".repeat(32));
    std::fs::write(world.lock(), lock).unwrap();
    let error = format!("{:#}", fetch().unwrap_err());
    assert!(error.contains("the generator has changed"), "{error}");
    let dir = world.dir.path().join("models/tiny-llama");
    assert!(!dir.join("config.json").exists());
    assert!(
        world.hub.requests().is_empty(),
        "and none of it needs a network"
    );
}
