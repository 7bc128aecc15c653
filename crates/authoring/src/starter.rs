//! Workflows to begin with: what `callboard workflows new` writes.

/// A workflow that does something as it is.
#[derive(Debug, Clone, Copy)]
pub struct Starter {
    pub name: &'static str,
    pub summary: &'static str,
    text: &'static str,
}

const STARTERS: [Starter; 4] = [
    Starter {
        name: "hello",
        summary: "one step that greets somebody",
        text: include_str!("starter/hello.yaml"),
    },
    Starter {
        name: "approval",
        summary: "a step, and a person who decides whether the next one runs",
        text: include_str!("starter/approval.yaml"),
    },
    Starter {
        name: "agent",
        summary: "an agent of the starter pack sorts a message, and a person looks at it",
        text: include_str!("starter/agent.yaml"),
    },
    Starter {
        name: "schedule",
        summary: "something that happens every weekday morning",
        text: include_str!("starter/schedule.yaml"),
    },
];

pub fn starters() -> &'static [Starter] {
    &STARTERS
}

pub fn starter(name: &str) -> Option<&'static Starter> {
    STARTERS.iter().find(|starter| starter.name == name)
}

impl Starter {
    /// Its text under an id of your own.
    pub fn text(&self, id: &str) -> String {
        self.text.replace("ID", id)
    }
}
