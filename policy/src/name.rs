//! Host names (RFC 1123, RFC 5890).

use std::fmt;
use thiserror::Error;

/// Maximum length of a name in bytes, without the final dot (RFC 1035, 2.3.4).
const MAX_NAME: usize = 253;
/// Maximum length of a label in bytes.
const MAX_LABEL: usize = 63;

/// Why a text is not a host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// An empty name, or an empty label.
    #[error("an empty name or label")]
    Empty,
    /// Longer than DNS carries.
    #[error("longer than 253 bytes, or a label longer than 63")]
    TooLong,
    /// A byte other than letters, digits, `-` and `_`, or a label that begins or ends with `-`.
    #[error("no host name: labels have letters, digits, `-` and `_`")]
    Byte,
    /// No internationalised name (UTS #46).
    #[error("no internationalised host name")]
    Idna,
    /// Its last label is a number, so programs parse it as an address.
    #[error("an address in another spelling; write a.b.c.d")]
    Number,
}

/// A host name in one spelling: lower case, ASCII, no final dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Box<str>);

impl Name {
    /// Parses a name; a final dot, upper case and international characters are accepted.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        // Before the conversion, whose run time depends on the length.
        if text.len() > 4 * MAX_NAME {
            return Err(NameError::TooLong);
        }
        let ascii = if text.is_ascii() {
            text.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii(text).map_err(|_| NameError::Idna)?
        };
        if ascii.is_empty() || ascii.split('.').any(str::is_empty) {
            return Err(NameError::Empty);
        }
        if ascii.len() > MAX_NAME || ascii.split('.').any(|label| label.len() > MAX_LABEL) {
            return Err(NameError::TooLong);
        }
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| label.bytes().all(fits) && !label.starts_with('-') && !label.ends_with('-');
        if !ascii.split('.').all(is_label) {
            return Err(NameError::Byte);
        }
        // As in inet_aton(3) and the URL standard: such a name can only be an address.
        let last = ascii.rsplit('.').next().unwrap_or_default();
        let is_hex = last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if is_hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NameError::Number);
        }
        Ok(Self(ascii.into()))
    }

    /// The name as DNS carries it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a subdomain of `parent`: `a.b.c` and `b.c` of `c`, but not `c` itself.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(&*parent.0).is_some_and(|rest| rest.ends_with('.'))
    }

    /// Labels.
    pub fn labels(&self) -> usize {
        self.0.split('.').count()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).unwrap()
    }

    #[test]
    fn one_spelling() {
        assert_eq!(name("PyPI.org."), name("pypi.org"));
        assert_eq!(name("bücher.example").as_str(), "xn--bcher-kva.example");
        assert_eq!(name("BÜCHER.example"), name("xn--bcher-kva.example"));
        // A full stop of another script.
        assert_eq!(name("bücher。example"), name("xn--bcher-kva.example"));
        assert_eq!(name("_dmarc.example.org").labels(), 3);
    }

    #[test]
    fn what_is_none() {
        let error = |text: &str| Name::parse(text).unwrap_err();
        for text in ["", ".", "a..b", ".a", "a.."] {
            assert_eq!(error(text), NameError::Empty, "{text}");
        }
        for text in ["a b", "a/b", "*.a", "-a.b", "a-.b", "a:1", "a\0b", "[a]"] {
            assert_eq!(error(text), NameError::Byte, "{text}");
        }
        for text in ["127.1", "2130706433", "0x7f000001", "0177.0.0.1", "a.1", "1.2.3.4.", "0x7f.0x"] {
            assert_eq!(error(text), NameError::Number, "{text}");
        }
        assert_eq!(error(&"a".repeat(64)), NameError::TooLong);
        assert_eq!(error(&["a"; 127].join(".").repeat(2)), NameError::TooLong);
        assert_eq!(error(&"ü".repeat(1 << 20)), NameError::TooLong);
        assert!(Name::parse(&format!("{}.b", "a".repeat(63))).is_ok());
    }

    #[test]
    fn below() {
        let parent = name("debian.org");
        assert!(name("deb.debian.org").is_below(&parent) && name("a.b.debian.org").is_below(&parent));
        assert!(!parent.is_below(&parent) && !name("notdebian.org").is_below(&parent));
    }
}
