//! What the claims of a token mean here: until when it counts, whose it is, and what its holder may. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use callboard_protocol::{KeyId, Object, Timestamp, hex};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::token::Wrong;
use super::{IssuerSettings, RolesRule, TenantRule, Vouched, Way};
use crate::v2::id::is_tenant;

/// Words of one claim: somebody with more groups needs a claim made for this host.
const MOST_WORDS: usize = 500;
/// Begins the id of those whom an issuer vouches for.
const ISSUED: &str = "oidc-";
const LONGEST_SUBJECT: usize = 255;
const LONGEST_NAME: usize = 200;

/// Whether a token that is signed as it should be is for this host, and counts now.
pub(super) fn check(
    claims: &Object,
    audiences: &BTreeSet<String>,
    skew: Duration,
    now: Timestamp,
) -> Result<(), Wrong> {
    let is_ours = |audience: &Value| audience.as_str().is_some_and(|it| audiences.contains(it));
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(is_ours),
        Some(one) => is_ours(one),
        None => false,
    };
    if !is_for_us {
        return Err(Wrong::Audience);
    }
    if end(claims, skew)? <= now {
        return Err(Wrong::Expired);
    }
    for name in ["nbf", "iat"] {
        let Some(said) = claims.get(name) else { continue };
        let from = time(said).ok_or(Wrong::Lacks(name))?;
        if from > now.plus(skew) {
            return Err(Wrong::NotYet);
        }
    }
    Ok(())
}

fn end(claims: &Object, skew: Duration) -> Result<Timestamp, Wrong> {
    let end = claims.get("exp").and_then(time).ok_or(Wrong::Lacks("exp"))?;
    Ok(end.plus(skew))
}

/// Seconds since 1970, whole or not.
fn time(said: &Value) -> Option<Timestamp> {
    let seconds = said.as_f64().filter(|it| (0.0..1e11).contains(it))?;
    // Within what a whole number of milliseconds holds exactly.
    let millis = (seconds * 1000.0) as i64;
    Some(Timestamp::from_millis(millis))
}

/// Who somebody with these claims is here.
pub(super) fn vouch(
    settings: &IssuerSettings,
    claims: &Object,
    way: Way,
) -> Result<Vouched, crate::problem::Problem> {
    Ok(who(settings, claims, way)?)
}

fn who(settings: &IssuerSettings, claims: &Object, way: Way) -> Result<Vouched, Wrong> {
    let subject = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    if subject.is_empty() || subject.len() > LONGEST_SUBJECT {
        return Err(Wrong::Lacks("sub"));
    }
    let tenant = tenant(&settings.tenant, claims)?;
    let workspace =
        settings.workspace_claim.as_ref().map(|claim| named(claims, claim)).transpose()?;
    let until = end(claims, settings.skew)?;
    let roles = roles(&settings.roles, claims);
    // Opaque: what an issuer calls somebody may be an address of theirs.
    let person = digest(&[&settings.issuer, subject]);
    let way = match way {
        Way::Bearer => "bearer",
        Way::Console => "console",
    };
    let place = workspace.as_deref().unwrap_or_default();
    let id = digest(&[&settings.issuer, subject, &tenant, place, way]);
    let name = ["preferred_username", "email", "name", "client_id", "azp"];
    let name = name.iter().find_map(|name| claims.get(*name)?.as_str()).unwrap_or(subject);
    Ok(Vouched {
        id: format!("{ISSUED}{id}").into(),
        principal: format!("oidc:{person}").into(),
        issuer: settings.issuer.clone(),
        name: name.chars().filter(|sign| !sign.is_control()).take(LONGEST_NAME).collect(),
        tenant: tenant.as_str().into(),
        workspace: workspace.as_deref().map(Into::into),
        roles,
        until,
    })
}

/// Whether this is the id of somebody whom an issuer vouches for.
pub fn is_of_issuer(id: &KeyId) -> bool {
    id.as_str().starts_with(ISSUED)
}

/// No two lists of parts come to the same.
fn digest(parts: &[&str]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part.len().to_be_bytes());
        digest.update(part);
    }
    hex(digest.finalize().get(..16).unwrap_or_default())
}

fn tenant(rule: &TenantRule, claims: &Object) -> Result<String, Wrong> {
    match rule {
        TenantRule::Fixed(tenant) => Ok(tenant.clone()),
        TenantRule::AnyOf { claim } => named(claims, claim),
        TenantRule::Claim { claim, known } => {
            let said = find(claims, claim).and_then(Value::as_str).unwrap_or_default();
            known.get(said).cloned().ok_or_else(|| {
                Wrong::NotHere(format!("the token's {claim} names no tenant of this host"))
            })
        }
    }
}

/// A tenant or workspace, as a claim names it.
fn named(claims: &Object, claim: &str) -> Result<String, Wrong> {
    let said = find(claims, claim).and_then(Value::as_str).filter(|name| is_tenant(name));
    said.map(str::to_owned).ok_or_else(|| {
        Wrong::NotHere(format!(
            "the token's {claim} is missing, or nothing that can be a name here"
        ))
    })
}

fn roles(rule: &RolesRule, claims: &Object) -> BTreeSet<String> {
    let said = rule.claim.as_ref().and_then(|claim| find(claims, claim));
    let words: Vec<&str> = match said {
        Some(Value::String(words)) => words.split_whitespace().take(MOST_WORDS).collect(),
        Some(Value::Array(words)) => {
            words.iter().filter_map(Value::as_str).take(MOST_WORDS).collect()
        }
        _ => Vec::new(),
    };
    let mean = |word: &&str| match rule.meaning.is_empty() {
        true => Some((*word).to_owned()),
        false => rule.meaning.get(*word).cloned(),
    };
    words.iter().filter_map(mean).chain(rule.everybody.iter().cloned()).collect()
}

