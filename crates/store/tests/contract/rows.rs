//! Access: workflow definitions, API keys, generations of link secrets.

use std::collections::BTreeSet;

use callboard_engine::{KeyMode, Keys, LinkSecrets, Made, Put, Realm, Scope, StoredKey};
use callboard_protocol::WorkflowId;

use crate::Subject;
use crate::given::at;

fn of(tenant: &str) -> Scope {
    Scope { tenant: tenant.into(), workspace: None, mode: KeyMode::Live }
}

pub(crate) async fn workflows_are_kept_per_tenant(subject: Subject) -> anyhow::Result<()> {
    let (acme, globex, greet): (_, _, WorkflowId) = (of("acme"), of("globex"), "greet".into());
    assert_eq!(
        subject.workflows()?.put_workflow(&acme, &"part".into(), "{ }", Vec::new(), at(1)).await?,
        Put::Created
    );
    assert_eq!(subject.workflows()?.workflow(&acme, &greet).await?, None);
    assert_eq!(
        subject.workflows()?.put_workflow(&acme, &greet, "{}", Vec::new(), at(1)).await?,
        Put::Created
    );
    assert_eq!(
        subject.workflows()?.workflow(&acme, &greet).await?.map(|first| first.updated_at),
        Some(at(1))
    );
    assert_eq!(
        subject.workflows()?.put_workflow(&acme, &greet, "{\"v\": 2}", Vec::new(), at(2)).await?,
        Put::Replaced
    );
    assert_eq!(
        subject.workflows()?.put_workflow(&globex, &greet, "{}", Vec::new(), at(3)).await?,
        Put::Created
    );

    let there = subject.workflows()?.workflow(&acme, &greet).await?;
    let there = there.map(|there| (there.source, there.updated_at));
    assert_eq!(there, Some(("{\"v\": 2}".into(), at(2))));
    let ids: Vec<_> = subject
        .workflows()?
        .workflows(&acme)
        .await?
        .into_iter()
        .map(|workflow| workflow.id)
        .collect();
    assert_eq!(ids, ["greet".into(), "part".into()]);

    assert!(subject.workflows()?.delete_workflow(&acme, &greet, Vec::new()).await?);
    assert!(!subject.workflows()?.delete_workflow(&acme, &greet, Vec::new()).await?);
    assert_eq!(subject.workflows()?.workflow(&acme, &greet).await?, None);
    assert_eq!(
        subject.workflows()?.put_workflow(&acme, &greet, "{}", Vec::new(), at(4)).await?,
        Put::Created
    );
    assert_eq!(subject.workflows()?.workflows(&globex).await?.len(), 1);
    Ok(())
}

pub(crate) async fn a_workflow_is_its_places_own(subject: Subject) -> anyhow::Result<()> {
    let greet: WorkflowId = "greet".into();
    let north = Scope { workspace: Some("north".into()), ..of("acme") };
    let places = [of("acme"), north.clone(), Scope { mode: KeyMode::Test, ..of("acme") }];
    for (count, place) in places.iter().enumerate() {
        let source = format!("{{\"v\": {count}}}");
        let put =
            subject.workflows()?.put_workflow(place, &greet, &source, Vec::new(), at(1)).await?;
        assert_eq!(put, Put::Created, "{place:?}");
    }
    for (count, place) in places.iter().enumerate() {
        let there = subject.workflows()?.workflow(place, &greet).await?.map(|there| there.source);
        assert_eq!(there.as_deref(), Some(format!("{{\"v\": {count}}}").as_str()), "{place:?}");
        assert_eq!(subject.workflows()?.workflows(place).await?.len(), 1, "{place:?}");
    }
    assert!(subject.workflows()?.delete_workflow(&north, &greet, Vec::new()).await?);
    assert!(!subject.workflows()?.delete_workflow(&north, &greet, Vec::new()).await?);
    assert!(subject.workflows()?.workflow(&of("acme"), &greet).await?.is_some());
    Ok(())
}

