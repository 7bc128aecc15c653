//! Whether a text may hold a credential: one pass over its bytes, before the pattern is asked.

/// What a credential can begin with where a word begins. `suspicion` may be wrong, but only in one direction: each shape
/// of the pattern begins with one of these, or is looked for below.
const BEGINNINGS: [&str; 25] = [
    "AIza",
    "AKIA",
    "ASIA",
    "SG.",
    "cb_",
    "cbtest_",
    "cred_",
    "dop_v1",
    "eyJ",
    "gh",
    "github_pat",
    "glpat",
    "hf",
    "npm",
    "pk-",
    "pk_",
    "rk-",
    "rk_",
    "shpat",
    "sk-",
    "sk_",
    "whsec",
    "xapp-",
    "xox",
    "ya29.",
];

/// The shortest credential is a password in an address, `://a:b@`.
const SHORTEST: usize = 7;

pub(super) fn is_worth_a_look(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() < SHORTEST {
        return false;
    }
    let mut before = b' ';
    bytes.iter().enumerate().any(|(at, byte)| {
        // What is no ASCII may be a space or a letter; taken for a space, nothing is missed.
        let begins_word = !(before.is_ascii_alphanumeric() || before == b'_');
        before = *byte;
        let rest = &bytes[at..];
        match byte {
            b':' => rest.starts_with(b"://") && rest.contains(&b'@'),
            b'-' => rest.starts_with(b"-----BEGIN"),
            b'b' | b'B' if begins_word => {
                rest.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"bearer"))
            }
            b'A' | b'S' | b'c' | b'd' | b'e' | b'g' | b'h' | b'n' | b'p' | b'r' | b's' | b'w'
            | b'x' | b'y'
                if begins_word =>
            {
                BEGINNINGS.iter().any(|beginning| rest.starts_with(beginning.as_bytes()))
            }
            _ => false,
        }
    })
}
