//! Channels: what serves, what is tried, and what comes back.

use callboard_agents::{Deployment, DeploymentRefusal};
use serde_json::json;

use crate::given::{AgentVersions, agent};

/// 1.0.0 serves `stable`; 2.0.0 and 3.0.0 are staged.
fn desk() -> AgentVersions {
    AgentVersions::new()
        .staged("1.0.0")
        .after(&["promote 1.0.0 @stable"])
        .staged("2.0.0")
        .staged("3.0.0")
}

#[test]
fn a_version_takes_over_a_channel() {
    let mut desk = desk();
    let changed = desk.make("promote 2.0.0 @stable").unwrap();
    assert_eq!(
        changed.event.payload(),
        json!({ "agentId": "vendor.acme.desk.assistant", "fromVersion": "1.0.0",
            "toVersion": "2.0.0", "toState": "active", "channel": "stable" })
    );
    assert_eq!(desk.shown(), "1.0.0 active, 2.0.0 active stable, 3.0.0 staged");
    desk.make("promote 2.0.0 active @canary").unwrap();
    assert_eq!(desk.shown(), "1.0.0 active, 2.0.0 active canary stable, 3.0.0 staged");
}

#[test]
fn a_canary_grows_and_takes_over() {
    let mut desk = desk();
    let begun = desk.make("promote 2.0.0 @stable 10%").unwrap();
    assert_eq!(begun.event.payload()["canaryPercent"], 10);
    assert_eq!(desk.shown(), "1.0.0 active stable, 2.0.0 active 10% stable, 3.0.0 staged");
    let grown = desk.make("adjust 2.0.0 50%").unwrap();
    assert_eq!(
        grown.event.payload(),
        json!({ "agentId": "vendor.acme.desk.assistant", "version": "2.0.0",
            "fromPercent": 10, "toPercent": 50 })
    );
    let again = desk.decide("adjust 2.0.0 50%");
    assert!(matches!(again, Err(DeploymentRefusal::Invalid { .. })), "{again:?}");
    desk.make("adjust 2.0.0 100%").unwrap();
    assert_eq!(desk.shown(), "1.0.0 active, 2.0.0 active stable, 3.0.0 staged");
    // And back to a share, which the version before gets the rest of.
    desk.make("adjust 2.0.0 5%").unwrap();
    assert_eq!(desk.shown(), "1.0.0 active stable, 2.0.0 active 5% stable, 3.0.0 staged");
    desk.make("promote 2.0.0 active @stable").unwrap();
    assert_eq!(desk.shown(), "1.0.0 active, 2.0.0 active stable, 3.0.0 staged");
}

#[test]
fn a_canary_needs_somebody_to_share_with_and_no_rival() {
    let mut first = AgentVersions::new().staged("1.0.0");
    let alone = first.make("promote 1.0.0 @stable 10%");
    assert!(matches!(alone, Err(DeploymentRefusal::Alone { .. })), "{alone:?}");
    assert_eq!(first.shown(), "1.0.0 staged", "a refusal changes nothing");
    let only = desk().decide("adjust 1.0.0 50%");
    assert!(matches!(only, Err(DeploymentRefusal::Alone { .. })), "{only:?}");

    let desk = desk().after(&["promote 2.0.0 @stable 10%"]);
    for words in ["promote 3.0.0 @stable 10%", "promote 3.0.0 @stable"] {
        let rival = desk.decide(words);
        assert!(matches!(rival, Err(DeploymentRefusal::CanaryUnderWay { .. })), "{rival:?}");
    }
    let elsewhere = desk.decide("adjust 2.0.0 20% @canary");
    assert!(matches!(elsewhere, Err(DeploymentRefusal::NotOnChannel { .. })), "{elsewhere:?}");
}

#[test]
fn a_rollback_restores_what_served_before() {
    let mut desk = desk().after(&["promote 2.0.0 @stable", "promote 3.0.0 @stable"]);
    let back = desk.make("rollback 3.0.0").unwrap();
    assert_eq!(
        back.event.payload(),
        json!({ "agentId": "vendor.acme.desk.assistant", "fromVersion": "3.0.0",
            "toVersion": "2.0.0", "rollbackPointer": "2.0.0" })
    );
    assert_eq!(desk.shown(), "1.0.0 active, 2.0.0 active stable, 3.0.0 rolled-back >2.0.0");
    desk.make("rollback 2.0.0 @stable").unwrap();
    assert_eq!(
        desk.shown(),
        "1.0.0 active stable, 2.0.0 rolled-back >1.0.0, 3.0.0 rolled-back >2.0.0"
    );
    assert_eq!(desk.make("rollback 1.0.0"), Err(DeploymentRefusal::NothingToRestore));
}

#[test]
fn a_rollback_restores_only_what_may_serve() {
    let two = || desk().after(&["promote 2.0.0 @stable"]);
    for before in ["pause 1.0.0", "deprecate 1.0.0"] {
        let refused = two().after(&[before]).decide("rollback 2.0.0");
        assert_eq!(refused, Err(DeploymentRefusal::NothingToRestore), "{before}");
    }
    let mut uninstalled = two();
    uninstalled.installed.retain(|version| *version != "1.0.0");
    assert_eq!(uninstalled.decide("rollback 2.0.0"), Err(DeploymentRefusal::NothingToRestore));
}

#[test]
fn a_canary_that_is_rolled_back_gives_its_share_back() {
    let mut desk = desk().after(&["promote 2.0.0 @stable 10%"]);
    desk.make("rollback 2.0.0").unwrap();
    assert_eq!(desk.shown(), "1.0.0 active stable, 2.0.0 rolled-back >1.0.0, 3.0.0 staged");
}

#[test]
fn a_rollback_leaves_what_is_being_tried() {
    let mut desk = desk().after(&["promote 2.0.0 @stable", "promote 3.0.0 @stable 10%"]);
    desk.make("rollback 2.0.0").unwrap();
    assert_eq!(
        desk.shown(),
        "1.0.0 active stable, 2.0.0 rolled-back >1.0.0, 3.0.0 active 10% stable"
    );
}

#[test]
fn a_deprecated_version_leaves_its_channels_to_whoever_tries_them() {
    let mut desk = desk().after(&["promote 2.0.0 @stable 10%"]);
    desk.make("deprecate 1.0.0").unwrap();
    assert_eq!(desk.shown(), "1.0.0 deprecated, 2.0.0 active stable, 3.0.0 staged");
}

#[test]
fn a_state_reads_back_from_what_it_wrote() {
    let desk = desk().after(&["promote 2.0.0 @stable 10%", "promote 3.0.0 @canary"]);
    let desk = desk.after(&["pause 3.0.0"]);
    let text = desk.deployment.write();
    assert_eq!(Deployment::read(&agent(), &text).unwrap(), desk.deployment);
    let newer = text.replacen('{', r#"{"later":1,"#, 1);
    assert!(Deployment::read(&agent(), &newer).is_err(), "it would be lost with the next change");
}

/// Every installed version is there, also those that nobody spoke of.
#[test]
fn what_nobody_spoke_of_is_a_draft() {
    let desk = AgentVersions::new().staged("2.0.0");
    let installed = ["1.0.0", "2.0.0"].map(|text| text.parse().unwrap());
    let records = desk.deployment.records(&agent(), installed);
    let shown: Vec<String> = records
        .iter()
        .map(|record| format!("{} {}", record.version, record.state.as_str()))
        .collect();
    assert_eq!(shown, ["2.0.0 staged", "1.0.0 draft"]);
}
