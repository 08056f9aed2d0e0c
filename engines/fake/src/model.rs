//! Tokens that depend on the last two ids and the position, and logits that agree with them, so
//! that a stale cache, a shifted position or a mixed-up row is noticed. There are no weights.

use splitmix::SplitMix64;
/// The state of one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    previous: u32,
    last: u32,
    position: u32,
}

/// How far the logit of the most likely id lies above all others, which lie within 1; no position
/// is near a tie.
const MARGIN: f32 = 8.0;

impl Row {
    /// Return the state after a prompt.
    pub fn new(prompt: &[u32]) -> Self {
        let empty = Self::default();
        prompt.iter().fold(empty, |row, &id| row.feed(id))
    }

    /// Return the state after one more id.
    pub fn feed(self, id: u32) -> Self {
        Self {
            previous: self.last,
            last: id,
            position: self.position + 1,
        }
    }

    /// Return how many ids were fed so far.
    pub fn position(self) -> u32 {
        self.position
    }

    fn seed(self) -> u64 {
        let ids = u64::from(self.previous) << 32 | u64::from(self.last);
        mix(mix(ids) ^ u64::from(self.position))
    }

    /// Return the greedy next id.
    pub fn next(self, vocabulary: u32) -> u32 {
        (self.seed() % u64::from(vocabulary.max(1))) as u32
    }

    /// Return logits with their maximum at `next`.
    pub fn logits(self, vocabulary: u32, next: u32) -> Vec<f32> {
        let seed = self.seed();
        let noise = |id: u32| (mix(seed ^ u64::from(id)) >> 40) as f32 / (1u64 << 24) as f32;
        let logit = |id| if id == next { MARGIN + 1.0 } else { noise(id) };
        (0..vocabulary).map(logit).collect()
    }
}

/// Return the first output of SplitMix64 seeded with `value`.
fn mix(value: u64) -> u64 {
    SplitMix64(value).next_u64()
}

#[cfg(test)]
mod tests {
    use super::Row;

    #[test]
    fn feeding_one_by_one_is_feeding_at_once() {
        assert_eq!(Row::new(&[3, 1, 4, 1]), Row::new(&[3, 1]).feed(4).feed(1));
    }

    #[test]
    fn ids_order_and_position_all_matter() {
        let next = |prompt: &[u32]| Row::new(prompt).next(u32::MAX);
        let of = [
            next(&[1, 2]),
            next(&[2, 1]),
            next(&[9, 1, 2]),
            next(&[1, 3]),
            next(&[2]),
        ];
        let distinct: std::collections::BTreeSet<u32> = of.into_iter().collect();
        assert_eq!(distinct.len(), of.len());
    }

    #[test]
    fn the_logits_agree_with_the_choice() {
        let row = Row::new(&[5, 6, 7]);
        let next = row.next(100);
        let logits = row.logits(100, next);
        let best = (0..100)
            .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
            .unwrap();
        assert_eq!((logits.len(), best as u32), (100, next));
    }
}
