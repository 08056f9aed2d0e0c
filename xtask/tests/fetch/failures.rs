//! What each failure of a fetch says, and what it leaves behind.

use crate::hub::COMMIT;
use crate::world::{WEIGHTS, World, child, models, weights};
use provision::fetch::{Silent, fetch};
use std::time::Duration;

#[test]
fn not_found_names_repository_revision_and_file() {
    let world = World::new();
    world.hub.status(404);
    let error = world.error();
    for part in [
        "404",
        "config.json",
        "owner/repo",
        COMMIT,
        "data/models.toml",
    ] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
}

#[test]
fn a_refusal_says_what_the_token_lacks() {
    let mut world = World::new();
    world.hub.status(401);
    let error = world.error();
    assert!(error.contains("without a token"), "{error}");
    assert!(error.contains("set HF_TOKEN"), "{error}");

    world.options.hub.token = Some("hf_secret".into());
    world.hub.status(403);
    let error = world.error();
    assert!(error.contains("accept the licence at"), "{error}");
    assert!(
        !error.contains("hf_secret"),
        "a token is never printed: {error}"
    );
    let sent = world.hub.requests().pop().unwrap().authorization;
    assert_eq!(sent.as_deref(), Some("Bearer hf_secret"));
}

#[test]
fn no_network_points_to_what_works_without() {
    let mut world = World::new();
    // Bound and dropped: nothing listens there.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    world.options.hub.endpoint = Some(format!("http://{port}"));
    world.options.retries = 5;
    world.options.backoff = Duration::from_secs(3600);
    let error = world.error();
    assert!(error.contains("can't reach http://127.0.0.1"), "{error}");
    assert!(error.contains("tiny-llama"), "{error}");
}

#[test]
fn another_commit_and_no_hub_at_all_are_refused() {
    let world = World::new();
    world.hub.declare_commit("ffff");
    let error = world.error();
    assert!(error.contains("with revision ffff where"), "{error}");

    let world = World::new();
    world.hub.forget_headers();
    let error = world.error();
    assert!(error.contains("doesn't answer like a hub"), "{error}");
}

#[test]
fn an_interrupt_keeps_what_arrived() {
    let mut world = World::new();
    world.fetch().unwrap();
    for path in [world.path(WEIGHTS), world.blob()] {
        std::fs::remove_file(path).unwrap();
    }
    world.options.interrupted = || true;
    let error = world.error();
    assert!(error.contains("interrupted; what arrived"), "{error}");
    assert!(world.part().exists());
    world.options.interrupted = || false;
    world.fetch().unwrap();
    assert_eq!(std::fs::read(world.path(WEIGHTS)).unwrap(), weights());
}

#[test]
fn a_download_that_cannot_fit_is_not_begun() {
    let world = World::new();
    world.hub.declare_size(1 << 60);
    let error = world.error();
    assert!(
        error.contains("not enough disk space: 1.2 EB more"),
        "{error}"
    );
    assert!(world.hub.body_ranges().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_called_that() {
    let world = World::new();
    std::fs::create_dir_all(world.part().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", world.part()).unwrap();
    let error = world.error();
    assert!(error.contains("the disk is full"), "{error}");
    assert!(error.contains("point HF_HOME at another disk"), "{error}");
}

/// As on a disk that fills up half-way: a child that may write 128 KiB a file.
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
            // Else the kernel kills the writer; ignored, the write fails with EFBIG.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            Ok(())
        });
    }
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("larger than this process may write"),
        "{text}"
    );
    assert!(text.contains("what arrived (131.1 kB) is kept"), "{text}");

    world.fetch().unwrap();
    assert_eq!(std::fs::read(world.path(WEIGHTS)).unwrap(), weights());
    assert_eq!(world.hub.body_ranges().last().unwrap(), "bytes=131072-");
}

#[test]
fn an_unknown_model_names_the_known_ones() {
    let world = World::new();
    let (models_dir, ids) = (world.dir.path().join("models"), vec!["x".to_owned()]);
    let error = fetch(
        &models(),
        &ids,
        &models_dir,
        &world.lock(),
        &world.options,
        &mut Silent,
    );
    assert!(error.unwrap_err().to_string().contains("there are m"));
}
