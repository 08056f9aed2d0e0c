//! What an engine sees of the user's variables: what it needs, and nobody's token.

use crate::checkout::Checkout;
use crate::resume::started;
use crate::turns::children;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// What an engine was started with; `None` where the process is none, or is just being made.
fn variables(pid: u32) -> Option<BTreeSet<String>> {
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let all = std::fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
    let is_engine = program.ends_with("fake-bench") && !all.is_empty();
    is_engine.then(|| all.split('\0').map(str::to_owned).collect())
}

#[test]
fn an_engine_sees_what_it_needs_and_no_token() {
    let checkout = Checkout::with(&[]);
    let models = checkout.repo().models_dir.display().to_string();
    let needed = [
        ("FAKE_DECODE_US", "20000"),
        ("OMP_PROC_BIND", "close"),
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("LC_ALL", "C"),
        ("BENCH_MODELS_DIR", models.as_str()),
    ];
    let secrets = [
        ("SECRET_TOKEN", "hush"),
        ("HF_TOKEN", "hush"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
        ("FAKE_API_KEY", "hush"),
        ("ANYTHING_ELSE", "hush"),
    ];
    let harness = started(&checkout, &[&needed[..], &secrets].concat());
    let patience = Instant::now() + Duration::from_secs(60);
    // Between two launches there is none.
    let seen = loop {
        let mut engines = children(harness.id()).into_iter().filter_map(variables);
        if let Some(seen) = engines.next() {
            break seen;
        }
        assert!(Instant::now() < patience, "no engine was seen");
        std::thread::sleep(Duration::from_millis(1));
    };
    // SAFETY: plain system call on our own child.
    unsafe { libc::kill(harness.id() as libc::pid_t, libc::SIGTERM) };
    harness.wait_with_output().expect("it can be waited for");
    for (name, value) in needed {
        assert!(
            seen.contains(&format!("{name}={value}")),
            "{name}: {seen:?}"
        );
    }
    assert!(seen.iter().any(|set| set.starts_with("PATH=")), "{seen:?}");
    assert!(!seen.iter().any(|set| set.ends_with("=hush")), "{seen:?}");
}
