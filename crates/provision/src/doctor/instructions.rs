//! Tries every vector extension that the processor advertises, by executing one of its instructions
//! in a child process, which an illegal instruction may kill.

use super::{Finding, Severity};
use harness::machine::Processor;
use schema::record::IsaLimit;
use serde::Serialize;

/// The result of trying one extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// The extension's flag, as the Linux kernel spells it.
    pub flag: &'static str,
    pub outcome: Outcome,
}

/// How the child process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The instruction was executed.
    Works,
    /// The extension is advertised, but its instruction killed the child as illegal.
    IllegalInstruction,
    /// The kernel doesn't let a program use its registers.
    Refused,
    /// The child ended in another way.
    Failed,
}

/// The flags of the extensions with that outcome.
pub(super) fn flags(tried: &[Tried], outcome: Outcome) -> Vec<&'static str> {
    let with = tried.iter().filter(|tried| tried.outcome == outcome);
    with.map(|tried| tried.flag).collect()
}

/// The finding about extensions that are advertised but not usable; `None` where all are usable.
/// `limits` are the variables by which the harness limits the instructions of libraries on this
/// machine.
pub(super) fn finding(
    processor: &Processor,
    tried: &[Tried],
    limits: &[IsaLimit],
) -> Option<Finding> {
    let mut pretends = flags(tried, Outcome::IllegalInstruction);
    let described = processor.unusable.iter();
    pretends
        .extend(described.filter(|flag| !flags(tried, Outcome::IllegalInstruction).contains(flag)));
    if pretends.is_empty() {
        return None;
    }
    let why = match processor.why.as_str() {
        "" => String::new(),
        why => format!(" ({why})"),
    };
    let set: Vec<String> = limits.iter().map(IsaLimit::assignment).collect();
    let kept = match set.is_empty() {
        true => "the harness starts it once more, kept to fewer".to_owned(),
        false => format!(
            "the harness starts what has such a library with {}",
            set.join(" ")
        ),
    };
    Some(Finding {
        severity: Severity::Noise,
        what: pretends.join(", "),
        consequence: format!(
            "advertised, but not usable{why}: a library that believes it dies of an illegal instruction; {kept}"
        ),
        command: (!set.is_empty()).then(|| format!("export {}", set.join(" "))),
    })
}

