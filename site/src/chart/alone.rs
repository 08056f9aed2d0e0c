//! Turns a chart into a file of its own, with its title, its source and the colours of both themes,
//! so that it can stand in another page or document.

use super::Figure;
use super::style::sprite;
use super::svg::num;
use crate::html::escape;
use std::fmt::Write;

const MARGIN: f64 = 12.0;
/// Distance between two baselines of text (user units).
const LINE: f64 = 20.0;
/// Largest average width of a character of the title (user units).
const CHARACTER: f64 = 8.0;
/// Style rules of the title, the source and the background around the picture.
const AROUND: &str = "svg{font-family:system-ui,sans-serif}.paper{fill:var(--bg)}\
                      .title{font-size:15px;font-weight:600;fill:var(--fg)}\
                      .source{font-size:12px;fill:var(--muted)}";

/// Write the chart as an SVG file with its finding above and `source` below; `None` where the
/// figure's picture was not written by [`super::svg::Svg`].
pub fn file(figure: &Figure, source: &str, style: &str) -> Option<String> {
    let inside = figure.svg.strip_prefix("<svg ")?.strip_suffix("</svg>")?;
    let (attributes, picture) = inside.split_once('>')?;
    let (_, size) = attributes.split_once("viewBox=\"0 0 ")?;
    let (width, height) = size.split_once('"')?.0.split_once(' ')?;
    let (width, height): (f64, f64) = (width.parse().ok()?, height.parse().ok()?);
    let chars = (width / CHARACTER) as usize;
    let mut around = String::new();
    let mut y = MARGIN;
    lines(&mut around, "title", &figure.finding, chars, &mut y);
    y += MARGIN;
    let top = num(y);
    y += height;
    lines(&mut around, "source", source, chars, &mut y);
    y += MARGIN;
    let (id, width, height) = (escape(&figure.id), num(width), num(y));
    Some(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}" aria-labelledby="{id}-t {id}-d"><style>{style}{AROUND}</style>{}<rect class="paper" width="{width}" height="{height}"/><g class="chart" transform="translate(0 {top})">{picture}</g>{around}</svg>"#,
        sprite()
    ))
}

/// Write a text in lines of at most `chars` characters, from `y` down; `y` moves along.
fn lines(svg: &mut String, class: &str, text: &str, chars: usize, y: &mut f64) {
    for line in wrap(text, chars) {
        *y += LINE;
        let _ = write!(
            svg,
            r#"<text class="{class}" x="{}" y="{}">{}</text>"#,
            num(MARGIN),
            num(*y),
            escape(&line)
        );
    }
}

fn wrap(text: &str, chars: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= chars => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Table;
    use crate::chart::svg::Svg;

    #[test]
    fn a_chart_stands_alone_with_its_title_and_source() {
        let mut svg = Svg::new(80.0, 30.0);
        svg.line("gr", (0.0, 0.0), (80.0, 30.0));
        let figure = Figure {
            id: "x".into(),
            finding: "A is faster than <B>".into(),
            reading: String::new(),
            svg: svg.finish("x", "A > B", "read it"),
            table: Table::default(),
            not_drawn: Vec::new(),
        };
        let file = file(&figure, "Run 1", ".gr{stroke:red}").unwrap();
        for part in [
            "viewBox=\"0 0 80 146\"",
            "<style>.gr{stroke:red}svg{",
            ">A is</text>",
            ">faster</text>",
            ">than &lt;B&gt;</text>",
            "translate(0 84)",
            ">Run 1</text></svg>",
            "id=\"k0\"",
            "M0 0L80 30",
        ] {
            assert!(file.contains(part), "{part}: {file}");
        }
    }
}
