//! Estimates how long the rest of a stage takes, from what its launches should take and from what
//! earlier ones took. Pure.
//!
//! Estimates made beforehand are wrong by much the same factor for all items (a pilot is cold,
//! another machine compiles faster), and finished work shows that factor. While little work is
//! finished the factor is held near 1, and an item that has run before is mostly estimated by its
//! own launches.

/// Weight of the assumption that the factor is 1, in seconds of estimated work, for launches: after
/// a minute of finished work, that work mostly determines the factor.
pub const LAUNCHES_PRIOR_S: f64 = 10.0;
/// The same weight for programs that are compiled. It is larger, because the time of one program
/// says little about the others.
pub const PROGRAMS_PRIOR_S: f64 = 120.0;

/// What is known of an item's launches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Estimate made beforehand of what one launch takes (s).
    pub expected_s: Option<f64>,
    /// Number of launches that are not over.
    pub left: u32,
    /// Number of launches that were timed from begin to end.
    pub done: u32,
    /// Time that the timed launches took together (s).
    pub took_s: f64,
    /// The launch that has begun and isn't over, if there is one.
    pub under_way: Option<UnderWay>,
}

/// A launch that isn't over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnderWay {
    /// Time that the launch has run (s).
    pub elapsed_s: f64,
    /// Estimated time of the launch's complete parts (s).
    pub parts_expected_s: f64,
    /// Time that the launch's complete parts took (s).
    pub parts_took_s: f64,
}

/// Estimate the time until all items are done (s); `None` where there is neither an estimate nor a
/// launch that is over. `prior_s`: see [`LAUNCHES_PRIOR_S`].
pub fn left_s(all: &[Work], prior_s: f64) -> Option<f64> {
    let factor = factor(all, prior_s);
    let typical_s = typical_s(all, factor);
    let left = all.iter().filter(|work| work.left > 0).map(|work| {
        let each_s = each_s(work, factor).or(typical_s)?;
        // A launch that takes longer than it should counts as almost done.
        let behind_s = work.under_way.map_or(0.0, |now| now.elapsed_s.min(each_s));
        Some(f64::from(work.left) * each_s - behind_s)
    });
    if typical_s.is_none() && all.iter().all(|work| work.done == 0) {
        return None;
    }
    left.sum()
}

/// The ratio of actual to estimated time of what is done.
fn factor(all: &[Work], prior_s: f64) -> f64 {
    let (mut expected_s, mut took_s) = (prior_s, prior_s);
    for work in all {
        let Some(each_s) = work.expected_s else {
            continue;
        };
        expected_s += f64::from(work.done) * each_s;
        took_s += work.took_s;
        if let Some(now) = work.under_way {
            expected_s += now.parts_expected_s;
            took_s += now.parts_took_s;
        }
    }
    took_s / expected_s
}

/// The estimated time of one launch of an item (s): the mean of the timed ones and the corrected
/// estimate, which counts as one more launch.
fn each_s(work: &Work, factor: f64) -> Option<f64> {
    let done = f64::from(work.done);
    match work.expected_s {
        Some(expected_s) => Some((factor * expected_s + work.took_s) / (1.0 + done)),
        None if work.done > 0 => Some(work.took_s / done),
        None => None,
    }
}

