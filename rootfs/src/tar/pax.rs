//! PAX extended headers: records `LENGTH KEY=VALUE\n`.

use super::{Xattrs, sparse};
use crate::error::Fault;

/// What the records of one header say. A record with an empty value takes back what an earlier one of the same key
/// said, so that the entry's own field counts.
#[derive(Default)]
pub(super) struct Records {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime: Option<(i64, u32)>,
    pub xattrs: Xattrs,
    pub sparse: sparse::Records,
}

/// Parses the data of a header.
pub(super) fn parse(mut text: &[u8]) -> Result<Records, Fault> {
    let mut records = Records::default();
    while !text.is_empty() {
        let (key, value, rest) = record(text).ok_or(Fault::Pax)?;
        records.set(key, value)?;
        text = rest;
    }
    Ok(records)
}

/// The first record's key and value, and the text after it.
fn record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(20).position(|&b| b == b' ')?;
    let len = usize::try_from(decimal(&text[..space])?).ok()?;
    let record = text.get(space + 1..len)?;
    let body = record.strip_suffix(b"\n")?;
    let equals = body.iter().position(|&b| b == b'=')?;
    let (key, value) = (&body[..equals], &body[equals + 1..]);
    (!key.is_empty() && !key.contains(&0)).then_some((key, value, &text[len..]))
}

/// A decimal number without sign.
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &b| match b {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(b - b'0')),
        _ => None,
    })
}

/// A time: seconds, perhaps negative, perhaps with a fraction, of which nine digits count.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = match text.iter().position(|&b| b == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    let seconds = i64::try_from(decimal(whole)?).ok()?;
    let mut nanos = 0;
    for at in 0..9 {
        nanos = nanos * 10
            + match fraction.get(at) {
                Some(b @ b'0'..=b'9') => u32::from(b - b'0'),
                Some(_) => return None,
                None => 0,
            };
    }
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(match (negative, nanos) {
        (false, _) => (seconds, nanos),
        (true, 0) => (-seconds, 0),
        (true, _) => (-seconds - 1, 1_000_000_000 - nanos),
    })
}

/// A value that must not contain NUL; empty: none.
fn text(value: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
    if value.contains(&0) {
        return Err(Fault::Pax);
    }
    Ok((!value.is_empty()).then(|| value.to_vec()))
}

/// A number; empty: none.
fn optional<T>(value: &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Fault> {
    if value.is_empty() { Ok(None) } else { parse(value).map(Some).ok_or(Fault::Pax) }
}

impl Records {
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let id = |text: &[u8]| decimal(text).and_then(|id| u32::try_from(id).ok());
        match key {
            b"path" => self.path = text(value)?,
            b"linkpath" => self.link = text(value)?,
            b"size" => {
                self.size =
                    optional(value, |text| decimal(text).filter(|&n| n <= i64::MAX.cast_unsigned() - (1 << 12)))?;
            }
            b"uid" => self.uid = optional(value, id)?,
            b"gid" => self.gid = optional(value, id)?,
            b"mtime" => self.mtime = optional(value, time)?,
            _ => {
                // What libarchive also writes, in Base64, is not read: it always writes this form beside it.
                if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
                    match value {
                        [] => drop(self.xattrs.remove(name)),
                        _ => drop(self.xattrs.insert(name.to_vec(), value.to_vec())),
                    }
                } else if let Some(name) = key.strip_prefix(b"GNU.sparse.") {
                    self.sparse.set(name, value)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, time};

    #[test]
    fn records_are_strict_and_empty_values_delete() {
        let records = parse(b"12 path=abc\n13 path=abcd\n10 size=7\n").unwrap();
        assert_eq!(records.path.as_deref(), Some(&b"abcd"[..]));
        assert_eq!(records.size, Some(7));
        let records = parse(b"12 path=abc\n8 path=\n").unwrap_or_else(|_| panic!("a record with an empty value"));
        assert_eq!(records.path, None);
        for bad in [
            &b"11 path=abc\n"[..],
            b"13 path=abc\n",
            b"12 pathabcd\n",
            b"999999999999999999999 path=abc\n",
            b"-2 path=abc\n",
            b"0 path=abc\n",
            b"12 path=a\0c\n",
            b"10 size=x\n",
            b"11 size=-1\n",
            b"12path=abcd\n",
            b"6 =ab\n",
            b"18446744073709551615 path=abc\n",
        ] {
            assert!(parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn times() {
        assert_eq!(time(b"1"), Some((1, 0)));
        assert_eq!(time(b"1.5"), Some((1, 500_000_000)));
        assert_eq!(time(b"1.0000000019"), Some((1, 1)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-3"), Some((-3, 0)));
        for bad in [&b""[..], b".", b"1.x", b"1.0000000000x", b"--1", b"+1", b"99999999999999999999"] {
            assert_eq!(time(bad), None, "{}", bad.escape_ascii());
        }
    }
}
