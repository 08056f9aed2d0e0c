//! Tests of directories and archives that are runs, and of those that only pretend to be one.

use super::*;
use std::os::unix::fs::symlink;

const ID: &str = "20260101-000000-cpu-1a2b";

/// Make a directory that contains a run's directory.
fn run() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(ID);
    std::fs::create_dir_all(dir.join("a.cpu.f32")).unwrap();
    std::fs::write(dir.join(HEADER), "{}").unwrap();
    std::fs::write(dir.join("a.cpu.f32/s.i0.jsonl"), "1\n").unwrap();
    (root, dir)
}

/// Make a compressed archive of such entries.
fn packed(root: &Path, entries: &[(&str, tar::EntryType, &[u8])]) -> PathBuf {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, kind, content) in entries {
        let mut header = tar::Header::new_ustar();
        // The library itself refuses names that lead out of the archive.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    let bytes = zstd::encode_all(archive.into_inner().unwrap().as_slice(), 1).unwrap();
    let path = root.join(format!("{ID}{SUFFIX}"));
    std::fs::write(&path, bytes).unwrap();
    path
}

fn refusal(place: &Path) -> String {
    RunFiles::open(place).unwrap_err().to_string()
}

#[test]
fn a_directory_and_a_packed_file_give_the_same() {
    let (root, dir) = run();
    let regular = tar::EntryType::Regular;
    let path = packed(
        root.path(),
        &[
            (&format!("{ID}/run.json"), regular, b"{}"),
            (&format!("{ID}/a.cpu.f32/s.i0.jsonl"), regular, b"1\n"),
        ],
    );
    for (place, is_packed) in [(&dir, false), (&path, true)] {
        let files = RunFiles::open(place).unwrap();
        assert_eq!((files.id(), files.is_packed()), (ID, is_packed));
        let names: Vec<&str> = files.names().collect();
        assert_eq!(names, ["a.cpu.f32/s.i0.jsonl", "run.json"]);
        let of_target: Vec<&str> = files.names_in("a.cpu.f32", ".jsonl").collect();
        assert_eq!(of_target, ["a.cpu.f32/s.i0.jsonl"]);
        assert_eq!(files.names_in("a.cpu", ".jsonl").count(), 0);
        assert_eq!(files.text("a.cpu.f32/s.i0.jsonl").unwrap().unwrap(), "1\n");
        assert!(files.text("../x").unwrap().is_none());
        let header = RunFiles::header(place).unwrap();
        assert_eq!(header, (ID.to_owned(), "{}".to_owned()));
    }
}

#[test]
fn links_pipes_and_what_no_run_holds_are_refused_in_a_directory() {
    let (root, dir) = run();
    let secret = root.path().join("secret");
    std::fs::write(&secret, "key").unwrap();
    let refused = |file: &Path, why: &str| {
        assert!(refusal(&dir).contains(why), "{}", refusal(&dir));
        std::fs::remove_file(file).unwrap();
    };
    let big = dir.join("big.jsonl");
    let file = std::fs::File::create(&big).unwrap();
    file.set_len(MAX_FILE_BYTES + 1).unwrap();
    refused(&big, "MiB");

    let trick = dir.join("trick");
    symlink(&secret, &trick).unwrap();
    assert!(read_regular(&trick).unwrap_err().message.contains("a link"));
    refused(&trick, "is a link");
    // A link to a directory is none that is followed either.
    symlink(root.path(), &trick).unwrap();
    refused(&trick, "is a link");

    let name = std::ffi::CString::new(trick.to_str().unwrap()).unwrap();
    // SAFETY: `name` is a string that ends in NUL and lives through the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    // Nobody waits until something is written into the pipe.
    let error = read_regular(&trick).unwrap_err();
    assert!(error.message.contains("no regular file"));
    refused(&trick, "no regular file");

    let lines = dir.join("a\nb");
    std::fs::write(&lines, "").unwrap();
    refused(&lines, "control character");

    std::fs::create_dir_all(dir.join("1/2/3/4/5/6")).unwrap();
    assert!(refusal(&dir).contains("deeper"));
}

#[test]
fn a_run_that_became_a_link_after_it_was_listed_is_not_followed() {
    let (root, dir) = run();
    let files = RunFiles::open(&dir).unwrap();
    let secret = root.path().join("secret");
    std::fs::write(&secret, "key").unwrap();
    std::fs::remove_file(dir.join(HEADER)).unwrap();
    symlink(&secret, dir.join(HEADER)).unwrap();
    assert!(files.text(HEADER).unwrap_err().message.contains("a link"));
}

#[test]
fn what_is_no_run_is_said_to_be_none() {
    let (root, dir) = run();
    std::fs::remove_file(dir.join(HEADER)).unwrap();
    assert!(refusal(&dir).contains("no run.json"));
    let other = root.path().join("notes.txt");
    std::fs::write(&other, "x").unwrap();
    assert!(refusal(&other).contains("is no run"));
    assert!(refusal(&root.path().join("nothing")).contains("is no run"));
}

#[test]
fn an_archive_that_is_not_one_of_ours_is_refused() {
    use tar::EntryType;
    let root = tempfile::tempdir().unwrap();
    let inside = format!("{ID}/run.json");
    let regular = EntryType::Regular;
    type Entries<'a> = Vec<(&'a str, EntryType, &'a [u8])>;
    let cases: [(Entries, &str); 7] = [
        (vec![("../run.json", regular, b"{}")], "outside"),
        (vec![("/etc/run.json", regular, b"{}")], "outside"),
        (vec![("other/run.json", regular, b"{}")], "outside"),
        (vec![(&inside, EntryType::Symlink, b"")], "no regular file"),
        (vec![(&inside, EntryType::Fifo, b"")], "no regular file"),
        (
            vec![(&inside, regular, b"{}"), (&inside, regular, b"{}")],
            "twice",
        ),
        (vec![], "no run.json"),
    ];
    for (entries, word) in cases {
        let error = refusal(&packed(root.path(), &entries));
        assert!(error.contains(word), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    let hidden = format!("{ID}/../../run.json");
    assert!(refusal(&packed(root.path(), &[(&hidden, regular, b"{}")])).contains("outside"));

    let path = packed(root.path(), &[(&inside, regular, b"{}")]);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(refusal(&path).contains("damaged"), "{}", refusal(&path));
    std::fs::write(&path, "not compressed at all").unwrap();
    assert!(refusal(&path).contains("damaged"), "{}", refusal(&path));
}

#[test]
fn what_unpacks_to_more_than_a_run_may_have_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let zeros = vec![0; MAX_FILE_BYTES as usize];
    let regular = tar::EntryType::Regular;
    let names: Vec<String> = (0..5).map(|i| format!("{ID}/{i}.jsonl")).collect();
    let entries: Vec<(&str, tar::EntryType, &[u8])> = names
        .iter()
        .map(|name| (name.as_str(), regular, zeros.as_slice()))
        .collect();
    let path = packed(root.path(), &entries);
    assert!(std::fs::metadata(&path).unwrap().len() < 1 << 20);
    assert!(
        refusal(&path).contains("over 128 MiB"),
        "{}",
        refusal(&path)
    );
}
