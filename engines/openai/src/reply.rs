//! Reads one response. While it arrives, its bytes are only stamped and kept; they are parsed once
//! the stream has ended, so that a slow parser can't delay a time stamp.
//!
//! The parser reads server-sent events as far as this API uses them: the `data` of each event.
//! Comments (a server's way to keep a connection alive) and other fields are ignored (WHATWG HTML,
//! § 9.2.6).

use crate::config::Route;
use serde_json::Value;
use std::io::Read;

/// A recorded stream, with the time when each piece arrived.
pub struct Recording {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

struct Piece {
    at_ns: u64,
    end: usize,
}

/// The parsed content of a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Reply {
    /// The pieces with content, in the order of their arrival.
    pub chunks: Vec<Chunk>,
    /// The reason that the server gives for stopping.
    pub finish_reason: Option<String>,
    /// Number of prompt tokens, by the server's `usage.prompt_tokens`.
    pub prompt_tokens: Option<u64>,
    /// Number of output tokens, by the server's `usage.completion_tokens`.
    pub completion_tokens: Option<u64>,
    /// The server's identifier of its build (`system_fingerprint`).
    pub fingerprint: Option<String>,
}

/// A piece of the output with content.
#[derive(Debug, Default, PartialEq)]
pub struct Chunk {
    /// When it arrived (ns).
    pub at_ns: u64,
    /// Its text; empty if the server sent only ids.
    pub text: String,
    /// Its token ids, if the server sends them.
    pub ids: Vec<u32>,
    /// Number of its tokens that have log-probabilities; 0 if there are none.
    pub logprobs: usize,
}

impl Recording {
    /// Read a body to its end; `stamp` returns the time when piece n (from 0) arrived.
    pub fn make(
        mut body: impl Read,
        expected_bytes: usize,
        stamp: impl Fn(usize) -> u64,
    ) -> std::io::Result<Self> {
        let mut bytes = Vec::with_capacity(expected_bytes);
        let mut pieces = Vec::with_capacity(expected_bytes / 128);
        let mut buffer = [0; 16 << 10];
        loop {
            let read = body.read(&mut buffer)?;
            if read == 0 {
                return Ok(Self { bytes, pieces });
            }
            let at_ns = stamp(pieces.len());
            bytes.extend_from_slice(&buffer[..read]);
            pieces.push(Piece {
                at_ns,
                end: bytes.len(),
            });
        }
    }

    /// Parse the recording. `Err` if it is cut short, is not JSON, or holds an error from the
    /// server.
    pub fn read(&self, route: Route) -> Result<Reply, String> {
        let mut reply = Reply::default();
        let mut events = Events::default();
        let mut is_done = false;
        let mut begin = 0;
        for piece in &self.pieces {
            let complete = events.feed(&self.bytes[begin..piece.end])?;
            begin = piece.end;
            for data in complete {
                if data.trim() == "[DONE]" {
                    is_done = true;
                } else {
                    reply.add(&data, piece.at_ns, route)?;
                }
            }
        }
        if is_done && !events.is_amid() {
            return Ok(reply);
        }
        Err(format!(
            "the stream ended without [DONE], after {} bytes and {} pieces of content",
            self.bytes.len(),
            reply.chunks.len()
        ))
    }
}

impl Reply {
    /// Return the whole text.
    pub fn text(&self) -> String {
        self.chunks
            .iter()
            .map(|chunk| chunk.text.as_str())
            .collect()
    }

    fn add(&mut self, data: &str, at_ns: u64, route: Route) -> Result<(), String> {
        let event: Value = serde_json::from_str(data)
            .map_err(|error| format!("an event that is no JSON ({error}): {data}"))?;
        if let Some(error) = event.get("error").filter(|error| !error.is_null()) {
            return Err(format!("the server broke off: {error}"));
        }
        if let Some(name) = event["system_fingerprint"].as_str() {
            self.fingerprint.get_or_insert_with(|| name.to_owned());
        }
        let usage = &event["usage"];
        self.prompt_tokens = usage["prompt_tokens"].as_u64().or(self.prompt_tokens);
        self.completion_tokens = usage["completion_tokens"]
            .as_u64()
            .or(self.completion_tokens);
        // The event with the usage has no choice.
        let Some(choice) = event["choices"].get(0) else {
            return Ok(());
        };
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        let text = match route {
            Route::Completions => choice["text"].as_str(),
            Route::Chat => {
                let content = choice["delta"]["content"].as_str();
                content.or(choice["delta"]["reasoning_content"].as_str())
            }
        };
        // vLLM's name for the ids, then llama.cpp's.
        let ids = choice["token_ids"].as_array();
        let ids = ids.or(event["__verbose"]["tokens"].as_array());
        let ids = ids.into_iter().flatten().filter_map(|id| id.as_u64());
        let logprobs = &choice["logprobs"];
        let logprobs = logprobs["content"]
            .as_array()
            .or(logprobs["tokens"].as_array());
        let chunk = Chunk {
            at_ns,
            text: text.unwrap_or_default().to_owned(),
            ids: ids.map(|id| id as u32).collect(),
            logprobs: logprobs.map_or(0, Vec::len),
        };
        if !chunk.text.is_empty() || !chunk.ids.is_empty() || chunk.logprobs > 0 {
            self.chunks.push(chunk);
        }
        Ok(())
    }
}

