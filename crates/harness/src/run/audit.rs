//! Audits an engine's stamps: compares them with the tokens that it commits while it runs, as looks
//! at random moments find them (see `protocol::witness`).
//!
//! The moments of the looks are a Poisson process. They don't depend on the engine, so the mean of
//! what is seen at them is the mean over all time (R. W. Wolff, "Poisson arrivals see time
//! averages", Operations Research 30, 1982). Where all cores are busy a look comes when the kernel
//! schedules it; a contradiction that it finds then is still one.

use crate::arrivals::exponential;
use crate::engine::session::Session;
use base::cpu_time;
use base::random::SplitMix64;
use protocol::clock::now_ns;
use protocol::witness::{ENTRIES, Entry, PIECE, Ring};
use schema::record::{AuditResult, RequestRecord};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks per second: each takes some microseconds of a core.
const LOOKS_PER_S: f64 = 100.0;

/// The audit of one process during a case; does nothing where its tokens aren't committed.
pub struct Audit {
    /// Where the process commits its tokens, if it does.
    ring: Option<Arc<Ring>>,
    /// Whether it commits pieces of a text stream, as engines without log-probabilities do.
    in_pieces: bool,
    seed: u64,
    watching: Option<(Sender<()>, JoinHandle<Seen>)>,
    seen: Seen,
    /// The timed requests that were answered.
    claims: Vec<RequestRecord>,
}

/// One look: the count of commits, and the time before and after it was read (ns).
#[derive(Clone, Copy, Debug)]
struct Look {
    before_ns: u64,
    committed: u64,
    after_ns: u64,
}

/// The looks and commits seen since the case began.
#[derive(Default)]
struct Seen {
    looks: Vec<Look>,
    watched_ns: u64,
    /// CPU time of the thread that looks, in that time.
    cpu_ns: u64,
    /// The number of commits before the case began; `entries` holds the later ones, in order.
    begin: u64,
    entries: Vec<Entry>,
    /// Whether commits were overwritten before they were read; then nothing can be concluded.
    is_lost: bool,
}

impl Audit {
    /// Create the audit of a session; it does nothing where that wasn't opened as watched.
    pub fn new(session: &Session, seed: u64) -> Self {
        // The seed includes the present time, so that no engine can foresee the moments.
        let seed = seed ^ now_ns();
        Self::of_ring(session.ring(), !session.hello.capabilities.score, seed)
    }

    fn of_ring(ring: Option<Arc<Ring>>, in_pieces: bool, seed: u64) -> Self {
        Self {
            ring,
            in_pieces,
            seed,
            watching: None,
            seen: Seen::default(),
            claims: Vec::new(),
        }
    }

    /// Begin a case: forget the previous one.
    pub fn begin(&mut self) {
        self.pause();
        self.claims.clear();
        self.seen = Seen {
            begin: self.ring.as_ref().map_or(0, |ring| ring.committed()),
            ..Seen::default()
        };
    }

    /// Start a thread that looks at random moments.
    pub fn watch(&mut self) {
        self.pause();
        let Some(ring) = self.ring.clone() else {
            return;
        };
        let mut seen = std::mem::take(&mut self.seen);
        self.seed = self.seed.wrapping_add(1);
        let mut random = SplitMix64(self.seed);
        let (stop, stopped) = channel();
        let look = move || {
            let cpu_ns = || cpu_time::of_thread().unwrap_or(0);
            let (begin_ns, begin_cpu_ns) = (now_ns(), cpu_ns());
            loop {
                let gap = Duration::from_secs_f64(exponential(&mut random) / LOOKS_PER_S);
                if stopped.recv_timeout(gap) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                seen.look(&ring);
            }
            seen.watched_ns += now_ns() - begin_ns;
            seen.cpu_ns += cpu_ns().saturating_sub(begin_cpu_ns);
            seen
        };
        self.watching = Some((stop, std::thread::spawn(look)));
    }

    /// Stop looking for now.
    pub fn pause(&mut self) {
        let Some((stop, thread)) = self.watching.take() else {
            return;
        };
        drop(stop);
        self.seen = thread.join().unwrap_or_else(|_| Seen {
            is_lost: true,
            ..Seen::default()
        });
    }

