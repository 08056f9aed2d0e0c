//! `cargo xtask dist`: packs programs, data and this harness into archives for machines that have
//! no toolchain. One archive is the base (harness, data, registry, the instrument and the judge
//! that needs no Python), and there is one for each engine; all of them unpack into one directory.
//! The module `build` builds the programs, and nothing is measured.
//!
//! The command prints a line for each archive, and which ones are too large.

mod base;
mod components;
mod cpu;
mod crates;
mod part;
mod program;

use crate::{build, provenance};
use ::base::exit_code;
use ::base::files::write_whole;
use ::base::repo::Repo;
use ::base::text::aligned;
use anyhow::{Context, Result, bail};
use harness::programs::Programs;
use part::Part;
use schema::bundle::{self, Bundle};
use schema::hash::sha256_hex;
use schema::registry::{Build, Registry, Target};
use std::env::consts::{ARCH, OS};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The largest size of an archive (bytes), which runners, lenders of machines and mail accept.
const ARCHIVE_BYTES_MAX: u64 = 64 << 20;

/// What the command line says.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Engine or target ids of engines/engines.toml; none: all that a normal run uses.
    pub engines: Vec<String>,
    /// Pack the engines for NVIDIA GPUs instead.
    #[arg(long)]
    pub cuda: bool,
    /// The CPU to compile for, as rustc names it, e.g. x86-64-v3. For another CPU than `native`
    /// everything is built anew.
    #[arg(long, value_name = "CPU", default_value = cpu::NATIVE)]
    pub target_cpu: String,
    /// Where the archives go, instead of target/dist.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Make the archives. The exit status is 3 where an engine can't be built here; the others are
/// packed.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    if repo.bundle()?.is_some() {
        bail!("this is a bundle already: make another from a checkout");
    }
    let registry = repo.registry()?;
    let usual = repo.profile("cpu")?.backends;
    let chosen = build::choose(&registry, &usual, &options.engines, options.cuda)?;
    if let Some(status) = cpu::built_for_another(repo, options)? {
        return Ok(status);
    }
    let chosen: Vec<Target> = chosen.into_iter().filter(|t| packs(&registry, t)).collect();
    let helpers = helpers(&registry);
    // Whether they can run on this machine doesn't matter, because they run elsewhere.
    let programs = build::compile(repo, &registry, chosen.iter().chain(&helpers))?;
    let made = bundle(repo, &registry, &programs, options)?;
    let name = name(&made.version, made.cuda);

    let tracer = options.cuda.then(|| build::tracer(repo)).transpose()?;
    let mut base = base::base(repo, &registry, &made, tracer.as_deref())?;
    program::add(repo, &programs, &helpers, &mut base)?;
    if options.cuda {
        program::add_limits(repo, &registry, &mut base)?;
    }
    let mut parts = vec![base];
    for engine in &registry.engines {
        let targets = chosen.iter().filter(|target| target.engine == engine.id);
        let targets: Vec<Target> = targets.cloned().collect();
        let mut part = Part::new(&engine.id);
        program::add(repo, &programs, &targets, &mut part)?;
        if !part.is_empty() {
            parts.push(part);
        }
    }

    let usual = || repo.root.join("target/dist");
    let out = options.out.clone().unwrap_or_else(usual);
    std::fs::create_dir_all(&out).with_context(|| format!("{} can't be made", out.display()))?;
    let rows = write(&parts, &name, &out)?;
    print!("{}", table(&rows));
    println!("Archives: {}", out.display());
    let too_large = too_large(&rows, ARCHIVE_BYTES_MAX);
    if !too_large.is_empty() {
        bail!("{}", too_large.join("; "));
    }
    // A failure was reported when it happened.
    let are_packed = chosen.iter().all(|target| programs.has(target));
    Ok(exit_code(are_packed, 3))
}

/// The common beginning of the archives' names, and the directory that they unpack into.
fn name(version: &str, cuda: bool) -> String {
    let cuda = if cuda { "-cuda" } else { "" };
    format!("llm-engine-bench-{version}-{ARCH}-{OS}{cuda}")
}

/// Whether a target's program is a file to pack. A script goes into the base as it is, and its
/// environment is made where it is unpacked.
fn packs(registry: &Registry, target: &Target) -> bool {
    let engine = registry.engine(&target.engine);
    engine.is_some_and(|e| matches!(e.build_for(&target.backend), Build::Cargo(_)))
}

