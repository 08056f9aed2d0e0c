//! Holds the colours, once: they become the custom properties of the style sheet, and the contrast
//! test computes with them.
//!
//! Series colours are Okabe and Ito's colour-blind safe set, darkened for the
//! light theme until text in them is readable. Colour is never alone: a series
//! also has a marker shape and a dash.

use crate::authored::{Authored, SITE_CSS, SITE_JS};

/// The colours of one theme.
pub struct Theme {
    /// The page's background.
    pub background: &'static str,
    /// The background of tables' headers, code and notes.
    pub surface: &'static str,
    /// Text.
    pub text: &'static str,
    /// Secondary text.
    pub muted: &'static str,
    /// Lines between rows, grid lines; not text.
    pub line: &'static str,
    /// Links.
    pub link: &'static str,
    /// Text of a good verdict.
    pub good: &'static str,
    /// Text of a bad verdict and of failures.
    pub bad: &'static str,
    /// Text of warnings.
    pub warn: &'static str,
    /// Background of warnings.
    pub warn_background: &'static str,
    /// The colours of the series.
    pub series: [&'static str; SERIES],
}

/// Number of series colours; further engines reuse them with another marker shape.
pub const SERIES: usize = 7;

/// The theme for light surroundings and for print.
pub const LIGHT: Theme = Theme {
    background: "#fdfdfb",
    surface: "#f3f4f1",
    text: "#1b1e21",
    muted: "#575d63",
    line: "#d5d8d3",
    link: "#0a58a6",
    good: "#0b6b46",
    bad: "#ad2c1b",
    warn: "#6b4700",
    warn_background: "#fdf0cf",
    series: [
        "#5a6066", "#0067a8", "#b34700", "#00704f", "#a0397a", "#856000", "#5b45b5",
    ],
};

/// The theme for dark surroundings.
pub const DARK: Theme = Theme {
    background: "#14171a",
    surface: "#1e2327",
    text: "#e7e9ea",
    muted: "#a4abb1",
    line: "#353b41",
    link: "#7fbcf5",
    good: "#5fd0a0",
    bad: "#ff8f7d",
    warn: "#ffd27a",
    warn_background: "#3a2f12",
    series: [
        "#b5bcc2", "#56b4e9", "#f59254", "#3cc79a", "#ea9bcb", "#e3b341", "#b3a4ff",
    ],
};

impl Theme {
    fn properties(&self) -> String {
        let mut css = format!(
            "--bg:{};--surface:{};--fg:{};--muted:{};--line:{};--link:{};--good:{};--bad:{};--warn:{};--warn-bg:{};",
            self.background,
            self.surface,
            self.text,
            self.muted,
            self.line,
            self.link,
            self.good,
            self.bad,
            self.warn,
            self.warn_background
        );
        for (index, color) in self.series.iter().enumerate() {
            css.push_str(&format!("--s{index}:{color};"));
        }
        css
    }
}

/// Make the style sheet: colours from here, everything else from `assets/site.css`. Dark colours
/// apply to screens only, so that a print is always light.
pub fn style_sheet(authored: &Authored) -> String {
    let (light, dark) = (LIGHT.properties(), DARK.properties());
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
    let (light, dark) = (LIGHT.properties(), DARK.properties());
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
            let mut texts = vec![
                theme.text,
                theme.muted,
                theme.link,
                theme.good,
                theme.bad,
                theme.warn,
            ];
            texts.extend(theme.series);
            for text in texts {
                for background in [theme.background, theme.surface] {
                    let ratio = contrast(text, background);
                    assert!(ratio >= 4.5, "{text} on {background}: {ratio:.2}");
                }
            }
            for text in [theme.text, theme.warn, theme.link] {
                let ratio = contrast(text, theme.warn_background);
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
            let mixed: String = (1..7)
                .step_by(2)
                .map(|at| {
                    let channel =
                        |hex: &str| f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
                    let mix = 0.9 * channel(theme.good) + 0.1 * channel(theme.background);
                    format!("{:02x}", mix.round() as u8)
                })
                .collect();
            let ratio = contrast(theme.background, &format!("#{mixed}"));
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
