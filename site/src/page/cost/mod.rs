//! The cost page: what a million output tokens cost on the machine that was measured, at the
//! reader's own price per hour.
//!
//! A price of the table is used only where its device is the very one that was measured. Otherwise
//! the page counts by the core-hour and the joule, and dollars appear once the reader types in a
//! price. `assets/cost.js` computes the same from the numbers in the `data-` attributes; the page
//! is complete without it.

mod best;
pub mod loads;
pub mod prices;

use crate::chart::Figure;
use crate::export::on_gpu;
use crate::fmt::{self, money};
use crate::view::frame::Frame;
use crate::view::{Shown, paths};
use crate::words::plural;
use best::{CostGroup, group};
use loads::{
    Basis, PointRow, Sensitivity, UTILISATION, chart, frontier, per_hour, per_joule, points,
    ranked, saved, sensitivity,
};
use prices::{Machine, PriceTables, dollars, percent, tables};
use schema::prices::{Kind, Offer, Prices};
use schema::profile::Slo;
use schema::registry::Target;
use serde::Serialize;
use stats::cost::{Point, usd_per_m_tokens, work};

/// The cost page.
#[derive(Serialize)]
pub struct CostPage<'a> {
    frame: Frame,
    answer: String,
    /// Whether there is a known price for this machine.
    priced: bool,
    /// The unit of its hours without a price, e.g. `core-hour`.
    hour: &'static str,
    /// Whether any row of the tables has energy readings.
    has_energy: bool,
    /// Whether the profile limits a user's latency.
    has_limits: bool,
    not_shown: String,
    basis: String,
    limits: String,
    inputs: Inputs,
    groups: Vec<CostGroup>,
    chart: Option<Figure>,
    frontier: Option<Figure>,
    points: Vec<PointRow>,
    sensitivity: Option<Sensitivity>,
    work: String,
    prices: Option<PriceTables<'a>>,
}

/// The values that a reader may edit, as the page fills them in.
#[derive(Serialize)]
struct Inputs {
    usd_per_h: String,
    utilisation_percent: String,
    usd_per_kwh: String,
    api_input: String,
    api_output: String,
    prompt_tokens: u32,
    new_tokens: u32,
}

/// Make the cost page.
pub fn page<'a>(shown: &Shown<'a>) -> CostPage<'a> {
    let plan = &shown.run.header.plan;
    let machine = Machine::new(shown);
    let (slo, limits) = limits(shown);
    let prices = shown.input.prices;
    let offer = prices.and_then(|prices| machine.cheapest(prices));
    let api = prices.and_then(|prices| prices.apis.iter().find(|api| api.model == plan.model));
    let (hour, parts) = machine.hour();
    let basis = Basis {
        usd_per_h: offer.and_then(Offer::usd_per_machine_h),
        hour,
        parts,
        usd_per_kwh: prices
            .and_then(|prices| prices.electricity.first())
            .map(|row| row.usd_per_kwh),
        api: api.map(|api| (api.usd_per_m_input, api.usd_per_m_output)),
        work: work(plan, shown.analysis, slo.as_ref()),
    };
    let is_priced = |target: &&Target| on_gpu(target) == (machine.kind == Kind::Gpu);
    let targets: Vec<&Target> = shown.targets().iter().filter(is_priced).collect();
    let within = slo.is_some();
    let mut groups = vec![group(shown, &basis, &targets, false)];
    if within {
        groups.insert(0, group(shown, &basis, &targets, true));
    }
    let leading = Leading::new(shown, ranked(&basis.work, &targets, within));
    let answer = sentence(shown, &basis, &leading, within);
    let work = &basis.work;
    CostPage {
        frame: shown.frame(paths::COST, "What a token costs", &answer),
        priced: basis.usd_per_h.is_some(),
        hour,
        has_limits: within,
        has_energy: groups.iter().any(CostGroup::has_energy),
        not_shown: not_shown(shown, &machine),
        basis: rests_on(&machine, offer.zip(basis.usd_per_h), prices),
        limits,
        inputs: Inputs {
            usd_per_h: basis.usd_per_h.map(|v| v.to_string()).unwrap_or_default(),
            utilisation_percent: (UTILISATION * 100.0).to_string(),
            usd_per_kwh: basis.usd_per_kwh.map(|v| v.to_string()).unwrap_or_default(),
            api_input: basis.api.map(|a| a.0.to_string()).unwrap_or_default(),
            api_output: basis.api.map(|a| a.1.to_string()).unwrap_or_default(),
            prompt_tokens: work.prompt_tokens,
            new_tokens: work.new_tokens,
        },
        chart: chart(shown, &basis, &targets, within, &answer),
        frontier: frontier(shown, &basis, &targets),
        points: points(shown, &basis, &targets),
        sensitivity: basis
            .usd_per_h
            .zip(leading.candidates.first())
            .map(|(price, point)| sensitivity(price, point)),
        work: format!(
            "prompts of {} tokens, {} tokens out",
            work.prompt_tokens, work.new_tokens
        ),
        answer,
        groups,
        prices: prices.map(tables),
    }
}

