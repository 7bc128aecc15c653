//! The signature of a release: Ed25519 over the bytes of its list of digests, and what `cargo xtask dist verify` says.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use sha2::{Digest as _, Sha256};

use super::hex;

/// 64 hexadecimal digits: the seed of the key that signs.
pub(super) const KEY: &str = "CALLBOARD_RELEASE_KEY";
pub(super) const SUMS: &str = "SHA256SUMS";
/// The signature, as 128 hexadecimal digits.
const SIGNATURE: &str = "SHA256SUMS.sig";

/// Signs the list in the folder; answers the public half of the key.
pub(super) fn sign(folder: &Path, seed: &str) -> Result<String> {
    let seed = unhex::<32>(seed).with_context(|| format!("{KEY} must be 64 hexadecimal digits"))?;
    let key = SigningKey::from_bytes(&seed);
    let signature = key.sign(&fs::read(folder.join(SUMS))?);
    fs::write(folder.join(SIGNATURE), format!("{}\n", hex(&signature.to_bytes())))?;
    Ok(hex(key.verifying_key().as_bytes()))
}

/// Compares the signature with the list, and the list with the files; answers how many those are.
pub(super) fn verify(folder: &Path, public_key: &str) -> Result<usize> {
    let list = fs::read(folder.join(SUMS)).with_context(|| format!("{SUMS} is missing"))?;
    let signed = fs::read_to_string(folder.join(SIGNATURE));
    let signed = signed.with_context(|| format!("{SIGNATURE} is missing"))?;
    let signature = unhex::<64>(&signed).context("the signature must be 128 hexadecimal digits")?;
    let key = unhex::<32>(public_key).context("the key must be 64 hexadecimal digits")?;
    let key = VerifyingKey::from_bytes(&key).context("the key is none")?;
    key.verify_strict(&list, &Signature::from_bytes(&signature))
        .context("the list of digests was not signed with this key")?;
    let list = String::from_utf8(list)?;
    for line in list.lines() {
        let Some((digest, name)) = line.split_once("  ") else {
            bail!("{line:?} is no line of a list")
        };
        ensure!(!name.contains('/') && !name.starts_with('.'), "{name} leads elsewhere");
        let bytes = fs::read(folder.join(name)).with_context(|| format!("{name} is missing"))?;
        ensure!(hex(&Sha256::digest(bytes)) == digest, "{name} was changed");
    }
    Ok(list.lines().count())
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.trim().as_bytes();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes = digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>()?;
    bytes.try_into().ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";

    #[test]
    fn what_was_changed_dropped_or_signed_by_another_is_refused() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        fs::write(at("callboard.deb"), "package")?;
        fs::write(at(SUMS), format!("{}  callboard.deb\n", hex(&Sha256::digest("package"))))?;
        let public = sign(folder.path(), SEED)?;
        // RFC 8032's first key.
        ensure!(public == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let first = fs::read(at(SIGNATURE))?;
        ensure!(verify(folder.path(), &public)? == 1);
        sign(folder.path(), SEED)?;
        ensure!(first == fs::read(at(SIGNATURE))?, "two signatures differ");
        let other = hex(SigningKey::from_bytes(&[7; 32]).verifying_key().as_bytes());
        ensure!(verify(folder.path(), &other).is_err());
        ensure!(verify(folder.path(), "no key").is_err());
        fs::write(at("callboard.deb"), "other")?;
        ensure!(
            format!("{:#}", verify(folder.path(), &public).unwrap_err()).contains("was changed")
        );
        fs::remove_file(at("callboard.deb"))?;
        ensure!(verify(folder.path(), &public).is_err());
        fs::write(at("callboard.deb"), "package")?;
        let list = fs::read_to_string(at(SUMS))?;
        fs::write(at(SUMS), format!("{list}\n"))?;
        ensure!(verify(folder.path(), &public).is_err());
        fs::write(at(SUMS), list)?;
        fs::remove_file(at(SIGNATURE))?;
        ensure!(verify(folder.path(), &public).is_err());
        ensure!(sign(folder.path(), "12").is_err());
        Ok(())
    }
}
