//! The open loop: requests are sent when they are due, whether earlier ones are answered or not.
//!
//! One thread sends and does nothing else: every line is encoded before the clock runs, and the
//! thread reads no answer and writes no record. The caller's thread reads and records. A late send
//! still counts from its due time; its lateness follows from the stamps.
//!
//! A case ends even if the engine can't keep up: nothing more is sent with [`IN_FLIGHT_MAX`] in
//! flight, and answers are awaited no longer than the schedule itself took. Timed requests without
//! an answer are then recorded, and the case fails by timeout: percentiles over those that were
//! answered would flatter the engine.

use super::closed_loop::Issuer;
use super::load::{CaseError, CasePrompts, InFlight, Sink, Window};
use crate::arrivals::{Counts, due_ns, unit_gaps};
use crate::engine::EngineFailure;
use crate::engine::process::Input;
use crate::engine::session::Session;
use protocol::clock::now_ns;
use schema::plan::Case;
use schema::record::{RecordEvent, Status, Unanswered};
use schema::scenario::LoadShape;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The maximum number of requests in flight. So many lines of short prompts fit the enlarged pipe,
/// so an engine that stops reading doesn't block the sender. Longer lines may not fit: then killing
/// the engine frees the sender.
pub const IN_FLIGHT_MAX: usize = 1024;
/// The sender spins for the last part of a wait (ns), because a sleep may end this late.
const SPIN_NS: u64 = 100_000;
/// How often the sender and the reader check whether the other is done.
const LOOK: Duration = Duration::from_millis(20);
/// Time from now until the first request is due (ns), so that the sender thread is ready.
const LEAD_NS: u64 = 20_000_000;
/// How long a sender that must stop may take before its pipe is broken.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// The arrivals that an open loop offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Requests per second.
    pub rate_per_s: f64,
    /// The plan's seed.
    pub seed: u64,
    /// Name of the arrivals, by scenario, case and invocation: each name has gaps of its own.
    pub name: String,
}

/// One request that is ready to be sent.
struct Scheduled {
    id: u64,
    line: Vec<u8>,
    prompt: u64,
    timed: bool,
    due_ns: u64,
}

/// The state that sender and reader share.
struct Shared {
    /// The number of requests that the sender began to write.
    begun: AtomicUsize,
    /// When each request had been written (ns); 0 = not yet.
    sent_ns: Vec<AtomicU64>,
    /// The number of answers read.
    answered: AtomicUsize,
    /// Set by the reader: send no more.
    stop: AtomicBool,
    /// Set by the sender when it has ended.
    finished: AtomicBool,
}

/// Issue the requests of an open-loop case.
pub(super) fn issue(
    session: &mut Session,
    shape: LoadShape,
    case: &Case,
    warmup: u32,
    offered: &Offered,
    prompts: CasePrompts,
    sink: Sink,
) -> Result<Window, CaseError> {
    let prompts = Issuer::new(session, case, prompts, sink).fill(case.concurrency)?;
    let by_duration = (case.duration_s * offered.rate_per_s).ceil() as usize;
    let counts = Counts {
        warmup: warmup as usize,
        timed: by_duration
            .max(case.requests as usize)
            .min(prompts.timed.len()),
        fillers: case.concurrency as usize,
    };
    let gaps = unit_gaps(shape, offered.seed, &offered.name, counts);
    let due = due_ns(&gaps, offered.rate_per_s);
    let mut queue = make_ready(session, case, counts, prompts);
    let start_ns = now_ns() + LEAD_NS;
    for (request, due_ns) in queue.iter_mut().zip(due) {
        request.due_ns = start_ns + due_ns;
    }
    run(session, case, &queue, sink)
}

fn make_ready(
    session: &mut Session,
    case: &Case,
    counts: Counts,
    mut prompts: CasePrompts,
) -> Vec<Scheduled> {
    (0..counts.all())
        .map(|index| {
            let timed = counts.is_timed(index);
            let (prompt, ids) = prompts.next(timed);
            let (id, line) = session.encode_generate(ids, case.new_tokens);
            Scheduled {
                id,
                line,
                prompt,
                timed,
                due_ns: 0,
            }
        })
        .collect()
}

