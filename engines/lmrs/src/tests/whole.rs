//! Tests of a model against itself: cached against recomputed, alone against in a batch, file
//! against file, and with each fault against without.

use super::fixture::{How, Random, VOCABULARY, tiny, tiny_stored_as};
use crate::kernels::{Isa, Kernels};
use crate::model::Model;
use crate::mutation::Mutation;
use crate::weights::Precision;
use safetensors::Dtype;
use tempfile::TempDir;

const PRECISIONS: [Precision; 2] = [Precision::F32, Precision::Q8_0];

pub(super) fn prompt(seed: u64, length: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    (0..length)
        .map(|_| (random.next() % VOCABULARY as u64) as u32)
        .collect()
}

/// Return the logits after each of the last `decoded + 1` positions: a prefill, then decode steps.
pub(super) fn score(model: &mut Model, ids: &[u32], decoded: usize) -> Vec<Vec<f32>> {
    let (prompt, rest) = ids.split_at(ids.len() - decoded);
    model.prefill(&[prompt]).unwrap();
    let mut out = vec![model.logits(0).unwrap().to_vec()];
    for id in rest {
        model.decode(&[*id]).unwrap();
        out.push(model.logits(0).unwrap().to_vec());
    }
    out
}

/// Load the model in `dir`, and return the same logits of it.
fn scored(how: How, dir: &TempDir, ids: &[u32], decoded: usize) -> Vec<Vec<f32>> {
    score(&mut how.load(dir.path()).unwrap(), ids, decoded)
}

