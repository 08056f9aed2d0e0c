//! The greedy choice of a token. It is part of the timed step, before the token's time stamp, so
//! it is written to compile to vector instructions.

/// Elements per block; small enough that searching one block again costs little.
const BLOCK: usize = 256;
const LANES: usize = 16;

/// Return the index of the greatest value, the lowest index on a tie; 0 if nothing is greater than
/// minus infinity.
pub fn argmax(values: &[f32]) -> u32 {
    let (mut best, mut start) = (f32::NEG_INFINITY, 0);
    for (index, block) in values.chunks(BLOCK).enumerate() {
        let max = max(block);
        if max > best {
            (best, start) = (max, index * BLOCK);
        }
    }
    let within = values[start..].iter().position(|&value| value == best);
    (start + within.unwrap_or(0)) as u32
}

fn max(block: &[f32]) -> f32 {
    // A comparison instead of `f32::max`: it is one instruction, and NaN never compares greater.
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = block.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane = greater(*lane, value);
        }
    }
    let all = lanes.iter().chain(rest);
    all.fold(f32::NEG_INFINITY, |a, &b| greater(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_index_wins_a_tie_wherever_it_lies() {
        for length in [1, 15, 16, 17, 255, 256, 257, 1000] {
            for at in [0, length / 2, length - 1] {
                let mut values = vec![-3.0; length];
                values[at] = 2.0;
                values[length - 1] = 2.0;
                assert_eq!(argmax(&values), at as u32, "{length} {at}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_never_chosen() {
        assert_eq!(argmax(&[f32::NAN, 1.0, f32::NAN, 3.0]), 3);
        assert_eq!(argmax(&[f32::NAN; 300]), 0);
        assert_eq!(argmax(&[]), 0);
    }
}
