//! Reads from CPUID which vector extensions an x86 processor advertises, and which of them can't be
//! used, because CPUID doesn't describe what a program must know to use them.
//!
//! Judging a snapshot is pure. No instruction is tried here; `provision::doctor` does that.

use std::sync::OnceLock;

/// The registers that CPUID returns for a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaf {
    /// EAX.
    pub a: u32,
    /// EBX.
    pub b: u32,
    /// ECX.
    pub c: u32,
    /// EDX.
    pub d: u32,
}

/// The CPUID leaves that matter; zero where the processor doesn't have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of the last leaf.
    pub leaf_max: u32,
    /// Leaf 1: basic features.
    pub basic: Leaf,
    /// Leaf 7, subleaf 0: extended features.
    pub extended: Leaf,
    /// Leaf 7, subleaf 1: further extended features.
    pub extended_1: Leaf,
    /// Leaf 0x1D, subleaf 0: the number of tile palettes.
    pub palettes: Leaf,
    /// Leaf 0x1D, subleaf 1: the first palette.
    pub palette_1: Leaf,
    /// XCR0: the register states that the operating system keeps.
    pub xcr0: u64,
}

/// The size of the tiles in an AMX palette.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    /// The palette's number; 0 means that there is none.
    pub id: u8,
    /// Number of tiles.
    pub tiles: u16,
    /// Bytes in a row of a tile.
    pub row_bytes: u16,
    /// Rows in a tile.
    pub rows: u16,
}

impl Palette {
    /// Whether its tiles can hold any data.
    pub fn is_usable(self) -> bool {
        self.id > 0 && self.tiles > 0 && self.row_bytes > 0 && self.rows > 0
    }
}

/// The vector extensions that a processor advertises, and those of them that can't be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// The flags that are advertised, as the Linux kernel spells them.
    pub advertised: Vec<&'static str>,
    /// The advertised extensions that can't be used.
    pub unusable: Vec<&'static str>,
    /// Why the unusable ones can't be used; empty where there are none.
    pub why: String,
    /// The AMX tiles that CPUID describes.
    pub palette: Palette,
}

/// The leaf that describes the tiles of AMX.
const TILES: u32 = 0x1d;

/// XCR0 bits of register states: SSE and AVX; those and AVX-512; AMX tiles.
const VECTORS: u64 = 0b110;
const WIDE: u64 = 0b1110_0110;
const TILE_STATE: u64 = 0b11 << 17;

