//! Who looks at the tokens that an engine commits while it runs, and holds its stamps against
//! what was there (see `protocol::witness`).
//!
//! The moments are a Poisson process: they come whatever the engine does, so what is seen at them is
//! in the mean what is so all the time (R. W. Wolff, "Poisson arrivals see time averages", Operations
//! Research 30, 1982). On a machine whose cores are all taken a look comes when the kernel lets
//! it; whatever it finds wrong then is wrong all the same.

use crate::arrivals::exponential;
use crate::engine::session::Session;
use base::random::SplitMix64;
use protocol::clock::now_ns;
use protocol::witness::{ENTRIES, Entry, PIECE, Ring};
use schema::record::{RequestRecord, Witnessed};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Looks a second: each takes some microseconds of a core.
const LOOKS_PER_S: f64 = 200.0;

/// What is known of the stamps of one process in a case; nothing where nobody can look.
pub struct Audit {
    auditor: Option<Auditor>,
    claims: Vec<Claim>,
}

impl Audit {
    /// Of a process that was started to be watched, or not.
    pub fn of(session: &Session, seed: u64) -> Self {
        Self {
            auditor: session.ring().map(|ring| Auditor::new(ring, seed)),
            claims: Vec::new(),
        }
    }

    /// A case begins.
    pub fn begin(&mut self) {
        self.claims.clear();
        self.auditor.iter_mut().for_each(Auditor::begin);
    }

    /// Look from now on.
    pub fn watch(&mut self) {
        self.auditor.iter_mut().for_each(Auditor::watch);
    }

    /// Look no more for now.
    pub fn pause(&mut self) {
        self.auditor.iter_mut().for_each(Auditor::pause);
    }

    /// A request was answered.
    pub fn answered(&mut self, request: &RequestRecord) {
        self.claims.extend(Claim::of(request));
    }

    /// The case is over, and all that it asked is answered.
    pub fn end(&mut self) -> Option<Witnessed> {
        let claims = std::mem::take(&mut self.claims);
        self.auditor.as_mut()?.end(claims)
    }
}

/// Looks at one process.
struct Auditor {
    ring: Arc<Ring>,
    seed: u64,
    watching: Option<(Sender<()>, JoinHandle<Seen>)>,
    seen: Seen,
}

/// A look.
#[derive(Clone, Copy, Debug)]
struct Look {
    before_ns: u64,
    committed: u64,
    after_ns: u64,
}

/// What was seen since the case began.
#[derive(Default)]
struct Seen {
    looks: Vec<Look>,
    watched_ns: u64,
    /// Commits from the `begin`th on, in order.
    begin: u64,
    entries: Vec<Entry>,
    /// Commits were overwritten before they were read: nothing can be said.
    is_lost: bool,
}

/// What the stamps of an answer say.
struct Claim {
    request: u64,
    sent_ns: u64,
    answered_ns: u64,
    token_ns: Vec<u64>,
    output_ids: Vec<u32>,
}

impl Claim {
    /// Of a timed request; of others nothing is asked.
    fn of(request: &RequestRecord) -> Option<Self> {
        (!request.warmup).then(|| Self {
            request: request.id,
            sent_ns: request.sent_ns.min(request.received_ns),
            answered_ns: request.answered_ns,
            token_ns: request.token_ns.clone(),
            output_ids: request.output_ids.clone(),
        })
    }

    /// How many tokens are stamped up to then; of pieces, how many stamps there are.
    fn claimed(&self, at_ns: u64, in_pieces: bool) -> u64 {
        let mut last = None;
        let stamped = self.token_ns.iter().filter(|&&ns| ns <= at_ns);
        stamped
            .filter(|&ns| !in_pieces || last.replace(ns) != Some(ns))
            .count() as u64
    }
}

impl Auditor {
    /// Of the process that commits into `ring`.
    fn new(ring: Arc<Ring>, seed: u64) -> Self {
        Self {
            ring,
            seed,
            watching: None,
            seen: Seen::default(),
        }
    }

    fn begin(&mut self) {
        self.pause();
        self.seen = Seen {
            begin: self.ring.committed(),
            ..Seen::default()
        };
    }

    fn watch(&mut self) {
        self.pause();
        let ring = Arc::clone(&self.ring);
        let mut seen = std::mem::take(&mut self.seen);
        self.seed = self.seed.wrapping_add(1);
        let mut random = SplitMix64(self.seed);
        let (stop, stopped) = channel();
        let look = move || {
            let begin_ns = now_ns();
            loop {
                let gap = Duration::from_secs_f64(exponential(&mut random) / LOOKS_PER_S);
                if stopped.recv_timeout(gap) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                seen.look(&ring);
            }
            seen.watched_ns += now_ns() - begin_ns;
            seen
        };
        self.watching = Some((stop, std::thread::spawn(look)));
    }

    fn pause(&mut self) {
        let Some((stop, thread)) = self.watching.take() else {
            return;
        };
        drop(stop);
        self.seen = thread.join().unwrap_or_else(|_| Seen {
            is_lost: true,
            ..Seen::default()
        });
    }

