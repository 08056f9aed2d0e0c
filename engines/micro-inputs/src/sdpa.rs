//! Scaled dot-product attention: its sizes and inputs.

use crate::draw::uniform;
use protocol::engine::EngineError;
use protocol::micro::parameter;
use protocol::micro::wire::Prepare;

/// Inputs lie in ± this: scores then have a standard deviation of 3, so that some
/// positions matter much and an output shows which.
const SCALE: f32 = 3.0;

/// The sizes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sequences.
    pub batch: usize,
    /// Heads of each.
    pub heads: usize,
    /// Positions.
    pub seq: usize,
    /// Dimension of a head.
    pub dim: usize,
    /// Whether a position sees only itself and those before.
    pub causal: bool,
}

impl Shape {
    /// Read the sizes of a case.
    ///
    /// # Errors
    /// `bad_request` where a parameter is missing.
    pub fn read(case: &Prepare) -> Result<Self, EngineError> {
        Ok(Self {
            batch: parameter(case, "batch")?,
            heads: parameter(case, "heads")?,
            seq: parameter(case, "seq")?,
            dim: parameter(case, "dim")?,
            causal: parameter(case, "causal")? != 0,
        })
    }

    /// batch × heads × positions × dimension.
    pub fn dims(&self) -> [usize; 4] {
        [self.batch, self.heads, self.seq, self.dim]
    }

    /// Values in each input and in the output.
    pub fn values(&self) -> usize {
        self.dims().iter().product()
    }

    /// Floating-point operations of the two products; of a causal one those that count.
    pub fn flop(&self) -> f64 {
        let pairs = match self.causal {
            true => self.seq * (self.seq + 1) / 2,
            false => self.seq * self.seq,
        };
        4.0 * (self.batch * self.heads * pairs * self.dim) as f64
    }

    /// `1 / √dim`.
    pub fn scale(&self) -> f64 {
        1.0 / (self.dim as f64).sqrt()
    }
}

/// Queries, keys and values, each [`Shape::dims`] in row-major order.
pub struct Inputs {
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
}

impl Inputs {
    /// Draw them.
    pub fn draw(seed: u64, shape: &Shape) -> Self {
        let draw = |name| uniform(seed, name, shape.values(), SCALE);
        Self {
            q: draw("q"),
            k: draw("k"),
            v: draw("v"),
        }
    }
}
