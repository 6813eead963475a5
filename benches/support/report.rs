//! Statistics over several rounds, and tables.

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Returns the best round of a figure where less is better. Other work of the
/// machine influences it least.
pub fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

/// Returns the smallest value that at least `percent` of the values do not exceed.
pub fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
    let at = rank.clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(f64::NAN)
}

pub enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// Prints `what: 0.71x (goal >= 0.75x: missed)`.
pub fn compare(what: &str, value: f64, unit: &str, goal: Goal) {
    let (sign, bound, met) = match goal {
        Goal::AtMost(bound) => ("<=", bound, value <= bound),
        Goal::AtLeast(bound) => (">=", bound, value >= bound),
    };
    let verdict = if met { "met" } else { "missed" };
    let bound = (bound * 1e3).round() / 1e3;
    println!("{what}: {value:.2}{unit} (goal {sign} {bound}{unit}: {verdict})");
}

/// Prints rows under their heads, with the first column aligned to the left.
pub fn table(heads: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain(heads.get(column).map(|h| h.chars().count()))
            .max()
            .unwrap_or(0)
    };
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let text: Vec<String> = cells
            .enumerate()
            .map(|(i, cell)| match i {
                0 => format!("{cell:<0$}", width(0)),
                _ => format!("{cell:>0$}", width(i)),
            })
            .collect();
        println!("{}", text.join("  ").trim_end());
    };
    line(&mut heads.iter().copied());
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
}
