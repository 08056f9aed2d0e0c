//! `cargo xtask bench-adapters`: measures what our adapters cost. Each engine that has a program
//! which drives it directly is run through both, on the same file and with the same request,
//! alternately; the result is the ratio within a pair. Prefill and decoding are timed separately,
//! because an adapter may slow down only one of them. Where the engine's own benchmark is on PATH,
//! the adapter is compared with that too.

use anyhow::{Context, Result, bail};
use base::files::{is_on_path, write_json};
use base::names::{self, Kind};
use base::repo::Repo;
use base::{exclusive, exit_code};
use harness::devices::Named;
use harness::engine::Program;
use harness::engine::start::launch;
use harness::machine;
use harness::positions;
use harness::prompts::Prompts;
use harness::verify::setup::threads;
use provision::build;
use provision::fetch;
use provision::fetch::brought;
use provision::provenance;
use schema::adapters::{AdapterCost, AdapterCosts, Work};
use schema::error::read_json;
use schema::processor;
use schema::registry::{Direct, Registry, Target};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{ExitCode, Stdio};

/// Smallest ratio of the adapter's throughput to the engine's that is acceptable.
const RATIO_MIN: f64 = 0.98;
/// Prompt length where decoding is timed (tokens).
const SHORT_PROMPT_TOKENS: u32 = 16;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Engine ids, comma-separated; by default all that have a direct program.
    #[arg(long, value_delimiter = ',')]
    pub engines: Vec<String>,
    /// The model that both programs load: an id, hf:org/repo[@revision] or a directory.
    #[arg(long, default_value = "tiny-llama")]
    pub model: String,
    /// Pairs per engine and kind of work.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..))]
    pub pairs: u32,
    /// Length of the prompt whose reading is timed (tokens).
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..))]
    pub prompt_tokens: u32,
    /// Tokens whose writing is timed.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    pub new_tokens: u32,
    /// Requests timed in each process.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Write what was measured to data/adapters.json, which the methodology page prints. Other
    /// engines' rows stay, where they are of the same model and processor.
    #[arg(long)]
    pub write: bool,
}

/// The request that both programs of an engine answer.
struct Question<'a> {
    work: Work,
    prompt: &'a [u32],
    new_tokens: u32,
}

/// The two programs of an engine.
struct Pair<'a> {
    target: Target,
    adapter: Program,
    direct: Program,
    /// How the direct program is made and what it may do differently.
    how: &'a Direct,
}

/// Run the command. Exit status 3 where an adapter costs more than it may.
pub fn run(repo: &Repo, options: &Options) -> Result<ExitCode> {
    let registry = repo.registry()?;
    let engines: Vec<String> = registry.engines.iter().map(|e| e.id.clone()).collect();
    names::check(Kind::Engine, &options.engines, &engines)?;
    let model = brought::id(repo, &options.model)?;
    names::check_models(std::slice::from_ref(&model), &repo.models()?)?;
    let fits = |option: &str, asked: u32, others: u32| {
        positions::check_fit(repo, &model, option, asked, others)
    };
    let all_fit = || {
        fits("--prompt-tokens", options.prompt_tokens, 1)?;
        fits("--new-tokens", options.new_tokens, SHORT_PROMPT_TOKENS)
    };
    all_fit()?;
    // A file that can't be read must fail before anything is measured.
    let before = match options.write && repo.adapters_path().exists() {
        true => Some(read_json(&repo.adapters_path())?),
        false => None,
    };
    let _only_one = exclusive::lock_machine()?;
    fetch::ensure_for(repo, &model, &registry.targets())?;
    all_fit()?; // of a model that wasn't here, the positions are known only now
    let model_dir = repo.model_dir(&model);
    let prompts = Prompts::new(&model_dir, 1)?;
    let prompt = |tokens: u32| -> Result<Vec<u32>> {
        let mut taken = prompts.take("adapters/p", 0, tokens as usize, 1)?;
        Ok(taken.remove(0))
    };
    let (long, short) = (prompt(options.prompt_tokens)?, prompt(SHORT_PROMPT_TOKENS)?);
    let questions = [
        Question {
            work: Work::Prefill,
            prompt: &long,
            new_tokens: 1,
        },
        Question {
            work: Work::Decode,
            prompt: &short,
            new_tokens: options.new_tokens,
        },
    ];
    let wanted = |id: &String| options.engines.is_empty() || options.engines.contains(id);
    let named = registry.engines.iter().filter(|engine| wanted(&engine.id));
    let (named, absent): (Vec<_>, Vec<_>) = named
        .flat_map(|engine| engine.direct.iter().map(move |direct| (engine, direct)))
        .partition(|(_, direct)| direct.tool.as_deref().is_none_or(is_on_path));
    for (engine, direct) in absent {
        watch::warn(format!(
            "{}: {} is not on PATH, so the adapter isn't held against it",
            engine.id,
            direct.tool.as_deref().unwrap_or_default()
        ));
    }
    if named.is_empty() {
        bail!("no engine of those has a `direct` program in engines/engines.toml");
    }
    let wanted = named.len() * questions.len();
    let (revision, _) = provenance::git(&repo.root);
    let mut rows = Vec::new();
    for (engine, direct) in named {
        let Some(pair) = pair(repo, &registry, &engine.id, direct)? else {
            continue;
        };
        for question in &questions {
            let ask = ask(&pair.target, &model_dir, question, options.iterations);
            let row = row(&pair, question, &ask, options.pairs, revision.clone())?;
            if !options.json {
                println!("{}", line(&row));
            }
            rows.push(row);
        }
    }
    // A tool on PATH may be another build than the library that the adapter drives, so it sets no
    // limit.
    let mut ours = rows.iter().filter(|row| row.tool.is_none());
    let is_too_slow = ours.any(|row| ratio_upper_bound(row) < RATIO_MIN);
    let mut costs = AdapterCosts {
        cpu_model: processor::in_words(&machine::facts(&repo.root)),
        model,
        rows,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&costs)?);
    }
    if options.write {
        if costs.rows.len() < wanted {
            bail!(
                "not every engine could be measured, so data/adapters.json stays as it was: name with `--engines` those that can"
            );
        }
        if let Some(before) = before {
            costs.keep(before);
        }
        write_json(&repo.adapters_path(), &costs)?;
    }
    if is_too_slow {
        watch::error(format!(
            "an adapter costs more than {:.0} % of its engine",
            100.0 * (1.0 - RATIO_MIN)
        ));
    }
    Ok(exit_code(!is_too_slow, 3))
}

