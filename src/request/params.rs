//! The parameters of a header value such as `multipart/form-data; boundary="x"` (RFC 9110 section 5.6.6).
//!
//! Input: the value's bytes. A quoted value is given as it stands between its quotes: escapes in it are respected when its
//! end is looked for, and kept. The boundary and the names that matter here need none, so an escaped one never equals them.

use memchr::memchr;

/// A header value's parameters in order; `Err` once, and then nothing, when the rest is malformed.
pub(super) struct Params<'a>(&'a [u8]);

/// The parameters are malformed.
#[derive(Debug)]
pub(super) struct MalformedParams;

impl<'a> Params<'a> {
    /// Splits a header value into the word before the first `;` and its parameters.
    pub(super) fn of(value: &'a [u8]) -> (&'a [u8], Self) {
        let (word, rest) = value.split_at(memchr(b';', value).unwrap_or(value.len()));
        (word.trim_ascii(), Self(rest))
    }

    fn param(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let text = self.0.strip_prefix(b";")?.trim_ascii_start();
        let (key, value) = split_once(text, b'=')?;
        let value = value.trim_ascii_start();
        let (value, rest) = match value.strip_prefix(b"\"") {
            Some(quoted) => {
                let (value, rest) = split_quoted(quoted)?;
                (value, rest.trim_ascii_start())
            }
            None => {
                let (value, rest) = value.split_at(memchr(b';', value).unwrap_or(value.len()));
                (value.trim_ascii_end(), rest)
            }
        };
        self.0 = rest;
        Some((key.trim_ascii_end(), value))
    }
}

impl<'a> Iterator for Params<'a> {
    /// Key and value. Keys are to be compared without regard to case.
    type Item = Result<(&'a [u8], &'a [u8]), MalformedParams>;

    fn next(&mut self) -> Option<Self::Item> {
        // Empty parameters, as in a trailing `;`, are allowed.
        while let Some(rest) = self.0.strip_prefix(b";").map(<[u8]>::trim_ascii_start)
            && (rest.is_empty() || rest.starts_with(b";"))
        {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        let param = self.param();
        if param.is_none() {
            self.0 = &[];
        }
        Some(param.ok_or(MalformedParams))
    }
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let (before, after) = text.split_at_checked(memchr(at, text)?)?;
    Some((before, after.get(1..)?))
}

/// Splits at the closing quote; a backslash takes the byte after it along.
fn split_quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(value: &str) -> (String, Result<Vec<(String, String)>, ()>) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (word, params) = Params::of(value.as_bytes());
        (text(word), params.map(|param| param.map(|(key, value)| (text(key), text(value))).map_err(drop)).collect())
    }

    #[test]
    fn well_formed_parameters_are_split() {
        for (value, expected) in [
            ("form-data", &[][..]),
            ("form-data;", &[]),
            ("form-data ; ;; ", &[]),
            ("form-data; name=model", &[("name", "model")]),
            ("form-data; name=\"model\"", &[("name", "model")]),
            ("form-data ;name = \"a;b=c\" ; filename=x.wav ", &[("name", "a;b=c"), ("filename", "x.wav")]),
            ("form-data; name=\"\"; name=", &[("name", ""), ("name", "")]),
            (r#"form-data; filename="a\"; name=\"model"; x=1"#, &[("filename", r#"a\"; name=\"model"#), ("x", "1")]),
        ] {
            let expected = expected.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            assert_eq!(params(value), ("form-data".to_owned(), Ok(expected)), "{value}");
        }
    }

    #[test]
    fn malformed_parameters_are_an_error() {
        for value in ["form-data; name", "form-data; name=\"open", "form-data; name=\"a\" b", r#"form-data; name="a\""#]
        {
            assert_eq!(params(value).1, Err(()), "{value}");
        }
    }
}
