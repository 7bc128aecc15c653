//! The scripted model in the place of every published agent's model.

use std::sync::Arc;

use callboard_agents::{
    FolderRegistry, Host, Message, Model as _, ModelRef, ModelRequest, Policy, Scripted, reduce,
};

use crate::openwop::openwop;
use crate::published::latest_versions;

#[tokio::test]
async fn every_published_agent_gets_an_answer_that_its_schema_accepts() {
    let Some(openwop) = openwop() else { return };
    let folder = FolderRegistry::new(openwop.join("registry"));
    let mut host = Host::default();
    host.degrade.insert("agents.memoryBackends".to_owned());
    let policy = Policy { host, ..Policy::default() };
    let (mut asked, mut strict) = (0, 0);
    for (name, verification) in latest_versions(&folder, &policy).await {
        let Ok(vetted) = verification.result else { continue };
        for agent in &vetted.pack.agents {
            let Some(schema) = &agent.result else { continue };
            let request = ModelRequest {
                model: ModelRef::scripted(),
                system: Some(agent.prompt.to_string()),
                messages: vec![Message::User { text: "Look at this.".to_owned() }],
                tools: Vec::new(),
                response_schema: Some(Arc::clone(&schema.source)),
                max_output_tokens: 4096,
                temperature: None,
                seed: None,
                idempotency_key: String::new(),
                key: None,
                call_prefix: "inv-0".to_owned(),
                run: None,
            };
            let turn = Scripted.turn(&request, &mut ()).await.unwrap();
            let answer = serde_json::from_str(&turn.text).unwrap();
            assert_eq!(schema.violations(&answer), [""; 0], "{name} {}: {answer:#}", agent.id());
            asked += 1;
            strict += usize::from(reduce(&schema.source).is_some());
        }
    }
    assert!(asked > 20, "{asked}");
    // The rest say too little for a strict mode, and go into the prompt.
    assert!(strict * 2 > asked, "{strict} of {asked} schemas can be held while writing");
}
