//! From a reference to the version that a run keeps.

use std::sync::Arc;

use callboard_agents::{
    Draw, Installed, LATEST, Offer, PinError, Policy, Report, Snapshot, Unsigned, bundle, pin,
    scaffold, vet,
};
use callboard_engine::{KeyMode, PackOwner, Realm};
use callboard_protocol::{AgentRef, Timestamp};
use serde_json::{Value, json};

use crate::given::{AgentVersions, agent};

fn realm(tenant: &str) -> Realm {
    Realm { tenant: tenant.into(), mode: KeyMode::Live }
}

fn installed(owner: PackOwner, version: &str) -> Installed {
    let mut files = scaffold(&"vendor.acme.desk".parse().unwrap());
    let mut manifest: Value = serde_json::from_str(&files["pack.json"]).unwrap();
    manifest["version"] = json!(version);
    files.insert("pack.json", manifest.to_string());
    let files = files.into_iter().map(|(path, text)| (path.to_owned(), text.into_bytes().into()));
    let policy = Policy { unsigned: Unsigned::Allowed, ..Policy::default() };
    let offer = Offer::plain(Arc::from(bundle(&files.collect()).unwrap()));
    let vetted = vet(offer, &policy, &mut Report::default()).unwrap();
    Installed::new(owner, vetted, Timestamp::from_millis(0))
}

/// `acme` has all of them, `globex` only what the host brought: 1.0.0.
fn agents(desk: &AgentVersions) -> Snapshot {
    Snapshot::new(desk.installed.iter().map(|version| match *version {
        "1.0.0" => installed(PackOwner::Host, version),
        _ => installed(PackOwner::Realm(realm("acme")), version),
    }))
}

fn reference(version: Option<&str>, channel: Option<&str>) -> AgentRef {
    serde_json::from_value(json!({
        "agentId": "vendor.acme.desk.assistant", "version": version, "channel": channel,
    }))
    .unwrap()
}

/// The version that `acme` gets with this draw.
fn got(desk: &AgentVersions, wanted: &AgentRef, draw: u64) -> Result<String, PinError> {
    let pinned = pin(&agents(desk), &realm("acme"), &desk.deployment, wanted, Draw::new(draw))?;
    assert_eq!((pinned.agent_id.as_str(), &pinned.channel), (agent().as_str(), &wanted.channel));
    Ok(pinned.version)
}

fn stable() -> AgentRef {
    reference(None, Some("stable"))
}

/// 1.0.0 serves `stable`, 2.0.0 is tried there.
fn split() -> AgentVersions {
    AgentVersions::new()
        .staged("1.0.0")
        .after(&["promote 1.0.0 @stable"])
        .staged("2.0.0")
        .after(&["promote 2.0.0 @stable 10%"])
}

#[test]
fn a_reference_says_exactly_channel_or_nothing() {
    let desk = split();
    assert_eq!(got(&desk, &reference(None, None), 0).unwrap(), "3.0.0");
    assert_eq!(got(&desk, &reference(Some("3.0.0"), None), 0).unwrap(), "3.0.0");
    assert_eq!(got(&desk, &stable(), 99).unwrap(), "1.0.0");
    //
    assert_eq!(got(&desk, &reference(Some("1.0.0"), Some("stable")), 0), Err(PinError::Both));
    for unknown in ["9.9.9", "new"] {
        let refused = got(&desk, &reference(Some(unknown), None), 0).unwrap_err();
        assert_eq!(refused.code(), "validation_error", "{refused}");
    }
}

