//! The linear layer `y = x · Wᵀ + b`. Its weights are laid out once, in the way that the backend
//! multiplies fastest.
//!
//! flex and ndarray multiply one row by a matrix on one thread, but spread a batch of products
//! over all threads. So for them a matrix is cut into `parts` groups of output columns, and the
//! product is a batch. For the other backends it stays whole.

use crate::backend::{Backend, Kind};
use burn::tensor::{DType, Tensor, TensorData};

/// Largest number of rows for which flex is faster row by row, where each part of the matrix stays
/// in the cache for all rows, than with one matrix product, which first copies the whole matrix
/// into another order.
const FEW_ROWS: usize = 16;

/// Bytes of a part for flex: half of a common second-level cache.
const PART_BYTES: usize = 1 << 20;

/// A linear layer without activation. A clone shares the weights.
#[derive(Clone)]
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor<2>>, // 1 × out
    out: usize,
}

#[derive(Clone)]
enum Weight {
    /// The whole matrix, in × out.
    Whole(Tensor<2>),
    /// For flex: the values as in the file, out × in, and a view of them, parts × 1 × 1 × in ×
    /// out/parts.
    Views(Tensor<2>, Box<Tensor<5>>),
    /// For ndarray, which copies any view: parts × in × out/parts.
    Parts(Tensor<3>),
}

impl Linear {
    /// Create a layer from `out × in` values, row-major, as in every file.
    pub fn new(values: Vec<f32>, out: usize, bias: Option<Vec<f32>>, backend: &Backend) -> Self {
        let input = values.len() / out;
        let weight = match (backend.kind, parts(out, input, backend)) {
            (Kind::NdArray, Some(parts)) => {
                let values = regroup(&values, parts, out / parts, input);
                Weight::Parts(upload(values, [parts, input, out / parts], backend))
            }
            _ => Weight::view(upload(values, [out, input], backend), backend),
        };
        Self {
            weight,
            bias: bias.map(|bias| upload(bias, [1, out], backend)),
            out,
        }
    }

    /// Create the output head that is also the embedding (`vocabulary × hidden`); `None` if the
    /// backend can't share it.
    pub fn tied(embedding: &Tensor<2>, backend: &Backend) -> Option<Self> {
        (backend.kind != Kind::NdArray).then(|| Self {
            out: embedding.dims()[0],
            weight: Weight::view(embedding.clone(), backend),
            bias: None,
        })
    }

    /// Apply the layer: rows × in → rows × out.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let [rows, input] = x.dims();
        let y = match &self.weight {
            Weight::Views(_, parts) if rows <= FEW_ROWS => {
                // The third dimension keeps Burn from merging the rows into one product.
                let y = x.reshape([1, rows, 1, 1, input]).matmul((**parts).clone());
                self.joined(y, rows) // parts × rows × 1 × 1 × out/parts
            }
            // The weights are on the left, because on the right flex would reorder them first,
            // which takes three times as long for 64 rows.
            Weight::Views(weight, _) => weight.clone().matmul(x.transpose()).transpose(),
            Weight::Whole(weight) => x.matmul(weight.clone()),
            Weight::Parts(weight) => {
                self.joined(x.unsqueeze::<3>().matmul(weight.clone()), rows) // parts × rows × out/parts
            }
        };
        match &self.bias {
            Some(bias) => y + bias.clone(),
            None => y,
        }
    }

    /// Reorder the result of a product by parts into rows × out.
    fn joined<const D: usize>(&self, y: Tensor<D>, rows: usize) -> Tensor<2> {
        let y = match rows {
            // It is in this order already.
            1 => y,
            _ => y.swap_dims(0, 1),
        };
        y.reshape([rows, self.out])
    }
}

impl Weight {
    /// Wrap values that stay in their layout (out × in).
    fn view(values: Tensor<2>, backend: &Backend) -> Self {
        let [out, input] = values.dims();
        match (backend.kind, parts(out, input, backend)) {
            (Kind::Flex, Some(parts)) => {
                let views = values.clone().reshape([parts, 1, 1, out / parts, input]);
                Self::Views(values, Box::new(views.swap_dims(3, 4)))
            }
            _ => Self::Whole(values.transpose()),
        }
    }
}

/// Return the number of parts that a matrix is cut into; `None` if it stays whole.
fn parts(out: usize, input: usize, backend: &Backend) -> Option<usize> {
    // At least four, because with fewer flex doesn't spread the batch over threads.
    let threads = (2 * backend.threads).max(4);
    let wanted = match backend.kind {
        Kind::LibTorch | Kind::Cube => return None,
        Kind::Flex => threads.max(4 * out * input / PART_BYTES),
        Kind::NdArray => threads,
    };
    let mut parts = wanted.next_power_of_two();
    while !out.is_multiple_of(parts) {
        parts /= 2;
    }
    (parts >= 4).then_some(parts)
}

/// Transpose `parts` blocks of `columns × input` each, in tiles that fit the cache.
fn regroup(values: &[f32], parts: usize, columns: usize, input: usize) -> Vec<f32> {
    const TILE: usize = 32;
    let mut turned = vec![0.0; values.len()];
    let size = columns * input;
    for part in 0..parts {
        let from = &values[part * size..][..size];
        let to = &mut turned[part * size..][..size];
        for top in (0..columns).step_by(TILE) {
            for left in (0..input).step_by(TILE) {
                for column in top..(top + TILE).min(columns) {
                    for i in left..(left + TILE).min(input) {
                        to[i * columns + column] = from[column * input + i];
                    }
                }
            }
        }
    }
    turned
}

/// Copy values to the device, converted to its precision.
pub fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], backend: &Backend) -> Tensor<D> {
    let data = TensorData::new(values, shape);
    let data = match backend.dtype {
        DType::F32 => data,
        dtype => data.convert_dtype(dtype),
    };
    Tensor::from_data(data, (&backend.device, backend.dtype))
}