    /// The CPU time of the thread that looked since the case began, as a share of a core; `None`
    /// where nothing was watched. To be asked between [`Audit::pause`] and [`Audit::end`].
    pub fn core_share(&self) -> Option<f64> {
        let watched_ns = self.seen.watched_ns as f64;
        (watched_ns > 0.0).then(|| self.seen.cpu_ns as f64 / watched_ns)
    }

    /// Keep the stamps of a request that was answered.
    pub fn answered(&mut self, request: &RequestRecord) {
        // The stamps of untimed requests are not used.
        if !request.warmup {
            self.claims.push(request.clone());
        }
    }

    /// End the case, and return what the audit found; `None` where tokens aren't committed.
    pub fn end(&mut self) -> Option<AuditResult> {
        self.pause();
        let claims = std::mem::take(&mut self.claims);
        let mut seen = std::mem::take(&mut self.seen);
        let ring = self.ring.as_ref()?;
        seen.copy(ring, ring.committed());
        Some(match seen.is_lost {
            true => AuditResult {
                lost: true,
                ..AuditResult::default()
            },
            false => seen.against(claims, self.in_pieces),
        })
    }
}

impl Seen {
    fn look(&mut self, ring: &Ring) {
        let before_ns = now_ns();
        let committed = ring.committed();
        let after_ns = now_ns();
        // Copy only up to the previous look: the entries before it are written completely, whatever
        // the processor's order of stores.
        let last = self.looks.last().map_or(self.begin, |look| look.committed);
        self.copy(ring, last);
        self.looks.push(Look {
            before_ns,
            committed,
            after_ns,
        });
    }

    /// Copy the commits before number `end`. The engine writes this number, so one that is
    /// impossible counts as lost commits.
    fn copy(&mut self, ring: &Ring, end: u64) {
        let next = self.begin + self.entries.len() as u64;
        if self.is_lost || end < next || end - next > ENTRIES {
            self.is_lost = true;
            return;
        }
        self.entries.extend((next..end).map(|n| ring.entry(n)));
        // The entries that were just read must not have been overwritten in the meantime.
        self.is_lost |= next < end && ring.committed().wrapping_sub(next) >= ENTRIES;
    }

    /// Compare the stamps of answers with what was seen.
    fn against(&self, mut claims: Vec<RequestRecord>, in_pieces: bool) -> AuditResult {
        claims.sort_by_key(RequestRecord::begin_ns);
        let batch = claims.iter().map(|claim| claim.batch.into()).max();
        let mut found = AuditResult {
            looks: self.looks.len() as u64,
            watched_ns: self.watched_ns,
            batch: batch.unwrap_or(1),
            pieces: in_pieces,
            contradicted: self.contradicted(&claims, in_pieces),
            ..AuditResult::default()
        };
        let mut committed: HashMap<u64, u64> = HashMap::new();
        let mut entries = self.entries.iter();
        let mut upcoming = claims.iter().peekable();
        let mut open: Vec<&RequestRecord> = Vec::new();
        for look in &self.looks {
            let new = look.committed.saturating_sub(self.begin) as usize;
            let new = new.saturating_sub(self.entries.len() - entries.len());
            for entry in entries.by_ref().take(new) {
                count(&mut committed, entry);
            }
            while let Some(claim) = upcoming.next_if(|claim| claim.begin_ns() <= look.after_ns) {
                open.push(claim);
            }
            open.retain(|claim| claim.answered_ns >= look.before_ns);
            let (mut first_early, mut later_early) = (0, 0);
            let (mut first_late, mut later_late) = (0, 0);
            for claim in &open {
                let there = committed.get(&claim.id).copied().unwrap_or(0);
                // How many tokens the stamps claim at the begin and at the end of the look.
                let at_begin = claim.stamped(look.before_ns, in_pieces);
                let at_end = claim.stamped(look.after_ns, in_pieces);
                first_early += at_begin.min(1).saturating_sub(there.min(1));
                later_early += behind_first(at_begin).saturating_sub(behind_first(there));
                // Skip this for pieces of a stream, because not every piece brings a token.
                if !in_pieces {
                    first_late += there.min(1).saturating_sub(at_end.min(1));
                    later_late += behind_first(there).saturating_sub(behind_first(at_end));
                }
            }
            found.first.early.add(first_early);
            found.later.early.add(later_early);
            found.first.late.add(first_late);
            found.later.late.add(later_late);
        }
        for entry in entries {
            count(&mut committed, entry);
        }
        for claim in &claims {
            let tokens = claim.stamped(u64::MAX, in_pieces);
            let there = committed.get(&claim.id).copied().unwrap_or(0);
            found.first.tokens += tokens.min(1);
            found.later.tokens += behind_first(tokens);
            found.uncommitted += tokens.saturating_sub(there);
        }
        found
    }

