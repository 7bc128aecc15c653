//! `[server]`: what flags of `callboard serve` say, for those who would rather write it down.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use super::values::{checked, path, whole};
use crate::process::LogFormat;

/// The section as it was read; what is not there is left to the default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Server {
    pub(crate) listen: Option<String>,
    pub(crate) hosts: Option<Vec<String>>,
    #[serde(deserialize_with = "path")]
    pub(crate) data: Option<PathBuf>,
    #[serde(deserialize_with = "address")]
    pub(crate) database_url: Option<String>,
    /// A file with static keys: they do not belong in this one.
    #[serde(deserialize_with = "path")]
    pub(crate) api_keys_file: Option<PathBuf>,
    pub(crate) workflows: Option<Vec<PathBuf>>,
    pub(crate) packs: Option<Vec<PathBuf>>,
    pub(crate) test_seams: Option<bool>,
    pub(crate) without_v1: Option<bool>,
    pub(crate) allow_private_egress: Option<bool>,
    #[serde(deserialize_with = "whole::<_, _, 1, 3_600_000>")]
    pub(crate) webhook_retry_ms: Option<u64>,
    #[serde(deserialize_with = "whole::<_, _, 100, 3_600_000>")]
    pub(crate) lease_ms: Option<u64>,
    #[serde(deserialize_with = "whole::<_, _, 1, 1_800_000>")]
    pub(crate) heartbeat_ms: Option<u64>,
    /// Where clients reach this host: scheme and name, without a path.
    #[serde(deserialize_with = "origin")]
    pub(crate) public_url: Option<String>,
    pub(crate) trusted_proxies: Option<Vec<String>>,
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) log: Option<String>,
    #[serde(deserialize_with = "format")]
    pub(crate) log_format: Option<LogFormat>,
}

/// The certificate with its chain, and its key, both in PEM form.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
}

impl Server {
    /// Paths of a file are as seen from the file, wherever the host is started.
    pub(super) fn relative_to(&mut self, folder: &Path) {
        let lists = [&mut self.workflows, &mut self.packs].into_iter().flatten().flatten();
        let single = [&mut self.data, &mut self.api_keys_file].into_iter().flatten();
        let tls = self.tls.iter_mut().flat_map(|tls| [&mut tls.cert, &mut tls.key]);
        for path in lists.chain(single).chain(tls) {
            *path = folder.join(&*path);
        }
    }
}

/// A password in this file would be read by whoever may read the rest of it.
fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let url = String::deserialize(deserializer)?;
    let authority =
        url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or(""));
    let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    if has_password || url.contains("password=") {
        return Err(D::Error::custom(
            "has a password, which does not belong in this file\n\
             give the whole address in CALLBOARD_DATABASE_URL, or in the file that CALLBOARD_DATABASE_URL_FILE names",
        ));
    }
    Ok(Some(url))
}

fn origin<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    checked(deserializer, PUBLIC_URL, |text: String| Some(Some(read_origin(&text)?)))
}

pub(crate) const PUBLIC_URL: &str =
    "an address without a path, such as https://callboard.example.com";

/// Scheme and authority, without a slash at the end.
pub(crate) fn read_origin(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches('/');
    let (scheme, authority) = text.split_once("://")?;
    let is_sign = |sign: char| sign.is_ascii_alphanumeric() || "-._:[]".contains(sign);
    let is_plain = !authority.is_empty() && authority.chars().all(is_sign);
    (matches!(scheme, "http" | "https") && is_plain).then(|| text.to_owned())
}

fn format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<LogFormat>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = ["text", "json"];
    LogFormat::named(&name)
        .map(Some)
        .ok_or_else(|| D::Error::custom(super::explain::unknown("variant", &name, &known)))
}