/// A claim by its whole name, which may be an address with dots, or by the way into it.
fn find<'c>(claims: &'c Object, name: &str) -> Option<&'c Value> {
    if let Some(found) = claims.get(name) {
        return Some(found);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, part| value.get(part))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SKEW: Duration = Duration::from_secs(30);

    fn object(value: Value) -> Object {
        value.as_object().cloned().unwrap_or_default()
    }

    fn settings(tenant: TenantRule) -> IssuerSettings {
        let meaning = [("admins".to_owned(), "root".to_owned())];
        IssuerSettings {
            name: "main".to_owned(),
            issuer: "https://login.example".to_owned(),
            audiences: BTreeSet::from(["callboard".to_owned()]),
            tenant,
            workspace_claim: None,
            roles: RolesRule {
                claim: Some("realm.roles".to_owned()),
                meaning: meaning.into(),
                everybody: BTreeSet::from(["viewer".to_owned()]),
            },
            skew: SKEW,
        }
    }

    fn checked(claims: Value) -> Result<(), Wrong> {
        let audiences = BTreeSet::from(["callboard".to_owned()]);
        check(&object(claims), &audiences, SKEW, Timestamp::from_millis(1_000_000))
    }

    #[test]
    fn audience_and_times_are_checked_with_the_clocks_skew() {
        let good = json!({ "aud": "callboard", "exp": 1001 });
        assert_eq!(checked(good), Ok(()));
        assert_eq!(
            checked(json!({ "aud": ["x", "callboard"], "exp": 971.5, "nbf": 1030, "iat": 1030 })),
            Ok(())
        );
        for (claims, wrong) in [
            (json!({ "exp": 1001 }), Wrong::Audience),
            (json!({ "aud": "other", "exp": 1001 }), Wrong::Audience),
            (json!({ "aud": [], "exp": 1001 }), Wrong::Audience),
            (json!({ "aud": [["callboard"]], "exp": 1001 }), Wrong::Audience),
            (json!({ "aud": "callboard" }), Wrong::Lacks("exp")),
            (json!({ "aud": "callboard", "exp": "1001" }), Wrong::Lacks("exp")),
            (json!({ "aud": "callboard", "exp": 1e300 }), Wrong::Lacks("exp")),
            (json!({ "aud": "callboard", "exp": 970 }), Wrong::Expired),
            (json!({ "aud": "callboard", "exp": 2000, "nbf": 1031 }), Wrong::NotYet),
            (json!({ "aud": "callboard", "exp": 2000, "iat": 1031 }), Wrong::NotYet),
            (json!({ "aud": "callboard", "exp": 2000, "nbf": "soon" }), Wrong::Lacks("nbf")),
        ] {
            assert_eq!(checked(claims.clone()), Err(wrong), "{claims}");
        }
    }

    #[test]
    fn a_person_is_the_same_wherever_it_comes_in_and_each_way_is_its_own() {
        let settings = settings(TenantRule::AnyOf { claim: "org".to_owned() });
        let of = |org: &str, way| {
            let claims = json!({ "sub": "u1", "org": org, "exp": 1000, "realm": { "roles": ["admins", "x"] } });
            who(&settings, &object(claims), way).expect("somebody")
        };
        let one = of("acme", Way::Bearer);
        assert_eq!(one.roles, BTreeSet::from(["root".to_owned(), "viewer".to_owned()]));
        assert_eq!(one.until, Timestamp::from_millis(1_030_000));
        assert_eq!(one.principal, of("rival", Way::Console).principal);
        assert_ne!(one.id, of("rival", Way::Bearer).id);
        assert_ne!(one.id, of("acme", Way::Console).id);
        assert!(!one.principal.as_str().contains("u1"), "who that is, is the issuer's");
    }

    #[test]
    fn whoever_has_no_tenant_here_is_refused() {
        let known = [("org_1".to_owned(), "acme".to_owned())].into();
        let mapped = settings(TenantRule::Claim { claim: "org".to_owned(), known });
        let any = settings(TenantRule::AnyOf { claim: "org".to_owned() });
        let of = |settings: &IssuerSettings, claims: Value| {
            who(settings, &object(claims), Way::Bearer).map(|it| it.tenant.to_string())
        };
        let good = json!({ "sub": "u", "exp": 1, "org": "org_1" });
        assert_eq!(of(&mapped, good.clone()), Ok("acme".to_owned()));
        assert_eq!(of(&any, good), Ok("org_1".to_owned()));
        for claims in [
            json!({ "sub": "u", "exp": 1 }),
            json!({ "sub": "u", "exp": 1, "org": "acme/ops" }),
            json!({ "sub": "u", "exp": 1, "org": ["org_1"] }),
            json!({ "sub": "u", "exp": 1, "org": "" }),
        ] {
            assert!(matches!(of(&mapped, claims.clone()), Err(Wrong::NotHere(_))), "{claims}");
            assert!(matches!(of(&any, claims.clone()), Err(Wrong::NotHere(_))), "{claims}");
        }
        for sub in [json!(null), json!(""), json!(7), json!("x".repeat(256))] {
            let claims = json!({ "sub": sub, "exp": 1, "org": "org_1" });
            assert_eq!(of(&mapped, claims), Err(Wrong::Lacks("sub")));
        }
    }
}
