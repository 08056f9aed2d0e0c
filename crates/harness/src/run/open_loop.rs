//! The open loop: requests are sent when they are due, whatever became of earlier ones.
//!
//! One thread sends and does nothing else: every line is ready before the clock runs,
//! and it reads no answer and writes no record. This thread reads and records. A late
//! send still counts from its due time, and how late it was follows from the stamps.
//!
//! An engine that can't keep up ends the case all the same: nothing more is sent with
//! [`IN_FLIGHT_MAX`] in flight, and answers are awaited no longer than the schedule itself took.
//! Timed requests without an answer then are recorded, and the case fails by timeout:
//! percentiles over those that were answered would flatter the engine.

use super::load::{CasePrompts, Open, Sink, Stop, Window};
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

/// Most requests in flight. Their lines fit in the widened pipe, so that even an engine
/// that stops reading does not hold up the sender.
pub const IN_FLIGHT_MAX: usize = 1024;
/// From here on the sender spins: a sleep may end this late.
const SPIN_NS: u64 = 100_000;
/// How often the sender and the reader look whether the other is done.
const LOOK: Duration = Duration::from_millis(20);
/// From now until the first request is due: the sender has to be there.
const LEAD_NS: u64 = 20_000_000;
/// How long a sender that was told to stop may take before its pipe is broken.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// What an open loop offers.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// Requests a second.
    pub rate_per_s: f64,
    /// Seed of the plan.
    pub seed: u64,
    /// Tells apart arrivals that must not be equal: scenario, case and invocation.
    pub name: String,
}

/// One request, ready to go.
struct Ready {
    id: u64,
    line: Vec<u8>,
    prompt: u64,
    timed: bool,
    due_ns: u64,
}

/// What sender and reader know of each other.
struct Shared {
    /// Requests that the sender began to write.
    begun: AtomicUsize,
    /// When each had been written; 0 = not yet.
    sent_ns: Vec<AtomicU64>,
    /// Answers read.
    answered: AtomicUsize,
    /// The reader wants no more to be sent.
    stop: AtomicBool,
    /// The sender is done.
    finished: AtomicBool,
}

