//! Places the names beside a plot: a marker and a label for every series, without overlap, where
//! wanted with a thin line to the series' end.
//!
//! Series that are hidden at first take no room. A script that shows them places all names anew,
//! from the preferred height that every entry carries.

use super::style::Style;
use super::svg::{Anchor, Svg, num};

/// Least distance between two names (user units).
pub const GAP: f64 = 16.0;

/// The name of one series beside the plot.
pub struct Entry {
    /// The text that is drawn.
    pub label: String,
    /// The series' full name, for the script.
    pub series: String,
    /// Colour and marker.
    pub style: Style,
    /// Whether the series is shown at first.
    pub shown: bool,
    /// Where the series ends; the name is placed as near to that height as possible.
    pub end: (f64, f64),
    /// Whether a thin line leads from the series' end to the name.
    pub leader: bool,
}

/// The height that a plot needs for `entries` names, but not less than `least`.
pub fn height(entries: usize, least: f64) -> f64 {
    (GAP * entries as f64).max(least)
}

/// Draw the names to the right of `right`, between `top` and `bottom`.
pub fn draw(svg: &mut Svg, entries: &[Entry], right: f64, top: f64, bottom: f64) {
    let shown = entries.iter().filter(|entry| entry.shown);
    let wanted: Vec<f64> = shown.map(|entry| entry.end.1).collect();
    let mut placed = spread(&wanted, GAP, top, bottom).into_iter();
    let limits = [right, top, bottom].map(num).join(" ");
    svg.open("ky", &format!(r#" data-r="{limits}""#));
    for entry in entries {
        let (x, y) = entry.end;
        let at = match entry.shown {
            true => placed.next().unwrap_or(y),
            false => y,
        };
        let end = match entry.leader {
            true => format!(r#" data-l="{} {}""#, num(x), num(y)),
            false => format!(r#" data-w="{}""#, num(y)),
        };
        let class = if entry.shown { "sr" } else { "sr rest" };
        svg.series(class, &entry.series, entry.style.engine, &end);
        let color = entry.style.color_class();
        if entry.leader {
            let turns = [(x + 7.0, y), (right + 12.0, at), (right + 18.0, at)];
            svg.polyline(&format!("{color} ld"), &turns);
        }
        let left = num(right + 25.0);
        let place = format!(r#" transform="translate({left} {})""#, num(at));
        svg.open("", &place);
        svg.marker(entry.style, (0.0, 0.0), "");
        let class = format!("{color} sl");
        svg.text(&class, (10.0, 4.5), Anchor::Start, &entry.label);
        svg.close();
        svg.close();
    }
    svg.close();
}

/// Compute positions near `wanted`, in the order of `wanted`: at least `gap` apart, inside
/// `low..=high` where they fit, and in the same vertical order.
pub fn spread(wanted: &[f64], gap: f64, low: f64, high: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|&a, &b| wanted[a].total_cmp(&wanted[b]).then(a.cmp(&b)));
    let mut placed: Vec<f64> = Vec::with_capacity(wanted.len());
    for &index in &order {
        let least = placed.last().map_or(low, |above| above + gap);
        placed.push(wanted[index].max(least));
    }
    let mut limit = high;
    for position in placed.iter_mut().rev() {
        *position = position.min(limit);
        limit = *position - gap;
    }
    let mut result = vec![0.0; wanted.len()];
    for (&index, &position) in order.iter().zip(&placed) {
        result[index] = position;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(series: &str, y: f64, shown: bool) -> Entry {
        Entry {
            label: series.into(),
            series: series.into(),
            style: Style::default(),
            shown,
            end: (500.0, y),
            leader: true,
        }
    }

    #[test]
    fn names_that_are_not_shown_take_no_room() {
        let mut svg = Svg::new(760.0, 300.0);
        let entries = [
            entry("a", 100.0, true),
            entry("b", 100.0, false),
            entry("c", 104.0, true),
        ];
        draw(&mut svg, &entries, 550.0, 30.0, 280.0);
        let svg = svg.finish("k", "t", "d");
        let at = |height: f64| svg.contains(&format!("translate(575 {})", num(height)));
        assert!(at(100.0) && at(116.0), "{svg}");
        assert_eq!(svg.matches("class=\"sr rest\"").count(), 1);
        assert!(svg.contains(r#"data-l="500 104""#));
    }

    #[test]
    fn labels_apart_stay_where_they_are() {
        assert_eq!(spread(&[10.0, 50.0], 12.0, 0.0, 100.0), [10.0, 50.0]);
    }

    #[test]
    fn labels_that_would_collide_are_moved_in_order() {
        let placed = spread(&[99.0, 98.0, 99.5, 3.0], 12.0, 0.0, 100.0);
        assert_eq!(placed, [88.0, 76.0, 100.0, 3.0]);
    }
}
