//! The trace's file. It is created new, and records are appended one buffer of CUPTI's at a time.
//! After the first failed write nothing more is written, because a gap in the middle would look
//! like idle time. This module knows the format, but nothing of CUPTI.

use schema::kernels::{Kernel, KernelName, TraceEvent, TraceFailure};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// A trace that is being written.
pub struct TraceFile {
    /// The open file; `None` once the trace was closed or a write has failed.
    file: Option<File>,
    names: HashMap<String, u32>,
    kernels: u64,
}

impl TraceFile {
    /// Create a file that must not exist yet.
    pub fn create(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|error| format!("{} can't be created: {error}", path.display()))?;
        Ok(Self::over(file))
    }

    fn over(file: File) -> Self {
        Self {
            file: Some(file),
            names: HashMap::new(),
            kernels: 0,
        }
    }

    /// The number of kernels written.
    pub fn kernels(&self) -> u64 {
        self.kernels
    }

    /// Write one event.
    pub fn event(&mut self, event: &TraceEvent) {
        let mut bytes = Vec::new();
        push(&mut bytes, event);
        self.write(&bytes);
    }

    /// Write a failure as an event: what failed, its status code, and why.
    pub fn failure(&mut self, what: &str, code: Option<u32>, reason: String) {
        self.event(&TraceEvent::Failure(TraceFailure {
            what: what.into(),
            code,
            reason: reason.replace('\n', " "),
        }));
    }

    /// Write the kernels of a buffer, each with its name. A name is written once, before the first
    /// kernel that has it.
    pub fn kernels_of_buffer(&mut self, kernels: Vec<(String, Kernel)>) {
        if self.file.is_none() {
            return;
        }
        let mut bytes = Vec::with_capacity(kernels.len() * 140);
        let count = kernels.len() as u64;
        for (name, mut kernel) in kernels {
            kernel.name = match self.names.get(&name) {
                Some(&id) => id,
                None => {
                    let id = self.names.len() as u32;
                    let new = KernelName {
                        id,
                        name: name.clone(),
                    };
                    push(&mut bytes, &TraceEvent::Name(new));
                    self.names.insert(name, id);
                    id
                }
            };
            push(&mut bytes, &TraceEvent::Kernel(kernel));
        }
        self.kernels += count;
        self.write(&bytes);
    }

    /// Write the last event and close.
    pub fn close(&mut self, event: &TraceEvent) {
        self.event(event);
        self.file = None;
    }

    /// Whether the file is open, so that events are still written.
    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write_all(bytes) {
            // The disk can't hold this line either, so it goes to stderr, where the engine's own
            // output is kept. Without an `end` line the trace counts as cut short.
            eprintln!("kernel tracer: the trace can't be written ({error}); tracing stops");
            self.file = None;
        }
    }
}

fn push(bytes: &mut Vec<u8>, event: &TraceEvent) {
    let start = bytes.len();
    // Only a map whose keys aren't strings can't be serialised as JSON; there is none here.
    match serde_json::to_writer(&mut *bytes, event) {
        Ok(()) => bytes.push(b'\n'),
        Err(_) => bytes.truncate(start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::kernels::{KernelTrace, TraceEnd, TraceHeader};

    fn kernel(start_ns: u64) -> Kernel {
        Kernel {
            name: 0,
            start_ns,
            end_ns: start_ns + 5,
            grid: [1, 2, 3],
            block: [32, 1, 1],
            device: 0,
            stream: 7,
            graph_node: 0,
        }
    }

    fn header() -> TraceEvent {
        TraceEvent::Header(TraceHeader {
            format: schema::kernels::TRACE_FORMAT,
            synthetic: true,
            tracer: "0".into(),
            pid: 1,
            opened_ns: 1,
            cupti_version: None,
            clock: None,
        })
    }

    #[test]
    fn what_is_written_is_loaded_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut file = TraceFile::create(&path).unwrap();
        file.event(&header());
        let named = |name: &str, at| (name.to_owned(), kernel(at));
        file.kernels_of_buffer(vec![named("b\"", 10), named("a", 20), named("b\"", 30)]);
        file.kernels_of_buffer(vec![named("a", 40)]);
        file.failure("x", Some(35), "two\nlines".into());
        let end = TraceEvent::End(TraceEnd {
            kernels: file.kernels(),
            clock: None,
            end_ns: 50,
        });
        file.close(&end);
        file.kernels_of_buffer(vec![named("late", 60)]);
        let text = std::fs::read_to_string(&path).unwrap();
        let trace = KernelTrace::parse(&path, &text).unwrap();
        assert_eq!(trace.names, ["b\"", "a"]);
        let names: Vec<u32> = trace.kernels.iter().map(|k| k.name).collect();
        assert_eq!(names, [0, 1, 0, 1]);
        assert_eq!(trace.failures[0].to_string(), "x: two lines");
        assert!(trace.end.is_some());
        let again = TraceFile::create(&path).err().unwrap();
        assert!(again.contains("can't be created"), "{again}");
    }

    #[test]
    fn a_full_disk_ends_the_trace_and_nothing_else() {
        // /dev/full fails every write with ENOSPC (full(4)).
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut file = TraceFile::over(full);
        file.event(&header());
        assert!(!file.is_open());
        file.kernels_of_buffer(vec![("a".into(), kernel(1))]);
        assert_eq!(file.kernels(), 0);
    }
}