/// Say which price the dollars are computed with, or why there are none and what a price would
/// need.
fn rests_on(machine: &Machine, priced: Option<(&Offer, f64)>, prices: Option<&Prices>) -> String {
    let words = machine.words();
    let (hour, parts) = machine.hour();
    let counted = match parts {
        1 => format!("tokens are counted by the {hour}"),
        _ => format!(
            "tokens are counted by the {hour}, an hour of one of the {parts} CPUs, all of which count \
             whether they were at work or not"
        ),
    };
    let own =
        "The columns in dollars need a price: where scripts run, yours can be typed in below.";
    if let Some((offer, price)) = priced {
        return format!(
            "Measured on {words}. {} asks {} an hour for this device ({}, {}); the price is the \
             lowest of the table below that is for it.",
            offer.provider,
            money(price),
            offer.product,
            offer.source.date
        );
    }
    let why = match prices {
        Some(prices) => format!(
            "No offer in the price table of {} is this machine, and applying another machine’s \
             price to these measurements would be an extrapolation",
            prices.date
        ),
        None => "There is no price table".into(),
    };
    let wanted = machine.wanted();
    format!("Measured on {words}. {why}, so {counted}. {wanted} {own}")
}

/// The run's limits on latency, with a sentence on where they come from.
fn limits(shown: &Shown) -> (Option<Slo>, String) {
    let plan = &shown.run.header.plan;
    let profiles = &mut shown.input.profiles.iter();
    let today = profiles.find(|p| p.id == plan.profile).and_then(|p| p.slo);
    let Some(slo) = plan.slo.or(today) else {
        return (None, "The run’s profile has no limits on latency.".into());
    };
    let remark = match plan.slo {
        Some(_) => "",
        None => " The run is older than these limits; they are those that its profile has today.",
    };
    let words = format!(
        "Limits: at the 90th percentile a first token within {} ms and gaps between tokens of at \
         most {} ms.{remark}",
        slo.ttft_p90_ms, slo.itl_p90_ms
    );
    (Some(slo), words)
}

/// The best loads that the first sentence speaks of.
struct Leading<'a> {
    /// The best load of each target that the guide would take, most throughput first.
    candidates: Vec<&'a Point>,
    /// The best load of this project's own engine, where that is ahead of all candidates.
    own: Option<&'a Point>,
    /// The number of targets with a load, our own engine's included.
    measured: u64,
}

impl<'a> Leading<'a> {
    /// Split `ranked`, most throughput first, into candidates and this project's own engine, which
    /// the guide doesn't take either. If nothing else was measured, our own loads are the
    /// candidates.
    fn new(shown: &Shown, ranked: Vec<&'a Point>) -> Self {
        let measured = ranked.len() as u64;
        let is_ours = |point: &&'a Point| shown.is_ours(&point.target);
        let first = ranked.first().copied().filter(is_ours);
        let (ours, others): (Vec<_>, Vec<_>) = ranked.into_iter().partition(is_ours);
        let own = first.filter(|_| !others.is_empty());
        let candidates = match others.is_empty() {
            true => ours,
            false => others,
        };
        Self {
            candidates,
            own,
            measured,
        }
    }
}

fn sentence(shown: &Shown, basis: &Basis, leading: &Leading, within: bool) -> String {
    let limits = if within { " within the limits" } else { "" };
    let Some(best) = leading.candidates.first() else {
        return format!(
            "No target of this run was measured under a load{limits}, so no cost can be stated."
        );
    };
    let of = match leading.own {
        None => plural(leading.measured, "target", "targets"),
        Some(_) => {
            let others = leading.candidates.len() as u64;
            plural(others, "target", "targets") + " that others maintain"
        }
    };
    let found = |point: &Point| match basis.usd_per_h {
        Some(price) => {
            usd_per_m_tokens(point.tok_per_s, price, UTILISATION).map_or(fmt::NONE.into(), dollars)
        }
        None => per_hour(basis, point),
    };
    let mut text = match basis.usd_per_h {
        Some(price) => format!(
            "At {} an hour, a million output tokens cost {} with {}, the least of {of}{limits}",
            money(price),
            found(best),
            best.target,
        ),
        None => format!(
            "{} gives {} output tokens a {}, the most of {of}{limits}",
            best.target,
            found(best),
            basis.hour
        ),
    };
    if let Some(next) = leading.candidates.get(1)
        && let Some(less) = saved(shown, best, next)
    {
        let (less, next) = (percent(less), &next.target);
        text.push_str(&match basis.usd_per_h {
            Some(_) => format!("; that is {less} less than with {next}"),
            None => {
                format!("; the same tokens take {less} less time of the machine than with {next}")
            }
        });
    }
    let per_joule = per_joule(best).filter(|_| basis.usd_per_h.is_none());
    if let Some(tokens) = per_joule {
        text.push_str(&format!("; a joule gives {tokens} tokens"));
    }
    text.push('.');
    if let Some(own) = leading.own {
        text.push_str(&format!(
            " This project’s own engine, which has no server, tokeniser or sampling, is ahead of \
             it: {} ({}).",
            own.target,
            found(own)
        ));
    }
    text
}

fn not_shown(shown: &Shown, machine: &Machine) -> String {
    let model = shown.input.models.get(&shown.run.header.plan.model);
    let about = model.map(|model| format!(" About {}: {}", model.name, model.about));
    let other = match machine.kind {
        Kind::Gpu => {
            " Targets that ran on this machine’s processor are left out: no offer prices that."
        }
        Kind::Cpu => "",
    };
    format!(
        "What this does not show: the cost on any other machine; storage, traffic, people and the hours \
         in which nobody asks, which is what utilisation stands for; and the price’s own uncertainty, \
         since the intervals are the throughput’s.{other}{}",
        about.unwrap_or_default()
    )
}
