//! Keys and what they made, generations of links, secrets, sessions at the console.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::SecretText;
use callboard_engine::{
    ConsoleSession, ConsoleSessions, Keys, LinkSecrets, Made, Role, Roles, Secrets, Store,
    StoreError, StoredKey,
};
use callboard_protocol::Timestamp;

use super::scenario::{Host, Scenario};
use crate::sim::scope;

pub(super) struct Access;

fn key() -> StoredKey {
    StoredKey {
        id: "key_a".into(),
        name: "ci".to_owned(),
        tenant: "default".into(),
        workspace: None,
        scopes: None,
        test: false,
        digest: [7; 32],
        created_at: Timestamp::default(),
        expires_at: None,
        revoked_at: None,
        made_by: None,
        votes_as: None,
        roles: BTreeSet::new(),
        issuer: None,
    }
}

fn session(key: &str, seen: i64) -> ConsoleSession {
    let (created_at, seen_at) = (Timestamp::default(), Timestamp::from_millis(seen));
    ConsoleSession { key: key.into(), created_at, seen_at }
}

/// Four browsers of two keys: one is used, one signs out, and one key signs out everywhere.
async fn sign_in_and_out(sessions: &ConsoleSessions, step: usize) {
    let ends = Timestamp::from_millis(60_000);
    match step {
        0 => sessions.begin(&[1; 32], &session("key_a", 0), ends, None).await.unwrap(),
        1 => sessions.begin(&[2; 32], &session("key_a", 0), ends, None).await.unwrap(),
        2 => sessions.begin(&[3; 32], &session("key_b", 0), ends, None).await.unwrap(),
        3 => sessions.begin(&[4; 32], &session("key_b", 0), ends, None).await.unwrap(),
        4 => sessions.touch(&[3; 32], &session("key_b", 7), ends).await.unwrap(),
        5 => sessions.end(&[4; 32]).await.unwrap(),
        _ => sessions.end_all_of(&"key_a".into()).await.unwrap(),
    }
}

/// A role that changes and one that goes, a key that ends soon, somebody who signed in with other roles, a use.
async fn roles_and_ends(store: &Arc<dyn Store>, step: usize) {
    let (keys, roles, realm) =
        (Keys::new(store.clone()), Roles::new(store.clone()), scope().realm());
    let role = |name: &str, scope: &str| Role {
        name: name.to_owned(),
        description: None,
        scopes: BTreeSet::from([scope.to_owned()]),
        updated_at: Timestamp::default(),
    };
    let somebody = |role: &str| StoredKey {
        id: "oidc-a".into(),
        roles: BTreeSet::from([role.to_owned()]),
        issuer: Some("https://login.example".to_owned()),
        ..key()
    };
    let at = Timestamp::from_millis(5_000);
    match step {
        0 => drop(roles.put_role(&realm, &role("ops", "runs:read")).await.unwrap()),
        1 => drop(roles.put_role(&realm, &role("ops", "runs:cancel")).await.unwrap()),
        2 => drop(roles.put_role(&realm, &role("gone", "runs:read")).await.unwrap()),
        3 => drop(roles.remove_role(&realm, "gone").await.unwrap()),
        4 => keys.note_identity(&somebody("ops")).await.unwrap(),
        5 => keys.note_identity(&somebody("viewer")).await.unwrap(),
        _ => {
            assert!(keys.end_key(&"default".into(), &"oidc-a".into(), at).await.unwrap());
            keys.note_uses(&[("key_a".into(), at)]).await.unwrap();
        }
    }
}

#[async_trait(?Send)]
impl Scenario for Access {
    fn steps(&self) -> usize {
        22
    }

    async fn act(&self, host: &Host, step: usize) {
        let (keys, links) = (Keys::new(host.store.clone()), LinkSecrets::new(host.store.clone()));
        let (secrets, realm, at) =
            (Secrets::new(host.store.clone()), scope().realm(), Timestamp::default());
        let put = async |name: &str, value: &str| {
            let value = SecretText::new(value.to_owned()).into();
            secrets.put_secret(&scope(), &name.into(), value, at).await.unwrap();
        };
        match step {
            // Whoever asks again after a crash may find it made.
            0 => match keys.put_key(key()).await {
                Ok(()) | Err(StoreError::Moved { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            1 => {
                keys.note_maker(&realm, Made::Webhook("wh".into()), &"key_a".into()).await.unwrap()
            }
            2 => drop(keys.revoke_key(&"default".into(), &"key_a".into(), at).await.unwrap()),
            3 => drop(links.rotate_links(&realm).await.unwrap()),
            4 => put("openai", "one").await,
            5 => put("openai", "two").await,
            6 => put("github", "three").await,
            7 => drop(secrets.remove_secret(&scope(), &"github".into()).await.unwrap()),
            8..=14 => sign_in_and_out(&ConsoleSessions::new(host.store.clone()), step - 8).await,
            _ => roles_and_ends(&host.store, step - 15).await,
        }
    }

    async fn observe(&self, store: Arc<dyn Store>) -> Value {
        let (keys, links) = (Keys::new(store.clone()), LinkSecrets::new(store.clone()));
        let (secrets, realm) = (Secrets::new(store.clone()), scope().realm());
        let sessions = ConsoleSessions::new(store.clone());
        let mut signed_in = Vec::new();
        for hash in [[1; 32], [2; 32], [3; 32], [4; 32]] {
            signed_in.push(sessions.find(&hash).await.unwrap());
        }
        let openai = secrets.resolve_secret(&scope(), &"openai".into()).await.unwrap();
        let names = secrets.secrets(&scope()).await.unwrap().into_iter().map(|it| it.name);
        json!([
            keys.all_keys().await.unwrap(),
            format!("{:?}", keys.noted_of(&realm, &"key_a".into()).await.unwrap()),
            // Whoever asks again for a new generation gets another.
            links.link_generation(&realm).await.unwrap() > 0,
            openai.map(|held| held.value.reveal().to_owned()),
            names.collect::<Vec<_>>(),
            signed_in,
            Roles::new(store).roles(&realm).await.unwrap(),
            keys.uses().await.unwrap(),
        ])
    }
}
