//! `cargo xtask publish RUN`: packs one of our runs into a file in `data/results`, from which the
//! published site takes it. Equal records give equal bytes: names are sorted, and no time, owner or
//! mode of this machine is stored.

use crate::results::Results;
use anyhow::{Context, Result, bail, ensure};
use base::exclusive;
use base::repo::Repo;
use schema::run::{Run, RunHeader};
use schema::run_files::{HEADER, RunFiles, SUFFIX, WINDOW_LOG};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compression level. It is slow, but a run is packed once, and the file is a tenth smaller than at
/// lower levels.
const LEVEL: i32 = 19;

/// What the command line says.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Run id, path, or `latest`.
    pub run: String,
    /// Look for it in this directory instead of runs and data/results.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the packed file into this directory instead of data/results.
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
}

/// Run `cargo xtask publish`.
pub fn command(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let place = Results::new(repo, options.out.as_deref()).find(&options.run)?;
    // Hold the run's lock, so that no run is packed while it is still being written.
    let _held = match place.is_dir() {
        true => Some(exclusive::lock_run(&place)?),
        false => None,
    };
    let files = RunFiles::open(&place)?;
    let run = Run::read(&files)?;
    let header = &run.header;
    ensure!(
        header.plan.publishable,
        "{}: profile {:?} shows that the pipeline works, its numbers mean nothing: publish a run of another profile",
        header.id,
        header.plan.profile
    );
    if let Some(shard) = header.origin.shard {
        bail!(
            "{} is shard {shard}, no whole run: merge the shards and publish that",
            header.id
        );
    }
    let dir = options.to.clone().unwrap_or_else(|| repo.published_dir());
    let to = dir.join(format!("{}{SUFFIX}", header.id));
    let bytes = pack(&files)?;
    write(&to, &bytes)?;
    println!(
        "{}: {} samples in {:.1} MB; commit it to publish it",
        to.display(),
        run.launches
            .iter()
            .map(|log| log.requests.len())
            .sum::<usize>(),
        bytes.len() as f64 / 1e6
    );
    warn_of_prompts(header);
    if header.provenance.git_dirty == Some(true) {
        watch::warn(format!(
            "{} was made from a checkout with changes that no revision has: it can't be reproduced",
            header.id
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Warn that a published run reveals its prompts, where its user brought them.
pub(crate) fn warn_of_prompts(header: &RunHeader) {
    if let Some(prompts) = &header.plan.prompts {
        watch::warn(format!(
            "{} holds the {} prompts of {} as token ids: everyone who gets the run and the model's tokenizer can read them",
            header.id,
            prompts.tokens.len(),
            prompts.file
        ));
    }
}

/// Pack a run's files into one file.
pub fn pack(files: &RunFiles) -> Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    encoder.window_log(WINDOW_LOG)?;
    encoder.long_distance_matching(true)?;
    encoder.include_checksum(true)?;
    let mut archive = tar::Builder::new(encoder);
    let others = files.names().filter(|name| *name != HEADER);
    for name in std::iter::once(HEADER).chain(others) {
        let bytes = files
            .bytes(name)?
            .with_context(|| format!("{name} is gone"))?;
        let mut header = tar::Header::new_ustar();
        header
            .set_path(Path::new(files.id()).join(name))
            .with_context(|| format!("{name} has too long a name to be packed"))?;
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        archive
            .append(&header, bytes.as_ref())
            .with_context(|| format!("{name} can't be packed"))?;
    }
    let encoder = archive.into_inner().context("the archive can't be ended")?;
    encoder.finish().context("the archive can't be compressed")
}

/// Write the whole file or nothing. Fail where a file of that name has other contents.
pub(crate) fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    let dir = to.parent().unwrap_or(Path::new("."));
    let cant = || format!("{} can't be written: nothing is published", to.display());
    std::fs::create_dir_all(dir).with_context(cant)?;
    let mut staged = tempfile::NamedTempFile::new_in(dir).with_context(cant)?;
    staged
        .write_all(bytes)
        .and_then(|()| staged.as_file().sync_all())
        .with_context(cant)?;
    // A temporary file is readable by its owner only; a published file is readable by everyone.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    staged.as_file().set_permissions(mode).with_context(cant)?;
    match staged.persist_noclobber(to) {
        Ok(_) => Ok(()),
        Err(_) if std::fs::read(to).is_ok_and(|there| there == bytes) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => bail!(
            "{} is there already and holds something else: a published run never changes",
            to.display()
        ),
        Err(error) => Err(error.error).with_context(cant),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_run_holds_its_files_and_equal_files_give_equal_bytes() {
        let root = tempfile::tempdir().unwrap();
        let id = "20260101-000000-cpu-1a2b";
        let dir = root.path().join(id);
        let make = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        make("b.cpu.f32/s.i0.jsonl", "b\n");
        make("run.json", "{}");
        make("a.cpu.f32/s.i0.jsonl", "a\n");
        make(".lock", "not a part of it");
        let packed = || pack(&RunFiles::open(&dir).unwrap()).unwrap();
        let first = packed();
        make("run.json", "{}");
        assert_eq!(first, packed());

        let to = root.path().join(format!("{id}{SUFFIX}"));
        write(&to, &first).unwrap();
        write(&to, &first).unwrap();
        let files = RunFiles::open(&to).unwrap();
        let names: Vec<&str> = files.names().collect();
        assert_eq!(
            names,
            ["a.cpu.f32/s.i0.jsonl", "b.cpu.f32/s.i0.jsonl", "run.json"]
        );
        assert_eq!(files.text("b.cpu.f32/s.i0.jsonl").unwrap().unwrap(), "b\n");
        assert_eq!(pack(&files).unwrap(), first, "from either form");

        make("run.json", "{\"other\": 1}");
        let error = write(&to, &packed()).unwrap_err().to_string();
        assert!(error.contains("never changes"), "{error}");
        assert_eq!(std::fs::read(&to).unwrap(), first);
        let left = std::fs::read_dir(root.path()).unwrap().count();
        assert_eq!(left, 2, "nothing half-written is left");
    }

    #[test]
    fn a_disk_that_fills_while_packing_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("file");
        std::fs::write(&missing, "").unwrap();
        let error = write(&missing.join("x.tar.zst"), b"x").unwrap_err();
        assert!(format!("{error:#}").contains("nothing is published"));
    }
}
