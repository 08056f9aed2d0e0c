//! Holds the colours, once: they become the custom properties of the style sheet, and the contrast
//! test computes with them.
//!
//! Series colours are Okabe and Ito's colour-blind safe set, darkened for the light theme until
//! text in them is readable. Colour is never the only difference: a series also has a marker shape
//! and a dash.

use crate::authored::{Authored, SITE_CSS, SITE_JS};

/// Number of series colours; further engines reuse them with another marker shape.
pub const SERIES: usize = 7;

/// Places of the two themes in each pair of colours: the one for light surroundings and for print,
/// and the one for dark surroundings.
const LIGHT: usize = 0;
const DARK: usize = 1;

/// The custom properties, each with its colour in both themes.
const COLORS: [(&str, [&str; 2]); 10] = [
    // The page's background.
    ("bg", ["#fdfdfb", "#14171a"]),
    // The background of tables' headers, code and notes.
    ("surface", ["#f3f4f1", "#1e2327"]),
    // Text.
    ("fg", ["#1b1e21", "#e7e9ea"]),
    // Secondary text.
    ("muted", ["#575d63", "#a4abb1"]),
    // Lines between rows, grid lines; not text.
    ("line", ["#d5d8d3", "#353b41"]),
    // Links.
    ("link", ["#0a58a6", "#7fbcf5"]),
    // Text of a good verdict.
    ("good", ["#0b6b46", "#5fd0a0"]),
    // Text of a bad verdict and of failures.
    ("bad", ["#ad2c1b", "#ff8f7d"]),
    // Text of warnings, and their background.
    ("warn", ["#6b4700", "#ffd27a"]),
    ("warn-bg", ["#fdf0cf", "#3a2f12"]),
];

/// The colours of the series in both themes.
const SERIES_COLORS: [[&str; SERIES]; 2] = [
    [
        "#5a6066", "#0067a8", "#b34700", "#00704f", "#a0397a", "#856000", "#5b45b5",
    ],
    [
        "#b5bcc2", "#56b4e9", "#f59254", "#3cc79a", "#ea9bcb", "#e3b341", "#b3a4ff",
    ],
];

/// Set the properties of a theme.
fn properties(theme: usize) -> String {
    let colors = COLORS.iter();
    let colors = colors.map(|(name, pair)| format!("--{name}:{};", pair[theme]));
    let series = SERIES_COLORS[theme].into_iter().enumerate();
    let series = series.map(|(index, color)| format!("--s{index}:{color};"));
    colors.chain(series).collect()
}

/// Make the style sheet: colours from here, everything else from `assets/site.css`. Dark colours
/// apply to screens only, so that a print is always light.
pub fn style_sheet(authored: &Authored) -> String {
    let (light, dark) = (properties(LIGHT), properties(DARK));
    let mut css = format!(
        ":root{{color-scheme:light dark;{light}}}\n\
         [data-theme=light]{{color-scheme:light}}\n\
         @media screen{{[data-theme=dark]{{color-scheme:dark;{dark}}}}}\n\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}\n",
    );
    css.push_str(&series_rules());
    css.push_str(SITE_CSS.text(authored));
    css
}

/// Make the style sheet of a chart in a file of its own: the colours of both themes, and the part
/// of `assets/site.css` between its two comments on charts.
pub fn chart_style(authored: &Authored) -> String {
    let (light, dark) = (properties(LIGHT), properties(DARK));
    let mut css = format!(
        "svg{{{light}}}\n@media screen and (prefers-color-scheme:dark){{svg{{{dark}}}}}\n{}",
        series_rules()
    );
    let rules = SITE_CSS.text(authored).split_once("/* charts */");
    let rules = rules.and_then(|(_, rest)| rest.split_once("/* end of charts */"));
    css.push_str(rules.map_or("", |(rules, _)| rules.trim()));
    css
}

fn series_rules() -> String {
    let rule = |index| format!(".s{index}{{--c:var(--s{index})}}\n");
    (0..SERIES).map(rule).collect()
}

/// The script as it is sent: without indentation and comment lines, which the source in the
/// repository has.
pub fn script(authored: &Authored) -> String {
    let lines = SITE_JS.text(authored).lines().map(str::trim);
    let code: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    code.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance by WCAG 2.2.
    fn luminance(hex: &str) -> f64 {
        let channel = |at: usize| {
            let byte = u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
            let c = f64::from(byte) / 255.0;
            if c <= 0.04045 {
                c / 12.92
            } else {
                ((c + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    /// The colour of a property in a theme.
    fn color(name: &str, theme: usize) -> &'static str {
        let found = COLORS.iter().find(|(property, _)| *property == name);
        found.expect("it is one of the properties").1[theme]
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn the_formula_gives_the_published_extremes() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        assert!((contrast("#777777", "#ffffff") - 4.48).abs() < 0.01);
    }

    #[test]
    fn text_has_contrast_of_at_least_4_5_in_both_themes() {
        for theme in [LIGHT, DARK] {
            let of = |name| color(name, theme);
            let names = ["fg", "muted", "link", "good", "bad", "warn"];
            let texts = names.map(of).into_iter().chain(SERIES_COLORS[theme]);
            for text in texts {
                for background in ["bg", "surface"].map(of) {
                    let ratio = contrast(text, background);
                    assert!(ratio >= 4.5, "{text} on {background}: {ratio:.2}");
                }
            }
            for text in ["fg", "warn", "link"].map(of) {
                let ratio = contrast(text, of("warn-bg"));
                assert!(ratio >= 4.5, "{text} on warning: {ratio:.2}");
            }
        }
    }

    #[test]
    fn the_script_is_short_and_asks_no_server() {
        let script = script(&Authored::new());
        assert!(script.len() < 10_000, "{} bytes", script.len());
        let asks = [
            "fetch(",
            "XMLHttpRequest",
            "import",
            "http:",
            "https:",
            "eval",
            "innerHTML",
        ];
        for word in asks {
            assert!(!script.contains(word), "{word}");
        }
    }

    #[test]
    fn signs_on_filled_cells_have_contrast() {
        // A sign on the coverage map stands on a fill of nine tenths opacity.
        for theme in [LIGHT, DARK] {
            let of = |name| color(name, theme);
            let mixed: String = (1..7)
                .step_by(2)
                .map(|at| {
                    let channel =
                        |hex: &str| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
                    let mix = 0.9 * channel(of("good")) + 0.1 * channel(of("bg"));
                    format!("{:02x}", mix.round() as u8)
                })
                .collect();
            let ratio = contrast(of("bg"), &format!("#{mixed}"));
            assert!(ratio >= 4.5, "{ratio:.2}");
        }
    }

    #[test]
    fn a_chart_alone_has_its_rules_and_no_others() {
        let css = chart_style(&Authored::new());
        assert!(css.contains(".chart text{") && css.contains(".mk{") && css.contains("--s6:"));
        assert!(css.contains("prefers-color-scheme:dark") && !css.contains("summary"));
        assert!(!css.contains(['<', '&']), "it stands in XML as it is");
    }

    #[test]
    fn the_style_sheet_loads_nothing() {
        let css = style_sheet(&Authored::new());
        assert!(!css.contains("url(") && !css.contains("@import"));
    }
}
