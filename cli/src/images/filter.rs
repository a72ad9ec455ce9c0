//! `--filter` of `hull images`, and the patterns of names.

use crate::failure::{Failure, Result};
use image::{Listed, Reference, time};

const FORM: &str = "write dangling=true|false, reference=PATTERN, label=KEY[=VALUE], before=IMAGE or since=IMAGE";

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Whether the image has no name.
    Dangling(bool),
    /// The name.
    Reference(String),
    /// A label, and its value.
    Label(String, Option<String>),
    /// Made before another image.
    Before(String),
    /// Made after another image.
    Since(String),
}

impl Filter {
    /// Parses `KEY=VALUE`.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let (key, value) = text.split_once('=').ok_or_else(|| format!("no value; {FORM}"))?;
        let value = value.to_owned();
        Ok(match (key, value.as_str()) {
            ("dangling", "true" | "1") => Self::Dangling(true),
            ("dangling", "false" | "0") => Self::Dangling(false),
            ("reference", _) => Self::Reference(value),
            ("label", _) => match value.split_once('=') {
                Some((key, value)) => Self::Label(key.to_owned(), Some(value.to_owned())),
                None => Self::Label(value, None),
            },
            ("before", _) => Self::Before(value),
            ("since", _) => Self::Since(value),
            _ => return Err(format!("unknown filter; {FORM}")),
        })
    }
}

/// Conditions: all must hold, but one of those for the name.
#[derive(Debug)]
pub struct Filters<'a> {
    filters: &'a [Filter],
    /// Times of `before` and `since`.
    before: Option<i64>,
    since: Option<i64>,
}

impl<'a> Filters<'a> {
    /// Finds the images that conditions name. `listed` has all.
    pub fn new(filters: &'a [Filter], listed: &'a [Listed]) -> Result<Self> {
        let mut conditions = Self { filters, before: None, since: None };
        for filter in filters {
            let (place, name, option) = match filter {
                Filter::Before(name) => (&mut conditions.before, name, "before"),
                Filter::Since(name) => (&mut conditions.since, name, "since"),
                _ => continue,
            };
            let parsed = Reference::parse(name).ok();
            let is_named = |image: &&Listed| {
                (image.name.is_some() && image.name == parsed)
                    || (name.len() >= 4 && image.id.hex().starts_with(name.trim_start_matches("sha256:")))
            };
            let found = listed.iter().find(is_named).ok_or_else(|| {
                Failure::request(format!("--filter {option}={name}"), "no such image", "see hull images")
            })?;
            *place = Some(made(found));
        }
        Ok(conditions)
    }

    /// Whether an image under one of its names, or without a name, is wanted.
    pub fn accept(&self, image: &Listed, name: Option<&Reference>) -> bool {
        let created = made(image);
        let (mut names, mut is_named) = (false, false);
        let rest = self.filters.iter().all(|filter| match filter {
            Filter::Dangling(wanted) => *wanted == name.is_none(),
            Filter::Reference(pattern) => {
                names = true;
                is_named |= name.is_some_and(|name| matches(name, pattern));
                true
            }
            Filter::Label(key, value) => {
                image.labels.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
            }
            Filter::Before(_) => self.before.is_some_and(|limit| created < limit),
            Filter::Since(_) => self.since.is_some_and(|limit| created > limit),
        });
        rest && (!names || is_named)
    }
}

/// When an image was made, in seconds; those that do not say so are the oldest.
fn made(image: &Listed) -> i64 {
    image.created.as_deref().and_then(time::parse).unwrap_or(i64::MIN)
}

/// Whether a name fits a pattern as docker's: of the repository, or with its tag; `*` and `?` stand for no slash.
pub fn matches(name: &Reference, pattern: &str) -> bool {
    let (repository, familiar) = (name.repository(), name.familiar());
    fits(&repository, pattern) || fits(&familiar, pattern) || fits(&name.to_string(), pattern)
}

/// Compares a text with a pattern. Goes back to the last star only: no more than the product of the lengths.
fn fits(text: &str, pattern: &str) -> bool {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let (mut at, mut of, mut star) = (0, 0, None);
    while at < text.len() {
        match pattern.get(of) {
            Some(b'*') => {
                star = Some((at, of));
                of += 1;
            }
            Some(&byte) if byte == text[at] || (byte == b'?' && text[at] != b'/') => (at, of) = (at + 1, of + 1),
            _ => match star {
                Some((from, place)) if text[from] != b'/' => {
                    star = Some((from + 1, place));
                    (at, of) = (from + 1, place + 1);
                }
                _ => return false,
            },
        }
    }
    pattern[of..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_parsed() {
        assert_eq!(Filter::parse("dangling=true"), Ok(Filter::Dangling(true)));
        assert_eq!(Filter::parse("label=a=b=c"), Ok(Filter::Label("a".into(), Some("b=c".into()))));
        assert_eq!(Filter::parse("label=a"), Ok(Filter::Label("a".into(), None)));
        for text in ["", "dangling", "dangling=x", "until=1h"] {
            assert!(Filter::parse(text).unwrap_err().contains("; "), "{text}");
        }
    }

    #[test]
    fn patterns_are_those_of_docker() {
        let matches = |name: &str, pattern: &str| super::matches(&Reference::parse(name).unwrap(), pattern);
        for pattern in
            ["debian", "deb*", "*", "debian:12", "debian:1?", "*:12", "d*b*n:*2", "docker.io/library/debian:*"]
        {
            assert!(matches("debian:12", pattern), "{pattern}");
        }
        for pattern in ["", "deb", "debian:1", "debian:12?", "*/*", "x*"] {
            assert!(!matches("debian:12", pattern), "{pattern}");
        }
        assert!(matches("ghcr.io/a/b", "ghcr.io/*/b") && matches("ghcr.io/a/b", "*/*/*:latest"));
        assert!(!matches("ghcr.io/a/b", "*") && !matches("ghcr.io/a/b", "ghcr.io/*"));
        assert!(!fits(&"a".repeat(5000), &("*a".repeat(2000) + "b")));
    }
}
