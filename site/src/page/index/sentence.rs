//! The sentence at the top of the index: which target leads the most scenarios, and by how much.

use crate::fmt;
use crate::view::answer::Answer;
use crate::view::cells::against_baseline;
use crate::view::eligible::refusal;
use crate::view::{Shown, case_label};
use crate::words::{join, plural};
use stats::analysis::{Comparison, Role};

/// Write the sentence at the top of the index. A run that may not carry a recommendation says so
/// before it names its leader.
pub fn sentence(shown: &Shown, answers: &[Answer]) -> String {
    let decided: Vec<&Answer> = answers.iter().filter(|a| !a.leaders.is_empty()).collect();
    if decided.is_empty() {
        return "Nothing can be ranked yet: no scenario has two targets measured in enough \
                invocations."
            .into();
    }
    let firsts = |target: &str| {
        let of = |a: &&&Answer| a.leaders.iter().any(|leader| leader == target);
        decided.iter().filter(of).copied().collect::<Vec<_>>()
    };
    // `max_by_key` returns the last of equals, and the first in plan order is wanted.
    let targets = shown.targets().iter().rev();
    let leads = targets.map(|target| (target.id.as_str(), firsts(&target.id)));
    let champion = leads.max_by_key(|(_, led)| led.len());
    let Some((champion, led)) = champion.filter(|(_, led)| !led.is_empty()) else {
        return "No target leads a scenario.".into();
    };
    let alone = led.iter().filter(|a| a.leaders.len() == 1).count();
    let how = match (alone, led.len() - alone) {
        (_, 0) => "alone".to_owned(),
        (0, _) => "tied with others".to_owned(),
        (alone, tied) => format!("{alone} alone and {tied} tied"),
    };
    let caution = refusal(shown).map_or(String::new(), |why| {
        format!("The run on this page can’t say: {why}. In it ")
    });
    let mut text = format!(
        "{caution}{} leads {} of {}, {how}",
        with_maker(shown, champion),
        led.len(),
        plural(decided.len() as u64, "ranked scenario", "ranked scenarios")
    );
    text.push_str(&baseline_range(shown, champion));
    text.push('.');
    let others: Vec<String> = decided
        .iter()
        .filter(|a| !a.leaders.iter().any(|leader| leader == champion))
        .map(|a| format!("{} leads {}", join(&a.leaders), a.title.to_lowercase()))
        .collect();
    if !others.is_empty() {
        text.push_str(&format!(" {}.", join(&others)));
    }
    text
}

/// A target's id, marked where its engine is this project's own.
fn with_maker(shown: &Shown, target: &str) -> String {
    match shown.is_ours(target) {
        true => format!("{target} (this project’s own engine)"),
        false => target.to_owned(),
    }
}

/// Word the least and the largest ratio to the baseline over the headline cases: `; against the
/// baseline … between 2× and 6×`.
fn baseline_range(shown: &Shown, champion: &str) -> String {
    let mut comparisons: Vec<(String, &Comparison)> = shown
        .scenarios()
        .iter()
        .filter_map(|scenario| {
            let case = shown.headline(scenario)?;
            let key = scenario.cell_key(case, champion);
            let c = shown.analysis.comparison(&key, Role::Baseline)?;
            let label = case_label(scenario, case);
            let place = format!("{}, {label}", shown.title(scenario).to_lowercase());
            (c.ratio.is_finite() && c.ci95.is_some()).then_some((place, c))
        })
        .collect();
    comparisons.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    let words = |(place, c): &(String, &Comparison)| {
        let ratio = fmt::joined(fmt::ratio(c.ratio, c.ci95));
        let tie = if c.verdict.is_tie() {
            ", no detectable difference"
        } else {
            ""
        };
        format!("{ratio} ({place}{tie})")
    };
    let ratios: Vec<String> = comparisons.iter().map(words).collect();
    against_baseline(shown, &ratios)
}
