//! Buffers a program's output that was read and not used yet, in order and up to a limit. At the
//! limit the reading thread waits, so the pipe fills and the program waits too: a program that
//! writes more than it was asked for can't fill the harness's memory.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

/// One item of a process's output.
#[derive(Debug)]
pub enum Output {
    /// A line of its stdout, and when the harness had read it.
    Line {
        /// When it was read (ns, `CLOCK_MONOTONIC`).
        read_ns: u64,
        /// The line without its newline; not necessarily UTF-8.
        bytes: Vec<u8>,
    },
    /// A line was longer than the limit; nothing more is read.
    TooLong,
    /// The end of the stream.
    End,
}

/// The maximum size of buffered output (bytes), unless one line alone is longer. A burst of answers
/// is a small part of it, so a program that only answers never has to wait.
const BYTES_MAX: usize = 64 << 20;
/// Memory that a line takes in addition to its own bytes.
const LINE_BYTES: usize = size_of::<Output>();

/// A bounded queue, shared by the thread that reads the output and the one that uses it.
#[derive(Default)]
pub(super) struct Unread {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Output>,
    bytes: usize,
    /// The output has ended.
    is_over: bool,
    /// The output isn't used any more.
    is_left: bool,
}

fn size(item: &Output) -> usize {
    LINE_BYTES
        + match item {
            Output::Line { bytes, .. } => bytes.len(),
            Output::TooLong | Output::End => 0,
        }
}

impl Unread {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|lock| lock.into_inner())
    }

    /// Append `item`, once there is room; returns whether the output is still used.
    pub(super) fn put(&self, item: Output) -> bool {
        let size = size(&item);
        let is_full =
            |state: &mut State| !state.is_left && state.bytes > 0 && state.bytes + size > BYTES_MAX;
        let waited = self.changed.wait_while(self.state(), is_full);
        let mut state = waited.unwrap_or_else(|lock| lock.into_inner());
        state.bytes += size;
        state.is_over |= !matches!(item, Output::Line { .. });
        state.items.push_back(item);
        self.changed.notify_all();
        !state.is_left
    }

    /// Remove the next item, or return `None` at the deadline.
    pub(super) fn take(&self, deadline: Instant) -> Option<Output> {
        let timeout = deadline.saturating_duration_since(Instant::now());
        let nothing = |state: &mut State| state.items.is_empty() && !state.is_over;
        let waited = self
            .changed
            .wait_timeout_while(self.state(), timeout, nothing);
        let (mut state, _) = waited.unwrap_or_else(|lock| lock.into_inner());
        let Some(item) = state.items.pop_front() else {
            return state.is_over.then_some(Output::End);
        };
        state.bytes -= size(&item);
        self.changed.notify_all();
        Some(item)
    }

    /// Declare that no further output is used, so that the reading thread needn't wait.
    pub(super) fn leave(&self) {
        self.state().is_left = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    /// A line of a quarter of the maximum size.
    fn line(read_ns: u64) -> Output {
        Output::Line {
            read_ns,
            bytes: vec![b'x'; BYTES_MAX / 4],
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn a_flood_waits_and_every_line_of_it_comes_in_order() {
        let unread = Arc::new(Unread::default());
        let reader = Arc::clone(&unread);
        let flood = std::thread::spawn(move || {
            for read_ns in 0..12 {
                assert!(reader.put(line(read_ns)));
            }
            reader.put(Output::End)
        });
        for expected in 0..12 {
            // Whatever the reading thread has done by now, it has kept to the limit.
            assert!(unread.state().bytes <= BYTES_MAX);
            match unread.take(soon()) {
                Some(Output::Line { read_ns, .. }) => assert_eq!(read_ns, expected),
                other => panic!("{other:?}"),
            }
        }
        for _ in 0..2 {
            assert!(matches!(unread.take(soon()), Some(Output::End)));
        }
        assert!(flood.join().unwrap());
    }

    #[test]
    fn a_line_longer_than_the_limit_has_room_where_nothing_waits() {
        let unread = Unread::default();
        let bytes = vec![b'x'; BYTES_MAX + 1];
        assert!(unread.put(Output::Line { read_ns: 1, bytes }));
        assert!(unread.take(soon()).is_some());
        assert!(unread.take(Instant::now()).is_none(), "nothing is there");
        assert_eq!(unread.state().bytes, 0);
    }

    #[test]
    fn whoever_reads_is_let_go_when_nobody_looks() {
        let unread = Arc::new(Unread::default());
        let reader = Arc::clone(&unread);
        let flood = std::thread::spawn(move || {
            let read = (0..).take_while(|&read_ns| reader.put(line(read_ns)));
            read.count()
        });
        while unread.state().items.len() < 3 {
            std::thread::sleep(Duration::from_millis(1));
        }
        unread.leave();
        assert!(flood.join().unwrap() >= 3);
    }
}