/// Issue an open-loop case.
pub(super) fn issue(
    session: &mut Session,
    shape: LoadShape,
    case: &Case,
    warmup: u32,
    offered: &Offered,
    mut prompts: CasePrompts,
    sink: Sink,
) -> Result<Window, Stop> {
    fill_once(session, case, &mut prompts, sink)?;
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

/// As many as fit, at once, untimed: no batch size is met first while timed.
fn fill_once(
    session: &mut Session,
    case: &Case,
    prompts: &mut CasePrompts,
    sink: Sink,
) -> Result<(), Stop> {
    let mut open = BTreeMap::new();
    let scheduled_ns = now_ns();
    for _ in 0..case.concurrency {
        let (prompt, ids) = untimed(prompts);
        let (id, sent_ns) = session.send_generate(ids, case.new_tokens)?;
        let request = Open {
            prompt,
            warmup: true,
            scheduled_ns,
            sent_ns,
        };
        open.insert(id, request);
    }
    while !open.is_empty() {
        let (done, answered_ns) = session.next_done()?;
        let request = open
            .remove(&done.id)
            .expect("the session knows what is in flight");
        let record = request.answered(case, done, answered_ns);
        sink(RecordEvent::Request(record)).map_err(Stop::Record)?;
    }
    Ok(())
}

fn untimed(prompts: &mut CasePrompts) -> (u64, Vec<u32>) {
    prompts
        .untimed
        .rotate()
        .expect("a case has an untimed prompt")
}

fn make_ready(
    session: &mut Session,
    case: &Case,
    counts: Counts,
    mut prompts: CasePrompts,
) -> Vec<Ready> {
    (0..counts.all())
        .map(|index| {
            let timed = counts.is_timed(index);
            let (prompt, ids) = match timed {
                true => prompts
                    .timed
                    .take()
                    .expect("no more are counted than there are"),
                false => untimed(&mut prompts),
            };
            let announced = session.announce_generate(ids, case.new_tokens);
            Ready {
                id: announced.id,
                line: announced.line,
                prompt,
                timed,
                due_ns: 0,
            }
        })
        .collect()
}

/// Send on one thread, read on this one.
fn run(session: &mut Session, case: &Case, queue: &[Ready], sink: Sink) -> Result<Window, Stop> {
    let shared = Shared {
        begun: AtomicUsize::new(0),
        sent_ns: queue.iter().map(|_| AtomicU64::new(0)).collect(),
        answered: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    let mut input = session.take_input()?;
    let shared = &shared;
    std::thread::scope(|scope| {
        let sender = scope.spawn(move || {
            send_all(&mut input, queue, shared);
            shared.finished.store(true, Ordering::Release);
            input
        });
        let mut reader = Reader::new(case, queue, shared);
        let result = reader.read_all(session, sink);
        shared.stop.store(true, Ordering::Release);
        // A sender that hangs in a write can only be freed by the end of its pipe.
        let deadline = Instant::now() + STOP_PATIENCE;
        while !shared.finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !shared.finished() {
            session.kill();
        }
        session.return_input(sender.join().expect("the sender does not panic"));
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

    /// When a request had been written, waiting for the stamp of a write that is done;
    /// `None` where it was not even begun, or failed.
    fn sent_ns(&self, index: usize) -> Option<u64> {
        if index >= self.begun.load(Ordering::Acquire) {
            return None;
        }
        loop {
            // Asked first: what the sender stamped before it finished is then seen.
            let finished = self.finished();
            match self.sent_ns[index].load(Ordering::Acquire) {
                0 if finished => return None,
                0 => std::thread::yield_now(),
                sent_ns => return Some(sent_ns),
            }
        }
    }
}

fn send_all(input: &mut Input, queue: &[Ready], shared: &Shared) {
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
            Err(_) => return, // it died, and its output says how
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

/// Linux lets a sleep end 50 µs late to save power, unless the thread asks otherwise.
fn sleep_exactly() {
    // SAFETY: plain system call that concerns this thread alone; where it is refused
    // sleeps end a little later, which the spin covers.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
    }
}

/// The reading side.
struct Reader<'a> {
    case: &'a Case,
    queue: &'a [Ready],
    shared: &'a Shared,
    by_id: BTreeMap<u64, usize>,
    /// Indices without an answer.
    open: BTreeSet<usize>,
    timed_open: usize,
    last_answer_ns: u64,
    window: Window,
    /// Give up when this is past.
    give_up_after_ns: u64,
}

impl<'a> Reader<'a> {
    fn new(case: &'a Case, queue: &'a [Ready], shared: &'a Shared) -> Self {
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
            give_up_after_ns: last_due_ns + (last_due_ns - start_ns),
        }
    }

    fn read_all(&mut self, session: &mut Session, sink: Sink) -> Result<Window, Stop> {
        let timeout_ns = session.request_timeout().as_nanos() as u64;
        self.give_up_after_ns = self.give_up_after_ns.max(self.last_due_ns() + timeout_ns);
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
                    sink(event).map_err(Stop::Record)?;
                }
                None if self.stuck_for_ns() > timeout_ns => {
                    let waited_s = timeout_ns / 1_000_000_000;
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
            return Err(EngineFailure::new(
                Status::ProtocolError,
                format!("answered id {} before it was asked", done.id),
            ));
        };
        let request = &self.queue[index];
        self.open.remove(&index);
        self.shared.answered.fetch_add(1, Ordering::AcqRel);
        self.last_answer_ns = answered_ns;
        if request.timed {
            self.timed_open -= 1;
            self.window.end_ns = answered_ns;
        }
        let open = Open {
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

    /// How long something has been in flight without any answer.
    fn stuck_for_ns(&self) -> u64 {
        let oldest = self
            .open
            .first()
            .and_then(|&index| self.shared.sent_ns(index));
        let since_ns = oldest.map(|sent_ns| sent_ns.max(self.last_answer_ns));
        since_ns.map_or(0, |since_ns| now_ns().saturating_sub(since_ns))
    }

    fn last_due_ns(&self) -> u64 {
        let timed = self.queue.iter().filter(|request| request.timed);
        timed.map(|request| request.due_ns).max().unwrap_or(0)
    }

    /// Record what will have no answer and fail.
    fn give_up(&self, why: &str, sink: Sink) -> Result<Window, Stop> {
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
                sent_ns: self.shared.sent_ns(index),
                given_up_ns,
            };
            sink(RecordEvent::Unanswered(unanswered)).map_err(Stop::Record)?;
        }
        let reason = format!(
            "over-saturated: {} of {timed} requests had no answer: {why}",
            self.timed_open
        );
        Err(Stop::Engine(EngineFailure::new(Status::Timeout, reason)))
    }
}

#[cfg(test)]
mod tests;
