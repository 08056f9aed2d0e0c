//! Readable names of kernels, and their classes. Kernels in C++ are named by the Itanium ABI's
//! mangling, hundreds of characters with all template arguments. Only the qualified name is kept,
//! and the first template argument where that is a name too, because CUTLASS names the kernel
//! there. This is no demangler: a name that isn't understood stays as it is.
//!
//! A kernel's class is judged by its name alone, which its author chose. Attention in plain matrix
//! products is counted under matmul, its softmax under attention; a fused kernel counts for the
//! first rule that its name matches. So the shares are a description, and the names that they rest
//! on are printed beside them.

/// Shorten a name for display, as in `at::native::vectorized_elementwise_kernel` or
/// `cutlass::Kernel2<cutlass_80_…>`.
pub fn short(name: &str) -> String {
    if let Some(mangled) = name.strip_prefix("_Z") {
        return demangled(mangled).unwrap_or_else(|| name.to_owned());
    }
    // The name is demangled already: `void f<int>(float*)`.
    let plain = name.strip_prefix("void ").unwrap_or(name);
    let end = plain.find(['<', '(']).filter(|&end| end > 0);
    plain[..end.unwrap_or(plain.len())].to_owned()
}

fn demangled(mangled: &str) -> Option<String> {
    let (outer, rest) = qualified(mangled)?;
    let first = rest.strip_prefix('I').and_then(qualified);
    Some(match first {
        Some((inner, _)) => format!("{outer}<{inner}>"),
        None => outer,
    })
}

/// Parse the identifiers at the front; return them joined by `::`, and the rest. `None` without
/// any.
fn qualified(text: &str) -> Option<(String, &str)> {
    let mut rest = match text.strip_prefix('N') {
        Some(nested) => nested.trim_start_matches(['r', 'V', 'K']),
        None => text,
    };
    let mut parts: Vec<&str> = Vec::new();
    if let Some(std) = rest.strip_prefix("St") {
        (parts, rest) = (vec!["std"], std);
    }
    loop {
        // `L` marks internal linkage where an identifier follows.
        let digits = rest.strip_prefix('L').unwrap_or(rest);
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        let Ok(length) = digits[..count].parse::<usize>() else {
            break;
        };
        let end = count.checked_add(length)?;
        let part = digits.get(count..end)?;
        rest = &digits[end..];
        parts.push(match part.starts_with("_GLOBAL__N") {
            true => "(anonymous)",
            false => part,
        });
    }
    let named = parts.iter().any(|part| *part != "std");
    named.then(|| (parts.join("::"), rest))
}

/// The purpose of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Matrix products: projections, feed-forward, the output layer.
    Matmul,
    /// Attention over the KV cache.
    Attention,
    /// All other kernels: norms, activations, copies, sampling.
    Other,
}

impl Class {
    /// All classes, in the order in which they are shown.
    pub const ALL: [Class; 3] = [Class::Matmul, Class::Attention, Class::Other];

    /// Return the title for headings.
    pub fn title(self) -> &'static str {
        match self {
            Class::Matmul => "matmul",
            Class::Attention => "attention",
            Class::Other => "other",
        }
    }
}

/// Rules for the class of a kernel: a part of a name in lower case, and the class of kernels whose
/// name has it. The first rule that fits counts. Attention stands first because its kernels are
/// built from parts whose names say matmul (`flash_fwd_kernel<… cutlass::half_t …>`).
pub const RULES: [(&str, Class); 23] = [
    ("flash", Class::Attention), // FlashAttention: flash_fwd_kernel, flash_attn_…
    ("fmha", Class::Attention),  // fused multi-head attention: cuDNN, CUTLASS, xFormers
    ("sdpa", Class::Attention),  // cuDNN's generated scaled dot-product attention
    ("attention", Class::Attention), // paged_attention_v1, …
    ("attn", Class::Attention),  // mem_efficient_attn, fattn (llama.cpp)
    ("softmax", Class::Attention), // greedy decoding takes no softmax elsewhere
    ("gemm", Class::Matmul),     // cuBLAS, CUTLASS, Candle's own
    ("gemv", Class::Matmul),     // matrix × vector: decode with batch 1
    ("matmul", Class::Matmul),   // CubeCL, Triton
    ("matvec", Class::Matmul),
    ("mul_mat", Class::Matmul), // llama.cpp and Candle: mul_mat_q, mul_mat_vec_q
    ("mmq", Class::Matmul),     // quantised matmul
    ("mmvq", Class::Matmul),
    ("nvjet", Class::Matmul),         // cuBLAS on Hopper and later
    ("xmma", Class::Matmul),          // cuBLAS: sm80_xmma_gemm_…
    ("cutlass", Class::Matmul),       // its kernels that are not attention
    ("splitk", Class::Matmul),        // the second pass of a split product
    ("dot_kernel", Class::Matmul),    // cuBLAS: a product with one row
    ("reduce_1block", Class::Matmul), // its second pass
    ("wgmma", Class::Matmul),
    ("marlin", Class::Matmul),     // quantised weights
    ("triton_tem", Class::Matmul), // torch.compile's templates are matrix products
    ("cublas", Class::Matmul),
];

