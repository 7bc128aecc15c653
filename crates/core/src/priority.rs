//! Which of a tenant's runs goes first where not all can be at work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use callboard_protocol::Object;

/// The option of a run that says it.
pub const PRIORITY: &str = "callboard.priority";

/// How soon a run has its turn among those of its tenant. Other tenants' runs have their turns whatever it says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    Low,
    #[default]
    Normal,
    High,
}

impl Priority {
    pub const ALL: [Self; 3] = [Self::Low, Self::Normal, Self::High];
    /// Before all others, and kept waiting by no limit: a run that another one waits for, or that is to be cancelled.
    pub const AT_ONCE: i32 = 1000;

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.as_str() == name)
    }

    /// What a run's options say of it, which were checked before.
    pub fn of(configurable: &Object) -> Self {
        let said = configurable.get(PRIORITY).and_then(Value::as_str);
        said.and_then(Self::from_name).unwrap_or_default()
    }

    pub fn is_normal(&self) -> bool {
        *self == Self::Normal
    }

    /// The options that say it; none for what is usual.
    pub fn configurable(self) -> Object {
        let said = (!self.is_normal()).then(|| (PRIORITY.to_owned(), self.as_str().into()));
        said.into_iter().collect()
    }

    /// As it is compared; the highest goes first. The numbers are stored.
    pub const fn rank(self) -> i32 {
        match self {
            Self::Low => -100,
            Self::Normal => 0,
            Self::High => 100,
        }
    }

    /// Whose rank that is; none for what goes at once.
    pub fn of_rank(rank: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.rank() == rank)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_options_say_which_goes_first() {
        let of = |value: Value| Priority::of(&Object::from_iter([(PRIORITY.to_owned(), value)]));
        assert_eq!(of(json!("high")), Priority::High);
        assert_eq!(of(json!("low")), Priority::Low);
        assert_eq!(Priority::of(&Object::new()), Priority::Normal);
        for priority in Priority::ALL {
            assert_eq!(Priority::from_name(priority.as_str()), Some(priority));
            assert_eq!(Priority::of_rank(priority.rank()), Some(priority));
            assert!(priority.rank() < Priority::AT_ONCE);
        }
    }
}
