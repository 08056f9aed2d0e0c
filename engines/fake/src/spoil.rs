//! Faults of the stream, which no engine behind the runtime can have: the
//! runtime's lines pass through here, and answers to `generate` come out spoilt.
//! It deliberately leaves every other event alone, so that such a target passes
//! the gate and is caught where it is timed.

use crate::fault::Fault;
use protocol::wire::{Done, Event};
use std::io::{self, Write};
use std::time::Duration;

/// The harness has to survive a line of this length without keeping it.
const HUGE_LINE_BYTES: usize = 64 << 20;

/// Between two bytes of an answer that never ends.
const DRIP: Duration = Duration::from_millis(20);

/// A writer that spoils.
pub struct Spoiler<W> {
    inner: W,
    answers: u64,
}

impl<W: Write> Spoiler<W> {
    /// Around the real stream.
    pub fn new(inner: W) -> Self {
        Self { inner, answers: 0 }
    }

    fn spoil(&mut self, fault: Fault, done: Done) -> io::Result<()> {
        self.answers += 1;
        match fault {
            Fault::Garbage => self.inner.write_all(b"Loading weights: 100%\n")?,
            Fault::Binary => self.inner.write_all(b"\x00\xff\xfe{\x80\n")?,
            Fault::HugeLine if self.answers == 1 => {
                self.inner.write_all(&vec![b'x'; HUGE_LINE_BYTES])?;
                self.inner.write_all(b"\n")?;
            }
            Fault::Duplicate => self.answer(done.clone())?,
            Fault::Flood => loop {
                self.answer(done.clone())?;
            },
            Fault::Drip => loop {
                self.inner.write_all(b" ")?;
                self.inner.flush()?;
                std::thread::sleep(DRIP);
            },
            _ => {}
        }
        self.answer(bend(fault, done))
    }

    fn answer(&mut self, done: Done) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Event::Done(done))?;
        line.push(b'\n');
        self.inner.write_all(&line)
    }
}

/// `done` as the fault has it.
fn bend(fault: Fault, mut done: Done) -> Done {
    match fault {
        Fault::WrongId => done.id += 1_000_000,
        Fault::TooFew => {
            done.token_ns.pop();
            done.output_ids.pop();
        }
        Fault::Backwards => {
            let early_ns = done.started_ns;
            if let Some(last) = done.token_ns.last_mut() {
                *last = early_ns;
            }
            if let [first, ..] = done.token_ns.as_mut_slice() {
                *first += 1;
            }
        }
        Fault::Liar => {
            let received_ns = done.received_ns;
            let halve = |ns: &mut u64| *ns = received_ns + (*ns - received_ns) / 2;
            halve(&mut done.started_ns);
            done.token_ns.iter_mut().for_each(halve);
        }
        _ => {}
    }
    done
}

impl<W: Write> Write for Spoiler<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let fault = Fault::chosen();
        if fault == Fault::None {
            // Untouched in one call, as any engine's: this one calibrates.
            self.inner.write_all(lines)?;
            return Ok(lines.len());
        }
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            match serde_json::from_slice(line) {
                Ok(Event::Done(done)) => self.spoil(fault, done)?,
                _ => self.inner.write_all(line)?,
            }
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done() -> Done {
        Done {
            id: 1,
            received_ns: 100,
            started_ns: 110,
            token_ns: vec![200, 300, 400],
            output_text: None,
            output_ids: vec![1, 2, 3],
            batch: 1,
        }
    }

    #[test]
    fn each_fault_bends_what_its_name_says() {
        assert_eq!(bend(Fault::None, done()), done());
        assert_ne!(bend(Fault::WrongId, done()).id, 1);
        let few = bend(Fault::TooFew, done());
        assert_eq!((few.token_ns.len(), few.output_ids.len()), (2, 2));
        assert!(!bend(Fault::Backwards, done()).token_ns.is_sorted());
        let liar = bend(Fault::Liar, done());
        assert_eq!((liar.started_ns, liar.token_ns), (105, vec![150, 200, 250]));
    }
}
