//! A certificate that signs itself, for 127.0.0.1, with its key.

use anyhow::Result;
use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

pub(crate) struct Pair {
    pub(crate) der: Vec<u8>,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// One value of DER.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len();
    let mut text = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..0x80) => text.push(short),
        Ok(long) => text.extend([0x81, long]),
        Err(_) => {
            text.push(0x82);
            text.extend(u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        }
    }
    text.extend(content);
    text
}

fn pem(name: &str, der: &[u8]) -> String {
    format!("-----BEGIN {name}-----\n{}\n-----END {name}-----\n", STANDARD.encode(der))
}

impl Pair {
    pub(crate) fn make() -> Result<Self> {
        const SEQUENCE: u8 = 0x30;
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING)?;
        let public: PublicKeyX509Der<'_> = key.public_key().as_der()?;
        // ecdsa-with-SHA256
        let scheme = der(SEQUENCE, &[&der(6, &[&[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]])]);
        // commonName
        let name = der(SEQUENCE, &[&der(6, &[&[0x55, 4, 3]]), &der(0x0c, &[b"callboard test"])]);
        let name = der(SEQUENCE, &[&der(0x31, &[&name])]);
        let days =
            der(SEQUENCE, &[&der(0x17, &[b"200101000000Z"]), &der(0x17, &[b"491231235959Z"])]);
        // subjectAltName: an address
        let address = der(4, &[&der(SEQUENCE, &[&der(0x87, &[&[127, 0, 0, 1]])])]);
        let names = der(SEQUENCE, &[&der(6, &[&[0x55, 0x1d, 0x11]]), &address]);
        let extensions = der(0xa3, &[&der(SEQUENCE, &[&names])]);
        let version = der(0xa0, &[&der(2, &[&[2]])]);
        let serial = der(2, &[&[1]]);
        let body: [&[u8]; 8] =
            [&version, &serial, &scheme, &name, &days, &name, public.as_ref(), &extensions];
        let body = der(SEQUENCE, &body);
        let signature = key.sign(&SystemRandom::new(), &body)?;
        let signature = der(3, &[&[0], signature.as_ref()]);
        let whole = der(SEQUENCE, &[&body, &scheme, &signature]);
        let private = key.to_pkcs8v1()?;
        Ok(Self {
            certificate: pem("CERTIFICATE", &whole),
            key: pem("PRIVATE KEY", private.as_ref()),
            der: whole,
        })
    }
}
