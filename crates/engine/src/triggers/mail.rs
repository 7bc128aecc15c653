//! Mail as it was sent: a message after RFC 5322, read within bounds into what a run is given.

use mail_parser::{
    Address, HeaderValue, Message, MessageParser, MessagePart, MimeHeaders, PartType,
};

use callboard_protocol::EmailContent;

use super::attachments::Attachment;

/// The largest message that is read, as it was sent.
pub const MOST_MAIL_BYTES: usize = 16 << 20;
/// The longest text and the longest HTML; what comes after is cut off.
const LONGEST_BODY: usize = 512 << 10;
/// Longer lines are nobody's subject.
const LONGEST_LINE: usize = 998;
const MOST_ADDRESSES: usize = 100;
const MOST_REFERENCES: usize = 100;
/// Files that are kept of one message; the others are left out.
const MOST_FILES: usize = 50;
/// Parts of one message: each is an allocation that a stranger asks for.
const MOST_PARTS: usize = 1_000;

/// A message that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    /// The name that its sender gave it, if it did.
    pub id: Option<String>,
    pub content: EmailContent,
    pub files: Vec<Attachment>,
}

/// Why a message is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MailError {
    #[error("a message has at most {MOST_MAIL_BYTES} bytes")]
    TooLarge,
    #[error("a message has at most {MOST_PARTS} parts")]
    TooManyParts,
    #[error("this is no message after RFC 5322 with a sender")]
    Unreadable,
}

impl Mail {
    pub fn read(raw: &[u8]) -> Result<Self, MailError> {
        if raw.len() > MOST_MAIL_BYTES {
            return Err(MailError::TooLarge);
        }
        // Where a multipart message says that its parts are divided, each boundary begins one.
        let boundaries = raw.windows(3).filter(|window| window == b"\n--").count();
        if boundaries > MOST_PARTS {
            return Err(MailError::TooManyParts);
        }
        let message = MessageParser::default().parse(raw).ok_or(MailError::Unreadable)?;
        let from = addresses(message.from()).into_iter().next().ok_or(MailError::Unreadable)?;
        let mut to = addresses(message.to());
        to.extend(addresses(message.cc()));
        to.truncate(MOST_ADDRESSES);
        let files: Vec<Attachment> = files(&message);
        let id = message.message_id().and_then(name);
        let content = EmailContent {
            from,
            to,
            subject: line(message.subject().unwrap_or_default()),
            text: cut(&message.body_text(0).unwrap_or_default()),
            html: html(&message),
            attachments: files.iter().map(Attachment::reference).collect(),
            message_id: id.clone(),
            in_reply_to: names(message.in_reply_to()).pop(),
            references: names(message.references()),
        };
        Ok(Self { id, content, files })
    }
}

/// HTML that was sent; a text that could be shown as HTML is a text.
fn html(message: &Message<'_>) -> Option<String> {
    let part = message.html_part(0)?;
    match &part.body {
        PartType::Html(html) => Some(cut(html)),
        _ => None,
    }
}

fn files(message: &Message<'_>) -> Vec<Attachment> {
    let parts = message.attachments().take(MOST_FILES);
    parts.map(|part| Attachment::new(file_name(part), kind(part), part.contents())).collect()
}

fn kind(part: &MessagePart<'_>) -> Option<String> {
    let said = part.content_type()?;
    let kind = match said.subtype() {
        Some(subtype) => format!("{}/{subtype}", said.ctype()),
        None => said.ctype().to_owned(),
    };
    let is_sound = kind.len() <= 127 && kind.bytes().all(|byte| byte.is_ascii_graphic());
    is_sound.then(|| kind.to_ascii_lowercase())
}

/// The last part of what may be a path, since somebody will save a file under it.
fn file_name(part: &MessagePart<'_>) -> Option<String> {
    let said = part.attachment_name()?;
    let last = said.rsplit(['/', '\\', ':']).next().unwrap_or_default();
    let plain: String = last.chars().filter(|c| !c.is_control()).take(200).collect();
    let plain = plain.trim_start_matches('.').trim();
    (!plain.is_empty()).then(|| plain.to_owned())
}

fn addresses(address: Option<&Address<'_>>) -> Vec<String> {
    let each = address.into_iter().flat_map(Address::iter).take(MOST_ADDRESSES);
    let plain = each.filter_map(|one| one.address.as_deref()).map(line);
    plain.filter(|address| !address.is_empty()).collect()
}

/// The names of messages that a header lists, the oldest first.
fn names(header: &HeaderValue<'_>) -> Vec<String> {
    let texts: Vec<&str> = match header {
        HeaderValue::Text(text) => vec![text.as_ref()],
        HeaderValue::TextList(texts) => texts.iter().map(AsRef::as_ref).collect(),
        _ => Vec::new(),
    };
    let skipped = texts.len().saturating_sub(MOST_REFERENCES);
    texts.into_iter().skip(skipped).filter_map(name).collect()
}

/// One with spaces or lines in it is no name.
fn name(said: &str) -> Option<String> {
    let plain = said.trim().trim_start_matches('<').trim_end_matches('>');
    let is_sound = (1..=LONGEST_LINE).contains(&plain.len())
        && plain.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'<' && byte != b'>');
    is_sound.then(|| plain.to_owned())
}

