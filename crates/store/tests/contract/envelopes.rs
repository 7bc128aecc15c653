//! What became of envelopes: said once, with its events, for good.

use callboard_engine::{EnvelopeId, Envelopes, KeptEnvelope, ProjectedEvent};

use crate::Subject;
use crate::given::at;

fn id(tenant: &str, correlation: &str) -> EnvelopeId {
    EnvelopeId { tenant: tenant.into(), run: "r".into(), correlation: correlation.to_owned() }
}

fn kept(outcome: &str) -> KeptEnvelope {
    KeptEnvelope { kind: "error".to_owned(), outcome: outcome.to_owned() }
}

fn event(body: &str) -> ProjectedEvent {
    ProjectedEvent { at: at(5), body: body.to_owned() }
}

/// A-80.
pub(crate) async fn the_first_outcome_of_an_envelope_stays_with_its_events(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let store = Envelopes::new(subject.store()?);
    assert_eq!(store.envelope(&id("acme", "c")).await?, None);
    assert_eq!(store.keep_envelope(&id("acme", "c"), kept("1"), vec![event("a")]).await?, None);
    drop(store);
    subject.restart().await?;
    let store = Envelopes::new(subject.store()?);
    let again = store.keep_envelope(&id("acme", "c"), kept("2"), vec![event("b")]).await?;
    assert_eq!(again, Some(kept("1")));
    assert_eq!(store.envelope(&id("acme", "c")).await?, Some(kept("1")));
    assert_eq!(store.projected(&"acme".into(), &"r".into()).await?, [event("a")]);
    Ok(())
}

pub(crate) async fn envelopes_are_their_tenants_own(subject: Subject) -> anyhow::Result<()> {
    let store = Envelopes::new(subject.store()?);
    store.keep_envelope(&id("acme", "c"), kept("1"), vec![event("a")]).await?;
    assert_eq!(store.envelope(&id("other", "c")).await?, None);
    assert!(store.projected(&"other".into(), &"r".into()).await?.is_empty());
    store.project(&"other".into(), &"r".into(), vec![event("b"), event("c")]).await?;
    store.forget_projected(&"acme".into()).await?;
    assert!(store.projected(&"acme".into(), &"r".into()).await?.is_empty());
    assert_eq!(store.projected(&"other".into(), &"r".into()).await?, [event("b"), event("c")]);
    assert_eq!(store.envelope(&id("acme", "c")).await?, Some(kept("1")));
    Ok(())
}