/// Send on another thread and read on this one.
fn run(
    session: &mut Session,
    case: &Case,
    queue: &[Scheduled],
    sink: Sink,
) -> Result<Window, CaseError> {
    let shared = Shared {
        begun: AtomicUsize::new(0),
        sent_ns: queue.iter().map(|_| AtomicU64::new(0)).collect(),
        answered: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    let timeout_ns = session.request_timeout.as_nanos() as u64;
    let mut input = session.take_input()?;
    let shared = &shared;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            send_all(&mut input, queue, shared);
            shared.finished.store(true, Ordering::Release);
            input
        });
        let mut reader = Reader::new(case, queue, shared, timeout_ns);
        let result = reader.read_all(session, sink);
        shared.stop.store(true, Ordering::Release);
        // A sender that blocks in a write can only be freed by breaking its pipe.
        let deadline = Instant::now() + STOP_PATIENCE;
        while !shared.finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !shared.finished() {
            session.process.finish(Duration::ZERO);
        }
        let input = sender.join().expect("the sender does not panic");
        session.process.return_input(input);
        for request in &queue[shared.begun.load(Ordering::Acquire)..] {
            session.withdraw(request.id);
        }
        result
    })
}

impl Shared {
    fn finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// When a request had been written (ns); `None` where that isn't known, also while it is being
    /// written. Doesn't wait: a sender may be blocked in a write.
    fn written_ns(&self, index: usize) -> Option<u64> {
        Some(self.sent_ns[index].load(Ordering::Acquire)).filter(|sent_ns| *sent_ns > 0)
    }

    /// When a request had been written (ns). Waits for the stamp of a write in progress; `None`
    /// where the write was not begun, or failed.
    fn sent_ns(&self, index: usize) -> Option<u64> {
        if index >= self.begun.load(Ordering::Acquire) {
            return None;
        }
        loop {
            // Read `finished` first: stamps that the sender wrote before it ended are then visible.
            let finished = self.finished();
            match self.sent_ns[index].load(Ordering::Acquire) {
                0 if finished => return None,
                0 => std::thread::yield_now(),
                sent_ns => return Some(sent_ns),
            }
        }
    }
}

fn send_all(input: &mut Input, queue: &[Scheduled], shared: &Shared) {
    sleep_exactly();
    for (index, request) in queue.iter().enumerate() {
        if !wait_until(request.due_ns, &shared.stop) {
            return;
        }
        if index - shared.answered.load(Ordering::Acquire) >= IN_FLIGHT_MAX {
            return;
        }
        shared.begun.store(index + 1, Ordering::Release);
        match input.write(&request.line) {
            Ok(sent_ns) => shared.sent_ns[index].store(sent_ns, Ordering::Release),
            // The engine died or closed its stdin; its output says how.
            Err(_) => {
                shared.begun.store(index, Ordering::Release);
                return;
            }
        }
    }
}

