//! Secrets: kept under names, per tenant and kind of key, and given to those who resolve them.

use callboard_core::{Provenance, SecretText};
use callboard_engine::{HeldSecret, KeyMode, Put, Scope, Secrets, StoredSecret};
use callboard_protocol::SecretName;

use crate::Subject;
use crate::given::at;

fn of(tenant: &str) -> Scope {
    Scope { tenant: tenant.into(), workspace: None, mode: KeyMode::Live }
}

fn secret(text: &str) -> HeldSecret {
    SecretText::new(text.to_owned()).into()
}

async fn value(store: &Secrets, tenant: &str, name: &str) -> anyhow::Result<Option<String>> {
    let found = store.resolve_secret(&of(tenant), &name.into()).await?;
    Ok(found.map(|found| found.value.reveal().to_owned()))
}

pub(crate) async fn a_secret_is_kept_replaced_and_removed(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let acme = of("acme");
    let store = Secrets::new(subject.store()?);
    assert_eq!(value(&store, "acme", "openai").await?, None);
    assert_eq!(
        store.put_secret(&acme, &"openai".into(), secret("one"), at(1)).await?,
        Put::Created
    );
    assert_eq!(
        store.put_secret(&acme, &"openai".into(), secret("two"), at(2)).await?,
        Put::Replaced
    );
    assert_eq!(
        store.put_secret(&acme, &"github".into(), secret("ö\n"), at(3)).await?,
        Put::Created
    );
    drop(store);
    subject.restart().await?;
    let store = Secrets::new(subject.store()?);
    assert_eq!(value(&store, "acme", "openai").await?.as_deref(), Some("two"));
    assert_eq!(value(&store, "acme", "github").await?.as_deref(), Some("ö\n"));
    let line = |name: &str, created, updated| StoredSecret {
        name: name.into(),
        provenance: None,
        created_at: at(created),
        updated_at: at(updated),
    };
    assert_eq!(store.secrets(&acme).await?, [line("github", 3, 3), line("openai", 1, 2)]);
    assert!(store.remove_secret(&acme, &"openai".into()).await?);
    assert!(!store.remove_secret(&acme, &"openai".into()).await?);
    assert_eq!(value(&store, "acme", "openai").await?, None);
    let again = store.put_secret(&acme, &"openai".into(), secret("three"), at(4)).await?;
    assert_eq!(again, Put::Created);
    Ok(())
}

pub(crate) async fn a_secret_is_its_tenants_own(subject: Subject) -> anyhow::Result<()> {
    let (acme, globex) = (of("acme"), of("globex"));
    let store = Secrets::new(subject.store()?);
    store.put_secret(&acme, &"openai".into(), secret("acme's"), at(1)).await?;
    assert_eq!(value(&store, "globex", "openai").await?, None);
    assert!(store.secrets(&globex).await?.is_empty());
    assert!(!store.remove_secret(&globex, &"openai".into()).await?);
    let put = store.put_secret(&globex, &"openai".into(), secret("globex's"), at(2)).await?;
    assert_eq!(put, Put::Created);
    assert_eq!(value(&store, "acme", "openai").await?.as_deref(), Some("acme's"));
    assert_eq!(value(&store, "globex", "openai").await?.as_deref(), Some("globex's"));
    Ok(())
}

pub(crate) async fn a_secret_is_its_places_own(mut subject: Subject) -> anyhow::Result<()> {
    let (acme, name): (_, SecretName) = (of("acme"), "openai".into());
    let north = Scope { workspace: Some("north".into()), ..acme.clone() };
    let test = Scope { mode: KeyMode::Test, ..acme.clone() };
    let both = Scope { mode: KeyMode::Test, ..north.clone() };
    let store = Secrets::new(subject.store()?);
    store.put_secret(&acme, &name, secret("acme"), at(1)).await?;
    for (other, kept) in [(&north, "north"), (&test, "test"), (&both, "both")] {
        assert!(store.resolve_secret(other, &name).await?.is_none(), "{other:?}");
        assert!(store.secrets(other).await?.is_empty(), "{other:?}");
        assert!(!store.remove_secret(other, &name).await?, "{other:?}");
        assert_eq!(store.put_secret(other, &name, secret(kept), at(2)).await?, Put::Created);
    }
    drop(store);
    subject.restart().await?;
    let store = Secrets::new(subject.store()?);
    for (place, kept) in [(&acme, "acme"), (&north, "north"), (&test, "test"), (&both, "both")] {
        let found = store.resolve_secret(place, &name).await?;
        assert_eq!(found.as_ref().map(|found| found.value.reveal()), Some(kept));
        assert_eq!(store.secrets(place).await?.len(), 1);
    }
    assert!(store.remove_secret(&north, &name).await?);
    assert_eq!(value(&store, "acme", "openai").await?.as_deref(), Some("acme"));
    Ok(())
}

pub(crate) async fn where_a_secret_may_go_is_kept_with_it(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (acme, name): (_, SecretName) = (of("acme"), "stripe".into());
    let provenance =
        Provenance { audiences: vec!["api.stripe.com".to_owned()], expires_at: Some(at(9)) };
    let bound = HeldSecret { provenance: Some(provenance.clone()), ..secret("one") };
    let store = Secrets::new(subject.store()?);
    store.put_secret(&acme, &name, bound, at(1)).await?;
    drop(store);
    subject.restart().await?;
    let store = Secrets::new(subject.store()?);
    let found = store.resolve_secret(&acme, &name).await?;
    assert_eq!(found.and_then(|found| found.provenance), Some(provenance.clone()));
    assert_eq!(store.secrets(&acme).await?[0].provenance, Some(provenance));
    // A new value goes where it was stored for, not where the old one went.
    store.put_secret(&acme, &name, secret("two"), at(2)).await?;
    let found = store.resolve_secret(&acme, &name).await?;
    assert!(found.is_some_and(|found| found.provenance.is_none()));
    Ok(())
}
