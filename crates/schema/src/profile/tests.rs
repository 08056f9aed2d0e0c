//! Tests of what a profile may say.

use super::Profile;
use std::path::Path;

#[test]
fn a_profile_can_be_given_more_invocations_and_not_fewer() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let profile = Profile::load(&root.join("data/profiles/cpu.toml")).unwrap();
    let (id, own) = (profile.id.clone(), profile.invocations);
    let more = profile.clone().with_invocations(own + 1).unwrap();
    assert_eq!((more.id, more.invocations), (id, own + 1));
    let why = profile.with_invocations(own - 1).unwrap_err();
    assert!(why.contains("can't have fewer: give"), "{why}");
}

#[test]
fn invocations_have_a_limit_on_the_command_line_too() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let load = |name: &str| Profile::load(&root.join(format!("data/profiles/{name}"))).unwrap();
    let wrong = |name: &str, wanted| load(name).with_invocations(wanted).unwrap_err();
    assert_eq!(
        wrong("cpu.toml", u32::MAX),
        "--invocations: 4294967295 is more than 1000"
    );
    // A minute of prompts for each of so many invocations would fill the memory.
    let why = wrong("gpu.toml", 1000);
    assert!(
        why.contains("[scenarios.sustained] tokens of all prompts in 1000"),
        "{why}"
    );
}

#[test]
fn sizes_over_their_limit_or_listed_twice_are_refused_by_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.toml");
    let profile = "id = 'p'\nabout = ''\npublishable = true\nmodel = 'm'\n\
        backends = ['cpu']\ninvocations = 5\nseed = 1\nthreads = 1\n\
        warmup_requests = 1\nrequest_timeout_s = 3\nload_timeout_s = 3\nmeasure_min = 1.0\n\
        [scenarios.x]\nprompt_tokens = [10]\nnew_tokens = 6\nconcurrency = [4]\n\
        requests = 20\nduration_s = 1.0\n\
        [micro]\nsamples = 20\nsample_ms = 2\nwarmup_ms = 2\nsuites = { s = ['a'] }\n";
    std::fs::write(&path, profile).unwrap();
    Profile::load(&path).unwrap();
    let refused = |right: &str, wrong: &str, said: &str| {
        std::fs::write(&path, profile.replacen(right, wrong, 1)).unwrap();
        let error = Profile::load(&path).unwrap_err();
        assert_eq!((&*error.message, &error.path), (said, &path));
    };
    for (place, key, right, wrong, max) in [
        ("", "invocations", "5", "4294967295", "1000"),
        ("", "threads", "1", "4294967295", "4096"),
        ("", "measure_min", "1.0", "1e300", "10080.0"),
        ("[scenarios.x] ", "new_tokens", "6", "4294967295", "1048576"),
        ("[scenarios.x] ", "requests", "20", "4294967295", "900000"),
        ("[scenarios.x] ", "duration_s", "1.0", "1e18", "604800.0"),
        ("[micro] ", "samples", "20", "4294967295", "900000"),
    ] {
        refused(
            &format!("\n{key} = {right}\n"),
            &format!("\n{key} = {wrong}\n"),
            &format!("{place}{key}: {wrong} is more than {max}"),
        );
    }
    for (right, wrong, said) in [
        (
            "[4]",
            "[4294967295]",
            "concurrency: 4294967295 is more than 4096",
        ),
        ("[4]", "[4, 4]", "concurrency: 4 is listed twice"),
        ("[10]", "[10, 10]", "prompt_tokens: 10 is listed twice"),
    ] {
        refused(right, wrong, &format!("[scenarios.x] {said}"));
    }
    refused(
        "duration_s = 1.0",
        "duration_s = 500",
        "[scenarios.x] requests + 2000 × duration_s + concurrency: 1000024 is more than 900000",
    );
    let said = "[micro] suites.s: \"a\" is listed twice";
    refused("['a']", "['a', 'a']", said);
}