/// Return `true` when it is `due_ns`, or `false` soon after `stop`.
fn wait_until(due_ns: u64, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Acquire) {
            return false;
        }
        let left_ns = due_ns.saturating_sub(now_ns());
        if left_ns == 0 {
            return true;
        }
        if left_ns > SPIN_NS {
            std::thread::sleep(Duration::from_nanos(left_ns - SPIN_NS).min(LOOK));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Ask the kernel for exact sleeps: Linux lets a sleep end 50 µs late to save power otherwise.
fn sleep_exactly() {
    // SAFETY: plain system call that concerns this thread alone; where it is refused sleeps end a
    // little later, for which the spinning allows.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

struct Reader<'a> {
    case: &'a Case,
    queue: &'a [Scheduled],
    shared: &'a Shared,
    by_id: BTreeMap<u64, usize>,
    /// Indices of the requests that have no answer.
    open: BTreeSet<usize>,
    timed_open: usize,
    last_answer_ns: u64,
    window: Window,
    /// How long the reader waits for any answer (ns).
    timeout_ns: u64,
    /// The time after which the reader gives up (ns).
    give_up_after_ns: u64,
}

impl<'a> Reader<'a> {
    fn new(case: &'a Case, queue: &'a [Scheduled], shared: &'a Shared, timeout_ns: u64) -> Self {
        let timed = || queue.iter().filter(|request| request.timed);
        let start_ns = timed().map(|r| r.due_ns).min().unwrap_or(0);
        let last_due_ns = timed().map(|r| r.due_ns).max().unwrap_or(0);
        Self {
            case,
            queue,
            shared,
            by_id: queue.iter().enumerate().map(|(i, r)| (r.id, i)).collect(),
            open: (0..queue.len()).collect(),
            timed_open: timed().count(),
            last_answer_ns: 0,
            window: Window {
                start_ns,
                end_ns: start_ns,
            },
            timeout_ns,
            give_up_after_ns: last_due_ns + (last_due_ns - start_ns).max(timeout_ns),
        }
    }

    fn read_all(&mut self, session: &mut Session, sink: Sink) -> Result<Window, CaseError> {
        loop {
            if self.timed_open == 0 {
                self.shared.stop.store(true, Ordering::Release);
            }
            if self.shared.finished() && self.in_flight() == 0 {
                break;
            }
            match session.next_done_before(Instant::now() + LOOK)? {
                Some((done, answered_ns)) => {
                    let event = self.answered(done, answered_ns)?;
                    sink(event).map_err(CaseError::Record)?;
                }
                None if self.stuck_for_ns() > self.timeout_ns => {
                    let waited_s = self.timeout_ns / 1_000_000_000;
                    let reason = format!("nothing came for {waited_s} s while answering");
                    return self.give_up(&reason, sink);
                }
                None => {}
            }
            if self.timed_open > 0 && now_ns() > self.give_up_after_ns {
                return self.give_up(
                    "the queue did not drain in the time the schedule took",
                    sink,
                );
            }
        }
        if self.timed_open > 0 {
            let reason = format!("{IN_FLIGHT_MAX} requests were in flight, no more were sent");
            return self.give_up(&reason, sink);
        }
        Ok(self.window)
    }

    fn answered(
        &mut self,
        done: protocol::wire::Done,
        answered_ns: u64,
    ) -> Result<RecordEvent, EngineFailure> {
        let index = self.by_id.get(&done.id).copied();
        let sent = index.and_then(|index| Some((index, self.shared.sent_ns(index)?)));
        let Some((index, sent_ns)) = sent else {
            let why = format!("answered id {} before it was asked", done.id);
            return Err(EngineFailure::protocol(why));
        };
        let request = &self.queue[index];
        self.open.remove(&index);
        self.shared.answered.fetch_add(1, Ordering::AcqRel);
        self.last_answer_ns = answered_ns;
        if request.timed {
            self.timed_open -= 1;
            self.window.end_ns = answered_ns;
        }
        let open = InFlight {
            prompt: request.prompt,
            warmup: !request.timed,
            scheduled_ns: request.due_ns,
            sent_ns,
        };
        Ok(RecordEvent::Request(open.answered(
            self.case,
            done,
            answered_ns,
        )))
    }

    fn in_flight(&self) -> usize {
        self.shared.begun.load(Ordering::Acquire) - self.shared.answered.load(Ordering::Acquire)
    }

    /// How long requests have been in flight without any answer (ns).
    fn stuck_for_ns(&self) -> u64 {
        let oldest = self
            .open
            .first()
            .and_then(|&index| self.shared.written_ns(index));
        let since_ns = oldest.map(|sent_ns| sent_ns.max(self.last_answer_ns));
        since_ns.map_or(0, |since_ns| now_ns().saturating_sub(since_ns))
    }

    /// Record the timed requests that have no answer, and fail.
    fn give_up(&self, why: &str, sink: Sink) -> Result<Window, CaseError> {
        let given_up_ns = now_ns();
        let timed = self.queue.iter().filter(|request| request.timed).count();
        for &index in &self.open {
            let request = &self.queue[index];
            if !request.timed {
                continue;
            }
            let unanswered = Unanswered {
                case: self.case.id.clone(),
                id: request.id,
                prompt: request.prompt,
                scheduled_ns: request.due_ns,
                sent_ns: self.shared.written_ns(index),
                given_up_ns,
            };
            sink(RecordEvent::Unanswered(unanswered)).map_err(CaseError::Record)?;
        }
        let reason = match self.timed_open {
            0 => format!("all timed requests had answers, and then {why}"),
            open => format!("over-saturated: {open} of {timed} requests had no answer: {why}"),
        };
        Err(CaseError::Engine(EngineFailure::new(
            Status::Timeout,
            reason,
        )))
    }
}

#[cfg(test)]
mod tests;