/// Return the class of a kernel, judged by its name.
pub fn class_of(name: &str) -> Class {
    let name = name.to_ascii_lowercase();
    let rule = RULES.iter().find(|(part, _)| name.contains(part));
    rule.map_or(Class::Other, |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_arguments() {
        for (name, want) in [
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEEEEviT0_T1_",
                "at::native::vectorized_elementwise_kernel",
            ),
            (
                "_ZN7cutlass7Kernel2I10cutlass_80EEvNT_6ParamsE",
                "cutlass::Kernel2<cutlass_80>",
            ),
            ("_Z11rmsnorm_f16PKfPf", "rmsnorm_f16"),
            ("_ZN12_GLOBAL__N_14copyEv", "(anonymous)::copy"),
            ("_ZL9mul_mat_qPv", "mul_mat_q"),
            (
                "void at::native::reduce<float, 4>(float*)",
                "at::native::reduce",
            ),
            ("nvjet_hsh_128x8", "nvjet_hsh_128x8"),
        ] {
            assert_eq!(short(name), want);
        }
    }

    #[test]
    fn what_is_not_understood_stays() {
        for name in [
            "_Z",
            "_Z99x",
            "_ZTV",
            "_Z18446744073709551616x",
            "_Z18446744073709551615x",
            "_Zé",
            "",
            "(no name)",
        ] {
            assert_eq!(short(name), name);
        }
    }

    #[test]
    fn kernels_of_known_libraries_are_what_they_are() {
        for (name, class) in [
            // Real names, as the libraries give them.
            (
                "_ZN7cutlass7Kernel2I66cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8EEvNT_6ParamsE",
                Class::Matmul,
            ),
            ("nvjet_hsh_128x8_64x12_1x2_h_bz_TNT", Class::Matmul),
            (
                "_Z17gemv2T_kernel_valIiiffffLi128ELi16ELi4ELi4ELb0ELb0E18cublasGemvParamsExIi16cublasGemvTensorIKfES3_S1_IfEfEEvT11_T4_S7_",
                Class::Matmul,
            ),
            ("mul_mat_vec_q8_0_q8_1_cuda1", Class::Matmul),
            (
                "_ZN5flash16flash_fwd_kernelI23Flash_fwd_kernel_traitsILi64ELi128ELi128ELi4ELb0ELb0EN7cutlass6half_tEEEvv",
                Class::Attention,
            ),
            ("fmha_cutlassF_bf16_aligned_64x64_rf_sm80", Class::Attention),
            (
                "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0",
                Class::Attention,
            ),
            (
                "_ZN2at6native43_GLOBAL__N__cunn_SoftMaxForwardEPf",
                Class::Attention,
            ),
            ("rmsnorm_f16", Class::Other),
            (
                "_ZN2at6native29vectorized_elementwise_kernelILi4EEEvv",
                Class::Other,
            ),
            ("usilu_f16", Class::Other),
        ] {
            assert_eq!(class_of(name), class, "{name}");
        }
    }

    #[test]
    fn no_rule_is_hidden_by_one_before_it() {
        for (index, (part, _)) in RULES.iter().enumerate() {
            assert_eq!(*part, part.to_ascii_lowercase());
            let earlier = RULES[..index]
                .iter()
                .find(|(other, _)| part.contains(other));
            assert_eq!(earlier, None, "{part}");
        }
    }
}
