//! How a series is told from others: colour and marker shape say the engine,
//! dash and filling say which of the engine's targets it is. So a series reads
//! in grey, in print and without colour vision.

use crate::chart::svg::num;
use crate::theme::SERIES;

/// The look of one series.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Which engine, counted from 0.
    pub engine: usize,
    /// Which of its targets, counted from 0.
    pub target: usize,
}

impl Style {
    /// Class that sets the colour.
    pub fn color_class(self) -> String {
        format!("s{}", self.engine % SERIES)
    }

    /// Classes of its line.
    pub fn line_class(self) -> String {
        format!("{} ln d{}", self.color_class(), self.target % 4)
    }

    /// Classes of its markers.
    pub fn mark_class(self) -> String {
        let filling = if self.target.is_multiple_of(2) {
            "mk"
        } else {
            "mk ho"
        };
        format!("{} {filling}", self.color_class())
    }

    /// Path data of its marker around a point.
    pub fn mark(self, x: f64, y: f64) -> String {
        // Shapes go on where colours start again, so that the pair stays unique.
        let shape = (self.engine + self.engine / SERIES) % 5;
        let at = |dx: f64, dy: f64| format!("{} {}", num(x + dx), num(y + dy));
        match shape {
            0 => format!("M{}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z", at(-4.5, 0.0)),
            1 => format!("M{}h8v8h-8Z", at(-4.0, -4.0)),
            2 => format!("M{}L{}L{}Z", at(0.0, -5.5), at(5.2, 4.0), at(-5.2, 4.0)),
            3 => format!(
                "M{}L{}L{}L{}Z",
                at(0.0, -5.8),
                at(5.8, 0.0),
                at(0.0, 5.8),
                at(-5.8, 0.0)
            ),
            _ => format!("M{}L{}L{}Z", at(0.0, 5.5), at(5.2, -4.0), at(-5.2, -4.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn thirty_engines_look_different() {
        let looks: BTreeSet<_> = (0..30)
            .map(|engine| Style { engine, target: 0 })
            .map(|style| (style.color_class(), style.mark(0.0, 0.0)))
            .collect();
        assert_eq!(looks.len(), 30);
    }
}