    fn end(&mut self, claims: Vec<Claim>) -> Option<Witnessed> {
        self.pause();
        self.seen.copy(&self.ring, self.ring.committed());
        let seen = std::mem::take(&mut self.seen);
        (!seen.is_lost).then(|| seen.against(claims))
    }
}

impl Seen {
    fn look(&mut self, ring: &Ring) {
        let before_ns = now_ns();
        let committed = ring.committed();
        let after_ns = now_ns();
        // A look behind: what was there then is written whole, whatever the processor's order
        // of stores.
        let last = self.looks.last().map_or(self.begin, |look| look.committed);
        self.copy(ring, last);
        self.looks.push(Look {
            before_ns,
            committed,
            after_ns,
        });
    }

    /// Keep the commits before the `end`th.
    fn copy(&mut self, ring: &Ring, end: u64) {
        let next = self.begin + self.entries.len() as u64;
        self.entries.extend((next..end).map(|n| ring.entry(n)));
        // Of what was read, none may have been overwritten meanwhile.
        self.is_lost |= next < end && ring.committed() - next >= ENTRIES;
    }

    /// Hold the stamps of answers against it.
    fn against(&self, mut claims: Vec<Claim>) -> Witnessed {
        claims.sort_by_key(|claim| claim.sent_ns);
        let mut found = Witnessed {
            looks: self.looks.len() as u64,
            watched_ns: self.watched_ns,
            ..Witnessed::default()
        };
        let in_pieces = self.entries.iter().any(|entry| entry.id == PIECE);
        let mut there: HashMap<u64, u64> = HashMap::new();
        let mut entries = self.entries.iter();
        let mut coming = claims.iter().peekable();
        let mut open: Vec<&Claim> = Vec::new();
        for look in &self.looks {
            let new = look.committed.saturating_sub(self.begin) as usize;
            let new = new.saturating_sub(self.entries.len() - entries.len());
            for entry in entries.by_ref().take(new) {
                *there.entry(entry.request).or_default() += 1;
            }
            while let Some(claim) = coming.next_if(|claim| claim.sent_ns <= look.after_ns) {
                open.push(claim);
            }
            open.retain(|claim| claim.answered_ns >= look.before_ns);
            let mut apart = [0; 4];
            for claim in &open {
                let there = there.get(&claim.request).copied().unwrap_or(0);
                let due = claim.claimed(look.before_ns, in_pieces);
                let begun = claim.claimed(look.after_ns, in_pieces);
                apart[0] += due.min(1).saturating_sub(there.min(1));
                apart[1] += behind_first(due).saturating_sub(behind_first(there));
                // Not every piece of a stream brings a token.
                if !in_pieces {
                    apart[2] += there.min(1).saturating_sub(begun.min(1));
                    apart[3] += behind_first(there).saturating_sub(behind_first(begun));
                }
            }
            let [first_early, later_early, first_late, later_late] = apart;
            found.first.early.add(first_early);
            found.later.early.add(later_early);
            found.first.late.add(first_late);
            found.later.late.add(later_late);
        }
        for entry in entries {
            *there.entry(entry.request).or_default() += 1;
        }
        for claim in &claims {
            let tokens = claim.claimed(u64::MAX, in_pieces);
            let committed = there.get(&claim.request).copied().unwrap_or(0);
            found.first.tokens += tokens.min(1);
            found.later.tokens += behind_first(tokens);
            found.uncommitted += tokens.saturating_sub(committed);
        }
        found.contradicted = self.contradicted(&claims);
        found
    }

    /// Tokens whose id was another one when they were committed.
    fn contradicted(&self, claims: &[Claim]) -> u64 {
        let by_request: HashMap<u64, &Claim> =
            claims.iter().map(|claim| (claim.request, claim)).collect();
        let differs = |entry: &&Entry| {
            let claim = by_request.get(&entry.request);
            let given = claim.and_then(|claim| claim.output_ids.get(entry.index as usize));
            entry.id != PIECE && given.is_some_and(|id| *id != entry.id)
        };
        self.entries.iter().filter(differs).count() as u64
    }
}