/// A parser of server-sent events that is fed bytes as they arrive.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
}

impl Events {
    /// Return the events that `bytes` complete. `Err` if a line is not UTF-8.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<String>, &'static str> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let second_half = byte == b'\n' && self.after_cr;
            self.after_cr = byte == b'\r';
            match byte {
                b'\n' if second_half => {}
                b'\n' | b'\r' => complete.extend(self.end_line()?),
                _ => self.line.push(byte),
            }
        }
        Ok(complete)
    }

    /// Whether an event has begun and not ended.
    pub fn is_amid(&self) -> bool {
        self.data.is_some() || !self.line.is_empty()
    }

    /// Return the event, if the line that just ended is the empty one after it.
    fn end_line(&mut self) -> Result<Option<String>, &'static str> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(self.data.take());
        }
        let line = std::str::from_utf8(&line).map_err(|_| "a line that is not UTF-8")?;
        if let Some(value) = line.strip_prefix("data:") {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::clock::now_ns;

    fn read(stream: &str, route: Route) -> Result<Reply, String> {
        Recording::make(stream.as_bytes(), 0, |_| now_ns())
            .unwrap()
            .read(route)
    }

    #[test]
    fn content_usage_and_reason_are_found_on_both_routes() {
        let stream = "data: {\"system_fingerprint\":\"b7\",\"choices\":[{\"text\":\" a\",\"token_ids\":[5],\"finish_reason\":null}]}\n\n\
            data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
        let reply = read(stream, Route::Completions).unwrap();
        assert_eq!(reply.chunks.len(), 1);
        assert_eq!(
            (reply.text().as_str(), &reply.chunks[0].ids[..]),
            (" a", &[5][..])
        );
        assert_eq!(
            (reply.prompt_tokens, reply.completion_tokens),
            (Some(3), Some(1))
        );
        assert_eq!(reply.finish_reason.as_deref(), Some("length"));
        assert_eq!(reply.fingerprint.as_deref(), Some("b7"));

        let chat = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n\
            data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"logprobs\":{\"content\":[{},{}]}}]}\n\ndata: [DONE]\n\n";
        let reply = read(chat, Route::Chat).unwrap();
        assert_eq!((reply.text().as_str(), reply.chunks[0].logprobs), ("Hi", 2));
    }

    #[test]
    fn a_stream_that_is_cut_or_broken_is_an_error() {
        let chunk = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n";
        let error = read(chunk, Route::Completions).unwrap_err();
        assert!(error.contains("without [DONE]"), "{error}");
        let error = read("data: {oops\n\n", Route::Completions).unwrap_err();
        assert!(error.contains("no JSON"), "{error}");
        let told = "data: {\"error\":{\"message\":\"preempted\"}}\n\ndata: [DONE]\n\n";
        let error = read(told, Route::Completions).unwrap_err();
        assert!(error.contains("preempted"), "{error}");
    }

    #[test]
    fn events_come_out_whole_however_they_are_cut() {
        let stream =
            ": ping\r\n\r\nevent: x\ndata: {\"a\":\ndata: \"é\"}\nid: 7\n\ndata:[DONE]\r\r";
        for size in [1, 2, 3, 7, stream.len()] {
            let mut parser = Events::default();
            let mut events = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                events.extend(parser.feed(piece).unwrap());
            }
            assert_eq!(events, ["{\"a\":\n\"é\"}", "[DONE]"], "pieces of {size}");
            assert!(!parser.is_amid());
        }
    }

    #[test]
    fn a_stream_may_end_amid_an_event() {
        let mut parser = Events::default();
        assert!(parser.feed(b"data: {\"cho").unwrap().is_empty());
        assert!(parser.is_amid());
        assert!(Events::default().feed(b"data: \xff\n\n").is_err());
    }
}
