//! A table of the cosines and sines of every position. It deliberately rotates nothing: see
//! [`crate::kernels::portable::rotate`].

use shape::Rope;

/// The cosines and sines of every position.
pub struct RopeTable {
    half: usize,
    cos: Vec<f32>, // [position][half]
    sin: Vec<f32>, // [position][half]
}

impl RopeTable {
    /// Create the table for `positions` positions.
    pub fn new(rope: &Rope, head_dim: usize, positions: usize) -> Self {
        let frequencies = rope.frequencies(head_dim);
        let half = frequencies.len();
        let mut cos = Vec::with_capacity(positions * half);
        let mut sin = Vec::with_capacity(positions * half);
        for position in 0..positions {
            for frequency in &frequencies {
                let angle = f64::from(position as f32 * frequency);
                cos.push(angle.cos() as f32);
                sin.push(angle.sin() as f32);
            }
        }
        Self { half, cos, sin }
    }

    /// Give every position after `last` the angles of `last`: a fault for testing the parity gate.
    pub fn ending_at(mut self, last: usize) -> Self {
        let row = last * self.half..(last + 1) * self.half;
        for table in [&mut self.cos, &mut self.sin] {
            let Some(row) = table.get(row.clone()).map(<[f32]>::to_vec) else {
                continue;
            };
            for later in table[last * self.half..].chunks_exact_mut(self.half) {
                later.copy_from_slice(&row);
            }
        }
        self
    }

    /// Return the cosines and sines of one position.
    ///
    /// # Panics
    /// If the table does not reach that far.
    pub fn at(&self, position: usize) -> (&[f32], &[f32]) {
        let range = position * self.half..(position + 1) * self.half;
        (&self.cos[range.clone()], &self.sin[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shape::Scaling;

    #[test]
    fn a_row_holds_a_position() {
        let rope = Rope {
            theta: 10_000.0,
            scaling: Scaling::None,
        };
        let table = RopeTable::new(&rope, 8, 4);
        assert_eq!(table.at(0), (&[1.0f32; 4][..], &[0.0f32; 4][..]));
        let (cos, sin) = table.at(3);
        assert!((cos[0] - 3f32.cos()).abs() < 1e-7 && (sin[1] - 0.3f32.sin()).abs() < 1e-7);
        let short = RopeTable::new(&rope, 8, 4).ending_at(2);
        assert_eq!(short.at(1), table.at(1));
        assert_eq!(short.at(3), table.at(2));
        let longer = RopeTable::new(&rope, 8, 4).ending_at(9);
        assert_eq!(longer.at(3), table.at(3), "it ends after all there is");
    }
}
