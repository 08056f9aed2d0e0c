//! After the run: every timed output judged by the reference.
//!
//! Each distinct (prompt, output) is teacher-forced through the reference once.
//! Where every token is the reference's own best, the output *is* the
//! reference's greedy output; where not, each token must be within the tie width
//! of the target's precision. Otherwise the cell's times don't count.
//!
//! An output that came as text is scored so where it encodes to as many ids as were
//! generated, and those decode to it again: other ids of the same text can't make
//! a wrong output right. Where it doesn't, or the reference rejects those ids
//! (which needn't be the ones that were generated), it is held against the
//! reference's own greedy text. If it leaves that at a tie, what follows can't be
//! judged: the request is unchecked.

use super::case_prompts::CellPrompts;
use super::record::Appender;
use super::scenario;
use crate::engine::session::{Patience, Session};
use crate::engine::{EngineFailure, Program};
use crate::prompts::{self, Prompts};
use crate::verify::output::{self, Output};
use crate::verify::question::load_for_cases;
use crate::watch;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use protocol::wire::Load;
use schema::golden::{GoldenPrompt, TOP};
use schema::parity::ParityLimits;
use schema::record::{CheckRecord, RequestRecord};
use schema::registry::Target;
use schema::run::{LaunchLog, Run};
use schema::twin::twin_name;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use tokenizers::Tokenizer;

/// Who judges.
pub struct Judge<'a> {
    /// The target.
    pub target: &'a Target,
    /// Its program.
    pub program: &'a Program,
    /// Directory of the model's files.
    pub model_dir: &'a Path,
}

/// By how much (nats) the reference prefers another token, at worst; 0 where
/// every token is its own best.
type Gap = f64;

/// A gap that stands for "another text".
const OTHER_TEXT: Gap = f64::MAX;

/// Judge all timed outputs of `run` that have no judgement yet and append the
/// judgements to `check.jsonl`. Without a judge they are counted as unchecked.
pub fn check(
    run: &Run,
    run_dir: &Path,
    prompts: &Prompts,
    limits: &ParityLimits,
    judge: Option<&Judge>,
) -> Result<()> {
    let cells = open_cells(run);
    if cells.is_empty() {
        return Ok(());
    }
    let mut file = Appender::open(&run_dir.join("check.jsonl"))?;
    let mut asker = judge.map(|judge| Asker::open(run, judge)).transpose()?;
    let total: usize = cells.iter().map(|cell| cell.requests.len()).sum();
    if let Some(judge) = judge {
        eprintln!("Checking {total} timed outputs with {}", judge.target.id);
    }
    let bar = ProgressBar::new(total as u64).with_style(ProgressStyle::with_template(
        "{bar:24} {pos}/{len} outputs checked {wide_msg}",
    )?);
    let mut cut: BTreeMap<(&str, &str), CellPrompts> = BTreeMap::new();
    for cell in &cells {
        crate::deadline::next_piece(std::time::Duration::ZERO)?;
        let planned = scenario(&run.header.plan, cell.scenario);
        let key = (cell.scenario, cell.case);
        let cell_prompts = match cut.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let case = planned.cases.iter().find(|case| case.id == cell.case);
                let case = case.context("a record names a case that isn't planned")?;
                new.insert(CellPrompts::new(&run.header.plan, prompts, planned, case)?)
            }
        };
        let limit = &limits.precision[&cell.target.precision];
        let mut record = CheckRecord {
            target: cell.name.clone(),
            scenario: cell.scenario.to_owned(),
            case: cell.case.to_owned(),
            equal: 0,
            rescored: 0,
            wrong: 0,
            unchecked: 0,
            tie_width_nats: limit.tie_width_nats,
            gap_nats_max: 0.0,
            method: match judge {
                Some(judge) if cell.gives_text() => format!(
                    "each distinct text scored by {0}, or held against {0}'s own",
                    judge.target.id
                ),
                Some(judge) => format!("each distinct output scored by {}", judge.target.id),
                None => "no reference on this machine".into(),
            },
        };
        bar.set_message(cell.name.clone());
        watch::begin(
            format!("outputs of {}", cell.scenario),
            format!("{} {}", cell.name, cell.case),
        );
        for request in &cell.requests {
            crate::interrupt::check()?;
            bar.inc(1);
            let Some(asker) = &mut asker else {
                record.unchecked += 1;
                continue;
            };
            let prompt = cell_prompts.get(request.prompt).with_context(|| {
                format!(
                    "{} {}/{}: a record has prompt {}, which the plan has not",
                    cell.name, cell.scenario, cell.case, request.prompt
                )
            })?;
            let output = Output::new(request.output_ids.clone(), request.output_text.clone());
            let gap = match output {
                Output::Ids(ids) => Some(asker.gap(prompt, &ids)?),
                Output::Text(text) => {
                    let asked = request.token_ns.len();
                    asker.gap_of_text(prompt, &text, asked, limit.tie_width_nats)?
                }
            };
            let Some(gap) = gap else {
                record.unchecked += 1;
                continue;
            };
            record.gap_nats_max = record.gap_nats_max.max(gap);
            if gap == 0.0 {
                record.equal += 1;
            } else if gap <= limit.tie_width_nats {
                record.rescored += 1;
            } else {
                record.wrong += 1;
            }
        }
        super::told::checked(&record);
        watch::end("");
        file.append(&record)?;
    }
    bar.finish_and_clear();
    if let Some(asker) = asker {
        let _ = asker.session.close();
    }
    file.sync()
}

