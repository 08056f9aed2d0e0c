//! Empirical distribution functions: which share of the samples took at most so
//! long. Drawn from quantiles, thinned so that a page stays small; it shows the
//! shape within invocations and is never the ground of a verdict.

use super::label::spread;
use super::scale::{Kind, Round, Scale, wants_log};
use super::style::Style;
use super::svg::{Anchor, Svg};
use super::{Figure, Table};
use crate::fmt::{self, Unit};
use crate::html::shorten;

/// What to draw.
pub struct Ecdf {
    /// Unique on its page.
    pub id: String,
    /// One sentence with the main number.
    pub finding: String,
    /// Label of the x axis.
    pub x_label: String,
    /// Unit of x.
    pub unit: Unit,
    /// The distributions.
    pub series: Vec<Series>,
}

/// The samples of one target.
pub struct Series {
    /// Its name.
    pub name: String,
    /// Its look.
    pub style: Style,
    /// Pooled samples.
    pub n: u64,
    /// Evenly spaced quantiles from the least to the greatest, ascending.
    pub quantiles: Vec<f64>,
}

/// Quantiles drawn: every 2.5 %.
const STEPS: usize = 40;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 550.0;
const TOP: f64 = 30.0;
const GAP: f64 = 17.0;

impl Ecdf {
    /// Draw it.
    pub fn draw(self) -> Figure {
        let bottom = TOP + (GAP * self.series.len() as f64).max(190.0);
        let thinned: Vec<Vec<(usize, f64)>> = self
            .series
            .iter()
            .map(|series| thin(&series.quantiles))
            .collect();
        let values = || thinned.iter().flatten().map(|&(_, value)| value);
        let kind = if wants_log(values(), 12.0) {
            Kind::Log
        } else {
            Kind::Linear
        };
        let x = match kind {
            Kind::Log => Scale::log(values(), Round::of(self.unit), (LEFT, RIGHT)),
            Kind::Linear => Scale::linear(values(), false, Round::of(self.unit), (LEFT, RIGHT)),
        };
        let y = |step: usize| bottom - (bottom - TOP) * step as f64 / STEPS as f64;

        let mut svg = Svg::new(WIDTH, bottom + 46.0);
        for quarter in 0..=4 {
            let at = y(quarter * STEPS / 4);
            svg.line("gr", (LEFT, at), (RIGHT, at));
            svg.text(
                "tk",
                (LEFT - 8.0, at + 4.0),
                Anchor::End,
                &format!("{} %", quarter * 25),
            );
        }
        for &tick in &x.ticks {
            if let Some(at) = x.at(tick) {
                svg.line("gr", (at, TOP), (at, bottom + 5.0));
                svg.text(
                    "tk",
                    (at, bottom + 20.0),
                    Anchor::Middle,
                    &fmt::tick(self.unit, tick),
                );
            }
        }
        let suffix = match kind {
            Kind::Linear => "",
            Kind::Log => " – log scale",
        };
        svg.text(
            "al",
            ((LEFT + RIGHT) / 2.0, bottom + 40.0),
            Anchor::Middle,
            &format!("{}{suffix}", self.x_label),
        );
        svg.text(
            "al",
            (4.0, 14.0),
            Anchor::Start,
            "share of samples at or below",
        );

        let mut not_drawn = Vec::new();
        let mut drawn = Vec::new();
        for (series, points) in self.series.iter().zip(&thinned) {
            let line: Vec<_> = points
                .iter()
                .filter_map(|&(step, value)| Some((x.at(value)?, y(step))))
                .collect();
            if line.len() < points.len() || line.len() < 2 {
                not_drawn.push(format!(
                    "{}: {} of {} quantiles have no place on this axis",
                    series.name,
                    points.len() - line.len(),
                    points.len()
                ));
            }
            svg.polyline(&series.style.line_class(), &line);
            if let Some(&(at_x, at_y)) = line.get(line.len() / 2) {
                svg.marker(series.style, (at_x, at_y), &series.name);
                drawn.push((at_x, series));
            }
        }
        key(&mut svg, drawn, bottom);

        let reading = format!(
            "Each line is the pooled samples of one target, one quantile every 2.5 %; markers are medians. Further left is better.{} The shape describes, it decides nothing: samples of one invocation are not independent.",
            match kind {
                Kind::Linear => " The horizontal axis does not start at zero.",
                Kind::Log => " The horizontal axis is logarithmic.",
            }
        );
        Figure {
            svg: svg.finish(&self.id, &self.finding, &reading),
            id: self.id,
            finding: self.finding,
            reading,
            table: table(&self.series, &thinned, self.unit),
            not_drawn,
        }
    }
}

