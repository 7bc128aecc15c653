//! What a subscription asks of posts: a preset, a secret, a filter. All of it is checked when it is made.

use callboard_engine::{Preset, SecretFrom, SigningSecret, Terms, TokenPlace, Verification};
use callboard_protocol::TriggerSource;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Create, make_secret, paths, random};
use crate::answer::Answer;
use crate::problem::Problem;
use axum::http::StatusCode;

/// Shorter ones can be guessed; longer ones are keys, and no sender has those.
const SECRET_LENGTH: std::ops::RangeInclusive<usize> = 16..=512;
const LONGEST_PLACE: usize = 100;
/// Headers that mean something else to every server on the way.
const NO_TOKENS: [&str; 6] =
    ["host", "content-type", "content-length", "connection", "transfer-encoding", "cookie"];

/// How posts over a subscription are judged.
pub(super) struct Judged {
    pub(super) terms: Terms,
    pub(super) verification: Verification,
    pub(super) secret: Option<SigningSecret>,
}

/// Reads what the maker of a subscription asks for, or says what of it cannot be.
pub(super) fn judge(body: &Create) -> Result<Judged, Problem> {
    let may_be_signed = matches!(body.source, TriggerSource::Webhook | TriggerSource::Email);
    if let Some(preset) = body.preset
        && !(may_be_signed && (body.source == TriggerSource::Webhook || suits_mail(preset)))
    {
        let message = "a webhook has any preset, mail token or standard-webhooks, others none";
        return Err(Problem::invalid_at("preset", message));
    }
    let preset = body.preset.unwrap_or_default();
    let is_signed = body.source == TriggerSource::Webhook || body.preset.is_some();
    let verification = verification(body, is_signed)?;
    let token = body.token.clone().map(checked_place).transpose()?;
    if token.is_some() && preset != Preset::Token {
        return Err(Problem::invalid_at("token", "is for preset token"));
    }
    let secret = secret(body, preset, is_signed)?;
    if let Some(filter) = &body.filter {
        paths::check_filter(filter, body.source, preset)?;
    }
    let terms = Terms { preset, token, filter: body.filter.clone() };
    Ok(Judged { terms, verification, secret })
}

fn suits_mail(preset: Preset) -> bool {
    matches!(preset, Preset::Token | Preset::StandardWebhooks)
}

fn verification(body: &Create, is_signed: bool) -> Result<Verification, Problem> {
    let mode = body.verification.as_ref().and_then(|verification| verification.mode);
    match (mode, is_signed) {
        (Some(mode), true) => Ok(mode),
        (None, true) => Ok(Verification::Required),
        // Only posts that are signed can be verified here; a promise that cannot be kept is not made.
        (Some(Verification::Required), false) => {
            let message = "this host verifies webhooks only";
            Err(Problem::invalid_at("verification.mode", message))
        }
        (Some(Verification::BestEffort | Verification::None) | None, false) => {
            Ok(Verification::None)
        }
    }
}

fn secret(
    body: &Create,
    preset: Preset,
    is_signed: bool,
) -> Result<Option<SigningSecret>, Problem> {
    match &body.secret {
        Some(_) if !is_signed => Err(Problem::invalid_at("secret", "is for what is signed")),
        Some(secret) => checked_secret(preset, secret.clone()).map(Some),
        None if is_signed => made_secret(preset).map(Some),
        None => Ok(None),
    }
}

/// A secret that the sender has, too.
pub(super) fn checked_secret(
    preset: Preset,
    secret: SigningSecret,
) -> Result<SigningSecret, Problem> {
    if preset.secret_from() == SecretFrom::Host {
        return Err(Problem::invalid_at("secret", "this host makes it for standard-webhooks"));
    }
    let text = secret.reveal();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !SECRET_LENGTH.contains(&text.len()) || !is_plain {
        let message = "must have 16 to 512 characters of ASCII";
        return Err(Problem::invalid_at("secret", message));
    }
    Ok(secret)
}

/// A secret that this host makes and shows once.
pub(super) fn made_secret(preset: Preset) -> Result<SigningSecret, Problem> {
    match preset.secret_from() {
        SecretFrom::Host => make_secret(),
        SecretFrom::Either => Ok(SigningSecret::new(callboard_protocol::hex(random::<32>()?))),
        SecretFrom::Sender => {
            let message = format!("give the secret that {} shows you", preset.as_str());
            Err(Problem::invalid_at("secret", &message))
        }
    }
}

fn checked_place(place: TokenPlace) -> Result<TokenPlace, Problem> {
    let is_word = |name: &str| {
        (1..=LONGEST_PLACE).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    match place {
        TokenPlace::Header(name) => {
            let name = name.to_ascii_lowercase();
            if !is_word(&name) || NO_TOKENS.contains(&name.as_str()) {
                return Err(Problem::invalid_at("token.header", "is no header for a token"));
            }
            Ok(TokenPlace::Header(name))
        }
        TokenPlace::Query(name) if is_word(&name) => Ok(TokenPlace::Query(name)),
        TokenPlace::Query(_) => {
            Err(Problem::invalid_at("token.query", "is no name of a parameter"))
        }
    }
}

/// What is ours in a subscription's document.
pub(super) fn show(terms: &Terms, document: &mut Value) {
    document["preset"] = json!(terms.preset);
    if let Some(token) = &terms.token {
        document["token"] = json!(token);
    }
    if let Some(filter) = &terms.filter {
        document["filter"] = json!(filter);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    name: &'static str,
    proof: &'static str,
    deduplicated_by: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    headers: &'static [&'static str],
    secret: SecretFrom,
}

/// `GET /v1/host/callboard/trigger-presets`.
pub(in crate::routes) async fn presets(uri: axum::http::Uri) -> Result<Answer, Problem> {
    crate::query::Parameters::closed(&uri, &[])?;
    let cards = Preset::ALL.map(|preset| Card {
        name: preset.as_str(),
        proof: preset.proof(),
        deduplicated_by: preset.known_by(),
        event: preset.event_from(),
        headers: preset.headers(),
        secret: preset.secret_from(),
    });
    Answer::json(StatusCode::OK, &json!({ "presets": cards }))
}