/// The time of one launch of an item that nothing is known of (s): the mean of the launches that
/// were timed, else of the estimates.
fn typical_s(all: &[Work], factor: f64) -> Option<f64> {
    let done: u32 = all.iter().map(|work| work.done).sum();
    if done > 0 {
        let took_s: f64 = all.iter().map(|work| work.took_s).sum();
        return Some(took_s / f64::from(done));
    }
    let expected: Vec<f64> = all.iter().filter_map(|work| work.expected_s).collect();
    stats::describe::mean(&expected).map(|mean_s| mean_s * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_s(all: &[Work]) -> Option<f64> {
        super::left_s(all, LAUNCHES_PRIOR_S)
    }

    /// Make items of (expected, left, done, took).
    fn work(all: &[(Option<f64>, u32, u32, f64)]) -> Vec<Work> {
        let of = |&(expected_s, left, done, took_s): &(Option<f64>, u32, u32, f64)| Work {
            expected_s,
            left,
            done,
            took_s,
            under_way: None,
        };
        all.iter().map(of).collect()
    }

    fn assert_near(a: Option<f64>, b: f64) {
        let a = a.expect("there is an estimate");
        assert!((a - b).abs() < 1e-6, "{a} is not {b}");
    }

    #[test]
    fn before_anything_is_done_the_estimates_stand() {
        assert_near(
            left_s(&work(&[(Some(3.0), 5, 0, 0.0), (Some(1.0), 2, 0, 0.0)])),
            17.0,
        );
        // An item without an estimate takes the mean of the others.
        assert_near(
            left_s(&work(&[(Some(3.0), 1, 0, 0.0), (None, 2, 0, 0.0)])),
            9.0,
        );
        assert_eq!(left_s(&work(&[(None, 2, 0, 0.0)])), None);
        assert_eq!(left_s(&[]), None);
    }

    #[test]
    fn without_estimates_the_rest_takes_what_the_same_took_before_or_else_the_mean() {
        let items = [
            (None, 1, 1, 10.0),
            (None, 1, 1, 30.0),
            (None, 2, 0, 0.0),
            (None, 0, 0, 0.0),
        ];
        assert_near(left_s(&work(&items)), 80.0);
    }

    #[test]
    fn what_is_done_corrects_what_is_left() {
        // 180 s of estimates took 90: the factor is (90 + 10) / (180 + 10).
        let items = [(Some(18.0), 0, 10, 90.0), (Some(10.0), 4, 0, 0.0)];
        assert_near(left_s(&work(&items)), 4.0 * 10.0 * 100.0 / 190.0);
        // Complete parts of launches that aren't over correct the estimate too.
        let mut items = work(&[(Some(90.0), 1, 0, 0.0), (Some(90.0), 1, 0, 0.0)]);
        for item in &mut items {
            item.under_way = Some(UnderWay {
                elapsed_s: 30.0,
                parts_expected_s: 60.0,
                parts_took_s: 30.0,
            });
        }
        let factor = (60.0 + 10.0) / (120.0 + 10.0);
        assert_near(left_s(&items), 2.0 * (90.0 * factor - 30.0));
    }

    #[test]
    fn what_takes_longer_than_it_should_is_no_debt() {
        let mut items = work(&[(Some(10.0), 1, 0, 0.0)]);
        items[0].under_way = Some(UnderWay {
            elapsed_s: 99.0,
            ..UnderWay::default()
        });
        assert_near(left_s(&items), 0.0);
    }

    /// Simulate launches of 25 targets in 4 scenarios and 5 blocks, in an order like the plan's,
    /// whose estimates are wrong by `factor` and, each launch for itself, by `spread`. Return how
    /// far the estimate of the rest is off at worst (as a share of what the rest then takes),
    /// looking after each launch from `from_s` on until a fifth is left.
    fn worst(factor: f64, spread: f64, from_s: f64, seed: u64) -> f64 {
        let mut random = base::random::SplitMix64(seed);
        let mut unit = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut items: Vec<Work> = (0..100)
            .map(|_| Work {
                expected_s: Some(0.5 + 4.0 * unit()),
                left: 5,
                ..Work::default()
            })
            .collect();
        let mut takes = Vec::new();
        for _block in 0..5 {
            let mut order: Vec<usize> = (0..items.len()).collect();
            order.sort_by_cached_key(|_| (unit() * 1e9) as u64);
            for item in order {
                // Uniform with that standard deviation.
                let off = 1.0 + spread * 3f64.sqrt() * (2.0 * unit() - 1.0);
                takes.push((item, items[item].expected_s.unwrap() * factor * off));
            }
        }
        let all_s: f64 = takes.iter().map(|(_, took_s)| took_s).sum();
        let (mut done_s, mut worst) = (0.0, 0f64);
        for (item, took_s) in takes {
            let item = &mut items[item];
            item.left -= 1;
            item.done += 1;
            item.took_s += took_s;
            done_s += took_s;
            let rest_s = all_s - done_s;
            if done_s >= from_s && rest_s > all_s / 5.0 {
                let said_s = left_s(&items).expect("there are estimates");
                worst = worst.max((said_s / rest_s - 1.0).abs());
            }
        }
        worst
    }

    #[test]
    fn from_the_first_minute_on_the_rest_is_known_within_a_fifth() {
        for factor in [0.7, 0.8, 1.0, 1.25, 1.5] {
            let off = (1..=50).map(|seed| worst(factor, 0.3, 60.0, seed));
            // The mean of thirty launches with this spread is itself off by a twentieth.
            let far = off.filter(|off| *off > 0.2).count();
            assert!(far <= 2, "factor {factor}: {far} of 50 runs are off");
        }
        // Within the first minute the error is larger: one launch hardly corrects the estimate.
        assert!((1..=50).all(|seed| worst(2.0, 0.0, 0.0, seed) > 0.3));
    }
}
