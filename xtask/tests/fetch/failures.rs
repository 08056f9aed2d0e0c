//! Tests of what each failure of a fetch says and leaves behind: no file under its final name may
//! hold bytes that weren't verified.

use crate::hub::{COMMIT, Fault};
use crate::world::{WEIGHTS, World, child, fetch_into, list, listing, models, says, weights};
use provision::fetch::{How, Progress, fetch};
use schema::model::Source;
use std::time::Duration;

#[test]
fn not_found_names_repository_revision_and_file() {
    let world = World::new();
    world.hub.status(404);
    let error = world.fails(&["404", "config.json", "owner/repo", COMMIT]);
    says(&error, &["data/models.toml"]);
}

#[test]
fn a_refusal_says_what_the_token_lacks() {
    let mut world = World::new();
    world.hub.status(401);
    world.fails(&["without a token", "set HF_TOKEN"]);

    world.options.hub.token = Some("hf_secret".into());
    world.hub.status(403);
    let error = world.fails(&["accept the licence at"]);
    let is_printed = error.contains("hf_secret");
    assert!(!is_printed, "a token is never printed: {error}");
    let sent = world.hub.requests().pop().unwrap().authorization;
    assert_eq!(sent.as_deref(), Some("Bearer hf_secret"));
}

#[test]
fn settings_that_no_request_can_use_and_no_network_are_said_at_once() {
    let mut world = World::new();
    world.options.retries = 5;
    world.options.backoff = Duration::from_secs(3600);
    world.options.hub.token = Some("hf_bad\ntoken".into());
    let error = world.fails(&["HF_TOKEN"]);
    let is_printed = error.contains("hf_bad");
    assert!(!is_printed, "a token is never printed: {error}");
    world.options.hub.endpoint = Some("notaurl".into());
    world.fails(&["HF_ENDPOINT is \"notaurl\""]);
    assert!(world.hub.requests().is_empty());

    // The port is bound and freed, so that nothing listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap();
    drop(listener);
    world.options.hub.endpoint = Some(format!("http://{port}"));
    world.options.hub.token = None;
    world.fails(&["can't reach http://127.0.0.1", "tiny-llama"]);
}

#[test]
fn another_commit_and_no_hub_at_all_are_refused() {
    let world = World::new();
    world.hub.state().commit = Some("ffff");
    world.fails(&["with revision ffff where"]);

    let world = World::new();
    world.hub.state().headers_missing = true;
    world.fails(&["doesn't answer like a hub"]);
}

#[test]
fn an_interrupt_keeps_what_arrived() {
    let mut world = World::new();
    world.fetch().unwrap();
    for path in [world.path(WEIGHTS), world.blob()] {
        std::fs::remove_file(path).unwrap();
    }
    world.options.interrupted = || true;
    world.fails(&["interrupted; what arrived"]);
    assert!(world.part().exists());
    world.options.interrupted = || false;
    world.fetch().unwrap();
    world.has_weights();
}

