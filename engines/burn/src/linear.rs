//! `y = x · Wᵀ + b`, with the weights laid out once as the backend multiplies
//! them fastest.
//!
//! flex and ndarray multiply a single row by a matrix on one thread, but spread
//! a batch of products over all of them. So there a matrix is cut into `parts`
//! groups of output columns, stored `parts × in × out/parts`, and the product is
//! a batch. Everywhere else it stays whole.

use crate::backend::{Backend, Kind};
use burn::tensor::{DType, Tensor, TensorData};

/// A layer without an activation.
pub struct Linear {
    weight: Weight,
    bias: Option<Tensor<2>>, // 1 × out
    out: usize,
}

enum Weight {
    Whole(Tensor<2>), // in × out
    Parts(Tensor<3>), // parts × in × out/parts
}

impl Linear {
    /// From `out × in` values in rows, as every file has them.
    pub fn new(values: Vec<f32>, out: usize, bias: Option<Vec<f32>>, backend: &Backend) -> Self {
        let input = values.len() / out;
        let weight = match parts(out, backend) {
            // The transpose is a view; these backends take it as it is.
            None => Weight::Whole(upload(values, [out, input], backend).transpose()),
            Some(parts) => {
                let values = regroup(&values, parts, out / parts, input);
                Weight::Parts(upload(values, [parts, input, out / parts], backend))
            }
        };
        Self {
            weight,
            bias: bias.map(|bias| upload(bias, [1, out], backend)),
            out,
        }
    }

    /// The output head that is also the embedding (`vocabulary × hidden`).
    pub fn tied(embedding: &Tensor<2>) -> Self {
        Self {
            out: embedding.dims()[0],
            weight: Weight::Whole(embedding.clone().transpose()),
            bias: None,
        }
    }

    /// rows × in → rows × out
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let y = match &self.weight {
            Weight::Whole(weight) => x.matmul(weight.clone()),
            Weight::Parts(weight) => {
                let rows = x.dims()[0];
                let y = x.unsqueeze::<3>().matmul(weight.clone()); // parts × rows × out/parts
                match rows {
                    // In this order already.
                    1 => y.reshape([1, self.out]),
                    _ => y.swap_dims(0, 1).reshape([rows, self.out]),
                }
            }
        };
        match &self.bias {
            Some(bias) => y + bias.clone(),
            None => y,
        }
    }
}

/// Into how many parts a matrix is cut, if at all.
pub fn parts(out: usize, backend: &Backend) -> Option<usize> {
    match backend.kind {
        Kind::LibTorch | Kind::Cube => None,
        // Four at least, because flex leaves fewer to the product itself.
        Kind::Flex | Kind::NdArray => {
            let wanted = (2 * backend.threads).max(4).next_power_of_two();
            let mut parts = wanted;
            while !out.is_multiple_of(parts) {
                parts /= 2;
            }
            (parts >= 4).then_some(parts)
        }
    }
}

/// `parts` blocks of `columns × input`, each transposed, in tiles that fit the cache.
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

/// Move values to the device, at its precision.
pub fn upload<const D: usize>(values: Vec<f32>, shape: [usize; D], backend: &Backend) -> Tensor<D> {
    let data = TensorData::new(values, shape);
    let data = match backend.dtype {
        DType::F32 => data,
        dtype => data.convert_dtype(dtype),
    };
    Tensor::from_data(data, (&backend.device, backend.dtype))
}
