//! The pack that ships in the repository.

use std::path::Path;

use callboard_agents::{Agent, Offer, Report, collect, vet};
use serde_json::{Value, json};

use crate::given::unsigned;

fn agents() -> Vec<std::sync::Arc<Agent>> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../packs/starter"));
    let offer = Offer::plain(collect(folder).unwrap().into());
    let vetted = vet(offer, &unsigned(), &mut Report::default()).unwrap();
    assert!(vetted.degradation.values().all(|without| *without == Default::default()));
    vetted.pack.agents
}

fn violations(agent: &Agent, task: &Value, result: &Value) -> Vec<String> {
    let task = agent.task.as_ref().unwrap().violations(task);
    let result = agent.result.as_ref().unwrap().violations(result);
    [task, result].concat()
}

#[test]
fn it_installs_without_anything_missing_and_its_agents_can_work() {
    let agents = agents();
    let names: Vec<&str> = agents.iter().map(|agent| agent.id().as_str()).collect();
    assert_eq!(
        names,
        [
            "community.callboard.starter.triager",
            "community.callboard.starter.reviewer",
            "community.callboard.starter.summariser"
        ]
    );
    let works = [
        (
            json!({ "message": "The login page is blank for everybody.", "teams": ["web", "sales"] }),
            json!({ "kind": "problem", "urgency": "now", "team": "web", "reason": "Nobody can log in.", "confidence": 0.93 }),
        ),
        (
            json!({ "change": "-  if n > 0\n+  if n >= 0", "purpose": "Count zero too" }),
            json!({ "verdict": "change", "summary": "Zero is counted twice now.", "findings": [
                { "where": "count.rs:7", "weight": "must", "what": "The caller adds one for zero." }
            ], "confidence": 0.8 }),
        ),
        (
            json!({ "text": "We ship on Friday unless the audit fails.", "words": 40 }),
            json!({ "gist": "Friday, if the audit passes.", "points": ["Ship on Friday."], "open": [], "confidence": 0.9 }),
        ),
    ];
    for (agent, (task, mut result)) in agents.iter().zip(works) {
        assert_eq!(violations(agent, &task, &result), [""; 0], "{}", agent.id());
        result["confidence"] = json!(1.5);
        assert_eq!(violations(agent, &json!({}), &result).len(), 2, "{}", agent.id());
    }
}
