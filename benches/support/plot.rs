//! Plots lines between logarithmic axes, as SVG.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// The margins at the left and below, for the axes' numbers, and at the right, for
/// the lines' names.
const LEFT: f64 = 64.0;
const BELOW: f64 = 44.0;
const RIGHT: f64 = 180.0;
const ABOVE: f64 = 36.0;
const COLOURS: [&str; 4] = ["#1f6feb", "#d1242f", "#1a7f37", "#8250df"];
/// The marks of the vertical axis, multiplied by powers of ten.
const MARKS: [f64; 3] = [1.0, 2.0, 5.0];

pub struct Line {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
}

pub struct Plot {
    pub title: &'static str,
    /// The units of the axes.
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

impl Plot {
    pub fn to_svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let across = Axis::around(points().map(|p| p.0));
        let up = Axis::around(points().map(|p| p.1)).whole();
        let x = |value: f64| LEFT + across.part(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BELOW - up.part(value) * (HEIGHT - BELOW - ABOVE);
        let mut out = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="{LEFT}" y="20" font-size="14" font-weight="bold">{}, {}</text>
"##,
            self.title, self.y
        );
        let mut text = |x: f64, y: f64, anchor: &str, text: &str| {
            let _ = writeln!(
                out,
                r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
            );
        };
        let right = WIDTH - RIGHT;
        for mark in up.marks() {
            text(LEFT - 6.0, y(mark) + 4.0, "end", &number(mark));
        }
        let mut marks: Vec<f64> = points().map(|p| p.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for mark in &marks {
            text(x(*mark), HEIGHT - BELOW + 18.0, "middle", &number(*mark));
        }
        text((LEFT + right) / 2.0, HEIGHT - 8.0, "middle", self.x);
        for mark in up.marks() {
            let at = y(mark);
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
        // The names stand beside the lines' ends and must not overlap.
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

/// A logarithmic axis between two values. Linear growth is a straight line at 45°.
struct Axis {
    least: f64,
    most: f64,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        Self {
            least: values.clone().fold(f64::INFINITY, f64::min),
            most: values.fold(0.0, f64::max),
        }
    }

    /// Extends the axis to the marks outside its values.
    fn whole(self) -> Self {
        let power = |value: f64| 10f64.powf(value.log10().floor());
        let mark = |of: f64, fits: &dyn Fn(f64) -> bool| {
            let mut marks = MARKS.into_iter().map(|mark| mark * power(of));
            marks.rfind(|mark| fits(*mark))
        };
        let least = mark(self.least, &|mark| mark <= self.least);
        let most = MARKS.into_iter().chain([10.0]);
        let most = most
            .map(|mark| mark * power(self.most))
            .find(|mark| *mark >= self.most);
        Self {
            least: least.unwrap_or(self.least),
            most: most.unwrap_or(self.most),
        }
    }

    fn part(&self, value: f64) -> f64 {
        let all = (self.most / self.least).ln().max(f64::MIN_POSITIVE);
        (value / self.least).ln() / all
    }

    fn marks(&self) -> Vec<f64> {
        let first = self.least.log10().floor() as i32;
        let last = self.most.log10().ceil() as i32;
        (first..=last)
            .flat_map(|power| MARKS.map(|mark| mark * 10f64.powi(power)))
            // Powers of ten are not exact.
            .filter(|mark| *mark >= self.least * 0.999 && *mark <= self.most * 1.001)
            .collect()
    }
}

fn number(value: f64) -> String {
    let digits = match value {
        v if v >= 10.0 => 0,
        v if v >= 1.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    match text.len().checked_sub(3) {
        Some(head) if head > 0 && value >= 1000.0 => {
            let (head, tail) = text.split_at(head);
            format!("{head},{tail}")
        }
        _ => text.to_owned(),
    }
}
