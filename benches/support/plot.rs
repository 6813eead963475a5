//! Plots as SVG: lines over a logarithmic axis.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// The room at the left and below, for the axes' numbers, and at the right, for
/// the lines' names.
const LEFT: f64 = 64.0;
const BELOW: f64 = 44.0;
const RIGHT: f64 = 180.0;
const ABOVE: f64 = 36.0;
const COLOURS: [&str; 4] = ["#1f6feb", "#d1242f", "#1a7f37", "#8250df"];
/// The number of steps of the vertical axis.
const STEPS: usize = 4;

pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

pub struct Plot {
    pub title: &'static str,
    /// What is counted along the axes.
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

impl Plot {
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let least = points().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let most = points().map(|p| p.0).fold(0.0, f64::max);
        let top = ceiling(points().map(|p| p.1).fold(0.0, f64::max));
        let x = |value: f64| {
            let part = (value / least).ln() / (most / least).ln().max(f64::MIN_POSITIVE);
            LEFT + part * (WIDTH - LEFT - RIGHT)
        };
        let y = |value: f64| HEIGHT - BELOW - value / top * (HEIGHT - BELOW - ABOVE);
        let mut out = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{}</text>
"##,
            self.title
        );
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            let _ = writeln!(
                out,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
            );
        };
        let right = WIDTH - RIGHT;
        for step in 0..=STEPS {
            let value = top * step as f64 / STEPS as f64;
            text(LEFT - 6.0, y(value) + 4.0, "end", &number(value));
        }
        let mut marks: Vec<f64> = points().map(|p| p.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for mark in &marks {
            text(x(*mark), HEIGHT - BELOW + 18.0, "middle", &number(*mark));
        }
        text((LEFT + right) / 2.0, HEIGHT - 8.0, "middle", self.x);
        text(LEFT - 6.0, ABOVE - 4.0, "end", self.y);
        for step in 0..=STEPS {
            let at = y(top * step as f64 / STEPS as f64);
            let _ = writeln!(
                out,
                r##"<path d="M{LEFT} {at:.1}H{right}" stroke="#d0d7de" fill="none"/>"##
            );
        }
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let path: Vec<String> = line
                .points
                .iter()
                .map(|(a, b)| format!("{:.1} {:.1}", x(*a), y(*b)))
                .collect();
            let _ = writeln!(
                out,
                r#"<path d="M{}" stroke="{colour}" stroke-width="2" fill="none"/>"#,
                path.join("L")
            );
            for (a, b) in &line.points {
                let _ = writeln!(
                    out,
                    r#"<circle cx="{:.1}" cy="{:.1}" r="3" fill="{colour}"><title>{}: {} {}, {} {}</title></circle>"#,
                    x(*a),
                    y(*b),
                    line.name,
                    number(*a),
                    self.x,
                    number(*b),
                    self.y
                );
            }
        }
        // The names stand beside the lines' ends, apart from one another.
        let mut ends: Vec<(f64, &str, &str)> = self
            .lines
            .iter()
            .zip(COLOURS.iter().cycle())
            .filter_map(|(line, colour)| Some((y(line.points.last()?.1), line.name, *colour)))
            .collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut lowest = f64::NEG_INFINITY;
        for (at, name, colour) in ends {
            lowest = at.max(lowest + 15.0);
            let _ = writeln!(
                out,
                r#"<text x="{:.1}" y="{:.1}" fill="{colour}">{name}</text>"#,
                right + 8.0,
                lowest + 4.0
            );
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Returns the next greater number with one digit and zeros.
fn ceiling(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let unit = 10f64.powf(value.log10().floor());
    let steps = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * unit >= value);
    step.unwrap_or(10.0) * unit
}

fn number(value: f64) -> String {
    let digits = match value {
        v if v >= 10.0 || v == 0.0 => 0,
        v if v >= 1.0 => 1,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if value < 10_000.0 {
        return text;
    }
    let (head, tail) = text.split_at(text.len() - 3);
    format!("{head},{tail}")
}
