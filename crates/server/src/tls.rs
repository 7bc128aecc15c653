//! TLS in this process: one certificate with its key, which can be replaced while connections go on.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// A client that does not shake hands in this time is no client.
const SHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Terminates TLS. Cheap to clone; all of them show the same certificate.
#[derive(Clone)]
pub struct Tls {
    shown: Arc<Shown>,
    acceptor: TlsAcceptor,
}

/// Why a certificate and a key are not taken. Says nothing of the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error("the certificate file holds no certificate in PEM form")]
    NoCertificate,
    #[error("the key file holds no private key in PEM form")]
    NoKey,
    #[error("the key is of a kind that is not taken: use RSA, ECDSA or Ed25519")]
    UnknownKey,
    #[error("the key is not the certificate's")]
    OtherKey,
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Tls {
    /// From the texts of both files.
    pub fn new(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let shown = Arc::new(Shown(RwLock::new(Arc::new(read(certificate, key)?))));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Setup(error.to_string()))?;
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(&shown) as _;
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { shown, acceptor: TlsAcceptor::from(Arc::new(config)) })
    }

    /// What new connections are shown from now on. Where the pair is wrong, the one before stays.
    pub fn replace(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        let pair = Arc::new(read(certificate, key)?);
        *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = pair;
        Ok(())
    }

    /// Whether such a pair would be taken.
    pub fn check(certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        read(certificate, key).map(drop)
    }

    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let shaken = tokio::time::timeout(SHAKE_WITHIN, self.acceptor.accept(socket)).await;
        shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }
}

fn read(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or(TlsError::NoCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| TlsError::NoKey)?;
    let provider = aws_lc_rs::default_provider();
    let signing = provider.key_provider.load_private_key(key).map_err(|_| TlsError::UnknownKey)?;
    let pair = CertifiedKey::new(chain, signing);
    match pair.keys_match() {
        // Kinds of keys that cannot be compared fail in the first handshake, if at all.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(pair)
        }
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::OtherKey),
        Err(_) => Err(TlsError::NoCertificate),
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
