//! "Did you mean": the known name that is nearest to one that is not.

/// The nearest of the known names, if any is near enough that somebody could have meant it.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = plain(name);
    // A third of its letters may be wrong, and two in any case but the shortest.
    let most = (wanted.chars().count() / 3).max(if wanted.len() > 2 { 2 } else { 1 });
    known
        .into_iter()
        .filter_map(|known| {
            let candidate = plain(known);
            let is_part = wanted.len() > 2 && candidate.ends_with(&wanted);
            let steps = if is_part { 1 } else { distance(&wanted, &candidate) };
            // What was cut short is likelier than what was spelt wrong.
            let is_beginning = candidate.starts_with(&wanted);
            (steps <= most).then_some((steps, !is_beginning, known))
        })
        .min_by_key(|(steps, is_other, known)| (*steps, *is_other, known.len()))
        .map(|(_, _, known)| known)
}

/// `unknown key "typ"; did you mean "type"?`, with the known ones where nothing is near.
pub fn unknown_name(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {what} {name:?}; did you mean {near:?}?"),
        None if known.is_empty() => format!("unknown {what} {name:?}"),
        None => format!("unknown {what} {name:?}; there are {}", known.join(", ")),
    }
}

/// Case, dashes and underscores are what people get wrong first.
fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).take(256);
    kept.flat_map(char::to_lowercase).collect()
}

/// Letters to insert, delete, replace or swap with the next.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    for (row, a) in one.iter().enumerate() {
        let mut here = vec![row + 1];
        for (column, b) in other.iter().enumerate() {
            let mut steps = (above[column + 1] + 1).min(here[column] + 1);
            steps = steps.min(above[column] + usize::from(a != b));
            if row > 0 && column > 0 && *a == other[column - 1] && one[row - 1] == *b {
                steps = steps.min(before[column - 1] + 1);
            }
            here.push(steps);
        }
        before = above;
        above = here;
    }
    above[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{nearest, unknown_name};

    #[test]
    fn a_near_name_is_found_and_a_far_one_is_not() {
        let known = ["typeId", "inputs", "config", "core.approvalGate", "core.delay"];
        for (wrong, right) in [
            ("type_id", Some("typeId")),
            ("input", Some("inputs")),
            ("cofnig", Some("config")),
            ("core.approval-gate", Some("core.approvalGate")),
            ("approvalGate", Some("core.approvalGate")),
            ("delay", Some("core.delay")),
            ("whatever", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, known), right, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_near_is_answered_with_what_there_is() {
        assert_eq!(
            unknown_name("key", "zzz", &["model", "provider"]),
            "unknown key \"zzz\"; there are model, provider"
        );
        assert_eq!(
            unknown_name("key", "modle", &["model"]),
            "unknown key \"modle\"; did you mean \"model\"?"
        );
    }
}
