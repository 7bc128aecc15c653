//! Requests about packs.

use std::collections::BTreeSet;

use indicatif::ProgressBar;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE};
use reqwest::{Body, Method};
use serde_json::Value;

use super::{Client, EXTENSION, Kind, segment};
use crate::exit::{CommandError, Exit};
use crate::screen::progress;

impl Client {
    /// The versions whose contents nothing proves, as `name version`; none where this key may not list packs.
    pub(crate) async fn unverified_packs(&self) -> Option<BTreeSet<String>> {
        let found = self.list(&Kind::PACK, &[]).await.ok()?;
        let packs = found["packs"].as_array()?.iter().filter(|pack| pack["verified"] == false);
        let part = |pack: &Value, name: &str| pack[name].as_str().unwrap_or_default().to_owned();
        Some(
            packs.map(|pack| format!("{} {}", part(pack, "name"), part(pack, "version"))).collect(),
        )
    }

    /// Installs an archive; answers what the host says of it.
    pub(crate) async fn install_pack(
        &self,
        archive: Vec<u8>,
        query: &[(&str, String)],
        bar: ProgressBar,
    ) -> Result<Value, CommandError> {
        let path = self.place_of(Kind::PACK.path).await;
        let request = self
            .request_with(Method::POST, &path, query)?
            .header(CONTENT_TYPE, "application/gzip")
            // A chunked body has no known length, so it is sent as a header.
            .header(CONTENT_LENGTH, archive.len());
        let body = Body::wrap_stream(progress::counted(archive, bar));
        self.json(request.body(body)).await.map_err(not_taken)
    }

    pub(crate) async fn fetch_pack(&self, wanted: &Value) -> Result<Value, CommandError> {
        let path = format!("{EXTENSION}/packs/from-registry");
        self.json(self.request(Method::POST, &path).json(wanted)).await.map_err(not_taken)
    }

    pub(crate) async fn remove_pack(&self, name: &str, version: &str) -> Result<(), CommandError> {
        let path = format!("{EXTENSION}/packs/{}/{}", segment(name), segment(version));
        let removed = self.send(self.request(Method::DELETE, &path)).await;
        removed.map(drop).map_err(|error| Kind::PACK.missing(error, &format!("{name} {version}")))
    }
}

/// A pack that fails a check was asked for in the right way.
fn not_taken(error: CommandError) -> CommandError {
    match error.code.as_deref() {
        None | Some("validation_error") => error,
        Some(_) if error.exit == Exit::Usage => CommandError { exit: Exit::Failed, ..error },
        Some(_) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_that_fails_a_check_is_no_wrong_usage() {
        let exit_of = |code: &str| {
            let code = Some(code.to_owned());
            not_taken(CommandError { code, ..CommandError::usage("no") }).exit
        };
        assert_eq!(exit_of("pack_signature_unverifiable"), Exit::Failed);
        assert_eq!(exit_of("invalid_manifest"), Exit::Failed);
        assert_eq!(exit_of("validation_error"), Exit::Usage);
    }
}
