//! The arithmetic for each instruction set, and the choice between them.
//!
//! The choice is made once, while loading, from what the CPU reports; `LMRS_ISA` overrides it for
//! tests. There are two kinds of kernels: the matrix products, written by hand for every
//! instruction set ([`scalar`], [`avx2`], [`avx512`], [`vnni`]), and the small loops of
//! [`portable`], which the compiler vectorises for each. Products of quantised weights are
//! identical bit for bit on all of them; f32 sums differ in their order, and so in their last
//! bits.
//!
//! No function here starts a thread or allocates.

pub mod attention;
pub mod portable;
pub mod quant;
pub mod scalar;

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod vnni {
    //! The int8 product with `vpdpbusd`, which multiplies unsigned by signed bytes and adds four
    //! products at once. The weights are stored with 128 added; the sum therefore starts at
    //! `−128 · Σ x`, which costs nothing. Everything else is in [`super::avx512`].

    use super::Q8Job;
    use std::arch::x86_64::*;

    super::avx512::q8_kernel!(
        "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c",
        _mm512_set1_epi32,
        _mm512_dpbusd_epi32
    );
}

use attention::Attend;
use quant::Activations;
use std::ops::Range;

/// The instruction sets that have kernels of their own, from the most basic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// The instructions that the compiler uses for plain Rust.
    Scalar,
    /// AVX2 with FMA and F16C.
    Avx2,
    /// AVX-512 with F, BW, VL and DQ.
    Avx512,
    /// AVX-512 with F, BW, VL, DQ and VNNI.
    Vnni,
}

impl Isa {
    /// All instruction sets, from the most basic.
    pub const ALL: [Isa; 4] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Vnni];

    /// Return the name that `LMRS_ISA` accepts and `hello` reports.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Vnni => "vnni",
        }
    }

    /// Whether this CPU has the instruction set.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = || {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            };
            let avx512 = || {
                avx2()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
            };
            match self {
                Isa::Scalar => true,
                Isa::Avx2 => avx2(),
                Isa::Avx512 => avx512(),
                Isa::Vnni => avx512() && is_x86_feature_detected!("avx512vnni"),
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            self == Isa::Scalar
        }
    }
}

/// A product of f32 weights: `out[t][r] = Σ w[r][i] · x[t][i]` for some rows.
pub struct F32Job<'a> {
    /// The whole matrix, `rows × cols`.
    pub weights: &'a [f32],
    /// Number of columns of the matrix, and length of a token's input.
    pub cols: usize,
    /// The rows to compute.
    pub rows: Range<usize>,
    /// The input, `tokens × cols`.
    pub x: &'a [f32],
    /// Number of tokens.
    pub tokens: usize,
    /// The address of row 0 of token 0 in the output.
    pub out: *mut f32,
    /// Elements of `out` from one token to the next.
    pub out_stride: usize,
}

/// A product of int8 weights with int8 activations, for some tile rows.
pub struct Q8Job<'a> {
    /// The whole matrix in the layout of [`quant`].
    pub tiles: &'a [u8],
    /// Number of tiles in a tile row.
    pub tiles_per_row: usize,
    /// Number of rows of the matrix (its last tile row may have fewer rows than a tile).
    pub rows: usize,
    /// The tile rows to compute.
    pub tile_rows: Range<usize>,
    /// The quantised input.
    pub x: &'a Activations,
    /// The address of row 0 of token 0 in the output.
    pub out: *mut f32,
    /// Elements of `out` from one token to the next.
    pub out_stride: usize,
}

/// The kernels of one instruction set, which this CPU is known to have.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// Private, so that a value of this type proves that the CPU has the instruction set.
    isa: Isa,
}

/// Calls the kernel of the chosen instruction set.
macro_rules! dispatch {
    ($self:ident, $name:ident($($argument:expr),*)) => {
        // SAFETY: `Kernels` is only made for an available instruction set. Where
        // a kernel asks for more, that is checked or passed on by the caller of
        // this macro. VNNI adds only `q8` to AVX-512.
        unsafe {
            match $self.isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => avx2::$name($($argument),*),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 | Isa::Vnni => avx512::$name($($argument),*),
                _ => scalar::$name($($argument),*),
            }
        }
    };
}

