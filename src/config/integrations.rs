//! `[integrations]`: who delivers the messages of `core.openwop.integration.*` and `callboard.reply.*`.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use callboard_backends::Integrations;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    email: Option<Email>,
    resend_url: Option<Address>,
    sendgrid_url: Option<Address>,
    slack_url: Option<Address>,
    github_url: Option<Address>,
    chat: BTreeMap<String, Address>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Email {
    Resend,
    Sendgrid,
}

/// An address without the slash at its end.
#[derive(Debug, Clone)]
struct Address(String);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let address = String::deserialize(deserializer)?;
        if !(address.starts_with("https://") || address.starts_with("http://")) {
            return Err(D::Error::custom("is not an address\nit begins with https://"));
        }
        Ok(Self(address.trim_end_matches('/').to_owned()))
    }
}

impl From<Section> for Integrations {
    fn from(section: Section) -> Self {
        let usual = Self::default();
        let or = |said: Option<Address>, usual: String| said.map_or(usual, |said| said.0);
        let email = section.email.map(|email| match email {
            Email::Resend => "resend".to_owned(),
            Email::Sendgrid => "sendgrid".to_owned(),
        });
        Self {
            email,
            resend_url: or(section.resend_url, usual.resend_url),
            sendgrid_url: or(section.sendgrid_url, usual.sendgrid_url),
            slack_url: or(section.slack_url, usual.slack_url),
            github_url: or(section.github_url, usual.github_url),
            chat: section.chat.into_iter().map(|(name, url)| (name, url.0)).collect(),
        }
    }
}
