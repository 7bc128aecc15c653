//! What a host lacks: refused by name, or shown as inert.

use std::collections::BTreeSet;

use callboard_agents::{Degradation, Host, Offer, PackError, Policy, Report, Vetted, vet};
use callboard_protocol::{MemoryDimension, ModelClass};
use serde_json::{Value, json};

use crate::given::{Draft, good, unsigned};

fn needing(peers: Value) -> Draft {
    let mut draft = good();
    draft.manifest["peerDependencies"] = peers;
    draft
}

fn on(host: Host, draft: &Draft) -> Result<Vetted, PackError> {
    let policy = Policy { host, ..unsigned() };
    vet(Offer::plain(draft.archive()), &policy, &mut Report::default())
}

fn host(capabilities: &[&str], degrade: &[&str]) -> Host {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Host { capabilities: names(capabilities), degrade: names(degrade), ..Host::default() }
}

fn of_triager(vetted: &Vetted) -> &Degradation {
    &vetted.degradation[&"vendor.acme.desk.triager".into()]
}

#[test]
fn an_unmet_need_is_refused_by_name() {
    let error = on(Host::default(), &needing(json!({ "host.fs": "supported" }))).unwrap_err();
    assert_eq!(error.code(), "pack_peer_dependency_missing");
    assert_eq!(error.required_capability(), Some("host.fs"));
}

#[test]
fn an_optional_need_is_inert_and_shown() {
    let mut draft = needing(json!({ "host.fs": "supported", "aiProviders": "supported" }));
    draft.manifest["peerDependenciesMeta"] = json!({ "host.fs": { "optional": true } });
    assert_eq!(of_triager(&on(Host::default(), &draft).unwrap()).capabilities, ["host.fs"]);
    draft.manifest["peerDependenciesMeta"] = json!({ "host.fs": { "optional": false } });
    assert!(on(Host::default(), &draft).is_err());
}

#[test]
fn what_the_operator_lets_go_is_inert_and_shown() {
    let draft = needing(json!({ "host.agentRuntime": "supported" }));
    assert_eq!(
        of_triager(&on(Host::default(), &draft).unwrap()).capabilities,
        ["host.agentRuntime"]
    );
    let strict = Host { degrade: BTreeSet::new(), ..Host::default() };
    assert_eq!(on(strict, &draft).unwrap_err().required_capability(), Some("host.agentRuntime"));
}

#[test]
fn the_swarm_runtime_implies_the_floor() {
    let draft = needing(json!({ "agents.manifestRuntime": "supported" }));
    let vetted = on(host(&["host.agentRuntime"], &[]), &draft).unwrap();
    assert_eq!(of_triager(&vetted), &Degradation::default());
    assert!(on(host(&[], &[]), &draft).is_err());
    let heavy = needing(json!({ "host.agentRuntime": "supported" }));
    assert!(on(host(&["agents.manifestRuntime"], &[]), &heavy).is_err(), "but not the other way");
}

#[test]
fn a_level_that_cannot_be_judged_is_not_met() {
    let draft = needing(json!({ "aiProviders": ">=3" }));
    assert_eq!(on(Host::default(), &draft).unwrap_err().required_capability(), Some("aiProviders"));
}

#[test]
fn memory_backends_are_known_under_both_spellings() {
    for key in ["openwop.agents.memoryBackends", "agents.memoryBackends"] {
        let draft = needing(json!({ (key): ">=longTerm" }));
        on(Host::default(), &draft).unwrap();
        let error = on(host(&[], &[]), &draft).unwrap_err();
        assert_eq!(error.required_capability(), Some(key));
        let vetted = on(host(&[], &["agents.memoryBackends"]), &draft).unwrap();
        assert_eq!(of_triager(&vetted).capabilities, [key]);
        assert_eq!(of_triager(&vetted).memory, [], "the agent itself asks for no such memory");
    }
}

#[test]
fn long_term_memory_is_refused_or_degraded_dimension_by_dimension() {
    let mut draft = good();
    draft.agent()["memoryShape"]["longTerm"] = json!(true);
    let floor = "agents.manifestRuntime";
    let error = on(host(&[floor], &[]), &draft).unwrap_err();
    assert_eq!(error.code(), "unsupported_capability");
    assert_eq!(error.required_capability(), Some("agents.memoryBackends"));

    use MemoryDimension::{LongTermDurability, Read, Write};
    let none = on(host(&[floor], &["agents.memoryBackends"]), &draft).unwrap();
    assert_eq!(of_triager(&none).memory, [Read, Write, LongTermDurability]);
    let some = on(host(&[floor, "memory"], &["agents.memoryBackends"]), &draft).unwrap();
    assert_eq!(of_triager(&some).memory, [LongTermDurability]);
    let all = on(Host::default(), &draft).unwrap();
    assert_eq!(of_triager(&all), &Degradation::default());
}

#[test]
fn memory_of_a_level_that_the_host_lacks_is_degraded_where_that_is_optional() {
    let mut draft = needing(json!({ "agents.memoryBackends": ">=replicated" }));
    draft.agent()["memoryShape"]["longTerm"] = json!(true);
    draft.manifest["peerDependenciesMeta"] =
        json!({ "agents.memoryBackends": { "optional": true } });
    let some = on(host(&["agents.memoryBackends"], &[]), &draft).unwrap();
    assert_eq!(of_triager(&some).memory, [MemoryDimension::LongTermDurability]);
    assert_eq!(of_triager(&some).capabilities, ["agents.memoryBackends"]);
}

#[test]
fn an_agents_own_needs_are_shown_where_they_are_unmet() {
    let mut draft = good();
    draft.agent()["requiresCapabilities"] = json!(["host.messaging", "aiProviders"]);
    let vetted = on(Host::default(), &draft).unwrap();
    assert_eq!(of_triager(&vetted).capabilities, ["host.messaging"]);
}

#[test]
fn a_model_class_outside_the_hosts_list_is_refused() {
    let only = |class| Host { model_classes: Some(BTreeSet::from([class])), ..Host::default() };
    let error = on(only(ModelClass::Coding), &good()).unwrap_err();
    assert_eq!(error.code(), "unsupported_model_class");
    assert_eq!(error.required_capability(), Some("classification"));
    on(only(ModelClass::Classification), &good()).unwrap();
}

#[test]
fn tools_that_the_host_lacks_are_named() {
    let pack = good().vet().unwrap().pack;
    let lacking: Vec<String> = Host::default().missing_tools(&pack).into_iter().collect();
    assert_eq!(lacking, ["openwop:core.http.fetch"]);
    let tools = BTreeSet::from(["openwop:core.http.fetch".to_owned()]);
    assert!(Host { tools, ..Host::default() }.missing_tools(&pack).is_empty());
}