/// A flag's name, the register that holds it, its bit there, and the XCR0 states that it needs.
type Flag = (&'static str, fn(&Snapshot) -> u32, u32, u64);

/// The known flags, from old to new. Source: Intel, Software Developer's Manual, volume 2A, CPUID.
const FLAGS: [Flag; 16] = [
    ("sse2", |s| s.basic.d, 26, 0),
    ("avx", |s| s.basic.c, 28, VECTORS),
    ("f16c", |s| s.basic.c, 29, VECTORS),
    ("fma", |s| s.basic.c, 12, VECTORS),
    ("avx2", |s| s.extended.b, 5, VECTORS),
    ("avx_vnni", |s| s.extended_1.a, 4, VECTORS),
    ("avx512f", |s| s.extended.b, 16, WIDE),
    ("avx512bw", |s| s.extended.b, 30, WIDE),
    ("avx512vl", |s| s.extended.b, 31, WIDE),
    ("avx512_vnni", |s| s.extended.c, 11, WIDE),
    ("avx512_bf16", |s| s.extended_1.a, 5, WIDE),
    ("avx512_fp16", |s| s.extended.d, 23, WIDE),
    ("amx_tile", |s| s.extended.d, 24, TILE_STATE),
    ("amx_int8", |s| s.extended.d, 25, TILE_STATE),
    ("amx_bf16", |s| s.extended.d, 22, TILE_STATE),
    ("amx_fp16", |s| s.extended_1.a, 21, TILE_STATE),
];

impl Snapshot {
    /// Decide which extensions are advertised, and which of those can't be used.
    pub fn judge(&self) -> Processor {
        let is_advertised = |(_, register, bit, state): &&Flag| {
            register(self) >> bit & 1 == 1 && self.xcr0 & state == *state
        };
        let advertised: Vec<&Flag> = FLAGS.iter().filter(is_advertised).collect();
        let palette = self.palette();
        let pretends = |flag: &&&Flag| flag.3 == TILE_STATE && !palette.is_usable();
        let unusable = advertised.iter().filter(pretends).map(|flag| flag.0);
        let unusable: Vec<&str> = unusable.collect();
        let why = match (unusable.is_empty(), self.leaf_max < TILES) {
            (true, _) => String::new(),
            (false, true) => format!(
                "CPUID ends at leaf {:#x} and so describes no tiles (leaf {TILES:#x})",
                self.leaf_max
            ),
            (false, false) => format!("CPUID leaf {TILES:#x} describes no tiles"),
        };
        Processor {
            advertised: advertised.iter().map(|flag| flag.0).collect(),
            unusable,
            why,
            palette,
        }
    }

    /// The first palette, read as a library reads it.
    fn palette(&self) -> Palette {
        if self.leaf_max < TILES || self.palettes.a == 0 {
            return Palette::default();
        }
        let low = |register: u32| (register & 0xffff) as u16;
        Palette {
            id: 1,
            tiles: (self.palette_1.b >> 16) as u16,
            row_bytes: low(self.palette_1.b),
            rows: low(self.palette_1.c),
        }
    }

    /// Read this processor's snapshot; `None` where it is no x86.
    #[cfg(target_arch = "x86_64")]
    pub fn read() -> Option<Self> {
        use std::arch::x86_64::__cpuid_count;
        let leaf_max = __cpuid_count(0, 0).eax;
        // Some processors answer a leaf beyond their last with the last one's values.
        let leaf = |leaf: u32, subleaf: u32| {
            if leaf > leaf_max {
                return Leaf::default();
            }
            let found = __cpuid_count(leaf, subleaf);
            Leaf {
                a: found.eax,
                b: found.ebx,
                c: found.ecx,
                d: found.edx,
            }
        };
        let subleaf = |number: u32, of: Leaf| match of.a {
            0 => Leaf::default(),
            _ => leaf(number, 1),
        };
        let (basic, extended, palettes) = (leaf(1, 0), leaf(7, 0), leaf(TILES, 0));
        Some(Self {
            leaf_max,
            basic,
            extended,
            extended_1: subleaf(7, extended),
            palettes,
            palette_1: subleaf(TILES, palettes),
            xcr0: xcr0(basic),
        })
    }

    /// Read this processor's snapshot; `None` where it is no x86.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn read() -> Option<Self> {
        None
    }
}

