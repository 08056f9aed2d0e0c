//! A scripted server: HTTP/1.1 with one thread per connection, kept alive, that answers
//! `GET /v1/models` and `POST /v1/…completions`.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};

/// The response to a request.
pub enum Answer {
    /// A response in one piece.
    Whole {
        /// HTTP status.
        status: u16,
        /// The headers besides the length.
        headers: Vec<(String, String)>,
        /// The body.
        body: String,
    },
    /// A stream of server-sent events.
    Stream(Vec<Step>),
}

/// A step of a stream.
pub enum Step {
    /// An event with this data, in an HTTP chunk of its own.
    Send(String),
    /// Wait for the test.
    Wait(Arc<Barrier>),
    /// Close the connection in the middle of the body.
    Cut,
}

impl Answer {
    /// Create a short error.
    pub fn error(status: u16, message: &str) -> Self {
        Self::Whole {
            status,
            headers: Vec::new(),
            body: json!({ "error": { "message": message } }).to_string(),
        }
    }
}

/// Return the data of an event with one choice.
pub fn chunk(text: &str, ids: &[u64]) -> String {
    let mut choice = json!({ "index": 0, "text": text, "finish_reason": null });
    if !ids.is_empty() {
        choice["token_ids"] = json!(ids);
    }
    json!({ "choices": [choice] }).to_string()
}

/// Create a complete stream that ends with its usage.
pub fn stream(mut steps: Vec<Step>, prompt: u64, completion: u64) -> Answer {
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": completion });
    let last = json!({ "choices": [{ "text": "", "finish_reason": "length" }] });
    let counts = json!({ "choices": [], "usage": usage });
    for data in [last.to_string(), counts.to_string(), "[DONE]".into()] {
        steps.push(Step::Send(data));
    }
    Answer::Stream(steps)
}

/// Create a complete stream of the given chunks.
pub fn tokens(chunks: Vec<String>, prompt: u64, completion: u64) -> Answer {
    stream(
        chunks.into_iter().map(Step::Send).collect(),
        prompt,
        completion,
    )
}

type Script = Box<dyn Fn(&Value) -> Answer + Send + Sync>;

struct Shared {
    script: Script,
    key: Option<String>,
    connections: AtomicUsize,
    requests: Mutex<Vec<Value>>,
}

/// A running server; its threads end with the process.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Start a server that answers each POST with `script`'s result for its body.
    pub fn start(script: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Self {
        Self::new(None, Box::new(script))
    }

    /// Start a server that also requires a key.
    pub fn start_with_key(
        key: &str,
        script: impl Fn(&Value) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::new(Some(key.to_owned()), Box::new(script))
    }

    fn new(key: Option<String>, script: Script) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            script,
            key,
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
        });
        let ours = Arc::clone(&shared);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                ours.connections.fetch_add(1, Ordering::SeqCst);
                let shared = Arc::clone(&ours);
                std::thread::spawn(move || shared.serve(connection));
            }
        });
        Self { address, shared }
    }

    /// Return the value for `OPENAI_BASE_URL`.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Return how many connections were ever made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Return the bodies of the POST requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Shared {
    /// Answer requests until the client closes the connection.
    fn serve(&self, connection: TcpStream) {
        connection.set_nodelay(true).unwrap();
        let writer = connection.try_clone().unwrap();
        let mut reader = BufReader::new(connection);
        while let Some((head, body)) = request(&mut reader) {
            let authorized = self.key.as_ref().is_none_or(|key| {
                let wanted = format!("authorization: bearer {key}").to_lowercase();
                head.to_lowercase().contains(&wanted)
            });
            let answer = if !authorized {
                Answer::error(403, "no key")
            } else if head.starts_with("GET /v1/models ") {
                Answer::Whole {
                    status: 200,
                    headers: vec![("Server".into(), "scripted/1".into())],
                    body: json!({ "data": [{ "id": "the-model" }] }).to_string(),
                }
            } else if head.starts_with("POST /v1/") {
                let body: Value = serde_json::from_slice(&body).unwrap();
                self.requests.lock().unwrap().push(body.clone());
                (self.script)(&body)
            } else {
                Answer::error(404, "no such path")
            };
            if write(&writer, answer).is_none() {
                return;
            }
        }
    }
}

/// Read the head and body of the next request.
fn request(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    loop {
        let begin = head.len();
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
        if head[begin..].trim().is_empty() {
            break;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

/// Send an answer; `None` if the connection can't be used any more.
fn write(writer: &TcpStream, answer: Answer) -> Option<()> {
    let send = |text: &str| (&mut &*writer).write_all(text.as_bytes()).ok();
    match answer {
        Answer::Whole {
            status,
            headers,
            body,
        } => {
            let headers: String = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let length = body.len();
            send(&format!(
                "HTTP/1.1 {status} x\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
            ))
        }
        Answer::Stream(steps) => {
            send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
            )?;
            for step in steps {
                match step {
                    Step::Send(data) => {
                        let event = format!("data: {data}\n\n");
                        send(&format!("{:x}\r\n{event}\r\n", event.len()))?;
                    }
                    Step::Wait(barrier) => {
                        barrier.wait();
                    }
                    Step::Cut => {
                        let _ = writer.shutdown(std::net::Shutdown::Both);
                        return None;
                    }
                }
            }
            send("0\r\n\r\n")
        }
    }
}