/// The targets that every bundle has: the instrument, and judges that are no scripts.
fn helpers(registry: &Registry) -> Vec<Target> {
    let instrument = registry.instrument.as_ref().map(|i| i.target.as_str());
    let [reference, cross_check] = registry.judges();
    let targets = registry.targets().into_iter();
    targets
        .filter(|t| {
            Some(t.id.as_str()) == instrument || t.id == reference.id || t.id == cross_check.id
        })
        .filter(|t| packs(registry, t))
        .collect()
}

/// The description of the bundle, which is packed with it.
fn bundle(
    repo: &Repo,
    registry: &Registry,
    programs: &Programs,
    options: &Options,
) -> Result<Bundle> {
    let (git_revision, git_dirty) = provenance::git(&repo.root);
    Ok(Bundle {
        format: bundle::FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        git_revision,
        git_dirty,
        target_cpu: options.target_cpu.clone(),
        cpu_flags: cpu::flags(&options.target_cpu)?,
        cuda: options.cuda,
        lockfiles: provenance::lockfiles(&repo.root, registry),
        adoption: build::adoption(repo, programs),
    })
}

/// Write every part's archive, then a file with the hashes of all.
fn write(parts: &[Part], name: &str, out: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut sums = String::new();
    for part in parts {
        let file = match part.name.as_str() {
            base::NAME => format!("{name}.tar.gz"),
            engine => format!("{name}-{engine}.tar.gz"),
        };
        let bytes = part::pack(name, part)?;
        let path = out.join(&file);
        write_whole(&path, &bytes)?;
        sums.push_str(&format!("{}  {file}\n", sha256_hex(&bytes)));
        rows.push(Row {
            part: part.name.clone(),
            file,
            files: part.entries.len(),
            bytes: part.bytes(),
            packed_bytes: bytes.len() as u64,
        });
    }
    let path = out.join(format!("{name}.sha256"));
    write_whole(&path, sums)?;
    Ok(rows)
}

/// One archive, as a row of the printed table.
struct Row {
    part: String,
    file: String,
    files: usize,
    /// Size of the files in the archive (bytes).
    bytes: u64,
    /// Size of the archive itself, which is compressed (bytes).
    packed_bytes: u64,
}

fn table(rows: &[Row]) -> String {
    let head = ["part", "files", "unpacked", "packed", "archive"].map(str::to_owned);
    let rows = rows.iter().map(|row| {
        [
            row.part.clone(),
            row.files.to_string(),
            mebibytes(row.bytes),
            mebibytes(row.packed_bytes),
            row.file.clone(),
        ]
    });
    aligned(std::iter::once(head).chain(rows))
}

/// A line for each archive that is larger than `max` bytes.
fn too_large(rows: &[Row], max: u64) -> Vec<String> {
    let over = rows.iter().filter(|row| row.packed_bytes > max);
    let complaints = over.map(|row| {
        let (part, packed, max) = (&row.part, mebibytes(row.packed_bytes), mebibytes(max));
        format!("{part}: {packed} packed, and an archive may have {max}")
    });
    complaints.collect()
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_binstall_looks_for_the_base_archive_of_a_release() {
        let name = name("{ version }", false);
        let Some(stem) = name.strip_suffix("x86_64-linux") else {
            return; // there are releases for no other platform
        };
        assert_eq!(stem, "llm-engine-bench-{ version }-");
        let manifest = include_str!("../../../../xtask/Cargo.toml");
        let manifest: toml::Table = toml::from_str(manifest).unwrap();
        let binstall = &manifest["package"]["metadata"]["binstall"];
        let release = &binstall["overrides"]["x86_64-unknown-linux-gnu"];
        let said = |key: &str| release[key].as_str().unwrap();
        assert!(said("pkg-url").ends_with(&format!("/v{{ version }}/{name}.tar.gz")));
        assert_eq!(
            said("bin-dir"),
            format!("{name}/bin/{{ bin }}{{ binary-ext }}")
        );
    }

    #[test]
    fn a_line_an_archive_and_a_complaint_for_one_that_is_too_large() {
        let row = |part: &str, packed_bytes| Row {
            part: part.into(),
            file: format!("x-{part}.tar.gz"),
            files: 3,
            bytes: 3 << 20,
            packed_bytes,
        };
        let rows = [
            row("base", 1 << 20),
            row("a", (64 << 20) + 1),
            row("b", 64 << 20),
        ];
        assert_eq!(
            table(&rows[..1]),
            "part  files  unpacked  packed   archive\nbase  3      3.0 MiB   1.0 MiB  x-base.tar.gz\n"
        );
        let over = too_large(&rows, 64 << 20);
        assert_eq!(
            over,
            ["a: 64.0 MiB packed, and an archive may have 64.0 MiB"]
        );
    }
}
