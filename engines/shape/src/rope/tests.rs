//! Tests of frequencies and tables against numbers worked out by hand. Whether a model's output is
//! right is checked by the parity gate, not here.

use super::*;

fn rope(theta: f32, scaling: Scaling) -> Rope {
    Rope { theta, scaling }
}

/// The scaling of Llama 3.2, of a model that was first trained on `original_context` tokens.
fn llama3(original_context: f32) -> Scaling {
    Scaling::Llama3 {
        factor: 32.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_context,
    }
}

#[test]
fn llama3_scaling_keeps_high_frequencies_and_divides_low_ones() {
    // Llama 3.2 1B: a wavelength of 2048 lies between pairs 14 and 15, one of
    // 8192 between 17 and 18.
    let plain = rope(500_000.0, Scaling::None).frequencies(64);
    let scaled = rope(500_000.0, llama3(8192.0)).frequencies(64);
    assert_eq!(scaled[0], plain[0]);
    assert_eq!(scaled[14], plain[14]);
    assert_eq!(scaled[31], plain[31] / 32.0);
    for i in 15..=17 {
        assert!(
            scaled[i] < plain[i] && scaled[i] > plain[i] / 32.0,
            "pair {i}"
        );
    }
}

#[test]
fn divisors_divide() {
    let halved = rope(100.0, Scaling::Divisors(vec![1.0, 2.0]));
    assert_eq!(halved.frequencies(4), [1.0, 0.05]);
}

#[test]
fn tables_hold_both_halves() {
    let rope = rope(10_000.0, Scaling::None);
    let expected = [1.0, 0.1, 0.01, 0.001];
    for (frequency, expected) in rope.frequencies(8).iter().zip(expected) {
        assert!((frequency - expected).abs() < 1e-7);
    }
    let (cos, sin) = rope.tables(8, 4);
    assert!((cos[3 * 8] - 3f32.cos()).abs() < 1e-7 && cos[3 * 8] == cos[3 * 8 + 4]);
    assert!((sin[3 * 8 + 1] + 0.3f32.sin()).abs() < 1e-7 && sin[3 * 8] == -sin[3 * 8 + 4]);
}

#[test]
fn llama3_divides_by_at_most_the_factor() {
    let before = rope(500_000.0, Scaling::None).frequencies(64);
    let after = rope(500_000.0, llama3(512.0)).frequencies(64);
    // The first wavelength, 2π, is under 512/4; the last one is far above 512.
    assert_eq!(before[0], after[0]);
    assert_eq!(before[31] / 32.0, after[31]);
    let between = before.iter().zip(&after);
    assert!(between.clone().all(|(b, a)| a <= b && *a >= b / 32.0));
    assert!(between.clone().any(|(b, a)| a < b && *a > b / 32.0 * 1.01));
}

#[test]
fn a_row_of_the_table() {
    let (cos, sin) = rope(100.0, Scaling::None).tables(4, 3);
    // The frequencies are 1 and 1/10; this is the row of position 2.
    for (found, expected) in cos[8..].iter().zip([2f32, 0.2, 2.0, 0.2]) {
        assert!((found - expected.cos()).abs() < 1e-6);
    }
    for (found, expected) in sin[8..].iter().zip([-2f32, -0.2, 2.0, 0.2]) {
        assert!((found - expected.sin()).abs() < 1e-6);
    }
}
