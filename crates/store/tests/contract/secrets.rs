//! Secrets: kept under names, per tenant and kind of key, and given to those who resolve them.

use callboard_core::SecretText;
use callboard_engine::{KeyMode, Put, Secrets, StoredSecret};
use callboard_protocol::{SecretName, Tenant};

use crate::Subject;
use crate::given::at;

const LIVE: KeyMode = KeyMode::Live;

fn secret(text: &str) -> SecretText {
    SecretText::new(text.to_owned())
}

async fn value<S: Secrets + ?Sized>(
    store: &S,
    tenant: &str,
    name: &str,
) -> anyhow::Result<Option<String>> {
    let found = store.resolve_secret(&tenant.into(), LIVE, &name.into()).await?;
    Ok(found.map(|found| found.reveal().to_owned()))
}

pub(crate) async fn a_secret_is_kept_replaced_and_removed(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let acme: Tenant = "acme".into();
    let store = subject.ports()?;
    assert_eq!(value(store, "acme", "openai").await?, None);
    assert_eq!(
        store.put_secret(&acme, LIVE, &"openai".into(), secret("one"), at(1)).await?,
        Put::Created
    );
    assert_eq!(
        store.put_secret(&acme, LIVE, &"openai".into(), secret("two"), at(2)).await?,
        Put::Replaced
    );
    assert_eq!(
        store.put_secret(&acme, LIVE, &"github".into(), secret("ö\n"), at(3)).await?,
        Put::Created
    );
    subject.restart()?;
    let store = subject.ports()?;
    assert_eq!(value(store, "acme", "openai").await?.as_deref(), Some("two"));
    assert_eq!(value(store, "acme", "github").await?.as_deref(), Some("ö\n"));
    let line = |name: &str, created, updated| StoredSecret {
        name: name.into(),
        created_at: at(created),
        updated_at: at(updated),
    };
    assert_eq!(store.secrets(&acme, LIVE).await?, [line("github", 3, 3), line("openai", 1, 2)]);
    assert!(store.remove_secret(&acme, LIVE, &"openai".into()).await?);
    assert!(!store.remove_secret(&acme, LIVE, &"openai".into()).await?);
    assert_eq!(value(store, "acme", "openai").await?, None);
    let again = store.put_secret(&acme, LIVE, &"openai".into(), secret("three"), at(4)).await?;
    assert_eq!(again, Put::Created);
    Ok(())
}

pub(crate) async fn a_secret_is_its_tenants_own(subject: Subject) -> anyhow::Result<()> {
    let (acme, globex): (Tenant, Tenant) = ("acme".into(), "globex".into());
    let store = subject.ports()?;
    store.put_secret(&acme, LIVE, &"openai".into(), secret("acme's"), at(1)).await?;
    assert_eq!(value(store, "globex", "openai").await?, None);
    assert!(store.secrets(&globex, LIVE).await?.is_empty());
    assert!(!store.remove_secret(&globex, LIVE, &"openai".into()).await?);
    let put = store.put_secret(&globex, LIVE, &"openai".into(), secret("globex's"), at(2)).await?;
    assert_eq!(put, Put::Created);
    assert_eq!(value(store, "acme", "openai").await?.as_deref(), Some("acme's"));
    assert_eq!(value(store, "globex", "openai").await?.as_deref(), Some("globex's"));
    Ok(())
}

pub(crate) async fn a_test_keys_secrets_are_apart_from_the_live_ones(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let (acme, name): (Tenant, SecretName) = ("acme".into(), "openai".into());
    let store = subject.ports()?;
    store.put_secret(&acme, LIVE, &name, secret("live"), at(1)).await?;
    assert!(store.resolve_secret(&acme, KeyMode::Test, &name).await?.is_none());
    assert!(store.secrets(&acme, KeyMode::Test).await?.is_empty());
    assert!(!store.remove_secret(&acme, KeyMode::Test, &name).await?);
    let put = store.put_secret(&acme, KeyMode::Test, &name, secret("test"), at(2)).await?;
    assert_eq!(put, Put::Created);
    subject.restart()?;
    let store = subject.ports()?;
    for (mode, kept) in [(LIVE, "live"), (KeyMode::Test, "test")] {
        let found = store.resolve_secret(&acme, mode, &name).await?;
        assert_eq!(found.as_ref().map(SecretText::reveal), Some(kept));
        assert_eq!(store.secrets(&acme, mode).await?.len(), 1);
    }
    assert!(store.remove_secret(&acme, KeyMode::Test, &name).await?);
    assert_eq!(value(store, "acme", "openai").await?.as_deref(), Some("live"));
    Ok(())
}
