//! Processes that die before and after each write of a node that acts: what is known is not asked for again, and what
//! cannot be told apart from a second message is never sent twice.

use std::sync::Arc;

use callboard_backends::{DeclaredNode, Integrations, Reach};
use callboard_engine::{Activities, Engine, Filter, InMemoryStore, Recorded, Store as _};
use callboard_protocol::{Object, RunId};
use serde_json::{Value, json};

use crate::sim::{
    DoomedStore, Fate, LEASE, SimClock, doomed_store, ended, host_with, order, scope,
};
use crate::{FETCH, Server, World, answer, chain, node, ports, told};

const EMAIL: &str = "core.openwop.integration.email-send";

/// One life of a workflow: the host that meets its fate, and the one that comes after it.
struct Lives<'a> {
    shared: Arc<InMemoryStore>,
    clock: Arc<SimClock>,
    definitions: Vec<String>,
    activities: &'a dyn Fn() -> Activities,
}

impl Lives<'_> {
    fn host(&self, name: &str, fate: Fate) -> (Engine, Arc<DoomedStore>) {
        let store = doomed_store(self.shared.clone(), fate);
        let (shared, clock) = (self.shared.clone(), Arc::clone(&self.clock));
        let activities = (self.activities)();
        let engine = host_with(name, store.clone(), shared, clock, &self.definitions, activities);
        (engine, store)
    }

    /// Answers the run, how often its first host wrote, and whoever drives it now.
    async fn begin(&self, workflow: &str, fate: Fate) -> (RunId, u64, Engine) {
        let (first, doomed) = self.host("first", fate);
        let ordered = order(workflow, Object::new(), Object::new());
        let run = first.create(ordered, None).await.unwrap().run;
        tokio::select! {
            () = doomed.died.notified() => {}
            _ = ended(&self.shared, &run) => {}
        }
        first.kill();
        // Its lease runs out at once; sockets go by the real clock.
        tokio::time::pause();
        tokio::time::advance(LEASE * 2).await;
        tokio::time::resume();
        let (second, _) = self.host("second", Fate::Live);
        (run, doomed.appends(), second)
    }
}

/// Every fate of a process that writes so often.
fn fates(writes: u64) -> impl Iterator<Item = Fate> {
    (1..=writes).flat_map(|at| [Fate::DieBefore(at), Fate::DieAfter(at)])
}

fn world_at(server: &Server) -> World {
    let integrations = Integrations {
        resend_url: server.url.clone(),
        sendgrid_url: server.url.clone(),
        ..Integrations::default()
    };
    World { integrations, ..World::new(Reach::Anywhere) }
}

fn email(provider: &str) -> Value {
    let config = json!({ "from": "desk@example.org", "provider": provider });
    let inputs = json!({ "to": "ann@example.org", "subject": "Hi", "text": "Hello" });
    let mut email = node("mail", EMAIL, config, ports(&inputs));
    email["credentialsRef"] = "desk".into();
    email
}

/// What nodes put out, without what depends on the hour.
fn settled(log: &[Recorded]) -> Vec<Value> {
    let mut ends = told(log, "node.completed");
    for end in &mut ends {
        end["outputs"]["durationMs"] = json!(0);
        end.as_object_mut().unwrap().retain(|key, _| key == "outputs");
    }
    ends
}