/// Names beside the plot, in the order of the medians from left to right.
fn key(svg: &mut Svg, mut drawn: Vec<(f64, &Series)>, bottom: f64) {
    drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
    let wanted: Vec<f64> = (0..drawn.len())
        .map(|i| TOP + 8.0 + GAP * i as f64)
        .collect();
    let placed = spread(&wanted, GAP, TOP, bottom);
    for ((_, series), at) in drawn.into_iter().zip(placed) {
        let from = RIGHT + 12.0;
        svg.polyline(&series.style.line_class(), &[(from, at), (from + 30.0, at)]);
        svg.marker(series.style, (from + 15.0, at), &series.name);
        svg.text(
            &format!("{} sl", series.style.color_class()),
            (from + 37.0, at + 4.5),
            Anchor::Start,
            &shorten(&series.name, 24),
        );
    }
}

/// At most `STEPS + 1` quantiles with the step each stands at.
fn thin(quantiles: &[f64]) -> Vec<(usize, f64)> {
    let last = match quantiles.len() {
        0 => return Vec::new(),
        len => len - 1,
    };
    (0..=STEPS)
        .map(|step| {
            let index = (step as f64 / STEPS as f64 * last as f64).round() as usize;
            (step, quantiles[index])
        })
        .collect()
}

fn table(series: &[Series], thinned: &[Vec<(usize, f64)>], unit: Unit) -> Table {
    let mut head = vec!["Share".to_owned()];
    head.extend(
        series
            .iter()
            .map(|s| format!("{} (n = {})", s.name, fmt::count(s.n))),
    );
    let rows = (0..=STEPS)
        .map(|step| {
            let mut row = vec![format!("{:.1} %", step as f64 * 100.0 / STEPS as f64)];
            row.extend(thinned.iter().map(|points| {
                points
                    .get(step)
                    .map_or(fmt::NONE.into(), |&(_, value)| fmt::quantity(unit, value))
            }));
            row
        })
        .collect();
    Table { head, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ecdf(quantiles: Vec<f64>) -> Figure {
        Ecdf {
            id: "e".into(),
            finding: "a is left".into(),
            x_label: "TTFT".into(),
            unit: Unit::Ns,
            series: vec![Series {
                name: "a".into(),
                style: Style::default(),
                n: 110,
                quantiles,
            }],
        }
        .draw()
    }

    #[test]
    fn the_table_holds_what_is_drawn_from_least_to_greatest() {
        let figure = ecdf((100..260).map(|v| f64::from(v) * 1e4).collect());
        assert_eq!(figure.table.rows.len(), STEPS + 1);
        assert_eq!(figure.table.rows[0], ["0.0 %", "1.00 ms"]);
        assert_eq!(figure.table.rows[STEPS], ["100.0 %", "2.59 ms"]);
        assert!(figure.not_drawn.is_empty());
    }

    #[test]
    fn few_none_or_absurd_quantiles_do_not_break_it() {
        for quantiles in [vec![], vec![5.0], vec![0.0, f64::INFINITY], vec![f64::NAN]] {
            let figure = ecdf(quantiles);
            assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
        }
    }
}
