//! Describes a machine's processor in words. A virtual machine often hides the model ("AMD EPYC",
//! "Intel Xeon Processor"), so that processors of several generations may have one name; the
//! instruction sets that a record holds tell most of them apart.

use std::collections::BTreeMap;

/// Instruction sets in the kernel's spelling, and their names. Of each group, only the first one
/// that the processor has is named.
const SETS: [&[(&str, &str)]; 5] = [
    &[
        ("avx512f", "AVX-512"),
        ("avx2", "AVX2"),
        ("avx", "AVX"),
        ("sve2", "SVE2"),
        ("sve", "SVE"),
        ("asimd", "NEON"),
    ],
    &[("avx512_vnni", "VNNI"), ("avx_vnni", "VNNI")],
    &[("avx512_bf16", "BF16"), ("bf16", "BF16")],
    &[("i8mm", "I8MM")],
    &[("amx_int8", "AMX"), ("amx_bf16", "AMX")],
];

/// Describe the processor from a record's facts, as in `AMD EPYC (AVX-512, VNNI, BF16)`; `None`
/// where the facts name no processor.
pub fn in_words(facts: &BTreeMap<String, String>) -> Option<String> {
    let model = facts.get("cpu_model")?;
    let sets = sets(facts.get("cpu_flags").map_or("", String::as_str));
    Some(match sets.is_empty() {
        true => model.clone(),
        false => format!("{model} ({})", sets.join(", ")),
    })
}

fn sets(flags: &str) -> Vec<&'static str> {
    let has = |flag: &str| flags.split_whitespace().any(|known| known == flag);
    let first = |group: &&[(&str, &'static str)]| {
        let found = group.iter().find(|(flag, _)| has(flag));
        found.map(|(_, name)| *name)
    };
    SETS.iter().filter_map(first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_from(facts: &[(&str, &str)]) -> Option<String> {
        let facts = facts.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        in_words(&facts.collect())
    }

    #[test]
    fn processors_of_one_name_are_told_apart_by_what_they_can_do() {
        let epyc = |flags| name_from(&[("cpu_model", "AMD EPYC"), ("cpu_flags", flags)]).unwrap();
        assert_eq!(epyc("avx avx2 fma f16c"), "AMD EPYC (AVX2)");
        assert_eq!(
            epyc("avx avx2 fma avx512f avx512_vnni avx512_bf16"),
            "AMD EPYC (AVX-512, VNNI, BF16)"
        );
    }

    #[test]
    fn other_processors() {
        let xeon = name_from(&[
            ("cpu_model", "Intel(R) Xeon(R) Processor"),
            (
                "cpu_flags",
                "avx2 avx_vnni avx512f avx512_vnni amx_tile amx_int8 amx_bf16",
            ),
        ]);
        assert_eq!(
            xeon.as_deref(),
            Some("Intel(R) Xeon(R) Processor (AVX-512, VNNI, AMX)")
        );
        let arm = name_from(&[
            ("cpu_model", "Neoverse-V2"),
            ("cpu_flags", "asimd i8mm bf16 sve sve2"),
        ]);
        assert_eq!(arm.as_deref(), Some("Neoverse-V2 (SVE2, BF16, I8MM)"));
        assert_eq!(name_from(&[("cpu_model", "x")]).as_deref(), Some("x"));
        assert_eq!(name_from(&[("cpu_flags", "avx2")]), None);
    }
}
