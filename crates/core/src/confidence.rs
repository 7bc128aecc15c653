//! How sure an agent says that it is, beside how sure it must be.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_protocol::Object;

/// A share from nothing to certainty. Whatever else is said is no signal at all.
///
/// Stored as a number. Nobody writes one beyond its bounds; a reader that finds one refuses the record.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Confidence(f64);

/// No value is NaN, so each equals itself.
impl Eq for Confidence {}

impl Confidence {
    /// Below this a supervisor rates its decision worse than a coin flip: the protocol's floor.
    pub const FLOOR: Self = Self(0.5);
    /// How sure an agent must be where neither the run nor its manifest says otherwise.
    pub const THRESHOLD: Self = Self(0.7);

    pub fn of(number: f64) -> Option<Self> {
        (0.0..=1.0).contains(&number).then_some(Self(number))
    }

    /// What a value states; none where it states nothing that can be compared.
    pub fn read(stated: Option<&Value>) -> Option<Self> {
        stated.and_then(Value::as_f64).and_then(Self::of)
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<Confidence> for f64 {
    fn from(confidence: Confidence) -> Self {
        confidence.0
    }
}

impl TryFrom<f64> for Confidence {
    type Error = String;

    fn try_from(number: f64) -> Result<Self, String> {
        Self::of(number).ok_or_else(|| format!("{number} is not a number from 0 to 1"))
    }
}

/// The one comparison: what is stated must reach what is needed, and silence is no doubt.
pub fn falls_short(stated: Option<Confidence>, needed: Confidence) -> bool {
    stated.is_some_and(|stated| stated < needed)
}

/// How sure an agent must be in a run with these options.
pub fn escalation_threshold(configurable: &Object, manifest: Option<Confidence>) -> Confidence {
    Confidence::read(configurable.get("escalationThreshold"))
        .or(manifest)
        .unwrap_or(Confidence::THRESHOLD)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_number_from_0_to_1_is_a_signal() {
        for silent in [json!(-0.1), json!(1.1), json!("0.3"), json!(null), json!([0.3]), json!({})]
        {
            assert_eq!(Confidence::read(Some(&silent)), None, "{silent}");
        }
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Confidence::of(number), None, "{number}");
        }
        for stated in [json!(0), json!(0.3), json!(1)] {
            assert!(Confidence::read(Some(&stated)).is_some(), "{stated}");
        }
    }

    #[test]
    fn less_falls_short_and_neither_the_same_nor_silence_does() {
        let floor = Confidence::FLOOR;
        for (stated, expected) in [(Some(0.49), true), (Some(0.5), false), (Some(1.0), false)] {
            assert_eq!(falls_short(stated.and_then(Confidence::of), floor), expected, "{stated:?}");
        }
        assert!(!falls_short(None, floor));
    }

    #[test]
    fn the_run_goes_before_the_manifest_and_the_manifest_before_the_protocol() {
        let asked = |value: Value| Object::from_iter([("escalationThreshold".to_owned(), value)]);
        let manifest = Confidence::of(0.9);
        assert_eq!(escalation_threshold(&asked(json!(0.4)), manifest).get(), 0.4);
        assert_eq!(escalation_threshold(&Object::new(), manifest).get(), 0.9);
        assert_eq!(escalation_threshold(&Object::new(), None), Confidence::THRESHOLD);
    }
}
