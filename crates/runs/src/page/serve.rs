//! `cargo xtask site --serve`: serves the site over HTTP on this machine alone, renders it again
//! when one of its sources changes, and makes the browser reload it.
//!
//! It is for people who write pages, not for readers: it has one thread per request, no caching,
//! and only GET. The script that reloads a page is added when the page is sent, and is in no file.

use super::{Options, render_options};
use crate::page;
use crate::results::Results;
use anyhow::{Context, Result};
use base::interrupt;
use base::repo::Repo;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Directories of the checkout whose files the site shows, beside those of the `site` crate.
const DATA: [&str; 5] = [
    "data",
    "data/prices",
    "data/profiles",
    "data/scenarios",
    "data/scenarios/micro",
];
/// The directory whose subdirectories are the models that are trained here.
const MODELS: &str = "data/models";
/// The registries that the site shows.
const REGISTRIES: [&str; 2] = ["engines/engines.toml", "engines/micro.toml"];
/// Interval between two looks at the site's sources.
const LOOK: Duration = Duration::from_millis(400);
/// Longest time that a browser may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// Path at which a page asks how often the site has been rendered.
const VERSION: &str = "/.version";
/// A script that asks for that number every 700 ms and reloads the page when it changes.
const RELOAD: &str = "<script>(async()=>{let was;for(;;){try{const now=await(await \
    fetch('/.version')).text();if(was&&was!==now)location.reload();was=now}catch{}\
    await new Promise(r=>setTimeout(r,700))}})()</script>";

