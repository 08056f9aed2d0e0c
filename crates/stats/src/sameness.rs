//! Whether two runs asked the same of a cell. Some differences are ignored because they don't
//! change the question: requests and invocations only affect precision, and programs, lockfiles and
//! the machine are what is being compared.

use crate::analysis::Cell;
use schema::capacity;
use schema::micro::scenario_id;
use schema::own_prompts::OwnPrompts;
use schema::plan::{Case, PlannedScenario};
use schema::run::Run;

/// Describe the first difference in what was asked; `None` where there is none.
pub(crate) fn difference(a: &Run, b: &Run, cell: &Cell) -> Option<String> {
    let differ = |what: &str, one: &str, other: &str| {
        (one != other).then(|| told((a, one), (b, other), what))
    };
    differ("model", &a.header.plan.model, &b.header.plan.model)
        .or_else(|| files(a, b, cell))
        .or_else(|| {
            let prompts = |run: &'_ Run| run.header.provenance.facts.get("prompts_sha256").cloned();
            if drew_apart(a, b) {
                return None;
            }
            let (one, other) = (prompts(a)?, prompts(b)?);
            differ("other prompts:", short(&one), short(&other))
        })
        .or_else(|| {
            let (one, other) = (own_prompts(a, cell)?, own_prompts(b, cell)?);
            // Tokens are compared, because a file may have got another name, or encode to other
            // tokens.
            let differs = one.tokens != other.tokens;
            differs.then(|| differ("other prompts:", &one.name(), &other.name()))?
        })
        .or_else(|| {
            let (one, other) = (planned(a, cell)?, planned(b, cell)?);
            differ("another case:", &asked(a, one), &asked(b, other))
        })
        .or_else(|| {
            let (one, other) = (micro(a, cell)?, micro(b, cell)?);
            differ("another case:", &one, &other)
        })
        .or_else(|| {
            let (one, other) = (offered(a, cell)?, offered(b, cell)?);
            differ("another load: offered", &one, &other)
        })
}

/// Say what stands in one run and what in the other.
fn told((a, one): (&Run, &str), (b, other): (&Run, &str), what: &str) -> String {
    let (a, b) = (&a.header.id, &b.header.id);
    format!("{what} {one} in {a}, {other} in {b}")
}

/// Whether the runs' prompts differ because one of the runs drew its own: then they have the same
/// lengths, generator and tokenizer.
fn drew_apart(a: &Run, b: &Run) -> bool {
    let (one, other) = (&a.header.plan, &b.header.plan);
    let is_drawn = one.prompt_seed.is_some() || other.prompt_seed.is_some();
    is_drawn && one.seed_of_prompts() != other.seed_of_prompts()
}

/// Describe what a case asks and how it was measured.
fn asked(run: &Run, (scenario, case): (&PlannedScenario, &Case)) -> String {
    let plan = &run.header.plan;
    let (measured, _) = plan.measured(scenario, case);
    let in_turns = match measured.turns {
        true => " in turns",
        false => "",
    };
    let shared = match plan.one_process && measured.may_share_process() {
        true => ", a process for all scenarios",
        false => "",
    };
    let beginning = match case.shared_percent {
        Some(percent) => format!(", {percent} % of the prompt kept"),
        None => String::new(),
    };
    format!(
        "version {} ({:?}{in_turns}, {} → {} tokens, {} at once{shared}{beginning})",
        scenario.version, measured.load, case.prompt_tokens, case.new_tokens, case.concurrency
    )
}

/// Return the user's prompts that a cell uses; `None` where its prompts are generated.
fn own_prompts<'a>(run: &'a Run, cell: &Cell) -> Option<&'a OwnPrompts> {
    let (scenario, _) = planned(run, cell)?;
    run.header.plan.own_prompts(scenario)
}

/// Describe the load of an open loop. A run scales it to the capacity that it measured itself, so
/// what is delivered is mostly what was asked. `None` in a closed loop.
fn offered(run: &Run, cell: &Cell) -> Option<String> {
    let (scenario, case) = planned(run, cell)?;
    let percent = case.load_percent.filter(|_| scenario.has_own_loads())?;
    let capacity = capacity::find(&run.capacities, &cell.target, case)?;
    Some(format!("{:.2} requests/s", capacity.share(percent)))
}

/// Describe what was asked of a micro cell; `None` for any other cell.
fn micro(run: &Run, cell: &Cell) -> Option<String> {
    let plan = &run.header.plan;
    let mut suites = plan.micro.suites.iter();
    let suite = suites.find(|suite| scenario_id(&suite.id) == cell.scenario)?;
    let case = suite.cases.iter().find(|case| case.id == cell.case)?;
    let params = case
        .params
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    Some(format!(
        "version {} ({}, seed {})",
        suite.version,
        params.collect::<Vec<_>>().join(", "),
        plan.seed
    ))
}

/// Shorten a hash for display.
fn short(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// Describe the first file of the model that the target reads and that differs. A file that a run
/// didn't record is not compared.
fn files(a: &Run, b: &Run, cell: &Cell) -> Option<String> {
    let weights = |run: &Run| {
        let target = run.header.plan.target(&cell.target)?;
        Some(target.weights.clone())
    };
    let (one, other) = (weights(a)?, weights(b)?);
    if one != other {
        return Some(told((a, &one), (b, &other), "weights"));
    }
    let model = &a.header.plan.model;
    ["config.json", "tokenizer.json", one.as_str()]
        .into_iter()
        .find_map(|name| {
            let file = format!("{model}/{name}");
            let hash = |run: &'_ Run| run.header.provenance.model_files.get(&file).cloned();
            let (one, other) = (hash(a)?, hash(b)?);
            let is_in = format!("{file} is");
            (one != other).then(|| told((a, short(&one)), (b, short(&other)), &is_in))
        })
}

fn planned<'a>(run: &'a Run, cell: &Cell) -> Option<(&'a PlannedScenario, &'a Case)> {
    run.header.plan.case(&cell.case_key())
}
