//! The sizes and inputs of scaled dot-product attention.

use crate::draw::uniform;
use protocol::engine::EngineError;
use protocol::micro::parameter;
use protocol::micro::wire::Prepare;

/// Inputs lie in ± this. Scores then have a standard deviation of 3, so that some positions weigh
/// much more than others and the output shows which.
const SCALE: f32 = 3.0;

/// The sizes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of sequences.
    pub batch: usize,
    /// Number of heads per sequence.
    pub heads: usize,
    /// Number of positions.
    pub seq: usize,
    /// Dimension of a head.
    pub dim: usize,
    /// Whether a position attends only to itself and those before it.
    pub causal: bool,
}

impl Shape {
    /// Read the sizes of a case.
    ///
    /// # Errors
    /// `bad_request` if a parameter is missing.
    pub fn read(case: &Prepare) -> Result<Self, EngineError> {
        Ok(Self {
            batch: parameter(case, "batch")?,
            heads: parameter(case, "heads")?,
            seq: parameter(case, "seq")?,
            dim: parameter(case, "dim")?,
            causal: parameter(case, "causal")? != 0,
        })
    }

    /// The tensors' dimensions: batch × heads × positions × head dimension.
    pub fn dims(&self) -> [usize; 4] {
        [self.batch, self.heads, self.seq, self.dim]
    }

    /// Number of elements in each input and in the output.
    pub fn values(&self) -> usize {
        self.dims().iter().product()
    }

    /// Floating-point operations of the two products; if causal, only of the visible pairs.
    pub fn flop(&self) -> f64 {
        let pairs = match self.causal {
            true => self.seq * (self.seq + 1) / 2,
            false => self.seq * self.seq,
        };
        4.0 * (self.batch * self.heads * pairs * self.dim) as f64
    }

    /// The scale of the scores, `1 / √dim`.
    pub fn scale(&self) -> f64 {
        1.0 / (self.dim as f64).sqrt()
    }
}

/// Queries, keys and values, each of the dimensions [`Shape::dims`] in row-major order.
pub struct Inputs {
    /// Queries.
    pub q: Vec<f32>,
    /// Keys.
    pub k: Vec<f32>,
    /// Values.
    pub v: Vec<f32>,
}

impl Inputs {
    /// Draw all three from `seed`.
    pub fn draw(seed: u64, shape: &Shape) -> Self {
        let draw = |name| uniform(seed, name, shape.values(), SCALE);
        Self {
            q: draw("q"),
            k: draw("k"),
            v: draw("v"),
        }
    }
}