#[test]
fn a_download_that_cannot_fit_is_not_begun() {
    let world = World::new();
    world.hub.state().declared_size = Some(1 << 60);
    world.fails(&["not enough disk space: 1.2 EB more"]);
    assert!(world.hub.body_ranges().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_called_that() {
    let world = World::new();
    std::fs::create_dir_all(world.part().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", world.part()).unwrap();
    world.fails(&["the disk is full", "point HF_HOME at another disk"]);
}

/// A child that may write 128 KiB per file, as on a disk that fills up half-way.
#[test]
fn what_arrived_before_the_disk_was_full_is_resumed() {
    use std::os::unix::process::CommandExt;
    let world = World::new();
    let mut child = child("child_fetches", &world);
    // SAFETY: between fork and exec only the two async-signal-safe calls are made,
    // on memory of this closure.
    unsafe {
        child.pre_exec(|| {
            let limit = libc::rlimit {
                rlim_cur: 128 << 10,
                rlim_max: 128 << 10,
            };
            libc::setrlimit(libc::RLIMIT_FSIZE, &limit);
            // By default the signal kills the writer; where it is ignored, the write fails with
            // EFBIG.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    says(&text, &["larger than this process may write"]);
    says(&text, &["what arrived (131.1 kB) is kept"]);

    world.fetch().unwrap();
    world.has_weights();
    assert_eq!(world.hub.body_ranges().last().unwrap(), "bytes=131072-");
}

#[test]
fn an_unknown_model_names_the_known_ones() {
    let world = World::new();
    let repo = listing(world.dir.path(), &models());
    let ids = ["x".to_owned()];
    let error = fetch(&repo, &ids, &world.options, &mut Progress::silent());
    says(&error.unwrap_err().to_string(), &["there are m"]);
}

#[test]
fn a_partial_file_of_other_bytes_is_seen_by_the_hash() {
    let world = World::new();
    world.has_part(&[0; 1000]);
    world.fails(&["was damaged on the way"]);
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
    let found = schema::hash::sha256_hex(&weights());
    world.fails(&[WEIGHTS, &other, &found, "delete the line", "models.lock"]);
    assert!(!world.path(WEIGHTS).exists());

    // The hub confirms the file's hash, so accepting the change costs no download.
    std::fs::remove_file(world.lock()).unwrap();
    let before = world.hub.requests().len();
    assert_eq!(world.fetch().unwrap()[1].how, How::Cached);
    assert_eq!(world.hub.requests().len(), before);

    // Of a small file the hub confirms no hash.
    let world = World::new();
    let line = format!("[m]\n\"config.json\" = \"{other}\"\n");
    std::fs::write(world.lock(), line).unwrap();
    world.fails(&[&other]);
    assert!(!world.path("config.json").exists());
}

#[test]
fn damage_on_disk_is_found_moved_away_and_mended() {
    let mut world = World::new();
    world.fetch().unwrap();
    let mut bytes = weights();
    bytes[7] ^= 1;
    std::fs::write(world.path(WEIGHTS), &bytes).unwrap();
    // Hash everything, because the clock may not have moved since.
    world.options.full = true;
    world.fails(&["changed or damaged after it was fetched"]);
    assert!(!world.path(WEIGHTS).exists());
    assert!(world.path("model.safetensors.rejected").exists());

    // The cache shares the damaged bytes, so the file is downloaded again.
    world.options.full = false;
    assert_eq!(world.fetch().unwrap()[1].how, How::Downloaded);
    world.has_weights();
}

#[test]
fn damage_on_the_way_is_found_by_the_hash_the_hub_declares() {
    let world = World::new();
    world.hub.fault(Fault::Truncate(2));
    world.hub.fault(Fault::Damage);
    world.fails(&["was damaged on the way"]);
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
    // The bytes in place match the lock, but it isn't known yet whether the new source has the
    // same.
    let fetched = fetch_into(world.dir.path(), &world.options, &models);
    says(&format!("{:#}", fetched.unwrap_err()), &["404"]);
}

#[test]
fn an_embedded_model_is_made_once_and_must_match_the_lock() {
    let world = World::new();
    let models = list("tiny-llama", Source::Embedded);
    let fetch = || fetch_into(world.dir.path(), &world.options, &models);
    let made = fetch().unwrap();
    assert!(made.iter().all(|file| file.how == How::Generated));
    assert!(fetch().unwrap().iter().all(|f| f.how == How::Present));

    // The lock now has another hash for config.json, so this one isn't accepted.
    let config = made.iter().find(|f| f.name == "config.json").unwrap();
    let lock = world.lock_text().replace(&config.sha256, &"00".repeat(32));
    std::fs::write(world.lock(), lock).unwrap();
    let error = format!("{:#}", fetch().unwrap_err());
    says(&error, &["the generator has changed"]);
    let dir = world.dir.path().join("models/tiny-llama");
    assert!(!dir.join("config.json").exists());
    assert!(
        world.hub.requests().is_empty(),
        "and none of it needs a network"
    );
}
