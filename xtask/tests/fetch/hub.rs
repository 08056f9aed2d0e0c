//! A hub on loopback for the tests of `fetch`. It answers `resolve` requests as the real hub does
//! (a redirect for large files, ranges, etag, commit), and fails on request. It implements just
//! enough HTTP for hf-hub, one request per connection.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// The commit this hub has.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A fault that the next request for a body meets.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The connection closes after this number of bytes of the body.
    Truncate(usize),
    /// The answer is the whole file, whatever range was asked for.
    IgnoreRange,
    /// The answer has the right number of bytes, with wrong values.
    Damage,
}

/// One request as it was received.
#[derive(Clone, Debug)]
pub struct Request {
    pub path: String,
    pub range: String,
    pub authorization: Option<String>,
}

/// A file: its path in the repository, its bytes, and whether it is a large one, which the hub
/// redirects and identifies by its sha256.
pub struct File {
    pub path: &'static str,
    pub bytes: Vec<u8>,
    pub large: bool,
}

/// What the hub has and how it answers, which tests may change at any time.
#[derive(Default)]
pub struct State {
    files: Vec<File>,
    requests: Vec<Request>,
    faults: VecDeque<Fault>,
    status: VecDeque<u16>,
    /// Another size that is declared.
    pub declared_size: Option<u64>,
    /// Another commit that is declared.
    pub commit: Option<&'static str>,
    /// Whether it answers without a hub's headers, like any web server.
    pub headers_missing: bool,
    /// Whether only clients with a token get files, as of a gated repository.
    pub gated: bool,
    /// Another size of each large file in the list of files.
    pub listed_size: Option<u64>,
}

/// The server; stops when dropped.
pub struct FakeHub {
    pub url: String,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeHub {
    pub fn start(files: Vec<File>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State {
            files,
            ..State::default()
        }));
        let (shared, base) = (state.clone(), url.clone());
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { break };
                if !serve(stream, &shared, &base) {
                    break;
                }
            }
        });
        Self {
            url,
            state,
            thread: Some(thread),
        }
    }

    /// Start a hub with these files of a model in a directory.
    pub fn serving(dir: &Path, names: &[&'static str]) -> Self {
        let file = |&path: &&'static str| File {
            path,
            bytes: std::fs::read(dir.join(path)).unwrap(),
            large: path.ends_with(".safetensors"),
        };
        Self::start(names.iter().map(file).collect())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn requests(&self) -> Vec<Request> {
        self.state().requests.clone()
    }

    /// Return the ranges of the requests for bodies, in order; `bytes=0-0` only asks for headers.
    pub fn body_ranges(&self) -> Vec<String> {
        let all = self.requests().into_iter().map(|r| r.range);
        all.filter(|range| range != "bytes=0-0").collect()
    }

    /// Fail the next request for a body.
    pub fn fault(&self, fault: Fault) {
        self.state().faults.push_back(fault);
    }

    /// Answer the next request with this status.
    pub fn status(&self, code: u16) {
        self.state().status.push_back(code);
    }

    /// Take a file out of the repository.
    pub fn remove(&self, path: &str) {
        self.state().files.retain(|file| file.path != path);
    }

    /// Change the text of a file in the repository.
    pub fn change(&self, path: &str, change: impl Fn(String) -> String) {
        let mut state = self.state();
        let mut files = state.files.iter_mut();
        let file = files.find(|file| file.path == path).unwrap();
        let text = String::from_utf8(std::mem::take(&mut file.bytes)).unwrap();
        file.bytes = change(text).into_bytes();
    }
}

impl Drop for FakeHub {
    fn drop(&mut self) {
        let address = self.url.trim_start_matches("http://").to_owned();
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.write_all(b"STOP / HTTP/1.1\r\n\r\n").ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Answer one request; `false` to stop.
fn serve(stream: TcpStream, state: &Mutex<State>, base: &str) -> bool {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let Some(first) = lines.first() else {
        return true;
    };
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap().to_owned());
    if method == "STOP" {
        return false;
    }
    let header = |name: &str| {
        lines[1..].iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    };
    let request = Request {
        path: path.clone(),
        range: header("range").unwrap_or_default(),
        authorization: header("authorization"),
    };
    let mut state = state.lock().unwrap();
    state.requests.push(request.clone());
    answer(stream, &mut state, &request, base).ok();
    true
}

/// Answer with a status and no body.
fn empty(mut stream: TcpStream, status: &str) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
}

