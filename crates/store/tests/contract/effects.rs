//! R65: outward calls that are made once, whoever claims them.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::Attempt;
use callboard_engine::{
    Batch, Begun, Claim, ClaimRequest, EffectClaim, EffectKey, RequestDigest, SettledEffect, Store,
    StoreError,
};
use futures_util::future::join_all;
use serde_json::json;

use crate::Subject;
use crate::given::{at, new_run};

async fn held(store: &dyn Store) -> anyhow::Result<Claim> {
    store.commit(Batch::of_run(new_run("r1"))).await?;
    let request = ClaimRequest {
        host: "h1".into(),
        at: at(1_000),
        lapsed_at: at(1_000),
        until: at(9_000),
        most: 1,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    Ok(store.claim(&request).await?.claims.remove(0))
}

pub(crate) fn effect(index: u32, claim: &Claim) -> EffectClaim {
    let attempt = Attempt { node: "n".into(), visit: 0, number: 0 };
    EffectClaim {
        key: EffectKey::new(&"acme".into(), &"r1".into(), &attempt, index),
        request: request(index),
        claim: claim.clone(),
        at: at(2_000),
        repeat: false,
        outcome: None,
    }
}

fn request(index: u32) -> RequestDigest {
    RequestDigest::of("mail", &json!({ "to": index }))
}

/// What the first call came to.
fn settled(outcome: &str) -> SettledEffect {
    SettledEffect { request: request(0), outcome: outcome.to_owned() }
}

pub(crate) async fn of_many_claims_one_is_fresh(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    let claim = held(store).await?;
    let call = effect(0, &claim);
    let begun = join_all((0..8).map(|_| store.begin_effect(&call))).await;
    let fresh = begun.iter().filter(|begun| matches!(begun, Ok(Begun::Fresh))).count();
    assert_eq!(fresh, 1, "{begun:?}");
    let unknown = Begun::Unknown { request: request(0), since: at(2_000) };
    assert!(begun.iter().flatten().all(|begun| *begun == Begun::Fresh || *begun == unknown));
    Ok(())
}

pub(crate) async fn an_outcome_is_kept_before_it_is_used(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let claim = held(store).await?;
    let call = effect(0, &claim);
    assert_eq!(store.begin_effect(&call).await?, Begun::Fresh);
    store.settle_effect(&claim, &call.key, Some("{\"sent\":1}".to_owned())).await?;
    store.settle_effect(&claim, &call.key, Some("{\"sent\":2}".to_owned())).await?;
    subject.restart().await?;
    let store = subject.port()?;
    let request = ClaimRequest {
        host: "h2".into(),
        at: at(20_000),
        lapsed_at: at(20_000),
        until: at(30_000),
        most: 1,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    let claim = store.claim(&request).await?.claims.remove(0);
    let known = Begun::Known(settled("{\"sent\":1}"));
    assert_eq!(store.find_effect(&call.key).await?, Some(settled("{\"sent\":1}")));
    assert_eq!(store.find_effect(&effect(1, &claim).key).await?, None, "nobody has made that one");
    assert_eq!(store.begin_effect(&effect(0, &claim)).await?, known, "the first outcome stays");
    assert_eq!(store.begin_effect(&effect(1, &claim)).await?, Begun::Fresh, "another call");
    Ok(())
}

pub(crate) async fn a_claim_that_came_to_nothing_can_be_made_again(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let claim = held(store).await?;
    let call = effect(0, &claim);
    store.begin_effect(&call).await?;
    store.settle_effect(&claim, &call.key, None).await?;
    assert_eq!(store.begin_effect(&call).await?, Begun::Fresh);
    let other = request(7);
    let again = EffectClaim { repeat: true, at: at(3_000), request: other.clone(), ..call.clone() };
    assert_eq!(store.begin_effect(&again).await?, Begun::Fresh, "told to repeat it");
    assert_eq!(
        store.begin_effect(&call).await?,
        Begun::Unknown { request: other.clone(), since: at(3_000) }
    );
    store.settle_effect(&claim, &call.key, Some("1".to_owned())).await?;
    store.settle_effect(&claim, &call.key, None).await?;
    let known = Begun::Known(SettledEffect { request: other, outcome: "1".to_owned() });
    assert_eq!(store.begin_effect(&again).await?, known, "known is known");
    Ok(())
}

/// What is no call is known as soon as it is claimed, and the first stays.
pub(crate) async fn a_claim_may_bring_its_outcome(subject: Subject) -> anyhow::Result<()> {
    let store = subject.port()?;
    let claim = held(store).await?;
    let with =
        |outcome: &str| EffectClaim { outcome: Some(outcome.to_owned()), ..effect(0, &claim) };
    assert_eq!(store.begin_effect(&with("1")).await?, Begun::Fresh);
    assert_eq!(store.begin_effect(&with("2")).await?, Begun::Known(settled("1")));
    assert_eq!(store.find_effect(&with("3").key).await?, Some(settled("1")));
    Ok(())
}

pub(crate) async fn only_the_holder_of_a_run_makes_its_calls(
    subject: Subject,
) -> anyhow::Result<()> {
    let store = subject.port()?;
    let claim = held(store).await?;
    let request = ClaimRequest {
        host: "h2".into(),
        at: at(9_000),
        lapsed_at: at(9_000),
        until: at(19_000),
        most: 1,
        share: usize::MAX,
        held: BTreeMap::new(),
        limits: Arc::default(),
    };
    let successor = store.claim(&request).await?.claims.remove(0);
    let late = store.begin_effect(&effect(0, &claim)).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{late:?}");
    assert_eq!(store.begin_effect(&effect(0, &successor)).await?, Begun::Fresh);
    let key = effect(0, &successor).key;
    for outcome in [None, Some("{\"sent\":1}".to_owned())] {
        let late = store.settle_effect(&claim, &key, outcome).await;
        assert!(matches!(late, Err(StoreError::LeaseLost { .. })), "{late:?}");
    }
    assert_eq!(store.find_effect(&key).await?, None, "what a past holder says has no effect");
    store.settle_effect(&successor, &key, Some("{\"sent\":2}".to_owned())).await?;
    assert_eq!(store.find_effect(&key).await?, Some(settled("{\"sent\":2}")));
    Ok(())
}
