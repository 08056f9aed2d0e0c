//! Tests of the prefix cache: the positions that are reused from the previous sequence change no
//! bit of the output, and are not computed again.

use super::fixture::{How, VOCABULARY, tiny};
use super::whole::{divergence, prompt, score};
use crate::model::Model;
use crate::mutation::Mutation;
use crate::weights::Precision;

fn keeping(precision: Precision) -> How {
    How {
        prefix_cache: true,
        ..How::plain(precision)
    }
}

/// Return the logits after `ids`, of which the last five are decoded, and the number of computed
/// tokens.
fn counted(model: &mut Model, ids: &[u32]) -> (Vec<Vec<f32>>, u64) {
    let before = model.computed;
    let logits = score(model, ids, 5);
    (logits, model.computed - before)
}

/// Return `ids` up to `at`, followed by other tokens, `length` in total.
fn leaving(ids: &[u32], at: usize, length: usize) -> Vec<u32> {
    let mut other = ids[..at].to_vec();
    other.push((ids[at] + 1) % VOCABULARY as u32);
    other.extend(prompt(99, length - other.len()));
    other
}

#[test]
fn a_prompt_goes_on_from_where_it_leaves_the_one_before() {
    let dir = tiny(true, true);
    // Longer than a chunk of 256 tokens.
    let first = prompt(1, 280);
    for precision in [Precision::F32, Precision::Q8_0] {
        let mut keeps = keeping(precision).load(dir.path()).unwrap();
        let (_, all) = counted(&mut keeps, &first);
        assert_eq!(all, 280);
        let mut before = first.clone();
        for (at, length) in [(40, 60), (10, 100), (9, 290), (278, 285), (0, 50)] {
            // The cache holds the previous prompt and the tokens that were decoded after it.
            let ids = leaving(&before, at, length);
            let (kept, computed) = counted(&mut keeps, &ids);
            assert_eq!(computed, (length - at) as u64, "leaves at {at}");
            let mut fresh = How::plain(precision).load(dir.path()).unwrap();
            assert_eq!(kept, score(&mut fresh, &ids, 5), "leaves at {at}");
            before = ids;
        }
    }
}

#[test]
fn the_last_token_of_a_prompt_is_fed_whatever_was_kept() {
    let dir = tiny(true, true);
    let mut model = keeping(Precision::F32).load(dir.path()).unwrap();
    let ids = prompt(1, 30);
    let first = score(&mut model, &ids, 0);
    for length in [30, 12] {
        let before = model.computed;
        let again = score(&mut model, &ids[..length], 0);
        assert_eq!(model.computed - before, 1);
        assert!(length < 30 || again == first);
    }
}

#[test]
fn nothing_is_kept_of_a_batch_or_where_nobody_asks() {
    let dir = tiny(true, true);
    let ids = prompt(1, 30);
    let mut forgets = How::plain(Precision::F32).load(dir.path()).unwrap();
    let mut keeps = keeping(Precision::F32).load(dir.path()).unwrap();
    for model in [&mut forgets, &mut keeps] {
        model.prefill(&[&ids, &ids]).unwrap();
        assert_eq!(counted(model, &ids).1, 30);
    }
    assert_eq!(counted(&mut forgets, &ids).1, 30);
    assert_eq!(counted(&mut keeps, &ids).1, 1 + 5);
}

#[test]
fn one_position_too_many_shows() {
    let dir = tiny(true, true);
    let (first, at) = (prompt(1, 40), 33);
    let second = leaving(&first, at, 40);
    for precision in [Precision::F32, Precision::Q8_0] {
        let wrong = How {
            mutation: Some(Mutation::PrefixLength),
            ..keeping(precision)
        };
        let logits = |how: How| {
            let mut model = how.load(dir.path()).unwrap();
            score(&mut model, &first, 5);
            score(&mut model, &second, 5)
        };
        let away = divergence(&logits(keeping(precision)), &logits(wrong));
        assert!(away > 2e-2, "{precision:?}: {away:e}");
    }
}