/// Try all extensions that are advertised here; none where the processor is no x86.
pub(super) fn try_all(processor: &Processor) -> Vec<Tried> {
    #[cfg(target_arch = "x86_64")]
    return x86::try_all(processor);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = processor;
        Vec::new()
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Outcome, Tried};
    use harness::machine::{Palette, Processor};
    use std::arch::asm;

    /// Exit status of a child that the kernel refused the registers.
    const REFUSED: i32 = 2;

    pub(super) fn try_all(processor: &Processor) -> Vec<Tried> {
        let advertised = processor.advertised.iter();
        advertised
            .filter_map(|&flag| {
                let instruction = instruction(flag)?;
                // SAFETY: the processor advertises it, and the child alone executes it.
                let outcome = in_child(|| unsafe { instruction(processor.palette) });
                Some(Tried { flag, outcome })
            })
            .collect()
    }

    /// The function that a child runs. It returns whether the kernel allowed the instruction.
    type Instruction = unsafe fn(Palette) -> bool;

    /// A function that executes an instruction which only this extension has. It works on
    /// registers, and is run in a child that ends after it. `None` for an unknown extension.
    fn instruction(flag: &str) -> Option<Instruction> {
        macro_rules! vector {
            ($text:literal) => {
                |_| {
                    // SAFETY: it changes no register but the first, whose owner is told.
                    unsafe { asm!($text, out("xmm0") _, options(nomem, nostack)) };
                    true
                }
            };
        }
        macro_rules! tiles {
            ($text:literal) => {
                |palette| {
                    // SAFETY: the child has no tiles of its own, so none can be lost.
                    unsafe {
                        let is_allowed = load_tiles(palette);
                        if is_allowed {
                            asm!($text, "tilerelease", options(nomem, nostack));
                        }
                        is_allowed
                    }
                }
            };
        }
        Some(match flag {
            "avx" => vector!("vaddps ymm0, ymm0, ymm0"),
            "f16c" => vector!("vcvtph2ps ymm0, xmm0"),
            "fma" => vector!("vfmadd231ps ymm0, ymm0, ymm0"),
            "avx2" => vector!("vpaddd ymm0, ymm0, ymm0"),
            "avx_vnni" => vector!("{{vex}} vpdpbusd ymm0, ymm0, ymm0"),
            "avx512f" => vector!("vpaddd zmm0, zmm0, zmm0"),
            "avx512bw" => vector!("vpaddw zmm0, zmm0, zmm0"),
            "avx512vl" => vector!("vpaddd ymm0 {{k1}}, ymm0, ymm0"),
            "avx512_vnni" => vector!("vpdpbusd zmm0, zmm0, zmm0"),
            "avx512_bf16" => vector!("vdpbf16ps zmm0, zmm0, zmm0"),
            "avx512_fp16" => vector!("vaddph zmm0, zmm0, zmm0"),
            "amx_tile" => tiles!("tilezero tmm0"),
            "amx_int8" => tiles!("tdpbssd tmm0, tmm1, tmm2"),
            "amx_bf16" => tiles!("tdpbf16ps tmm0, tmm1, tmm2"),
            "amx_fp16" => tiles!("tdpfp16ps tmm0, tmm1, tmm2"),
            _ => return None,
        })
    }

    /// Ask the kernel for tiles and configure three as large as CPUID says, as libraries
    /// do; `false` where the kernel refuses.
    ///
    /// # Safety
    /// Whatever tiles the process has are lost.
    unsafe fn load_tiles(palette: Palette) -> bool {
        // From the kernel's documentation, arch/x86/xstate.rst.
        const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
        const XFEATURE_XTILEDATA: libc::c_long = 18;
        // SAFETY: a plain system call, which only gives a permission.
        let refused = unsafe {
            libc::syscall(
                libc::SYS_arch_prctl,
                ARCH_REQ_XCOMP_PERM,
                XFEATURE_XTILEDATA,
            )
        };
        if refused != 0 {
            return false;
        }
        // Palette, start row, 14 reserved bytes, 16 × bytes of a row, 16 × rows.
        let mut config = [0_u8; 64];
        config[0] = palette.id;
        for tile in 0..usize::from(palette.tiles.min(3)) {
            config[16 + 2 * tile..18 + 2 * tile].copy_from_slice(&palette.row_bytes.to_le_bytes());
            config[48 + tile] = u8::try_from(palette.rows).unwrap_or(u8::MAX);
        }
        // SAFETY: it reads the 64 bytes that it is given.
        unsafe { asm!("ldtilecfg [{}]", in(reg) config.as_ptr(), options(readonly, nostack)) };
        true
    }

    /// Run `work` in a child process, and return how that ended.
    pub(super) fn in_child(work: impl Fn() -> bool) -> Outcome {
        // SAFETY: between fork and _exit the child calls nothing but system calls and
        // `work`, which allocates nothing and takes no lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: both are plain system calls; nothing of the parent's is run at the end.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0); // its death leaves no core file
                libc::_exit(if work() { 0 } else { REFUSED })
            }
        }
        let mut status = 0;
        // SAFETY: the child is ours, and no other code waits for it.
        while child > 0 && unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                return Outcome::Failed;
            }
        }
        match status {
            _ if child < 0 => Outcome::Failed,
            s if libc::WIFEXITED(s) && libc::WEXITSTATUS(s) == 0 => Outcome::Works,
            s if libc::WIFEXITED(s) && libc::WEXITSTATUS(s) == REFUSED => Outcome::Refused,
            s if libc::WIFSIGNALED(s) && libc::WTERMSIG(s) == libc::SIGILL => {
                Outcome::IllegalInstruction
            }
            _ => Outcome::Failed,
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::x86::in_child;
    use super::*;
    use std::arch::asm;

    #[test]
    fn what_the_standard_library_detects_here_works() {
        let tried = try_all(Processor::here());
        let outcome = |flag| {
            let of = tried.iter().find(|tried| tried.flag == flag);
            of.map(|tried| tried.outcome)
        };
        let works = |is_there: bool| is_there.then_some(Outcome::Works);
        assert_eq!(outcome("avx2"), works(is_x86_feature_detected!("avx2")));
        assert_eq!(outcome("fma"), works(is_x86_feature_detected!("fma")));
        let wide = is_x86_feature_detected!("avx512vnni");
        assert_eq!(outcome("avx512_vnni"), works(wide));
        assert!(
            tried.iter().all(|tried| tried.outcome != Outcome::Failed),
            "{tried:?}"
        );
    }

    #[test]
    fn an_illegal_instruction_kills_the_child_alone() {
        let illegal = || -> bool {
            // SAFETY: `ud2` is there to be illegal; only the child executes it.
            unsafe { asm!("ud2", options(noreturn)) }
        };
        assert_eq!(in_child(illegal), Outcome::IllegalInstruction);
        assert_eq!(in_child(|| false), Outcome::Refused);
        assert_eq!(in_child(|| std::process::abort()), Outcome::Failed);
    }

    #[test]
    fn what_only_pretends_is_told_with_what_keeps_from_it() {
        let tried = |outcome| Tried {
            flag: "amx_tile",
            outcome,
        };
        let good = [tried(Outcome::Works), tried(Outcome::Refused)];
        assert_eq!(finding(&Processor::default(), &good, &[]), None);
        let limit = IsaLimit {
            variable: "LIB_MAX".into(),
            value: "C".into(),
            why: String::new(),
        };
        let pretender = Processor {
            unusable: vec!["amx_tile", "amx_bf16"],
            why: "no tiles".into(),
            ..Processor::default()
        };
        let bad = [tried(Outcome::IllegalInstruction)];
        let told = finding(&pretender, &bad, &[limit]).unwrap();
        assert_eq!(told.what, "amx_tile, amx_bf16");
        assert!(
            told.consequence.contains("not usable (no tiles)"),
            "{told:?}"
        );
        assert_eq!(told.command.as_deref(), Some("export LIB_MAX=C"));
        let unforeseen = finding(&Processor::default(), &bad, &[]).unwrap();
        assert!(
            unforeseen.consequence.contains("once more"),
            "{unforeseen:?}"
        );
        assert_eq!(unforeseen.command, None);
    }

    #[test]
    fn tiles_without_a_palette_are_no_tiles() {
        let amx = Processor {
            advertised: vec!["amx_tile"],
            ..Processor::default()
        };
        let tried = try_all(&amx);
        // The kernel refuses where it supports no tiles; where it allows them, the instruction is
        // illegal.
        assert_ne!(tried[0].outcome, Outcome::Works, "{tried:?}");
    }
}
