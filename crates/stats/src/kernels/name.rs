//! A kernel's name as a reader wants it. Kernels in C++ are named by the Itanium ABI's
//! mangling, hundreds of characters with all template arguments; of those the qualified
//! name is kept, and the first argument where it is a name too (CUTLASS says there which
//! kernel it is). Not a demangler: what isn't understood stays as it is.

/// `at::native::vectorized_elementwise_kernel`, `cutlass::Kernel2<cutlass_80_…>`.
pub fn short(name: &str) -> String {
    if let Some(mangled) = name.strip_prefix("_Z") {
        return demangled(mangled).unwrap_or_else(|| name.to_owned());
    }
    // Demangled already: `void f<int>(float*)`.
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

/// The identifiers at the front, joined by `::`, and what follows; `None`: there are none.
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
        // L: internal linkage, where an identifier follows.
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

#[cfg(test)]
mod tests {
    use super::short;

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
}