fn line(said: &str) -> String {
    let plain: String = said.chars().filter(|c| !c.is_control()).collect();
    shortened(&plain, LONGEST_LINE)
}

fn cut(text: &str) -> String {
    shortened(text, LONGEST_BODY)
}

fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LETTER: &str = "From: Ann <ann@example.org>\r\n\
        To: Desk <desk@example.com>, bob@example.com\r\nCc: eve@example.com\r\n\
        Subject: =?utf-8?Q?Wo_ist_mein_P=C3=A4ckchen=3F?=\r\n\
        Message-ID: <m2@example.org>\r\nIn-Reply-To: <m1@example.com>\r\n\
        References: <m0@example.com> <m1@example.com>\r\n\
        MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
        --b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n\
        --c\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nWhere is it?\r\n\
        --c\r\nContent-Type: text/html\r\n\r\n<p>Where is it?</p>\r\n--c--\r\n\
        --b\r\nContent-Type: application/pdf; name=\"../../etc/bill.pdf\"\r\n\
        Content-Transfer-Encoding: base64\r\n\
        Content-Disposition: attachment; filename=\"../../etc/bill.pdf\"\r\n\r\naGVsbG8=\r\n--b--\r\n";

    #[test]
    fn a_message_is_read_with_its_thread_and_its_files() {
        let mail = Mail::read(LETTER.as_bytes()).unwrap();
        assert_eq!(mail.id.as_deref(), Some("m2@example.org"));
        let content = &mail.content;
        assert_eq!(
            (content.from.as_str(), content.subject.as_str()),
            ("ann@example.org", "Wo ist mein Päckchen?")
        );
        assert_eq!(content.to, ["desk@example.com", "bob@example.com", "eve@example.com"]);
        assert_eq!(content.text.trim_end(), "Where is it?");
        assert_eq!(content.html.as_deref().map(str::trim_end), Some("<p>Where is it?</p>"));
        assert_eq!(content.in_reply_to.as_deref(), Some("m1@example.com"));
        assert_eq!(content.references, ["m0@example.com", "m1@example.com"]);
        let [file] = &mail.files[..] else { panic!("{:?}", mail.files) };
        assert_eq!(file.filename.as_deref(), Some("bill.pdf"), "no path of the sender's");
        assert_eq!(file.media_type.as_deref(), Some("application/pdf"));
        assert_eq!(file.content(), b"hello");
        assert_eq!(content.attachments[0].bytes, 5);
        assert!(content.attachments[0].handle.starts_with("sha256:"));
    }

    #[test]
    fn a_message_without_html_has_none_and_one_with_html_alone_has_a_text() {
        let plain = Mail::read(b"From: a@x\r\nSubject: s\r\n\r\nHello\r\n").unwrap();
        assert_eq!((plain.content.text.trim_end(), plain.content.html), ("Hello", None));
        assert_eq!(plain.id, None);
        let html = b"From: a@x\r\nContent-Type: text/html\r\n\r\n<b>Hello</b>";
        let html = Mail::read(html).unwrap().content;
        assert_eq!(html.html.as_deref(), Some("<b>Hello</b>"));
        assert_eq!(html.text.trim(), "Hello");
    }

    #[test]
    fn what_is_too_much_is_refused_or_cut() {
        assert_eq!(Mail::read(&vec![b'x'; MOST_MAIL_BYTES + 1]), Err(MailError::TooLarge));
        for nothing in
            [b"".as_slice(), b"\r\n\r\n", b"Subject: nobody\r\n\r\nhello", b"\xff\xfe\x00"]
        {
            assert_eq!(Mail::read(nothing), Err(MailError::Unreadable), "{nothing:?}");
        }
        let begins = "From: a@x\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n";
        let parts = "--b\r\nContent-Disposition: attachment\r\n\r\nx\r\n";
        let some = Mail::read(format!("{begins}{}", parts.repeat(60)).as_bytes()).unwrap();
        assert_eq!(some.files.len(), MOST_FILES);
        let many = format!("{begins}{}", parts.repeat(MOST_PARTS + 1));
        assert_eq!(Mail::read(many.as_bytes()), Err(MailError::TooManyParts));
        let long = format!(
            "From: a@x\r\nSubject: {}\r\n\r\n{}",
            "s".repeat(5_000),
            "é".repeat(LONGEST_BODY)
        );
        let long = Mail::read(long.as_bytes()).unwrap().content;
        assert_eq!((long.subject.len(), long.text.len()), (LONGEST_LINE, LONGEST_BODY));
        let deep = "Content-Type: message/rfc822\r\n\r\n".repeat(500);
        assert!(Mail::read(format!("From: a@x\r\n{deep}From: b@x\r\n\r\nhi").as_bytes()).is_ok());
    }

    #[test]
    fn a_name_of_a_message_is_one_word() {
        for (said, is) in
            [("<a@b>", Some("a@b")), ("a b", None), ("<a@b>\r\nBcc: x", None), ("<>", None)]
        {
            assert_eq!(name(said).as_deref(), is, "{said}");
        }
    }
}
