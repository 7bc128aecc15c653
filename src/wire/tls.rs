//! The certificate that the host shows, read from its files.

use std::path::Path;

use callboard_server::{Tls, TlsError};

use crate::config::TlsFiles;
use crate::exit::CommandError;

/// Both files, as they are now.
pub(super) fn read(files: &TlsFiles) -> Result<(Vec<u8>, Vec<u8>), CommandError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| {
            CommandError::usage(format!("[server.tls]: cannot read {}: {error}", path.display()))
        })
    };
    let pair = (read(&files.cert)?, read(&files.key)?);
    Tls::check(&pair.0, &pair.1).map_err(|error| wrong(files, &error))?;
    Ok(pair)
}

pub(super) fn open(files: &TlsFiles) -> Result<Tls, CommandError> {
    let (certificate, key) = read(files)?;
    Tls::new(&certificate, &key).map_err(|error| wrong(files, &error))
}

fn wrong(files: &TlsFiles, error: &TlsError) -> CommandError {
    let (cert, key) = (files.cert.display(), files.key.display());
    CommandError::usage(format!("[server.tls]: {error} ({cert}, {key})"))
        .hint("cert is the certificate followed by its chain, key is its private key, both PEM")
}
