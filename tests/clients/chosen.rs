//! The choice of what to run, by an environment variable.

/// Returns those of `all` that the variable names, separated by spaces. Without it,
/// returns all.
pub fn chosen<T: Copy>(variable: &str, all: &[T], name: impl Fn(&T) -> &str) -> Vec<T> {
    let chosen = std::env::var(variable).unwrap_or_default();
    let names: Vec<&str> = chosen.split_whitespace().collect();
    for wanted in &names {
        let known = all.iter().any(|one| name(one) == *wanted);
        assert!(known, "{variable} names {wanted}, which is not one of them");
    }
    let is_chosen = |one: &&T| names.is_empty() || names.contains(&name(one));
    all.iter().filter(is_chosen).copied().collect()
}
