//! Pinned versions: code that changed asks which side of the change a run is on.

use std::collections::BTreeMap;

use serde_json::json;

use callboard_protocol::{Failure, Object};

/// What a question for a version comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// The run was asked before and keeps its answer.
    Known(i64),
    /// The first question: the newest version, to be recorded before it is used.
    New(i64),
}

/// Answers `getVersion(changeId, min, max)` for a run with these pins.
pub fn pin_version(
    pins: &BTreeMap<String, i64>,
    change_id: &str,
    min: i64,
    max: i64,
) -> Result<Pin, Failure> {
    if change_id.is_empty() || min < -1 || max < 0 || max < min {
        let message = format!("versions {min} to {max} of change {change_id:?} are not a range");
        return Err(Failure::new("validation_error", message));
    }
    match pins.get(change_id) {
        None => Ok(Pin::New(max)),
        Some(pinned) if *pinned >= min => Ok(Pin::Known(*pinned)),
        Some(pinned) => {
            let details = json!({ "changeId": change_id, "pinnedVersion": pinned, "currentMin": min, "currentMax": max });
            let details = details.as_object().cloned().unwrap_or_else(Object::new);
            let message = format!(
                "the run keeps version {pinned} of change {change_id}, which is no longer supported"
            );
            Err(Failure::new("version_out_of_range", message).with_details(details))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_question_pins_the_newest_and_later_ones_get_it_back() {
        let mut pins = BTreeMap::new();
        assert_eq!(pin_version(&pins, "c", -1, 2), Ok(Pin::New(2)));
        pins.insert("c".to_owned(), 2);
        assert_eq!(pin_version(&pins, "c", 1, 5), Ok(Pin::Known(2)));
    }

    #[test]
    fn a_pin_below_the_range_and_a_range_that_is_none_are_refused() {
        let pins = BTreeMap::from([("c".to_owned(), 1)]);
        let code = |min, max| pin_version(&pins, "c", min, max).map_err(|failure| failure.code);
        assert_eq!(code(2, 3), Err("version_out_of_range".to_owned()));
        assert_eq!(code(3, 2), Err("validation_error".to_owned()));
        assert_eq!(code(-2, 2), Err("validation_error".to_owned()));
    }
}