impl Kernels {
    /// Return the kernels of `isa`, if this CPU has it.
    pub fn new(isa: Isa) -> Option<Self> {
        isa.is_available().then_some(Self { isa })
    }

    /// Return the kernels of the best instruction set that this CPU has, or of the one that
    /// `wanted` (the value of `LMRS_ISA`) names.
    ///
    /// # Errors
    /// Fails if `wanted` names no instruction set, or one that this CPU lacks.
    pub fn choose(wanted: Option<&str>) -> Result<Self, String> {
        match wanted {
            None | Some("") => {
                let best = Isa::ALL.into_iter().rev().find_map(Kernels::new);
                Ok(best.unwrap_or(Self { isa: Isa::Scalar }))
            }
            Some(name) => {
                let isa = Isa::ALL
                    .into_iter()
                    .find(|isa| isa.name() == name)
                    .ok_or_else(|| {
                        format!("LMRS_ISA={name}: expected scalar, avx2, avx512 or vnni")
                    })?;
                Self::new(isa).ok_or_else(|| format!("LMRS_ISA={name}: this CPU lacks it"))
            }
        }
    }

    /// Return the kernels' instruction set.
    pub fn isa(self) -> Isa {
        self.isa
    }

    /// Compute an [`F32Job`].
    ///
    /// # Safety
    /// `out` must be writable at `[t · out_stride + r]` for every token and
    /// every row of the job, and no other code may touch those elements meanwhile.
    ///
    /// # Panics
    /// If the slices are shorter than the job says.
    pub unsafe fn f32(self, job: &F32Job<'_>) {
        assert!(
            job.rows.end * job.cols <= job.weights.len(),
            "weights too short"
        );
        assert!(job.tokens * job.cols <= job.x.len(), "input too short");
        // The sizes are checked, `out` is the caller's promise.
        dispatch!(self, f32(job))
    }

    /// Compute a [`Q8Job`].
    ///
    /// # Safety
    /// The same as for [`Kernels::f32`].
    ///
    /// # Panics
    /// If the slices are shorter than the job says.
    pub unsafe fn q8(self, job: &Q8Job<'_>) {
        let row_bytes = job.tiles_per_row * quant::TILE_BYTES;
        assert!(
            job.tile_rows.end * row_bytes <= job.tiles.len(),
            "weights too short"
        );
        assert!(
            job.tiles_per_row * quant::TILE_DEPTH == job.x.depth(),
            "input of another length"
        );
        // As for `f32`; `Activations` keeps its own sizes consistent.
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as in `dispatch`.
            Isa::Vnni => unsafe { vnni::q8(job) },
            _ => dispatch!(self, q8(job)),
        }
    }

    /// Compute `out = x / rms(x) · weight`.
    pub fn rms_norm(self, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        dispatch!(self, rms_norm(x, weight, eps, out))
    }

    /// Compute `x = x / rms(x) · weight`.
    pub fn rms_norm_in_place(self, x: &mut [f32], weight: &[f32], eps: f32) {
        dispatch!(self, rms_norm_in_place(x, weight, eps))
    }

    /// Compute `gate = silu(gate) · up`.
    pub fn silu_mul(self, gate: &mut [f32], up: &[f32]) {
        dispatch!(self, silu_mul(gate, up))
    }

    /// Compute `x += y`.
    pub fn add(self, x: &mut [f32], y: &[f32]) {
        dispatch!(self, add(x, y))
    }

    /// Rotate one head: the pairs `(x[i], x[i + half])` by the angles whose cosines and sines are
    /// given.
    pub fn rotate(self, head: &mut [f32], cos: &[f32], sin: &[f32]) {
        dispatch!(self, rotate(head, cos, sin))
    }

    /// Quantise one token to int8 values, with a scale and a correction per block.
    pub fn quantise(self, x: &[f32], out: quant::TokenMut<'_>) {
        dispatch!(self, quantise(x, out))
    }

    /// Compute the attention of the query heads that share a key/value head.
    pub fn attend(self, job: Attend<'_>) {
        dispatch!(self, attend(job))
    }

    /// Return the index of the largest value, the lowest index on a tie; `None` if the largest
    /// value is not finite.
    pub fn argmax(self, x: &[f32]) -> Option<usize> {
        dispatch!(self, argmax(x))
    }
}

#[cfg(test)]
mod tests;