/// Return the mean Kullback–Leibler divergence of the softmaxes.
pub(super) fn divergence(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    let log_softmax = |x: &[f32]| -> Vec<f64> {
        let sum: f64 = x.iter().map(|v| f64::from(*v).exp()).sum();
        x.iter().map(|v| f64::from(*v) - sum.ln()).collect()
    };
    let pairs = a.iter().zip(b).map(|(a, b)| {
        let (p, q) = (log_softmax(a), log_softmax(b));
        p.iter().zip(q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>()
    });
    pairs.sum::<f64>() / a.len() as f64
}

#[test]
fn cached_steps_give_what_a_prefill_of_everything_gives() {
    let dir = tiny(true, true);
    for precision in PRECISIONS {
        let mut model = How::plain(precision).load(dir.path()).unwrap();
        let ids = prompt(1, 40);
        let cached = score(&mut model, &ids, 20);
        for (step, cached) in cached.iter().enumerate() {
            let whole = score(&mut model, &ids[..20 + step], 0);
            assert_eq!(
                &whole[0],
                cached,
                "{precision:?}, after {} tokens",
                20 + step
            );
        }
    }
}

#[test]
fn a_prompt_longer_than_a_chunk_is_the_same_prompt() {
    let dir = tiny(true, true);
    let mut model = How::plain(Precision::Q8_0).load(dir.path()).unwrap();
    let ids = prompt(2, 290);
    let chunked = score(&mut model, &ids, 0);
    let stepped = score(&mut model, &ids, 280);
    assert_eq!(chunked[0], *stepped.last().unwrap());
}

#[test]
fn a_row_of_a_batch_gives_the_same_bits_as_alone() {
    let dir = tiny(false, false);
    for precision in PRECISIONS {
        let mut model = How::plain(precision).load(dir.path()).unwrap();
        let prompts: Vec<Vec<u32>> = (0..3).map(|seed| prompt(seed, 100)).collect();
        let mut alone = Vec::new();
        for prompt in &prompts {
            let mut ids = model.prefill(&[prompt]).unwrap();
            for _ in 0..5 {
                ids.push(model.decode(&ids[ids.len() - 1..]).unwrap()[0]);
            }
            alone.push((ids, model.logits(0).unwrap().to_vec()));
        }
        let rows: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
        let mut last = model.prefill(&rows).unwrap();
        let mut together: Vec<Vec<u32>> = last.iter().map(|id| vec![*id]).collect();
        for _ in 0..5 {
            last = model.decode(&last).unwrap();
            together
                .iter_mut()
                .zip(&last)
                .for_each(|(ids, id)| ids.push(*id));
        }
        for (row, (ids, logits)) in alone.iter().enumerate() {
            assert_eq!(ids, &together[row]);
            assert_eq!(logits, model.logits(row).unwrap());
        }
    }
}

#[test]
fn threads_change_nothing() {
    let dir = tiny(true, true);
    let ids = prompt(3, 30);
    for precision in PRECISIONS {
        let plain = How::plain(precision);
        let with = |threads| scored(How { threads, ..plain }, &dir, &ids, 10);
        let expected = with(1);
        for threads in [2, 3, 5] {
            assert_eq!(with(threads), expected);
        }
    }
}

#[test]
fn instruction_sets_agree() {
    let dir = tiny(true, false);
    let ids = prompt(4, 30);
    for (precision, limit) in [(Precision::F32, 1e-9), (Precision::Q8_0, 1e-3)] {
        let plain = How::plain(precision);
        let with = |kernels| scored(How { kernels, ..plain }, &dir, &ids, 10);
        let expected = with(Kernels::new(Isa::Scalar).unwrap());
        for kernels in Isa::ALL.into_iter().filter_map(Kernels::new) {
            let divergence = divergence(&expected, &with(kernels));
            assert!(
                divergence < limit,
                "{precision:?} {:?}: {divergence:e}",
                kernels.isa()
            );
        }
    }
}

/// Both files hold the same weights, so a wrong permutation, scale or RoPE would show as a
/// divergence far larger than that of quantised activations.
#[test]
fn the_two_files_give_the_same_model() {
    for (scaled_rope, tied) in [(false, true), (true, false)] {
        let dir = tiny(scaled_rope, tied);
        let ids = prompt(5, 60);
        let of = |precision| scored(How::plain(precision), &dir, &ids, 30);
        let divergence = divergence(&of(Precision::F32), &of(Precision::Q8_0));
        assert!(divergence < 1e-2, "{divergence:e}");
    }
}

#[test]
fn the_configuration_says_whether_the_embedding_is_the_output_head() {
    let (dir, ids) = (tiny(false, false), prompt(5, 20));
    let logits = || scored(How::plain(Precision::F32), &dir, &ids, 5);
    let untied = logits();
    let path = dir.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    let [no, yes] = [false, true].map(|tied| format!("\"tie_word_embeddings\": {tied}"));
    assert!(config.contains(&no), "{config}");
    // The file still has a head of its own.
    std::fs::write(&path, config.replace(&no, &yes)).unwrap();
    assert_ne!(logits(), untied);
}

#[test]
fn half_precision_storage_is_read() {
    let ids = prompt(6, 20);
    let dir = tiny(false, true);
    let plain = How::plain(Precision::F32);
    let expected = scored(plain, &dir, &ids, 10);
    for (dtype, limit) in [(Dtype::F16, 1e-4), (Dtype::BF16, 1e-2)] {
        let dir = tiny_stored_as(dtype, false, true);
        let found = scored(plain, &dir, &ids, 10);
        let divergence = divergence(&expected, &found);
        assert!(divergence < limit && divergence > 0.0, "{divergence:e}");
    }
}

/// Score several sequences one after the other, as the gate does.
fn gate(model: &mut Model) -> Vec<Vec<f32>> {
    (10..14)
        .flat_map(|seed| score(model, &prompt(seed, 60), 30))
        .collect()
}

#[test]
fn every_fault_shows_at_every_precision() {
    let dir = tiny(true, true);
    for precision in PRECISIONS {
        let plain = How::plain(precision);
        let expected = gate(&mut plain.load(dir.path()).unwrap());
        for (name, mutation) in Mutation::ALL {
            let mut model = How {
                mutation: Some(mutation),
                ..plain
            }
            .load(dir.path())
            .unwrap();
            let divergence = divergence(&expected, &gate(&mut model));
            match mutation {
                Mutation::BatchMask => {
                    assert_eq!(divergence, 0.0, "a batch of one has no other row to see");
                }
                // The effect of a table of angles that ends too soon is tested with the table.
                Mutation::RopeFar => assert_eq!(divergence, 0.0, "nothing is that far"),
                Mutation::PromptLength => assert_eq!(divergence, 0.0, "prompts of 30 tokens"),
                Mutation::PrefixLength => assert_eq!(divergence, 0.0, "nothing is kept"),
                Mutation::GenerateOnly => assert_eq!(divergence, 0.0, "all of it is scored"),
                // Leaving out work causes only a small error.
                Mutation::KvInt8 | Mutation::SparseMlp | Mutation::RmsEpsilon => assert!(
                    (1e-7..1e-1).contains(&divergence),
                    "{precision:?} {name}: {divergence:e}"
                ),
                _ => assert!(divergence > 2e-2, "{precision:?} {name}: {divergence:e}"),
            }
        }
    }
}

#[test]
fn a_fault_of_one_prompt_length_shows_at_that_length_alone() {
    let dir = tiny(true, true);
    let plain = How::plain(Precision::F32);
    let mutation = Some(Mutation::PromptLength);
    let mut right = plain.load(dir.path()).unwrap();
    let mut wrong = How { mutation, ..plain }.load(dir.path()).unwrap();
    for (length, shows) in [(36, false), (37, true), (101, true), (102, false)] {
        let ids = prompt(3, length);
        let away = divergence(&score(&mut right, &ids, 0), &score(&mut wrong, &ids, 0));
        assert_eq!(away > 2e-2, shows, "{length}: {away:e}");
    }
}

#[test]
fn what_is_generated_otherwise_than_scored_shows_where_nobody_looks() {
    let dir = tiny(true, true);
    let ids = prompt(4, 30);
    for precision in PRECISIONS {
        let plain = How::plain(precision);
        let mutation = Some(Mutation::GenerateOnly);
        // Make two steps; `looks` says whether the first one's logits are read.
        let last = |how: How, looks: bool| {
            let mut model = how.load(dir.path()).unwrap();
            model.prefill(&[&ids]).unwrap();
            if looks {
                model.logits(0).unwrap();
            }
            model.decode(&[5]).unwrap();
            model.logits(0).unwrap().to_vec()
        };
        let right = last(plain, true);
        assert_eq!(right, last(plain, false));
        assert_eq!(right, last(How { mutation, ..plain }, true));
        assert_ne!(right, last(How { mutation, ..plain }, false));
    }
}

#[test]
fn a_stale_cache_spares_the_first_sequence() {
    let dir = tiny(true, true);
    let plain = How::plain(Precision::F32);
    let ids = prompt(7, 30);
    let expected = scored(plain, &dir, &ids, 10);
    let mutation = Some(Mutation::StaleKv);
    let mut model = How { mutation, ..plain }.load(dir.path()).unwrap();
    assert_eq!(score(&mut model, &ids, 10), expected);
    assert_ne!(score(&mut model, &ids, 10), expected);
}

#[test]
fn a_wrong_batch_mask_shows_in_a_batch() {
    let dir = tiny(true, true);
    let plain = How::plain(Precision::Q8_0);
    let mutation = Some(Mutation::BatchMask);
    let prompts = [prompt(8, 30), prompt(9, 30)];
    let rows: Vec<&[u32]> = prompts.iter().map(Vec::as_slice).collect();
    let mut right = plain.load(dir.path()).unwrap();
    let mut wrong = How { mutation, ..plain }.load(dir.path()).unwrap();
    right.prefill(&rows).unwrap();
    wrong.prefill(&rows).unwrap();
    assert_eq!(right.logits(0).unwrap(), wrong.logits(0).unwrap());
    let logits = |model: &Model| vec![model.logits(1).unwrap().to_vec()];
    assert!(divergence(&logits(&right), &logits(&wrong)) > 2e-2);
}

#[test]
fn dropping_a_scaling_that_is_not_there_is_refused() {
    let dir = tiny(false, true);
    let mutation = Some(Mutation::RopeScaling);
    let error = How {
        mutation,
        ..How::plain(Precision::F32)
    }
    .load(dir.path())
    .err()
    .unwrap();
    assert!(
        error.message.contains("no RoPE scaling"),
        "{}",
        error.message
    );
}

#[test]
fn requests_that_do_not_fit_are_refused() {
    let dir = tiny(false, true);
    let mut model = How::plain(Precision::F32).load(dir.path()).unwrap();
    assert!(model.decode(&[]).is_err(), "nothing was prefilled");
    assert!(model.prefill(&[]).is_err());
    assert!(model.prefill(&[&[]]).is_err());
    assert!(model.prefill(&[&[1], &[1, 2]]).is_err());
    assert!(model.prefill(&[&[1][..]; 5]).is_err(), "five rows of four");
    assert!(model.prefill(&[&[1; 301]]).is_err());
    assert!(model.prefill(&[&[VOCABULARY as u32]]).is_err());
    model.prefill(&[&[1; 299]]).unwrap();
    model.decode(&[1]).unwrap();
    assert!(model.decode(&[1]).is_err(), "the context is full");
    assert!(model.logits(1).is_err());
}