struct OpenCell<'a> {
    /// The target's id, or its twin's name.
    name: String,
    target: &'a Target,
    scenario: &'a str,
    case: &'a str,
    requests: Vec<&'a RequestRecord>,
}

impl OpenCell<'_> {
    fn gives_text(&self) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.output_text.is_some())
    }
}

/// Cells with timed requests and no judgement, in plan order.
fn open_cells(run: &Run) -> Vec<OpenCell<'_>> {
    let plan = &run.header.plan;
    let mut cells = Vec::new();
    for planned in &plan.scenarios {
        for case in &planned.cases {
            for target in &plan.targets {
                let both = [
                    (target.id.clone(), &run.launches),
                    (twin_name(&target.id), &run.twins),
                ];
                for (name, logs) in both {
                    let key = (name.clone(), planned.id.clone(), case.id.clone());
                    let requests = timed(logs, &name, &planned.id, &case.id);
                    if run.checks.contains_key(&key) || requests.is_empty() {
                        continue;
                    }
                    cells.push(OpenCell {
                        name,
                        target,
                        scenario: &planned.id,
                        case: &case.id,
                        requests,
                    });
                }
            }
        }
    }
    cells
}

/// The timed requests under a name, of launches that completed the case.
fn timed<'a>(
    logs: &'a [LaunchLog],
    name: &str,
    scenario: &str,
    case: &str,
) -> Vec<&'a RequestRecord> {
    logs.iter()
        .filter(|log| log.launch.target == name && log.launch.scenario == scenario)
        .filter(|log| log.case_ends.iter().any(|end| end.case == case))
        .flat_map(|log| &log.requests)
        .filter(|r| r.case == case && !r.warmup)
        .collect()
}

struct Asker {
    session: Session,
    parallel: bool,
    tokenizer: Tokenizer,
    known: BTreeMap<(Vec<u32>, Vec<u32>), Gap>,
    /// The reference's own output, where texts are held against it.
    own: BTreeMap<(Vec<u32>, usize), GoldenPrompt>,
}

