//! Walks over the parts of a `multipart/form-data` body (RFC 7578), without copying.
//!
//! Input: the content type, and the body. Output: name, value and place of each part.
//!
//! A delimiter is CRLF, `--boundary`, and then CRLF or `--`; anything else that looks like one belongs to the file around
//! it. That is how the parser behind vLLM's forms (python-multipart) reads, and it matters: a reader that sees a part where
//! the engine sees a file, or the other way round, is told another `model` than the engine. For the same reason whatever
//! stands before the first delimiter, except line ends, is refused, and so is a part with two names or an encoded one
//! (`name*=`). What follows the closing delimiter is ignored.

use super::bad_request::{BadRequest, Malformed};
use super::params::Params;
use super::span::Span;
use http::{HeaderMap, header::CONTENT_TYPE};
use memchr::memmem::Finder;

/// Longest boundary, bytes (RFC 2046 section 5.1.1).
const MAX_BOUNDARY: usize = 70;

/// The boundary named by the content type.
pub(super) fn boundary(headers: &HeaderMap) -> Result<&[u8], BadRequest> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let content_type = types.next().ok_or(BadRequest::InvalidContentType)?.as_bytes();
    if types.next().is_some() {
        return Err(BadRequest::DuplicateField { param: "content-type", offset: None });
    }
    let (media_type, params) = Params::of(content_type);
    if !media_type.eq_ignore_ascii_case(b"multipart/form-data") {
        return Err(BadRequest::InvalidContentType);
    }
    let mut boundary = None;
    for param in params {
        let (key, value) = param.map_err(|_| BadRequest::MissingBoundary)?;
        if key.eq_ignore_ascii_case(b"boundary") && boundary.replace(value).is_some() {
            return Err(BadRequest::MissingBoundary);
        }
    }
    boundary.filter(|boundary| is_boundary(boundary)).ok_or(BadRequest::MissingBoundary)
}

/// RFC 2046 section 5.1.1, `boundary`.
fn is_boundary(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    (1..=MAX_BOUNDARY).contains(&text.len()) && text.iter().all(allowed) && !text.ends_with(b" ")
}

/// One part of a form.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// The form field's name, as written.
    pub(super) name: &'a [u8],
    /// It has a file name: the engine takes it for a file.
    pub(super) is_file: bool,
    /// Its content.
    pub(super) value: Span,
    /// All of it, from its delimiter's first hyphen to the next one's.
    pub(super) whole: Span,
}

/// A walk over the parts.
pub(super) struct Parts<'a> {
    body: &'a [u8],
    /// Finds CRLF `--boundary`.
    finder: Finder<'static>,
    /// The first `--boundary`.
    first: Span,
    /// The delimiter before the next part.
    next: Span,
}

/// Bytes of a line end.
const CRLF: &[u8] = b"\r\n";

impl<'a> Parts<'a> {
    /// Finds the first delimiter.
    pub(super) fn open(body: &'a [u8], boundary: &[u8]) -> Result<Self, BadRequest> {
        let delimiter = [b"\r\n--", boundary].concat();
        let start = body.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        let first = Span { start, end: start + delimiter.len() - CRLF.len() };
        let opening = delimiter.strip_prefix(CRLF).unwrap_or_default();
        if first.of(body) != opening || !ends_delimiter(after(body, first.end)) {
            return Err(malformed(Malformed::NoOpening, start));
        }
        Ok(Self { body, finder: Finder::new(&delimiter).into_owned(), first, next: first })
    }

    /// The first `--boundary` of the body.
    pub(super) fn delimiter(&self) -> Span {
        self.first
    }

    /// The next part; `None` behind the closing delimiter.
    pub(super) fn part(&mut self) -> Result<Option<Part<'a>>, BadRequest> {
        if after(self.body, self.next.end).starts_with(b"--") {
            return Ok(None);
        }
        let head_start = self.next.end + CRLF.len();
        let (head, start) = self.head(head_start)?;
        let name = head.name.ok_or(malformed(Malformed::Name, head_start))?;
        let next = self.delimiter_from(start)?;
        let value = Span { start, end: next.start - CRLF.len() };
        let whole = Span { start: self.next.start, end: next.start };
        self.next = next;
        Ok(Some(Part { name, is_file: head.is_file, value, whole }))
    }

    /// The next `--boundary` that is a delimiter.
    fn delimiter_from(&self, start: usize) -> Result<Span, BadRequest> {
        let length = self.finder.needle().len();
        self.finder
            .find_iter(after(self.body, start))
            .map(|found| Span { start: start + found + CRLF.len(), end: start + found + length })
            .find(|delimiter| ends_delimiter(after(self.body, delimiter.end)))
            .ok_or(malformed(Malformed::NoClosing, self.body.len()))
    }

    /// Reads a part's header lines, and says where its content starts.
    fn head(&self, start: usize) -> Result<(Head<'a>, usize), BadRequest> {
        let mut head = Head::default();
        let mut at = start;
        loop {
            let line = self.line(at)?;
            if line.is_empty() {
                return Ok((head, at + CRLF.len()));
            }
            head.read(line).map_err(|what| malformed(what, at))?;
            at += line.len() + CRLF.len();
        }
    }

    /// The header line that starts at `at`, without its CRLF; a CR or LF that stands alone is refused.
    fn line(&self, at: usize) -> Result<&'a [u8], BadRequest> {
        let rest = after(self.body, at);
        let end = memchr::memchr2(b'\r', b'\n', rest).ok_or(malformed(Malformed::NoClosing, self.body.len()))?;
        let (line, rest) = rest.split_at(end);
        if rest.starts_with(CRLF) { Ok(line) } else { Err(malformed(Malformed::Header, at + end)) }
    }
}

/// What the header lines of a part say.
#[derive(Default)]
struct Head<'a> {
    name: Option<&'a [u8]>,
    is_file: bool,
}

impl<'a> Head<'a> {
    fn read(&mut self, line: &'a [u8]) -> Result<(), Malformed> {
        let Some(disposition) = disposition(line).ok_or(Malformed::Header)? else { return Ok(()) };
        for param in Params::of(disposition).1 {
            let (key, value) = param.map_err(|_| Malformed::Header)?;
            let is_name = key.eq_ignore_ascii_case(b"name");
            if (is_name && self.name.replace(value).is_some()) || (!is_name && begins(key, b"name")) {
                return Err(Malformed::Name);
            }
            self.is_file |= begins(key, b"filename");
        }
        Ok(())
    }
}

fn begins(key: &[u8], word: &[u8]) -> bool {
    key.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// The value of a `Content-Disposition` line; `None` inside for another header, `None` outside for no header.
fn disposition(line: &[u8]) -> Option<Option<&[u8]>> {
    let (name, value) = line.split_at_checked(memchr::memchr(b':', line)?)?;
    let is_name = |byte: &u8| byte.is_ascii_graphic();
    if name.is_empty() || !name.iter().all(is_name) {
        return None;
    }
    Some(value.get(1..).filter(|_| name.eq_ignore_ascii_case(b"content-disposition")))
}

fn ends_delimiter(rest: &[u8]) -> bool {
    rest.starts_with(CRLF) || rest.starts_with(b"--")
}

fn after(body: &[u8], at: usize) -> &[u8] {
    body.get(at..).unwrap_or_default()
}

fn malformed(what: Malformed, offset: usize) -> BadRequest {
    BadRequest::InvalidMultipart { what, offset }
}

#[cfg(test)]
mod tests;
