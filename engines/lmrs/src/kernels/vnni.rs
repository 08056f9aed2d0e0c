//! The int8 product with `vpdpbusd`, which multiplies unsigned by signed bytes
//! and adds four products at once. The weights are stored with 128 added; the
//! sum therefore starts at `−128 · Σ x`, which costs nothing. All else is
//! [`super::avx512`]'s.

use super::Q8Job;
use std::arch::x86_64::*;

super::avx512::q8_kernel!(
    "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c",
    _mm512_set1_epi32,
    _mm512_dpbusd_epi32
);
