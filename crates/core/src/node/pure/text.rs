//! `core.openwop.data.string-*`, but for regular expressions.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use callboard_protocol::{Failure, Object, hex};
use serde_json::Value;

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::template::Template;
use super::{outputs, path};

pub(super) fn case(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let mode = given.choice("mode", ["upper", "lower", "title"], None)?;
    let text = given.text("text")?;
    // A letter may become three.
    meter.make(EACH + 3 * text.len())?;
    let text = match mode {
        "upper" => text.to_uppercase(),
        "lower" => text.to_lowercase(),
        _ => title(text),
    };
    Ok(outputs([("text", text.into())]))
}

fn title(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut is_first = true;
    for sign in text.chars() {
        if is_first {
            titled.extend(sign.to_uppercase());
        } else {
            titled.extend(sign.to_lowercase());
        }
        is_first = sign.is_whitespace();
    }
    titled
}

/// With a limit, the last piece is all that is left.
pub(super) fn split(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let separator = given.required_text("separator")?;
    let limit = given.configured_whole("limit", 1)?.unwrap_or(usize::MAX);
    let text = given.text("text")?;
    let mut parts: Vec<Value> = Vec::new();
    let mut add = |part: &str| {
        meter.make(EACH + part.len())?;
        parts.push(part.into());
        Ok::<(), Failure>(())
    };
    if separator.is_empty() {
        let ends = text.char_indices().map(|(start, sign)| (start, start + sign.len_utf8()));
        for (place, (start, end)) in ends.enumerate() {
            if place + 1 == limit {
                add(&text[start..])?;
                break;
            }
            add(&text[start..end])?;
        }
    } else {
        text.splitn(limit, separator).try_for_each(add)?;
    }
    Ok(outputs([("parts", parts.into())]))
}

pub(super) fn format(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let template = Template::read(given.text("template")?, meter)?;
    let empty = Object::new();
    let context =
        if given.inputs.contains_key("context") { given.object("context")? } else { &empty };
    let mut text = String::new();
    template.fill(&mut text, |place| path::find_field(context, place), meter)?;
    Ok(outputs([("text", text.into())]))
}

const ENCODINGS: [&str; 5] = ["utf8", "hex", "base64", "base64url", "ascii"];

pub(super) fn encode(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let from = given.choice("from", ENCODINGS, Some("utf8"))?;
    let to = given.choice("to", ENCODINGS, None)?;
    let text = given.text("text")?;
    meter.make(EACH + 3 * text.len())?;
    let bytes = decode_bytes(text, from, "the input text")?;
    Ok(outputs([("text", encode_bytes(&bytes, to).into())]))
}

pub(super) fn to_base64(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let text = given.text("text")?;
    meter.make(EACH + 2 * text.len())?;
    Ok(outputs([("base64", encode_bytes(text.as_bytes(), "base64").into())]))
}

pub(super) fn from_base64(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let encoding = given.choice("outputEncoding", ["utf8", "hex"], Some("utf8"))?;
    let base64 = given.text("base64")?;
    // What is no text becomes a sign of three bytes for each of its own.
    meter.make(EACH + 4 * base64.len())?;
    let bytes = decode_bytes(base64, "base64", "the input base64")?;
    Ok(outputs([("text", encode_bytes(&bytes, encoding).into())]))
}

/// The bytes that a text stands for.
pub(super) fn decode_bytes(text: &str, encoding: &str, place: &str) -> Result<Vec<u8>, Failure> {
    let bytes = match encoding {
        "hex" => from_hex(text),
        // Padded or not, in either alphabet, as most decoders take it.
        "base64" | "base64url" => {
            let plain: String = text
                .chars()
                .filter(|sign| !matches!(sign, '=') && !sign.is_ascii_whitespace())
                .map(|sign| match sign {
                    '+' => '-',
                    '/' => '_',
                    sign => sign,
                })
                .collect();
            URL_SAFE_NO_PAD.decode(plain).ok()
        }
        _ => Some(text.as_bytes().to_vec()),
    };
    bytes.ok_or_else(|| invalid(format!("{place} is no {encoding}")))
}

/// The text that stands for bytes. What is no text is replaced, as decoders do.
pub(super) fn encode_bytes(bytes: &[u8], encoding: &str) -> String {
    match encoding {
        "hex" => hex(bytes),
        "base64" => STANDARD.encode(bytes),
        "base64url" => URL_SAFE_NO_PAD.encode(bytes),
        "ascii" => bytes.iter().map(|byte| char::from(byte & 0x7f)).collect(),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16)?).ok();
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