#[test]
fn the_draw_decides_a_split_and_nothing_else() {
    let desk = split();
    let tried = (0..100).filter(|draw| got(&desk, &stable(), *draw).unwrap() == "2.0.0");
    assert_eq!(tried.collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    for (percent, expected) in [("0%", "1.0.0"), ("100%", "2.0.0")] {
        let desk = desk.clone().after(&[&format!("adjust 2.0.0 {percent}")]);
        for draw in [0, 50, 99] {
            assert_eq!(got(&desk, &stable(), draw).unwrap(), expected, "{percent} {draw}");
        }
    }
}

#[test]
fn of_a_split_with_one_paused_side_the_other_serves_everybody() {
    for (paused, serves) in [("pause 2.0.0", "1.0.0"), ("pause 1.0.0", "2.0.0")] {
        let desk = split().after(&[paused]);
        for draw in [0, 99] {
            assert_eq!(got(&desk, &stable(), draw).unwrap(), serves, "{paused}");
        }
    }
}

/// never silently another version.
#[test]
fn a_channel_without_an_active_version_serves_nobody() {
    let full = AgentVersions::new().staged("1.0.0").after(&["promote 1.0.0 @stable"]);
    let taken = full.clone().staged("2.0.0").after(&["promote 2.0.0 @stable"]);
    let mut uninstalled = taken.clone();
    uninstalled.installed.retain(|version| *version != "2.0.0");
    for (desk, channel) in [
        (AgentVersions::new(), "stable"),
        (AgentVersions::new(), LATEST),
        (full.clone(), "canary"),
        (full.clone(), "nightly"),
        (full.clone().after(&["pause 1.0.0"]), "stable"),
        (full.clone().after(&["deprecate 1.0.0"]), LATEST),
        // 1.0.0 is active still, but it is not what `stable` stands for.
        (taken.after(&["pause 2.0.0"]), "stable"),
        (uninstalled, "stable"),
    ] {
        let refused = got(&desk, &reference(None, Some(channel)), 0).unwrap_err();
        assert_eq!(refused.code(), "no_active_deployment", "{channel}: {}", desk.shown());
    }
}

#[test]
fn latest_is_the_highest_active_version_on_any_channel() {
    let latest = reference(None, Some(LATEST));
    let desk = split();
    assert_eq!(got(&desk, &latest, 99).unwrap(), "2.0.0");
    assert_eq!(got(&desk.after(&["pause 2.0.0"]), &latest, 0).unwrap(), "1.0.0");
}

/// A-91, as far as one pin goes: what was pinned is a value, and a channel that moves does not change it.
#[test]
fn a_pin_outlives_what_it_was_resolved_from() {
    let desk = split();
    let pinned =
        pin(&agents(&desk), &realm("acme"), &desk.deployment, &stable(), Draw::new(0)).unwrap();
    let mut text = serde_json::to_value(&pinned).unwrap();
    let contents = text.as_object_mut().and_then(|pin| pin.remove("integrity"));
    assert!(contents.is_some_and(|it| it.as_str().is_some_and(|it| it.starts_with("sha256-"))));
    assert_eq!(
        text,
        json!({ "agentId": "vendor.acme.desk.assistant", "version": "2.0.0", "channel": "stable",
            "task": "ports", "source": "workflow-node" })
    );
    let moved = desk.after(&["rollback 2.0.0"]);
    assert_eq!(got(&moved, &stable(), 0).unwrap(), "1.0.0");
    let exactly = reference(Some(pinned.version.as_str()), None);
    assert_eq!(got(&moved, &exactly, 0).unwrap(), "2.0.0", "an exact version is honoured");
}

#[test]
fn another_tenants_version_serves_nobody_else() {
    let desk = split();
    let globex =
        |wanted| pin(&agents(&desk), &realm("globex"), &desk.deployment, &wanted, Draw::new(0));
    assert_eq!(globex(reference(None, None)).unwrap().version.as_str(), "1.0.0");
    assert_eq!(globex(stable()).unwrap().version.as_str(), "1.0.0");
    assert_eq!(globex(reference(Some("2.0.0"), None)).unwrap_err().code(), "validation_error");
    let stranger = serde_json::from_value(json!({ "agentId": "vendor.acme.desk.nobody" })).unwrap();
    let unknown = globex(stranger).unwrap_err();
    assert_eq!(unknown, PinError::UnknownAgent { agent: "vendor.acme.desk.nobody".into() });
}

/// Of a thousand runs about as many try a canary as should.
#[test]
fn runs_draw_by_their_names() {
    let desk = split();
    let agents = agents(&desk);
    let tried = (0..1_000).filter(|number| {
        let draw = Draw::of(&format!("run-{number}").into());
        let pinned = pin(&agents, &realm("acme"), &desk.deployment, &stable(), draw).unwrap();
        pinned.version.as_str() == "2.0.0"
    });
    let tried = tried.count();
    assert!((70..=130).contains(&tried), "{tried}");
    assert_eq!(Draw::of(&"run-1".into()), Draw::of(&"run-1".into()));
}