impl Asker {
    fn open(run: &Run, judge: &Judge) -> Result<Self> {
        let plan = &run.header.plan;
        let cases = plan.scenarios.iter().flat_map(|scenario| &scenario.cases);
        // It is asked about one output at a time.
        let load = Load {
            max_batch: 1,
            ..load_for_cases(judge.target, judge.model_dir, plan.threads, cases)
        };
        let patience = Patience::of(plan);
        let session =
            Session::open(judge.program, &load, patience).map_err(|(failure, tail)| {
                anyhow::anyhow!(
                    "{} can't judge the outputs: {failure}\n{tail}",
                    judge.target.id
                )
            })?;
        let parallel = session.hello.capabilities.parallel_score;
        Ok(Self {
            session,
            parallel,
            tokenizer: prompts::tokenizer(judge.model_dir)?,
            known: BTreeMap::new(),
            own: BTreeMap::new(),
        })
    }

    fn gap(&mut self, prompt: &[u32], output: &[u32]) -> Result<Gap, EngineFailure> {
        let key = (prompt.to_vec(), output.to_vec());
        if let Some(gap) = self.known.get(&key) {
            return Ok(*gap);
        }
        let mut ids = prompt.to_vec();
        ids.extend_from_slice(&output[..output.len() - 1]);
        let ask = output.iter().map(|&id| vec![id]).collect();
        let scored = self.session.score(ids, ask, 1, self.parallel)?;
        let mut gap: Gap = 0.0;
        for (position, &id) in output.iter().enumerate() {
            if scored.argmax[position] != id {
                let behind = scored.top_logprobs[position][0] - scored.logprobs[position][0];
                // An exact tie that the reference breaks the other way still isn't its own output.
                gap = gap.max(if behind.is_finite() {
                    behind.max(f64::MIN_POSITIVE)
                } else {
                    f64::MAX
                });
            }
        }
        self.known.insert(key, gap);
        Ok(gap)
    }

    /// Of an output of `new_tokens` tokens that came as text; `None` where it can't
    /// be judged to its end.
    fn gap_of_text(
        &mut self,
        prompt: &[u32],
        text: &str,
        new_tokens: usize,
        tie_width_nats: f64,
    ) -> Result<Option<Gap>, EngineFailure> {
        if let Some(ids) = self.ids_of(text, new_tokens) {
            let gap = self.gap(prompt, &ids)?;
            if gap <= tie_width_nats {
                return Ok(Some(gap));
            }
        }
        let own = self.own(prompt, new_tokens)?;
        let output = Output::Text(text.to_owned());
        Ok(
            match output::judge(&own, &output, tie_width_nats, &self.tokenizer) {
                Ok(agreement) if agreement.judged == new_tokens => Some(0.0),
                Ok(_) => None,
                Err(_) => Some(OTHER_TEXT),
            },
        )
    }

    /// The ids that a text stands for, if it stands for that many.
    fn ids_of(&self, text: &str, new_tokens: usize) -> Option<Vec<u32>> {
        let encoding = self.tokenizer.encode(text, false).ok()?;
        let ids = encoding.get_ids();
        let again = self.tokenizer.decode(ids, true).ok()?;
        (ids.len() == new_tokens && again == text).then(|| ids.to_vec())
    }

    /// What the reference itself generates, as a golden of one prompt.
    fn own(&mut self, prompt: &[u32], new_tokens: usize) -> Result<GoldenPrompt, EngineFailure> {
        let key = (prompt.to_vec(), new_tokens);
        if let Some(own) = self.own.get(&key) {
            return Ok(own.clone());
        }
        self.session
            .send_generate(prompt.to_vec(), new_tokens as u32)?;
        let (done, _) = self.session.next_done()?;
        let mut own = GoldenPrompt {
            name: "timed".into(),
            prompt_ids: prompt.to_vec(),
            output_ids: done.output_ids,
            top_ids: Vec::new(),
            top_logprobs: Vec::new(),
        };
        let nothing = vec![Vec::new(); new_tokens];
        let scored = self
            .session
            .score(own.forced_ids(), nothing, TOP as u32, self.parallel)?;
        own.top_ids = scored.top_ids;
        own.top_logprobs = scored.top_logprobs;
        self.own.insert(key, own.clone());
        Ok(own)
    }
}