/// Build both programs of an engine; warn and return `None` where one can't be built.
fn pair<'a>(
    repo: &Repo,
    registry: &Registry,
    engine: &str,
    direct: &'a Direct,
) -> Result<Option<Pair<'a>>> {
    let mut targets = registry.targets().into_iter();
    let target = targets
        .find(|t| t.engine == engine && t.backend == "cpu" && t.weights == direct.weights)
        .with_context(|| {
            format!(
                "engines.toml: {engine} has no cpu target with weights {}, which its direct program loads",
                direct.weights
            )
        })?;
    let programs = build::build(repo, registry, [&target], &Named::default())?;
    let adapter = programs.get(&target).map_err(Clone::clone);
    let both = adapter.and_then(|adapter| {
        let id = format!("{engine}-{}", direct.tool.as_deref().unwrap_or("direct"));
        let direct = build::program(repo, registry, &id, &direct.build)?;
        Ok((adapter.clone(), direct))
    });
    Ok(match both {
        Ok((adapter, program)) => Some(Pair {
            target,
            adapter,
            direct: program,
            how: direct,
        }),
        Err(failure) => {
            watch::warn(format!("{engine}: {failure}"));
            None
        }
    })
}

/// Make the request for both programs.
fn ask(target: &Target, model_dir: &Path, question: &Question, iterations: u32) -> Value {
    json!({
        "model_path": model_dir,
        "weights": target.weights,
        "precision": target.precision,
        "backend": target.backend,
        "variant": target.variant,
        "prompt_ids": question.prompt,
        "new_tokens": question.new_tokens,
        "iterations": iterations,
        // Two untimed requests before twenty; one is enough where a request takes seconds.
        "warmup": iterations.div_ceil(10),
        "threads": threads(),
    })
}

/// Time pairs of both programs and return their ratio.
fn row(
    pair: &Pair,
    question: &Question,
    ask: &Value,
    pairs: u32,
    revision: Option<String>,
) -> Result<AdapterCost> {
    let engine = &pair.target.engine;
    let mut ratios = Vec::new();
    let mut rates = (Vec::new(), Vec::new());
    let (mut version, mut tool) = (String::new(), None);
    let mut other_tokens = "";
    for number in 0..pairs {
        base::interrupt::check()?;
        // The order alternates, so that drift affects both alike.
        let (ours, theirs) = if number % 2 == 0 {
            let ours = once(&pair.adapter, ask)?;
            (ours, once(&pair.direct, ask)?)
        } else {
            let theirs = once(&pair.direct, ask)?;
            (once(&pair.adapter, ask)?, theirs)
        };
        if pair.how.tool.is_some() {
            tool = Some(theirs.version);
        } else if ours.output_ids != theirs.output_ids {
            other_tokens = pair.how.other_tokens.as_str();
            if other_tokens.is_empty() {
                bail!(
                    "{engine}: the adapter and the direct program give different tokens, so their speeds can't be compared"
                );
            }
        }
        ratios.push((ours.tok_per_s / theirs.tok_per_s).ln());
        rates.0.push(ours.tok_per_s);
        rates.1.push(theirs.tok_per_s);
        version = ours.version;
    }
    let mean = stats::describe::mean(&ratios).context("no pairs were run")?;
    let interval = stats::ci::mean_interval(&ratios);
    // Programs count the tokens that they generate; a prefill's rate counts the prompt's tokens.
    let scale = match question.work {
        Work::Prefill => question.prompt.len() as f64 / f64::from(question.new_tokens),
        Work::Decode => 1.0,
    };
    let median = |values: &[f64]| scale * stats::describe::median(values).unwrap_or_default();
    Ok(AdapterCost {
        measured: jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        revision,
        engine: engine.clone(),
        version,
        target: pair.target.id.clone(),
        work: question.work,
        prompt_tokens: question.prompt.len() as u32,
        new_tokens: question.new_tokens,
        pairs,
        ratio: mean.exp(),
        ci95: interval.map(|i| (i.low.exp(), i.high.exp())),
        adapter_tok_per_s: median(&rates.0),
        direct_tok_per_s: median(&rates.1),
        tool,
        other_tokens: other_tokens.into(),
    })
}

