//! `cargo xtask bench-adapters`: what our adapters cost. Each engine that has a
//! program which drives it directly is run through both, on the same file, with the
//! same request, one after the other, again and again; what counts is the ratio
//! within a pair.

use anyhow::{Context, Result, bail};
use base::exclusive;
use base::names::{self, Kind};
use base::repo::Repo;
use harness::engine::Program;
use harness::engine::start::launch;
use harness::prompts::Prompts;
use harness::verify::question::threads;
use provision::build;
use provision::fetch;
use provision::fetch::brought;
use schema::registry::Target;
use serde_json::{Value, json};
use std::io::Write;
use std::process::{ExitCode, Stdio};

/// An adapter may cost this much of the engine's throughput.
const RATIO_MIN: f64 = 0.98;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Engine ids, comma-separated; by default all that have a direct program.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// The model that both programs load: an id, hf:org/repo[@revision] or a directory.
    #[arg(long, default_value = "tiny-llama")]
    pub model: String,
    /// Pairs per engine.
    #[arg(long, default_value_t = 10)]
    pub pairs: u32,
    /// Prompt length (tokens).
    #[arg(long, default_value_t = 50)]
    pub prompt_tokens: usize,
    /// Output length (tokens).
    #[arg(long, default_value_t = 64)]
    pub new_tokens: u32,
    /// Requests timed in each process.
    #[arg(long, default_value_t = 20)]
    pub iterations: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Run it. Exit status 3 where an adapter costs more than it may.
pub fn run(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let engines: Vec<String> = registry.engines.iter().map(|e| e.id.clone()).collect();
    names::check(Kind::Engine, &options.engines, &engines)?;
    let model = brought::id(repo, &options.model)?;
    names::check_models(std::slice::from_ref(&model), &repo.models()?)?;
    let _only_one = exclusive::machine()?;
    fetch::ensure_for(repo, &model, &registry.targets())?;
    let model_dir = repo.model_dir(&model);
    let prompt = Prompts::new(&model_dir, 1)?
        .take("adapters/p", 0, options.prompt_tokens, 1)?
        .remove(0);
    let mut worst: f64 = f64::INFINITY;
    let mut any = false;
    for engine in &registry.engines {
        let Some(direct) = &engine.direct else {
            continue;
        };
        if !options.engines.is_empty() && !options.engines.contains(&engine.id) {
            continue;
        }
        any = true;
        let target = registry
            .targets()
            .into_iter()
            .find(|t| t.engine == engine.id && t.backend == "cpu" && t.weights == direct.weights)
            .with_context(|| {
                format!(
                    "engines.toml: {} has no cpu target with weights {}, which its direct program loads",
                    engine.id, direct.weights
                )
            })?;
        let programs = build::build(repo, &registry, [&target])?;
        let adapter = match programs.get(&target) {
            Ok(program) => program.clone(),
            Err(failure) => {
                watch::warn(format!("{}: {failure}", engine.id));
                continue;
            }
        };
        let direct = match build::direct(repo, &registry, &engine.id, direct) {
            Ok(program) => program,
            Err(failure) => {
                watch::warn(format!("{}: {failure}", engine.id));
                continue;
            }
        };
        let ask = ask(&target, &model_dir.display().to_string(), &prompt, options);
        let ratio = pairs(&engine.id, &adapter, &direct, &ask, options)?;
        worst = worst.min(ratio);
    }
    if !any {
        bail!("no engine of those has a `direct` program in engines/engines.toml");
    }
    Ok(if worst < RATIO_MIN {
        watch::error(format!(
            "an adapter costs more than {:.0} % of its engine",
            100.0 * (1.0 - RATIO_MIN)
        ));
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}

/// The request both answer.
fn ask(target: &Target, model_dir: &str, prompt: &[u32], options: &Options) -> Value {
    json!({
        "model_path": model_dir,
        "weights": target.weights,
        "precision": target.precision,
        "backend": target.backend,
        "variant": target.variant,
        "prompt_ids": prompt,
        "new_tokens": options.new_tokens,
        "iterations": options.iterations,
        "warmup": 2,
        "threads": threads(),
    })
}

/// Time pairs and print what came out; the most that the ratio may be, at 95 %.
fn pairs(
    engine: &str,
    adapter: &Program,
    direct: &Program,
    ask: &Value,
    options: &Options,
) -> Result<f64> {
    let mut ratios = Vec::new();
    let mut rates = (Vec::new(), Vec::new());
    for pair in 0..options.pairs {
        base::interrupt::check()?;
        // Who goes first alternates, so that drift falls on both alike.
        let (ours, theirs) = if pair % 2 == 0 {
            let ours = once(adapter, ask)?;
            (ours, once(direct, ask)?)
        } else {
            let theirs = once(direct, ask)?;
            (once(adapter, ask)?, theirs)
        };
        if ours.output_ids != theirs.output_ids {
            bail!(
                "{engine}: the adapter and the direct program give different tokens, so their speeds can't be compared"
            );
        }
        ratios.push((ours.tok_per_s / theirs.tok_per_s).ln());
        rates.0.push(ours.tok_per_s);
        rates.1.push(theirs.tok_per_s);
    }
    let mean = stats::describe::mean(&ratios).context("no pairs were run")?;
    let interval = stats::ci::mean_interval(&ratios);
    let median = |values: &[f64]| stats::describe::median(values).unwrap_or_default();
    let (low, high) = interval.map_or((f64::NAN, f64::NAN), |i| (i.low.exp(), i.high.exp()));
    if options.json {
        println!(
            "{}",
            json!({
                "engine": engine, "pairs": options.pairs, "ratio": mean.exp(),
                "ci95": [low, high],
                "adapter_tok_per_s": median(&rates.0), "direct_tok_per_s": median(&rates.1),
            })
        );
    } else {
        println!(
            "{engine:<12} adapter {:.1} tok/s, direct {:.1} tok/s (medians of {}); ratio {:.3} [{low:.3}, {high:.3}]",
            median(&rates.0),
            median(&rates.1),
            options.pairs,
            mean.exp()
        );
    }
    // What is certain: an interval that reaches the limit proves no cost.
    Ok(interval.map_or(mean.exp(), |i| i.high.exp()))
}

struct Once {
    tok_per_s: f64,
    output_ids: Value,
}

/// One process, one request, one JSON object back.
fn once(program: &Program, ask: &Value) -> Result<Once> {
    let name = program.argv.join(" ");
    let mut command = program.command();
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = launch(command).with_context(|| format!("{name} can't be started"))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    stdin.write_all(ask.to_string().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A library may print before it; the answer is the last line.
    let answer: Value = text
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .with_context(|| format!("{name} ended ({}) without an answer", output.status))?;
    let tok_per_s = answer["output_tok_per_s"]
        .as_f64()
        .with_context(|| format!("{name} gave no output_tok_per_s: {answer}"))?;
    Ok(Once {
        tok_per_s,
        output_ids: answer["output_ids"].clone(),
    })
}
