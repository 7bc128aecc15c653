//! TLS to the database. A server is verified or not spoken to in TLS at all: what cannot be verified protects nobody.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Whom a server's certificate must come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Nobody is asked: there is no TLS.
    Unused,
    System,
    File(String),
}

pub(super) fn connector(trust: &Trust) -> Result<MakeRustlsConnect, String> {
    let mut roots = RootCertStore::empty();
    match trust {
        Trust::Unused => {}
        Trust::System => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        Trust::File(path) => {
            let unusable = |why: &dyn std::fmt::Display| format!("sslrootcert {path}: {why}");
            let certificates = CertificateDer::pem_file_iter(Path::new(path));
            for certificate in certificates.map_err(|error| unusable(&error))? {
                let certificate = certificate.map_err(|error| unusable(&error))?;
                roots.add(certificate).map_err(|error| unusable(&error))?;
            }
        }
    }
    if *trust != Trust::Unused && roots.is_empty() {
        return Err(
            "no certificates to verify the server with; name a file with sslrootcert".to_owned()
        );
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    Ok(MakeRustlsConnect::new(config.with_root_certificates(roots).with_no_client_auth()))
}