/// Read XCR0; zero where the operating system doesn't let programs read it.
#[cfg(target_arch = "x86_64")]
fn xcr0(basic: Leaf) -> u64 {
    const OSXSAVE: u32 = 1 << 27;
    if basic.c & OSXSAVE == 0 {
        return 0;
    }
    let (low, high): (u32, u32);
    // SAFETY: the bit above says that `xgetbv` may be executed here; it reads a register.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

impl Processor {
    /// This machine's processor, read once; empty where it is no x86.
    pub fn here() -> &'static Self {
        static HERE: OnceLock<Processor> = OnceLock::new();
        HERE.get_or_init(|| Snapshot::read().map(|s| s.judge()).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Sapphire Rapids as Intel describes it: one palette of 8 tiles, 16 rows of 64 bytes.
    fn with_amx() -> Snapshot {
        Snapshot {
            leaf_max: 0x20,
            basic: Leaf {
                c: 1 << 12 | 1 << 28 | 1 << 29,
                d: 1 << 26,
                ..Leaf::default()
            },
            extended: Leaf {
                a: 2,
                b: 1 << 5 | 1 << 16 | 1 << 30 | 1 << 31,
                c: 1 << 11,
                d: 0b1111 << 22,
            },
            extended_1: Leaf {
                a: 1 << 4 | 1 << 5,
                ..Leaf::default()
            },
            palettes: Leaf {
                a: 1,
                ..Leaf::default()
            },
            palette_1: Leaf {
                a: 1024 << 16 | 8192,
                b: 8 << 16 | 64,
                c: 16,
                d: 0,
            },
            xcr0: WIDE | TILE_STATE | 1,
        }
    }

    const AMX: [&str; 3] = ["amx_tile", "amx_int8", "amx_bf16"];

    #[test]
    fn a_processor_that_describes_its_tiles_pretends_nothing() {
        let good = with_amx().judge();
        assert!(AMX.iter().all(|flag| good.advertised.contains(flag)));
        assert!(good.advertised.contains(&"avx512_fp16"));
        assert!(!good.advertised.contains(&"amx_fp16"));
        assert_eq!((good.unusable.as_slice(), good.why.as_str()), (&[][..], ""));
        let palette = Palette {
            id: 1,
            tiles: 8,
            row_bytes: 64,
            rows: 16,
        };
        assert_eq!(good.palette, palette);
    }

    #[test]
    fn amx_pretends_where_cpuid_describes_no_tiles() {
        let [mut cut, mut empty_palette, mut no_palette] = [with_amx(); 3];
        // The palette's leaves as an Intel processor answers for leaves beyond its last one.
        cut.leaf_max = 0x1c;
        empty_palette.palette_1 = Leaf::default();
        (no_palette.palettes, no_palette.palette_1) = (Leaf::default(), Leaf::default());
        let ends = "CPUID ends at leaf 0x1c and so describes no tiles (leaf 0x1d)";
        let empty = "CPUID leaf 0x1d describes no tiles";
        for (snapshot, why) in [(cut, ends), (empty_palette, empty), (no_palette, empty)] {
            let judged = snapshot.judge();
            assert_eq!(judged.unusable, AMX);
            assert_eq!(judged.why, why);
        }
        assert_eq!(cut.judge().palette, Palette::default());
    }

    #[test]
    fn without_amx_nothing_has_to_describe_tiles() {
        // A Zen 4 processor: its CPUID ends at leaf 0x10.
        let mut zen = Snapshot {
            leaf_max: 0x10,
            palettes: Leaf::default(),
            palette_1: Leaf::default(),
            xcr0: WIDE | 1,
            ..with_amx()
        };
        zen.extended.d = 0;
        let judged = zen.judge();
        assert_eq!(judged.unusable, [""; 0]);
        assert!(judged.advertised.contains(&"avx512_bf16"));
        assert_eq!(Snapshot::default().judge(), Processor::default());
    }

    #[test]
    fn what_the_operating_system_does_not_keep_is_not_advertised() {
        let no_tiles = Snapshot {
            xcr0: WIDE | 1,
            leaf_max: 0x1c,
            ..with_amx()
        };
        let judged = no_tiles.judge();
        assert_eq!(judged.unusable, [""; 0]);
        assert!(judged.advertised.contains(&"avx512f"));
        let narrow = Snapshot {
            xcr0: VECTORS | 1,
            ..with_amx()
        };
        let advertised = narrow.judge().advertised;
        assert_eq!(
            advertised,
            ["sse2", "avx", "f16c", "fma", "avx2", "avx_vnni"]
        );
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn this_processor_advertises_what_the_standard_library_detects() {
        let here = Processor::here();
        let has = |flag| here.advertised.contains(&flag);
        assert!(has("sse2"), "every 64-bit x86 has it: {here:?}");
        assert_eq!(has("avx2"), is_x86_feature_detected!("avx2"));
        assert_eq!(has("avx512_vnni"), is_x86_feature_detected!("avx512vnni"));
        assert_eq!(has("avx512_bf16"), is_x86_feature_detected!("avx512bf16"));
        assert_eq!(has("fma"), is_x86_feature_detected!("fma"));
    }

    #[test]
    fn every_flag_that_a_ladder_of_the_registry_names_is_known_here() {
        let repo = base::repo::Repo::find().expect("the tests are in it");
        let registry = repo.registry().expect("it is valid");
        assert!(!registry.isa_ladders.is_empty());
        for flag in registry
            .isa_ladders
            .iter()
            .flat_map(|ladder| &ladder.levels)
            .flat_map(|level| &level.without)
        {
            let mut known = FLAGS.iter().map(|(known, ..)| known);
            assert!(
                known.any(|known| known == flag),
                "{flag} is in no CPUID leaf"
            );
        }
    }
}
