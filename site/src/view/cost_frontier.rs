//! The cost page's frontier: what a token costs against how fast a user gets it.

use super::Shown;
use super::cost_loads::{Basis, UTILISATION, load};
use super::cost_number::money;
use crate::chart::frontier::{Direction, Frontier, Point as Mark};
use crate::chart::{Estimate, Figure};
use crate::fmt::Unit;
use schema::registry::Target;
use stats::cost::{Point, Range, usd_per_m_tokens};

/// All loads of the targets whose speed for a user is known; `None` with fewer than
/// two of them, which are no choice.
pub fn frontier(shown: &Shown, basis: &Basis, targets: &[&Target]) -> Option<Figure> {
    let of_targets = |point: &&Point| targets.iter().any(|target| target.id == point.target);
    let (mut points, mut missing) = (Vec::new(), Vec::new());
    let mut undominated = Vec::new();
    for point in basis.work.points.iter().filter(of_targets) {
        let name = point.target.clone();
        let usd = usd_per_m_tokens(point.tok_per_s, basis.usd_per_h, UTILISATION);
        let Some((user, usd)) = point.user_tok_per_s.zip(usd) else {
            missing.push((name, "no end-to-end latency was measured".into()));
            continue;
        };
        if !point.dominated && !undominated.contains(&name) {
            undominated.push(name.clone());
        }
        points.push(Mark {
            name,
            note: load(shown, point),
            style: shown.style(&point.target),
            x: estimate(user),
            y: estimate(usd),
            rests_on: format!("{} launches", point.by_invocation.len()),
        });
    }
    if points.len() < 2 {
        return None;
    }
    let figure = Frontier {
        id: "frontier".into(),
        finding: format!(
            "By the estimates, no other target is both cheaper and faster for a user than {}",
            undominated.join(", ")
        ),
        about: format!(
            "Each mark is one target at one load, at {} an hour and a machine that is always busy. \
             Another price moves all marks alike.",
            money(basis.usd_per_h)
        ),
        x: Direction {
            label: "output tokens per second for each user, the wait included".into(),
            unit: Unit::TokPerS,
            more_is_better: true,
        },
        y: Direction {
            label: "$ per million output tokens".into(),
            unit: Unit::Plain,
            more_is_better: false,
        },
        points,
        missing,
    };
    Some(figure.draw())
}

fn estimate(range: Range) -> Estimate {
    Estimate {
        value: range.value,
        ci: range.ci95,
    }
}
