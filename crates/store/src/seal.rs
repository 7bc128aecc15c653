//! Encryption of values that must not be on the disk in plain text, and the key for it.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

use callboard_protocol::hex;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;

/// The first byte of every sealed value. Old readers refuse a format that they do not know; a new
/// reader keeps the branch of every older one; sealed values are never rewritten in place.
const FORMAT: u8 = 1;

/// Sealed at first start and opened at every later one, so that a wrong key is noticed before it seals anything.
const CHECK_TEXT: &str = "callboard";
const CHECK_PLACE: &str = "meta/key_check";

/// Seals and opens values. Each is bound to the place where it stands: moved elsewhere, it does not open.
pub(crate) struct Seal {
    cipher: XChaCha20Poly1305,
    /// Where keys for other purposes come from; it does not lead back to the key itself.
    root: [u8; KEY_BYTES],
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

/// Why a value could not be sealed or opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("the system gave no random bytes")]
    NoRandomness,
    #[error("its seal has a format that this version does not know")]
    UnknownFormat,
    #[error("its seal is broken, or was made with another key")]
    Broken,
}

impl Seal {
    fn new(key: &[u8; KEY_BYTES]) -> Self {
        let root = Sha256::new().chain_update(b"callboard/derive").chain_update(key).finalize();
        Self { cipher: XChaCha20Poly1305::new(&Key::from(*key)), root: root.into() }
    }

    /// A key of its own for each purpose, the same after every restart.
    pub(crate) fn derive(&self, purpose: &str) -> [u8; KEY_BYTES] {
        Sha256::new().chain_update(self.root).chain_update(purpose).finalize().into()
    }

    pub(crate) fn seal(&self, place: &str, text: &str) -> Result<Vec<u8>, SealError> {
        self.seal_bytes(place, text.as_bytes())
    }

    pub(crate) fn seal_bytes(&self, place: &str, msg: &[u8]) -> Result<Vec<u8>, SealError> {
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| SealError::NoRandomness)?;
        let payload = Payload { msg, aad: place.as_bytes() };
        let sealed =
            self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| SealError::Broken)?;
        Ok([&[FORMAT], nonce.as_slice(), sealed.as_slice()].concat())
    }

    pub(crate) fn open(&self, place: &str, sealed: &[u8]) -> Result<String, SealError> {
        String::from_utf8(self.open_bytes(place, sealed)?).map_err(|_| SealError::Broken)
    }

    pub(crate) fn open_bytes(&self, place: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (format, rest) = sealed.split_first().ok_or(SealError::Broken)?;
        if *format != FORMAT {
            return Err(SealError::UnknownFormat);
        }
        let (nonce, msg) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Broken)?;
        let payload = Payload { msg, aad: place.as_bytes() };
        self.cipher.decrypt(&XNonce::from(*nonce), payload).map_err(|_| SealError::Broken)
    }

    pub(crate) fn make_check(&self) -> Result<Vec<u8>, SealError> {
        self.seal(CHECK_PLACE, CHECK_TEXT)
    }

    /// Whether this is the key that made `check`.
    pub(crate) fn passes(&self, check: &[u8]) -> bool {
        self.open(CHECK_PLACE, check).is_ok_and(|text| text == CHECK_TEXT)
    }
}

/// A key that was given as 64 hexadecimal digits.
pub(crate) fn key_of(digits: &str) -> Option<Seal> {
    from_hex(digits).map(|key| Seal::new(&key))
}

/// Reads a key file; none if there is no such file.
pub(crate) fn read_key(path: &Path) -> io::Result<Option<Seal>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let key = from_hex(text.trim_end()).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it does not hold 64 hexadecimal digits")
    })?;
    Ok(Some(Seal::new(&key)))
}

/// Makes a new key, readable by its owner alone, beside the place that [`keep_key`] puts it into.
pub(crate) fn create_key(path: &Path) -> io::Result<Seal> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    write_aside(path, &hex(key))?;
    Ok(Seal::new(&key))
}

/// Keeps a key that is known, readable by its owner alone.
pub(crate) fn put_key(path: &Path, digits: &str) -> io::Result<()> {
    write_aside(path, digits)?;
    keep_key(path)
}

fn write_aside(path: &Path, digits: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(aside(path))?;
    writeln!(file, "{digits}")?;
    file.sync_all()?;
    sync_folder(path)
}

/// The key that a start made and did not come to keep. One that is not whole was never used.
pub(crate) fn read_unkept_key(path: &Path) -> Option<Seal> {
    read_key(&aside(path)).ok().flatten()
}

/// Puts a new key into its place, whole or not at all.
pub(crate) fn keep_key(path: &Path) -> io::Result<()> {
    fs::rename(aside(path), path)?;
    sync_folder(path)
}

fn aside(path: &Path) -> PathBuf {
    path.with_extension("key.new")
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn from_hex(text: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    if text.len() != 2 * KEY_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealing() -> Seal {
        Seal::new(&[7; KEY_BYTES])
    }

    #[test]
    fn what_was_sealed_opens_at_its_place_only() {
        let sealed = sealing().seal("run_1/0", "geheim").unwrap_or_default();
        assert_eq!(sealing().open("run_1/0", &sealed).as_deref(), Ok("geheim"));
        assert_eq!(sealing().open("run_1/1", &sealed), Err(SealError::Broken));
        assert_eq!(Seal::new(&[8; KEY_BYTES]).open("run_1/0", &sealed), Err(SealError::Broken));
    }

    #[test]
    fn rubbish_is_refused_and_never_panics() {
        let mut sealed = sealing().seal("run_1/0", "geheim").unwrap_or_default();
        for length in 0..sealed.len() {
            assert!(sealing().open("run_1/0", &sealed[..length]).is_err(), "{length} bytes");
        }
        sealed[0] = FORMAT + 1;
        assert_eq!(sealing().open("run_1/0", &sealed), Err(SealError::UnknownFormat));
    }

    #[test]
    fn a_key_file_reads_back_and_is_private() -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir()?;
        let path = folder.path().join("host.key");
        assert!(read_key(&path)?.is_none());
        let check = create_key(&path)?.make_check().map_err(io::Error::other)?;
        assert!(read_key(&path)?.is_none());
        assert!(read_unkept_key(&path).is_some_and(|seal| seal.passes(&check)));
        keep_key(&path)?;
        assert!(read_key(&path)?.is_some_and(|seal| seal.passes(&check)));
        assert_eq!(fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short")?;
        assert!(read_key(&path).is_err());
        Ok(())
    }
}