fn answer(
    mut stream: TcpStream,
    state: &mut State,
    request: &Request,
    base: &str,
) -> std::io::Result<()> {
    if let Some(code) = state.status.pop_front() {
        return empty(stream, &format!("{code} No"));
    }
    let commit = state.commit.unwrap_or(COMMIT);
    let path = request.path.as_str();
    if let Some(asked) = path.strip_prefix("/api/models/owner/repo/revision/") {
        return describe(stream, state, asked);
    }
    if state.gated && request.authorization.is_none() {
        return empty(stream, "401 Unauthorized");
    }
    let prefix = format!("/owner/repo/resolve/{COMMIT}/");
    let (in_repo, from_store) = match path.strip_prefix(&prefix) {
        Some(path) => (path, false),
        None => (path.trim_start_matches("/store/"), true),
    };
    let Some(file) = state.files.iter().find(|file| file.path == in_repo) else {
        return empty(stream, "404 Not Found");
    };
    let sha256 = schema::hash::sha256_hex(&file.bytes);
    if file.large && !from_store {
        return write!(
            stream,
            "HTTP/1.1 302 Found\r\nLocation: {base}/store/{in_repo}\r\nX-Repo-Commit: {commit}\r\n\
             X-Linked-Etag: \"{sha256}\"\r\nETag: \"store\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let probe = request.range == "bytes=0-0";
    let fault = match probe {
        true => None,
        false => state.faults.pop_front(),
    };
    let mut body = file.bytes.clone();
    let size = body.len();
    let declared = state.declared_size.unwrap_or(size as u64);
    if matches!(fault, Some(Fault::Damage)) {
        body.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let range = request.range.trim_start_matches("bytes=").split_once('-');
    let start: usize = range.map_or(0, |(start, _)| start.parse().unwrap_or(0));
    if start >= size {
        return empty(stream, "416 Range Not Satisfiable");
    }
    let (status, part) = match fault {
        Some(Fault::IgnoreRange) => ("200 OK", &body[..]),
        _ if probe => ("206 Partial Content", &body[..1]),
        _ => ("206 Partial Content", &body[start..]),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n",
        part.len()
    )?;
    if !state.headers_missing {
        // Small files' etags are git blob ids, which nobody can compute from a sha256.
        let etag = &sha256[..40];
        write!(
            stream,
            "ETag: \"{etag}\"\r\nX-Repo-Commit: {commit}\r\nContent-Range: bytes {start}-{}/{declared}\r\n",
            size - 1
        )?;
    }
    write!(stream, "\r\n")?;
    let sent = match fault {
        Some(Fault::Truncate(bytes)) => &part[..bytes.min(part.len())],
        _ => part,
    };
    stream.write_all(sent)
}

/// Describe the repository at a revision, which is a branch or the commit.
fn describe(mut stream: TcpStream, state: &State, asked: &str) -> std::io::Result<()> {
    let revision = asked.split('?').next().unwrap_or_default();
    if ![COMMIT, "main", "v1"].contains(&revision) {
        return empty(stream, "404 Not Found");
    }
    let sizes = asked.contains("blobs=true");
    let described = state.files.iter().map(|file| {
        let mut described = serde_json::json!({"rfilename": file.path});
        if sizes {
            let listed = state.listed_size.filter(|_| file.large);
            described["size"] = listed.unwrap_or(file.bytes.len() as u64).into();
        }
        described
    });
    let siblings: Vec<serde_json::Value> = described.collect();
    let gated = match state.gated {
        true => "manual".into(),
        false => serde_json::Value::from(false),
    };
    let body = serde_json::json!({"sha": COMMIT, "gated": gated, "siblings": siblings}).to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