#[tokio::test]
async fn requests_are_made_once_or_under_their_key_again() {
    let said = answer(200, "content-type: application/json\r\n", r#"{"id":"m1"}"#);
    let server = Server::start(vec![said]).await;
    let get = node("get", FETCH, json!({ "url": server.url }), json!({}));
    let post = json!({ "url": server.url, "method": "POST" });
    let post = node("post", FETCH, post, ports(&json!({ "body": { "n": 1 } })));
    let definitions = vec![chain(&[get, post, email("resend")])];
    let lives = async |fate| {
        let before = server.seen().len();
        let world = world_at(&server);
        world.keep("desk", "a-key-of-the-desk", Some(server.host.clone())).await;
        let lives = Lives {
            shared: world.store.clone(),
            clock: Arc::clone(&world.clock),
            definitions: definitions.clone(),
            activities: &|| world.activities(),
        };
        let (run, writes, second) = lives.begin("w", fate).await;
        let log = ended(&lives.shared, &run).await;
        second.kill();
        assert!(told(&log, "node.failed").is_empty(), "{:?}", told(&log, "node.failed"));
        (settled(&log), writes, server.seen().split_off(before))
    };
    let (whole, writes, requests) = lives(Fate::Live).await;
    assert!(writes >= 9 && requests.len() == 3 && whole.len() == 3, "{writes} {requests:?}");
    let mut repeated = 0;
    for fate in fates(writes) {
        let (outputs, _, requests) = lives(fate).await;
        assert_eq!(outputs, whole, "{fate:?}");
        // At most the one that was under way, and then word for word, its key included.
        let mut distinct = requests.clone();
        distinct.dedup();
        assert_eq!(distinct.len(), 3, "{fate:?}: {requests:?}");
        assert!(requests.len() <= 4, "{fate:?}: {requests:?}");
        repeated += requests.len() - 3;
    }
    assert!(repeated > 0, "nobody died in the middle of a request");
}

#[tokio::test]
async fn a_message_that_cannot_be_known_again_is_never_sent_twice() {
    let server = Server::start(vec![answer(202, "x-message-id: s1\r\n", "")]).await;
    let definitions = vec![chain(&[email("sendgrid")])];
    let lives = async |fate| {
        let before = server.seen().len();
        let world = world_at(&server);
        world.keep("desk", "a-key-of-the-desk", Some(server.host.clone())).await;
        let lives = Lives {
            shared: world.store.clone(),
            clock: Arc::clone(&world.clock),
            definitions: definitions.clone(),
            activities: &|| world.activities(),
        };
        let (run, writes, second) = lives.begin("w", fate).await;
        // It comes to its end, or asks somebody what became of the message.
        let is_asked = loop {
            let log = lives.shared.read(&scope(), &run, 0, usize::MAX).await.unwrap().unwrap();
            let has = |kind: &str| log.events.iter().any(|event| event.kind == kind);
            if has("run.completed") || has("node.suspended") {
                break has("node.suspended");
            }
            tokio::task::yield_now().await;
        };
        second.kill();
        (is_asked, writes, server.seen().len() - before)
    };
    let (is_asked, writes, sent) = lives(Fate::Live).await;
    assert!(!is_asked && sent == 1 && writes >= 3, "{writes} {sent}");
    let mut asked = 0;
    for fate in fates(writes) {
        let (is_asked, _, sent) = lives(fate).await;
        assert!(sent == 1 || (is_asked && sent == 0), "{fate:?}: sent {sent} times");
        asked += usize::from(is_asked);
    }
    assert!(asked > 0, "nobody was asked");
}

#[tokio::test]
async fn a_declared_node_starts_one_run_whoever_dies() {
    let above = node("n", "acme.greet", json!({}), ports(&json!({ "name": "Ann" })));
    let said =
        json!({ "greeting": { "type": "expression", "expression": "'Hello, ' ~ inputs.name" } });
    let below = chain(&[node("say", "core.identity", json!({}), said)]);
    let definitions = vec![chain(&[above]), below.replacen("\"w\"", "\"below\"", 1)];
    let activities = || {
        let declared = DeclaredNode {
            type_id: "acme.greet".to_owned(),
            description: String::new(),
            workflow: "below".into(),
            inputs: None,
            outputs: None,
        };
        Activities::default().with("acme.greet", Arc::new(declared))
    };
    let lives = async |fate| {
        let lives = Lives {
            shared: Arc::default(),
            clock: SimClock::new(),
            definitions: definitions.clone(),
            activities: &activities,
        };
        let (run, writes, second) = lives.begin("w", fate).await;
        let log = ended(&lives.shared, &run).await;
        second.kill();
        let filter = Filter { limit: 99, ..Filter::default() };
        let runs = lives.shared.list(&scope(), &filter).await.unwrap().len();
        (settled(&log), writes, runs)
    };
    let (whole, writes, runs) = lives(Fate::Live).await;
    assert!(writes >= 4 && runs == 2, "{writes} {runs}");
    assert_eq!(whole[0]["outputs"]["greeting"], "Hello, Ann");
    for fate in fates(writes) {
        let (outputs, _, runs) = lives(fate).await;
        assert_eq!((outputs, runs), (whole.clone(), 2), "{fate:?}");
    }
}