pub(crate) async fn keys_are_kept_and_revoked(subject: Subject) -> anyhow::Result<()> {
    let store = Keys::new(subject.store()?);
    let narrow = StoredKey {
        id: "key_a".into(),
        name: "ci".to_owned(),
        tenant: "acme".into(),
        workspace: Some("sales".into()),
        scopes: Some(BTreeSet::from(["runs:read".to_owned(), "runs:write".to_owned()])),
        test: true,
        digest: [7; 32],
        created_at: at(1),
        expires_at: Some(at(100)),
        revoked_at: None,
        made_by: Some("key_b".into()),
        votes_as: Some("key:key_b".into()),
        roles: ["desk".to_owned()].into(),
        issuer: None,
    };
    let wide = StoredKey {
        id: "key_b".into(),
        workspace: None,
        scopes: None,
        test: false,
        digest: [8; 32],
        expires_at: None,
        made_by: None,
        votes_as: None,
        ..narrow.clone()
    };
    store.put_key(wide.clone()).await?;
    store.put_key(narrow.clone()).await?;
    assert_eq!(store.all_keys().await?, [narrow.clone(), wide.clone()]);

    assert!(!store.revoke_key(&"globex".into(), &narrow.id, at(5)).await?);
    assert!(!store.revoke_key(&"acme".into(), &"key_c".into(), at(5)).await?);
    assert!(store.revoke_key(&"acme".into(), &narrow.id, at(5)).await?);
    assert!(store.revoke_key(&"acme".into(), &narrow.id, at(9)).await?);
    let revoked: Vec<_> = store.all_keys().await?.into_iter().map(|key| key.revoked_at).collect();
    assert_eq!(revoked, [Some(at(5)), None]);
    Ok(())
}

pub(crate) async fn what_a_key_made_is_noted(mut subject: Subject) -> anyhow::Result<()> {
    let live = Realm { tenant: "acme".into(), mode: KeyMode::Live };
    let test = Realm { mode: KeyMode::Test, ..live.clone() };
    let (member, webhook) = (Made::Member("host:a".into()), Made::Webhook("wh_a".into()));
    let store = Keys::new(subject.store()?);
    store.note_maker(&live, webhook.clone(), &"key_a".into()).await?;
    store.note_maker(&live, member.clone(), &"key_a".into()).await?;
    store.note_maker(&live, Made::Webhook("wh_b".into()), &"key_b".into()).await?;
    drop(store);
    subject.restart().await?;
    let store = Keys::new(subject.store()?);
    assert_eq!(store.noted_of(&live, &"key_a".into()).await?, [member, webhook]);
    assert!(store.noted_of(&test, &"key_a".into()).await?.is_empty());
    Ok(())
}

pub(crate) async fn link_secrets_have_generations_per_tenant(
    mut subject: Subject,
) -> anyhow::Result<()> {
    let live = |tenant: &str| Realm { tenant: tenant.into(), mode: KeyMode::Live };
    let (acme, globex) = (live("acme"), live("globex"));
    let test = Realm { mode: KeyMode::Test, ..acme.clone() };
    let store = LinkSecrets::new(subject.store()?);
    assert_eq!(store.link_generation(&acme).await?, 0);
    assert_eq!(store.rotate_links(&acme).await?, 1);
    assert_eq!(store.rotate_links(&acme).await?, 2);
    let secret = store.link_secret(&acme, 2);
    assert_ne!(secret, store.link_secret(&acme, 1));
    assert_ne!(secret, store.link_secret(&globex, 2));
    drop(store);
    subject.restart().await?;
    let store = LinkSecrets::new(subject.store()?);
    assert_eq!((store.link_generation(&acme).await?, store.link_secret(&acme, 2)), (2, secret));
    for other in [&globex, &test] {
        assert_eq!(store.link_generation(other).await?, 0);
        assert_ne!(store.link_secret(other, 2), secret);
    }
    Ok(())
}
