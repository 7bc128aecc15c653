//! Bytes as hexadecimal digits, the way digests are written everywhere.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Two lower-case digits for each byte.
pub fn hex(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 0xf] {
            text.push(char::from(DIGITS[usize::from(half)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex([0x00, 0x0a, 0xb1, 0xff]), "000ab1ff");
        assert_eq!(hex(""), "");
    }
}