/// Render, serve, and render again until interrupted.
pub fn serve(repo: &Repo, results: &Results, options: &Options) -> Result<ExitCode> {
    render_options(repo, results, options)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).with_context(|| {
        format!(
            "port {} can't be used: choose another with --port",
            options.port
        )
    })?;
    let address = listener.local_addr().context("the port is gone")?;
    println!("http://{address}/ shows the site and follows what you write; Ctrl-C ends it");
    let version = Arc::new(AtomicU64::new(1));
    let root = repo.site_dir();
    let for_readers = Arc::clone(&version);
    // This thread ends with the process, because a blocked `accept` can't be interrupted.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (root, version) = (root.clone(), Arc::clone(&for_readers));
            std::thread::spawn(move || {
                // The browser may have closed the connection; that is no error.
                let _ = answer(stream, &root, version.load(Ordering::SeqCst));
            });
        }
    });
    let mut seen = fingerprint(repo, results);
    while !interrupt::requested() {
        std::thread::sleep(LOOK);
        let now = fingerprint(repo, results);
        if now == seen {
            continue;
        }
        seen = now;
        match render_options(repo, results, options) {
            Ok(_) => {
                version.fetch_add(1, Ordering::SeqCst);
                println!("rendered again");
            }
            Err(error) => eprintln!("not rendered: {error:#}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Return the site's source files, with the time at which each was last written. The programs that
/// data/maturity.toml names are left out, because only that file says where they lie.
fn fingerprint(repo: &Repo, results: &Results) -> BTreeMap<PathBuf, Option<SystemTime>> {
    let files = |dir: PathBuf| {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let site = page::DIRS.map(|dir| repo.root.join("site").join(dir));
    let data = DATA.map(|dir| repo.root.join(dir));
    let models = files(repo.root.join(MODELS));
    let runs = results.dirs().to_vec();
    let dirs = site.into_iter().chain(data).chain(models).chain(runs);
    let registries = REGISTRIES.map(|file| repo.root.join(file));
    let written = |path: PathBuf| {
        let time = path.symlink_metadata().and_then(|m| m.modified()).ok();
        (path, time)
    };
    dirs.flat_map(files)
        .chain(registries)
        .map(written)
        .collect()
}

fn answer(mut stream: TcpStream, root: &Path, version: u64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    // A request for a page is shorter than this. It is read to its end, because closing a
    // connection with something unread would discard the answer too.
    let mut lines = BufReader::new((&stream).take(64 << 10)).lines();
    let line = lines.next().transpose()?.unwrap_or_default();
    for header in lines {
        if header?.is_empty() {
            break;
        }
    }
    let (status, kind, body) = respond(&line, root, version);
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

/// Return status, media type and body for a request line.
fn respond(line: &str, root: &Path, version: u64) -> (&'static str, &'static str, Vec<u8>) {
    let mut words = line.split_whitespace();
    let (Some("GET"), Some(target)) = (words.next(), words.next()) else {
        return ("405 Method Not Allowed", "text/plain", b"only GET".to_vec());
    };
    let target = target.split(['?', '#']).next().unwrap_or_default();
    if target == VERSION {
        return ("200 OK", "text/plain", version.to_string().into_bytes());
    }
    let found = inside(target).and_then(|path| std::fs::read(root.join(path)).ok());
    let Some(mut body) = found else {
        return ("404 Not Found", "text/plain", b"no such page".to_vec());
    };
    let kind = media(target);
    if kind.starts_with("text/html") {
        body.extend_from_slice(RELOAD.as_bytes());
    }
    ("200 OK", kind, body)
}

/// Return a request's path relative to the site; `None` where it would leave the site.
fn inside(target: &str) -> Option<PathBuf> {
    let decoded = percent_decoded(target.strip_prefix('/')?)?;
    let path = match decoded.as_str() {
        "" => "index.html",
        path => path,
    };
    let plain = |part: Component| matches!(part, Component::Normal(_));
    (!path.contains(['\\', '\0']) && Path::new(path).components().all(plain))
        .then(|| PathBuf::from(path))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

fn media(target: &str) -> &'static str {
    match target.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("json") => "application/json",
        Some("csv") => "text/csv; charset=utf-8",
        Some("png") => "image/png",
        Some("svg") => "image/svg+xml",
        Some("zst") => "application/zstd",
        Some("sha256") => "text/plain; charset=utf-8",
        _ => "text/html; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("site")).unwrap();
        std::fs::create_dir(dir.path().join("site/assets")).unwrap();
        std::fs::write(dir.path().join("site/index.html"), "<p>x").unwrap();
        std::fs::write(dir.path().join("site/assets/a b.css"), "p{}").unwrap();
        std::fs::write(dir.path().join("secret"), "s").unwrap();
        dir
    }

    /// Ask for a page of the seventh rendering.
    fn get(dir: &tempfile::TempDir, target: &str) -> (&'static str, &'static str, Vec<u8>) {
        let line = format!("GET {target} HTTP/1.1");
        respond(&line, &dir.path().join("site"), 7)
    }

    #[test]
    fn every_kind_of_source_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [
            "site/pages/a.md",
            "data/claims.toml",
            "data/prices/a.toml",
            "data/profiles/a.toml",
            "data/scenarios/a.toml",
            "data/scenarios/micro/a.toml",
            "data/models/a/training.json",
            "engines/engines.toml",
            "engines/micro.toml",
            "runs/a.tar.zst",
        ]
        .map(|name| dir.path().join(name));
        for path in &paths {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let repo = Repo::at(dir.path().to_owned());
        let seen = fingerprint(&repo, &Results::at(&dir.path().join("runs")));
        for path in &paths {
            let time = seen.get(path);
            assert!(time.is_some_and(Option::is_some), "{}", path.display());
        }
    }

    #[test]
    fn pages_reload_themselves_and_other_files_are_left_alone() {
        let dir = site();
        let get = |target: &str| get(&dir, target);
        let (status, kind, body) = get("/?x");
        assert_eq!((status, kind), ("200 OK", "text/html; charset=utf-8"));
        let body = String::from_utf8(body).unwrap();
        assert!(body.starts_with("<p>x<script>") && body.contains(VERSION));
        let (_, kind, body) = get("/assets/a%20b.css");
        assert_eq!((kind, body), ("text/css; charset=utf-8", b"p{}".to_vec()));
        assert_eq!(get(VERSION).2, b"7");
    }

    #[test]
    fn nothing_outside_the_site_is_given_out() {
        let dir = site();
        for target in [
            "/../secret",
            "/%2e%2e/secret",
            "/assets/../../secret",
            "//etc/hostname",
            "/..%5csecret",
            "/%",
            "/%zz",
            "secret",
            "/assets",
        ] {
            let (status, ..) = get(&dir, target);
            assert_eq!(status, "404 Not Found", "{target}");
        }
        assert_eq!(
            respond("POST / HTTP/1.1", dir.path(), 1).0,
            "405 Method Not Allowed"
        );
        assert_eq!(respond("", dir.path(), 1).0, "405 Method Not Allowed");
    }

    #[test]
    fn it_answers_over_the_network_too() {
        let dir = site();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let root = dir.path().join("site");
        let server = std::thread::spawn(move || answer(listener.accept().unwrap().0, &root, 1));
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        server.join().unwrap().unwrap();
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.contains("<p>x<script>"));
    }
}
