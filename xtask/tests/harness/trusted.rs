//! Tests of runs from unknown sources: whatever their files hold, they are read as data or refused
//! in one line, and nothing outside the run is read, written or followed.

use crate::checkout::{ended, text};
use crate::compare::xtask;
use crate::resume::measured;
use crate::synthetic::Synthetic;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const TARGETS: [&str; 2] = ["x.cpu.f32", "y.cpu.f32"];

/// Write the two shards of a run; return their directories.
fn shards(results: &Path) -> [PathBuf; 2] {
    ["1/2", "2/2"].map(|which| {
        let id = format!("20260102-000000-test-s{}", which.replace('/', "of"));
        Synthetic::new(&id, &TARGETS).shard(which).write(results)
    })
}

/// Run a verb that must refuse, with exit status 1 or 2 and one line.
fn refused(results: &Path, arguments: &[&str], word: &str) {
    let output = xtask(results, arguments);
    let said = text(&output);
    let status = output.status.code();
    assert!(matches!(status, Some(1 | 2)), "{arguments:?}: {said}");
    assert!(said.contains(word) && !said.contains("panicked"), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
}

/// Check that every verb that reads the first of these runs refuses it with this word.
fn refused_by_all(results: &Path, [one, other]: &[PathBuf; 2], word: &str) {
    let (one, other) = (one.to_str().unwrap(), other.to_str().unwrap());
    refused(results, &["merge", one, other], word);
    refused(results, &["export", one], word);
    refused(results, &["compare", one, other], word);
    refused(results, &["site", one], word);
    let merged = std::fs::read_dir(results).unwrap().flatten();
    let merged = merged.filter(|e| e.file_name().to_string_lossy().contains("merged"));
    assert_eq!(merged.count(), 0, "nothing was made");
}

/// Check that each of these changes of a file makes every verb refuse the first run with this word.
fn changes_are_refused(
    results: &Path,
    shards: &[PathBuf; 2],
    file: &Path,
    changes: &[(&str, &str)],
    word: &str,
) {
    let good = std::fs::read_to_string(file).unwrap();
    for (from, to) in changes {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        std::fs::write(file, bad).unwrap();
        refused_by_all(results, shards, word);
    }
}

#[test]
fn a_link_in_a_shard_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let key = dir.path().join("id_ed25519");
    std::fs::write(&key, "a private key").unwrap();
    let link = shards[0].join("notes.txt");
    symlink(&key, &link).unwrap();
    refused_by_all(dir.path(), &shards, "is a link");
    std::fs::remove_file(&link).unwrap();
    let [one, other] = shards.each_ref().map(|shard| shard.to_str().unwrap());
    ended(&xtask(dir.path(), &["merge", one, other]), 0);
}

#[test]
fn names_that_lead_out_of_a_run_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("a/b/results");
    std::fs::create_dir_all(&results).unwrap();
    let shards = shards(&results);
    let header = shards[0].join("run.json");
    let changes = [
        (r#""profile": "cpu""#, r#""profile": "../../x""#),
        (r#""id": "x.cpu.f32""#, r#""id": "../x.cpu.f32""#),
        (r#""id": "single_request""#, r#""id": "../single""#),
    ];
    changes_are_refused(&results, &shards, &header, &changes, "id \"../");
    let outside = std::fs::read_dir(dir.path().join("a/b")).unwrap().count();
    assert_eq!(outside, 1, "nothing was made outside the results");
}

#[test]
fn what_the_plan_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let record = shards[0].join("x.cpu.f32/single_request.i0.jsonl");
    let changes = [
        (
            r#""scenario":"single_request""#,
            r#""scenario":"unheard_of""#,
        ),
        (r#""case":"p10""#, r#""case":"p11""#),
    ];
    let word = "which the plan in run.json doesn't have";
    changes_are_refused(dir.path(), &shards, &record, &changes, word);
}

#[test]
fn too_much_of_anything_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let shards = shards(dir.path());
    let record = shards[0].join("x.cpu.f32/single_request.i0.jsonl");
    let good = std::fs::read_to_string(&record).unwrap();
    // A reading takes two bytes here, and hundreds of bytes in memory.
    let times = vec!["1"; 1_000_000].join(",");
    let line =
        format!("{{\"ev\":\"readings\",\"case\":\"\",\"t_ns\":[{times}],\"columns\":{{}}}}\n");
    std::fs::write(&record, good.clone() + &line).unwrap();
    refused_by_all(dir.path(), &shards, "no run has as many");
    std::fs::write(&record, format!("{good}{}\n", "x".repeat(5 << 20))).unwrap();
    refused_by_all(dir.path(), &shards, "no record has a line as long");
    std::fs::write(&record, good.clone() + "\0\n").unwrap();
    refused_by_all(dir.path(), &shards, "not a record");
    let huge = std::fs::File::create(&record).unwrap();
    huge.set_len(100 << 20).unwrap();
    refused_by_all(dir.path(), &shards, "MiB");
}

#[test]
fn a_copied_or_damaged_run_is_left_out_of_the_site_and_the_others_are_shown() {
    let (checkout, run) = measured();
    let header = checkout.read(&format!("runs/{}/run.json", run.header.id));
    for (name, text) in [
        ("20990101-000000-test-copy/run.json", &*header),
        (
            "20990102-000000-test-cut/run.json",
            "{\"format\": 1, \"id\"",
        ),
        ("20990103-000000-test-x.tar.zst", "no archive"),
    ] {
        checkout.write(&format!("runs/{name}"), text);
    }
    let said = checkout.ended(&["site"], &[], 0);
    let left_out = said.lines().filter(|line| line.contains("left out"));
    assert_eq!(left_out.count(), 3, "{said}");
    assert!(said.contains("keeps its name"), "{said}");
    assert!(checkout.path("target/site/index.html").is_file());
}

#[test]
fn a_published_run_is_read_as_it_is_and_never_gone_on_with() {
    let (checkout, run) = measured();
    let id = run.header.id.as_str();
    let export = |run: &str| {
        let output = checkout.xtask(&["export", run, "--format", "csv"], &[]);
        ended(&output, 0);
        output.stdout
    };
    let before = export(id);
    let refused = checkout.xtask(&["publish", id], &[]);
    assert!(!refused.status.success(), "profile test isn't publishable");
    let header = format!("runs/{id}/run.json");
    let (no, yes) = (r#""publishable": false"#, r#""publishable": true"#);
    checkout.replace(&header, no, yes);
    assert_eq!(before, export(id), "that is no part of the rows");
    let packed = checkout.path("data/results").join(format!("{id}.tar.zst"));
    let publish = || {
        checkout.ended(&["publish", id], &[], 0);
        std::fs::read(&packed).expect("it was packed")
    };
    assert_eq!(publish(), publish(), "packed twice, equal bytes");
    std::fs::remove_dir_all(checkout.path("runs").join(id)).unwrap();
    for run in [id, "latest", packed.to_str().unwrap()] {
        assert_eq!(export(run), before);
    }
    let output = checkout.xtask(&["bench", "--resume", id], &[]);
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("never changes"),
        "{said}"
    );
}
