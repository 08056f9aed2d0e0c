//! Decides how a series differs from others: colour and marker shape stand for the engine, dash and
//! filling for one of the engine's targets. So series can be told apart in grey, in print and
//! without colour vision.

use crate::theme::SERIES;

/// The look of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Number of the engine, from 0.
    pub engine: usize,
    /// Number of the target among those of its engine, from 0.
    pub target: usize,
}

impl Style {
    /// The class that sets the colour.
    pub fn color_class(self) -> String {
        format!("s{}", self.engine % SERIES)
    }

    /// The classes of the line.
    pub fn line_class(self) -> String {
        format!("{} ln d{}", self.color_class(), self.target % 4)
    }

    /// The classes of the markers.
    pub fn mark_class(self) -> String {
        let filling = if self.target.is_multiple_of(2) {
            "mk"
        } else {
            "mk ho"
        };
        format!("{} {filling}", self.color_class())
    }

    /// The index of the marker's shape in [`SHAPES`].
    pub fn shape(self) -> usize {
        // Shapes shift where colours start again, so that the pair stays unique.
        (self.engine + self.engine / SERIES) % SHAPES.len()
    }
}

/// The markers' path data around the origin: circle, square, triangle, diamond,
/// triangle on its tip.
pub const SHAPES: [&str; 5] = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z",
    "M-4-4h8v8h-8Z",
    "M0-5.5L5.2 4H-5.2Z",
    "M0-5.8L5.8 0L0 5.8L-5.8 0Z",
    "M0 5.5L5.2-4H-5.2Z",
];

/// An SVG element that defines the shapes once for all charts and tables of a page, to be referred
/// to as `#k0` to `#k4`.
pub fn sprite() -> String {
    let mut svg = String::from(r#"<svg class="sprite" aria-hidden="true"><defs>"#);
    for (index, d) in SHAPES.iter().enumerate() {
        svg.push_str(&format!(r#"<path id="k{index}" d="{d}"/>"#));
    }
    svg.push_str("</defs></svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn thirty_engines_look_different() {
        let looks: BTreeSet<_> = (0..30)
            .map(|engine| Style { engine, target: 0 })
            .map(|style| (style.color_class(), style.shape()))
            .collect();
        assert_eq!(looks.len(), 30);
    }
}
