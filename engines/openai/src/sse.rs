//! Server-sent events, as far as this API uses them: the `data` of each event.
//! Comments (a server's way to keep a connection alive) and other fields are
//! passed over (WHATWG HTML, § 9.2.6).

/// A parser that is fed bytes as they come.
#[derive(Default)]
pub struct Events {
    line: Vec<u8>,
    data: Option<String>,
    after_cr: bool,
}

impl Events {
    /// The events that `bytes` complete. `Err` where a line is not UTF-8.
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

    /// An event, where the line that just ended is the empty one after it.
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