/// Of so many tokens, those that are not the first.
fn behind_first(tokens: u64) -> u64 {
    tokens.saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A request of four tokens that are there 10, 12, 14 and 16 ms after it was sent.
    const TRUE_NS: [u64; 4] = [10 * MS, 12 * MS, 14 * MS, 16 * MS];

    fn claim(request: u64, token_ns: &[u64]) -> Claim {
        let sent_ns = (request - 1) * 20 * MS;
        Claim {
            request,
            sent_ns,
            answered_ns: sent_ns + 17 * MS,
            token_ns: token_ns.iter().map(|ns| sent_ns + ns).collect(),
            output_ids: vec![7; token_ns.len()],
        }
    }

    /// Looks at every tenth of a millisecond of 20 requests, one after the other, whose tokens are
    /// committed at these times.
    fn seen(committed_ns: [u64; 4]) -> Seen {
        let requests = 1..=20;
        let commits: Vec<(u64, Entry)> = requests
            .flat_map(|request| {
                committed_ns.iter().enumerate().map(move |(index, ns)| {
                    let index = index as u32;
                    let entry = Entry {
                        request,
                        index,
                        id: 7,
                    };
                    ((request - 1) * 20 * MS + ns, entry)
                })
            })
            .collect();
        let look = |at: u64| Look {
            before_ns: at,
            committed: 5 + commits.iter().filter(|(ns, _)| *ns <= at).count() as u64,
            after_ns: at,
        };
        Seen {
            looks: (0..4000).map(|tenth| look(tenth * MS / 10)).collect(),
            watched_ns: 400 * MS,
            begin: 5,
            entries: commits.iter().map(|(_, entry)| *entry).collect(),
            is_lost: false,
        }
    }

    fn claims(token_ns: [u64; 4]) -> Vec<Claim> {
        (1..=20).map(|request| claim(request, &token_ns)).collect()
    }

    /// Early and late tokens, first and others, in a request's time (ns).
    fn apart(found: &Witnessed) -> [u64; 4] {
        let [a, b] = [found.first, found.later];
        [a.early, b.early, a.late, b.late].map(|sum| sum.sum * MS / 10 / 20)
    }

    #[test]
    fn true_stamps_agree_with_what_is_there() {
        let found = seen(TRUE_NS).against(claims(TRUE_NS));
        assert_eq!(apart(&found), [0; 4]);
        assert_eq!((found.first.tokens, found.later.tokens), (20, 60));
        assert_eq!((found.contradicted, found.uncommitted), (0, 0));
        assert_eq!((found.looks, found.watched_ns), (4000, 400 * MS));
    }

    #[test]
    fn every_way_to_stamp_what_is_not_so_shows() {
        // Begun, and all but the last stamped at once.
        let early = [MS, MS + 1000, MS + 2000, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(early)));
        assert_eq!(found[0], 9 * MS, "{found:?}");
        assert!(found[1].abs_diff((11 + 13) * MS) < MS, "{found:?}");
        // Spread over the request, so that the first token seems to come soon.
        let spread = [4 * MS, 8 * MS, 12 * MS, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(spread)));
        assert_eq!(found, [6 * MS, 6 * MS, 0, 0]);
        // The first stamped late, so that decoding seems quick.
        let late = [13 * MS, 14 * MS, 15 * MS, 16 * MS];
        let found = apart(&seen(TRUE_NS).against(claims(late)));
        assert_eq!(found, [0, 0, 3 * MS, 3 * MS]);
        // A clock that runs at three quarters of its speed.
        let scaled = TRUE_NS.map(|ns| ns * 3 / 4);
        let found = apart(&seen(TRUE_NS).against(claims(scaled)));
        assert!(found[0] > 2 * MS && found[1] > 9 * MS, "{found:?}");
        // Held back, and shown when all are there.
        let found = apart(&seen([16 * MS; 4]).against(claims(TRUE_NS)));
        assert_eq!(found, [6 * MS, 6 * MS, 0, 0]);
    }

    #[test]
    fn a_token_that_was_another_or_never_there_is_counted() {
        let mut other = seen(TRUE_NS);
        other.entries[3].id = 8;
        assert_eq!(other.against(claims(TRUE_NS)).contradicted, 1);
        let mut fewer = seen(TRUE_NS);
        fewer.entries.truncate(77);
        let found = fewer.against(claims(TRUE_NS));
        assert_eq!(found.uncommitted, 3);
    }

    #[test]
    fn a_stream_is_held_to_the_pieces_that_had_come() {
        let mut pieces = seen([2 * MS, 10 * MS, 14 * MS, 17 * MS]);
        pieces.entries.iter_mut().for_each(|entry| entry.id = PIECE);
        // The first piece brings no token, the second two, the last none.
        let honest = [10 * MS, 10 * MS, 14 * MS, 14 * MS];
        assert_eq!(apart(&pieces.against(claims(honest)))[..2], [0, 0]);
        let found = pieces.against(claims([MS, MS, 14 * MS, 14 * MS]));
        assert_eq!(apart(&found)[0], MS);
        assert_eq!((found.first.tokens, found.later.tokens), (20, 20));
    }

    #[test]
    fn what_is_committed_is_watched_until_the_case_is_over() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let ring = Arc::new(Ring::create(file.as_file()).unwrap());
        let mut auditor = Auditor::new(Arc::clone(&ring), 1);
        auditor.begin();
        auditor.watch();
        auditor.pause();
        let found = auditor.end(Vec::new()).expect("nothing was overwritten");
        assert_eq!((found.first.tokens, found.uncommitted), (0, 0));
        auditor.begin();
        let found = auditor.end(vec![claim(1, &TRUE_NS)]).unwrap();
        assert_eq!(found.uncommitted, 4);
    }
}