/// Return the upper end of the ratio's 95 % interval. Only a ratio below the limit there proves a
/// cost: an interval that reaches the limit does not.
fn ratio_upper_bound(row: &AdapterCost) -> f64 {
    row.ci95.map_or(row.ratio, |(_, high)| high)
}

fn line(row: &AdapterCost) -> String {
    let interval = row.ci95.map_or(String::new(), |(low, high)| {
        format!(" [{low:.3}, {high:.3}]")
    });
    let tokens = match row.other_tokens.as_str() {
        "" => String::new(),
        why => format!("; other tokens: {why}"),
    };
    let direct = row.tool.as_deref().unwrap_or("direct");
    format!(
        "{:<16} {:<7} adapter {:.1} tok/s, {direct} {:.1} tok/s (medians of {}); ratio {:.3}{interval}{tokens}",
        row.engine,
        row.work.name(),
        row.adapter_tok_per_s,
        row.direct_tok_per_s,
        row.pairs,
        row.ratio
    )
}

struct Once {
    tok_per_s: f64,
    output_ids: Value,
    /// The version of the engine or of its benchmark; a direct program of ours reports none.
    version: String,
}

/// Start a process, send it one request, and parse the JSON object that it answers.
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
    // A library may print something first; the answer is the last object, on one line or several.
    let start = text.rfind("\n{").map_or(0, |newline| newline + 1);
    let answer: Value = serde_json::from_str(&text[start..])
        .ok()
        .with_context(|| format!("{name} ended ({}) without an answer", output.status))?;
    let tok_per_s = answer["output_tok_per_s"]
        .as_f64()
        .with_context(|| format!("{name} gave no output_tok_per_s: {answer}"))?;
    Ok(Once {
        tok_per_s,
        output_ids: answer["output_ids"].clone(),
        version: answer["version"].as_str().unwrap_or_default().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ratio: f64, ci95: Option<(f64, f64)>) -> AdapterCost {
        AdapterCost {
            engine: "candle".into(),
            work: Work::Prefill,
            pairs: 10,
            ratio,
            ci95,
            adapter_tok_per_s: 97.0,
            direct_tok_per_s: 100.0,
            ..AdapterCost::default()
        }
    }

    #[test]
    fn what_is_certain_is_the_upper_end() {
        assert_eq!(ratio_upper_bound(&row(0.97, Some((0.95, 0.99)))), 0.99);
        assert_eq!(ratio_upper_bound(&row(0.97, None)), 0.97);
    }

    #[test]
    fn a_row_is_a_line() {
        let mut row = row(0.97, Some((0.95, 0.99)));
        let said = "candle           prefill adapter 97.0 tok/s, direct 100.0 tok/s (medians of 10); ratio 0.970 [0.950, 0.990]";
        assert_eq!(line(&row), said);
        row.other_tokens = "another attention".into();
        assert_eq!(
            line(&row),
            format!("{said}; other tokens: another attention")
        );
        row.tool = Some("llama-bench, build 1 (a)".into());
        assert!(line(&row).contains("97.0 tok/s, llama-bench, build 1 (a) 100.0 tok/s"));
    }

    #[test]
    fn the_committed_file_is_of_engines_that_have_a_direct_program() {
        let repo = Repo::find().unwrap();
        let registry = repo.registry().unwrap();
        let costs: AdapterCosts = read_json(&repo.adapters_path()).unwrap();
        assert!(repo.listed_models().unwrap().get(&costs.model).is_some());
        for row in &costs.rows {
            let engine = registry.engine(&row.engine).expect("it is registered");
            let mut direct = engine.direct.iter();
            let of_row = direct.find(|direct| direct.tool.is_some() == row.tool.is_some());
            let direct = of_row.expect("it has a direct program");
            assert!(row.other_tokens.is_empty() || !direct.other_tokens.is_empty());
            let target = format!("{}.cpu.q8_0", row.engine);
            assert_eq!(row.target, target, "all direct programs load q8_0");
            assert!(row.pairs > 1 && row.ci95.is_some_and(|(low, high)| low < high));
        }
    }
}