    /// Count the commits that are out of order within their request, or whose token is not the
    /// answer's.
    fn contradicted(&self, claims: &[RequestRecord], in_pieces: bool) -> u64 {
        let by_request: HashMap<u64, &RequestRecord> =
            claims.iter().map(|claim| (claim.id, claim)).collect();
        let mut there = HashMap::new();
        let mut wrong = 0;
        for entry in &self.entries {
            let is_next = count(&mut there, entry);
            let Some(claim) = by_request.get(&entry.request) else {
                continue;
            };
            let given = claim.output_ids.get(entry.index as usize);
            let is_answered = given == Some(&entry.id) || in_pieces && entry.id == PIECE;
            wrong += u64::from(!is_next || !is_answered);
        }
        wrong
    }
}

/// Count one more token of the entry's request, if it is the next one; returns whether it is.
fn count(there: &mut HashMap<u64, u64>, entry: &Entry) -> bool {
    let count = there.entry(entry.request).or_default();
    let is_next = u64::from(entry.index) == *count;
    *count += u64::from(is_next);
    is_next
}

/// The number of `tokens` after the first.
fn behind_first(tokens: u64) -> u64 {
    tokens.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Times at which the four tokens of a request are committed, after it was sent.
    const TRUE_NS: [u64; 4] = [10 * MS, 12 * MS, 14 * MS, 16 * MS];

    fn claim(id: u64, token_ns: &[u64]) -> RequestRecord {
        let sent_ns = (id - 1) * 20 * MS;
        RequestRecord {
            id,
            prompt: id,
            scheduled_ns: sent_ns,
            sent_ns,
            received_ns: sent_ns,
            started_ns: sent_ns,
            answered_ns: sent_ns + 17 * MS,
            token_ns: token_ns.iter().map(|ns| sent_ns + ns).collect(),
            output_ids: vec![7; token_ns.len()],
            batch: 1,
            ..RequestRecord::default()
        }
    }

    /// What looks every tenth of a millisecond see of 20 requests, one after the other, whose
    /// tokens are committed at these times.
    fn seen(committed_ns: [u64; 4]) -> Seen {
        let mut seen = Seen {
            watched_ns: 400 * MS,
            begin: 5,
            ..Seen::default()
        };
        let mut commits_ns = Vec::new();
        for request in 1..=20 {
            for (index, ns) in (0..).zip(committed_ns) {
                let id = 7;
                seen.entries.push(Entry { request, index, id });
                commits_ns.push((request - 1) * 20 * MS + ns);
            }
        }
        seen.looks.extend((0..4000).map(|tenth| {
            let at = tenth * MS / 10;
            let committed = 5 + commits_ns.iter().filter(|ns| **ns <= at).count() as u64;
            let (before_ns, after_ns) = (at, at);
            Look {
                before_ns,
                committed,
                after_ns,
            }
        }));
        seen
    }

    fn claims(token_ns: [u64; 4]) -> Vec<RequestRecord> {
        (1..=20).map(|request| claim(request, &token_ns)).collect()
    }

    /// Time that stamps are early (first token, others) and late (first, others), in a request
    /// (ns).
    fn apart(found: &AuditResult) -> [u64; 4] {
        let [a, b] = [found.first, found.later];
        [a.early, b.early, a.late, b.late].map(|sum| sum.sum * MS / 10 / 20)
    }

    #[test]
    fn true_stamps_agree_with_what_is_there() {
        let found = seen(TRUE_NS).against(claims(TRUE_NS), false);
        assert_eq!(apart(&found), [0; 4]);
        assert_eq!((found.first.tokens, found.later.tokens), (20, 60));
        assert_eq!((found.contradicted, found.uncommitted), (0, 0));
        assert_eq!((found.looks, found.watched_ns), (4000, 400 * MS));
    }

    #[test]
    fn every_way_to_stamp_what_is_not_so_shows() {
        // All tokens but the last are stamped at once after the start.
        let early = [MS, MS + 1000, MS + 2000, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(early), false));
        assert_eq!(found[0], 9 * MS, "{found:?}");
        assert!(found[1].abs_diff((11 + 13) * MS) < MS, "{found:?}");
        // Stamps are spread over the request, so that the first token seems to come soon.
        let spread = [4 * MS, 8 * MS, 12 * MS, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(spread), false));
        assert_eq!(found, [6 * MS, 6 * MS, 0, 0]);
        // The first token is stamped late, so that decoding seems fast.
        let late = [13 * MS, 14 * MS, 15 * MS, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(late), false));
        assert_eq!(found, [0, 0, 3 * MS, 3 * MS]);
        // The engine's clock runs at three quarters of its speed.
        let scaled = TRUE_NS.map(|ns| ns * 3 / 4);
        let found = apart(&seen(TRUE_NS).against(claims(scaled), false));
        assert!(found[0] > 2 * MS && found[1] > 9 * MS, "{found:?}");
        // Tokens are held back and committed when all are there.
        let found = apart(&seen([16 * MS; 4]).against(claims(TRUE_NS), false));
        assert_eq!(found, [6 * MS, 6 * MS, 0, 0]);
    }

    #[test]
    fn a_token_that_was_another_or_never_there_is_counted() {
        let mut other = seen(TRUE_NS);
        other.entries[3].id = 8;
        assert_eq!(other.against(claims(TRUE_NS), false).contradicted, 1);
        // Committing the first token again and again doesn't count as further tokens.
        let mut repeated = seen(TRUE_NS);
        repeated
            .entries
            .iter_mut()
            .for_each(|entry| entry.index = 0);
        let found = repeated.against(claims(TRUE_NS), false);
        assert_eq!((found.contradicted, found.uncommitted), (60, 60));
        // A piece doesn't count as a token, where the engine gives tokens.
        let mut piece = seen(TRUE_NS);
        piece.entries[0].id = PIECE;
        assert_eq!(piece.against(claims(TRUE_NS), false).contradicted, 1);
        let mut fewer = seen(TRUE_NS);
        fewer.entries.truncate(77);
        let found = fewer.against(claims(TRUE_NS), false);
        assert_eq!(found.uncommitted, 3);
    }

    #[test]
    fn a_stream_is_held_to_the_pieces_that_had_come() {
        let mut pieces = seen([2 * MS, 10 * MS, 14 * MS, 17 * MS]);
        pieces.entries.iter_mut().for_each(|entry| entry.id = PIECE);
        // The first piece brings no token, the second brings two, the last none.
        let honest = [10 * MS, 10 * MS, 14 * MS, 14 * MS];
        assert_eq!(apart(&pieces.against(claims(honest), true))[..2], [0, 0]);
        let found = pieces.against(claims([MS, MS, 14 * MS, 14 * MS]), true);
        assert_eq!(found.contradicted, 0);
        assert_eq!(apart(&found)[0], MS);
        assert_eq!((found.first.tokens, found.later.tokens), (20, 20));
    }

    #[test]
    fn what_is_committed_is_watched_until_the_case_is_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let ring = Arc::new(Ring::create(file.as_file()).unwrap());
        let mut audit = Audit::of_ring(Some(Arc::clone(&ring)), false, 1);
        audit.begin();
        assert_eq!(audit.core_share(), None);
        audit.watch();
        std::thread::sleep(Duration::from_millis(100));
        audit.pause();
        // Sleeping takes no CPU time, but every look takes some.
        let share = audit.core_share().expect("it was watched");
        assert!(share > 0.0 && share < 0.5, "{share}");
        let found = audit.end().unwrap();
        assert_eq!((found.first.tokens, found.uncommitted), (0, 0));
        audit.begin();
        audit.answered(&claim(1, &TRUE_NS));
        let found = audit.end().unwrap();
        assert_eq!(found.uncommitted, 4);
        // A count that is impossible, larger than the ring.
        let mut seen = Seen::default();
        seen.copy(&ring, ENTRIES + 1);
        assert!(seen.is_lost && seen.entries.is_empty());
    }
}
