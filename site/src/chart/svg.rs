//! Writes SVG: elements with escaped text and short, finite coordinates.

use super::style::Style;
use crate::html::escape;
use std::fmt::Write;

/// A picture being drawn; coordinates are user units from the top left.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// Which point of a text lies at its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// The text's start.
    Start,
    /// The text's middle.
    Middle,
    /// The text's end.
    End,
}

impl Svg {
    /// Make an empty picture.
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    /// Draw a straight line.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.polyline(class, &[from, to]);
    }

    /// Draw a path through points; nothing for fewer than two.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() >= 2 {
            self.path(class, &through(points), "");
        }
    }

    /// Draw a closed area; nothing for fewer than three points.
    pub fn area(&mut self, class: &str, points: &[(f64, f64)]) {
        if points.len() >= 3 {
            self.path(class, &(through(points) + "Z"), "");
        }
    }

    /// Draw a path from path data, with a title; nothing where the data is empty.
    pub fn path(&mut self, class: &str, d: &str, title: &str) {
        if !d.is_empty() {
            let _ = write!(self.body, r#"<path class="{class}" d="{d}""#);
            self.end("path", title);
        }
    }

    /// Draw the marker of a series at a point, with a title.
    pub fn marker(&mut self, style: Style, (x, y): (f64, f64), title: &str) {
        let (class, shape) = (style.mark_class(), style.shape());
        let _ = write!(self.body, r##"<use class="{class}" href="#k{shape}""##);
        if (x, y) != (0.0, 0.0) {
            let _ = write!(self.body, r#" x="{}" y="{}""#, num(x), num(y));
        }
        self.end("use", title);
    }

    /// Draw a rectangle, with a title; nothing without a size.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (w, h): (f64, f64), title: &str) {
        if w <= 0.0 || h <= 0.0 {
            return;
        }
        let [x, y, w, h] = [x, y, w, h].map(num);
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{x}" y="{y}" width="{w}" height="{h}""#
        );
        self.end("rect", title);
    }

    /// End an element that holds a title at most: the text that a pointer or the keyboard reads on
    /// it. An empty one is left out.
    fn end(&mut self, element: &str, title: &str) {
        let _ = match title {
            "" => write!(self.body, "/>"),
            text => write!(self.body, "><title>{}</title></{element}>", escape(text)),
        };
    }

    /// Begin a group; `attributes` is written as given, each with a space before it.
    pub fn open(&mut self, class: &str, attributes: &str) {
        let _ = match class {
            "" => write!(self.body, "<g{attributes}>"),
            class => write!(self.body, r#"<g class="{class}"{attributes}>"#),
        };
    }

    /// Begin the group of a series, which a script can show and hide by its
    /// name and by its engine's number.
    pub fn series(&mut self, class: &str, name: &str, engine: usize, attributes: &str) {
        let name = escape(name);
        self.open(
            class,
            &format!(r#" data-s="{name}" data-e="{engine}"{attributes}"#),
        );
    }

    /// End the innermost group.
    pub fn close(&mut self) {
        self.body.push_str("</g>");
    }

    /// Write text with its baseline at `y`.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        self.text_at(class, &num(x), y, anchor, text);
    }

    /// Write the same sign at several places of one line, each centred.
    pub fn signs(&mut self, class: &str, xs: &[f64], y: f64, sign: &str) {
        if xs.is_empty() || sign.is_empty() {
            return;
        }
        let places: Vec<String> = xs.iter().map(|&x| num(x)).collect();
        let signs = sign.repeat(xs.len());
        self.text_at(class, &places.join(" "), y, Anchor::Middle, &signs);
    }

    /// Write text at one place, or each of its characters at a place of its own.
    fn text_at(&mut self, class: &str, xs: &str, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let (y, text) = (num(y), escape(text));
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{xs}" y="{y}"{anchor}>{text}</text>"#
        );
    }

    /// Return the SVG element, with a title and a description for screen readers. `id` must be
    /// unique on the page.
    pub fn finish(self, id: &str, title: &str, description: &str) -> String {
        let [id, title, description] = [id, title, description].map(escape);
        let (w, h) = (num(self.width), num(self.height));
        format!(
            r#"<svg class="chart" role="img" viewBox="0 0 {w} {h}" aria-labelledby="{id}-t {id}-d"><title id="{id}-t">{title}</title><desc id="{id}-d">{description}</desc>{}</svg>"#,
            self.body
        )
    }
}

/// Format a coordinate with at most one decimal. A number that isn't finite becomes 0 rather than
/// breaking the picture (scales never return one).
pub fn num(value: f64) -> String {
    debug_assert!(value.is_finite(), "a coordinate must be finite");
    let tenths = (value * 10.0).round();
    if !tenths.is_finite() || tenths == 0.0 {
        return "0".into();
    }
    let text = format!("{:.1}", tenths / 10.0);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Path data of straight lines through points.
fn through(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for &(x, y) in points {
        let command = if d.is_empty() { 'M' } else { 'L' };
        let _ = write!(d, "{command}{} {}", num(x), num(y));
    }
    d
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!(num(12.0), "12");
        assert_eq!(num(12.34), "12.3");
        assert_eq!(num(-0.01), "0");
    }

    #[test]
    fn text_is_escaped() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text("t", (0.0, 0.0), Anchor::Start, "<script>");
        let svg = svg.finish("a\"b", "<t>", "&");
        assert!(!svg.contains("<script>") && !svg.contains("<t>") && !svg.contains("a\"b"));
    }
}
