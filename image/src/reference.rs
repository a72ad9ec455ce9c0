//! Names of images, as docker writes them: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`.

use std::fmt::{self, Display};

use crate::digest::Digest;
use crate::error::{Error, Result, excerpt};

/// The registry of names without a host.
pub(crate) const DEFAULT_HOST: &str = "docker.io";
/// The folder of names of one word there.
const DEFAULT_FOLDER: &str = "library/";
/// The tag of names without one.
const DEFAULT_TAG: &str = "latest";
/// Longest name without tag and digest, as docker's.
const LONGEST: usize = 255;

/// A complete name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    host: String,
    path: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl Reference {
    /// Parses a name; a name without tag and digest gets the tag `latest`.
    ///
    /// # Errors
    ///
    /// The text is no name of an image.
    pub fn parse(text: &str) -> Result<Self> {
        Self::split(text).map_err(|why| {
            Error::new(excerpt(text), why, "write [HOST/]NAME[:TAG][@DIGEST], name and path in lower case")
        })
    }

    fn split(text: &str) -> std::result::Result<Self, &'static str> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) => {
                (rest, Some(digest.parse().map_err(|_| "the digest is not sha256: and 64 hexadecimal digits")?))
            }
            None => (text, None),
        };
        // A colon after the last slash begins a tag, another one a port.
        let (name, tag) = match rest.rsplit_once(':') {
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err("the tag is not up to 128 letters, digits, `_`, `.` and `-`");
        }
        let (host, path) = match name.split_once('/') {
            Some((host, path))
                if host == "localhost"
                    || host.contains(['.', ':', '['])
                    || host.bytes().any(|b| b.is_ascii_uppercase()) =>
            {
                (host, path)
            }
            _ => (DEFAULT_HOST, name),
        };
        let host = if host == "index.docker.io" { DEFAULT_HOST } else { host };
        if !is_host(host) {
            return Err("the host is invalid");
        }
        if path.is_empty() || !path.split('/').all(is_component) || name.len() > LONGEST {
            return Err("not a name of an image");
        }
        let folder = if host == DEFAULT_HOST && !path.contains('/') { DEFAULT_FOLDER } else { "" };
        let tag = match tag {
            None if digest.is_none() => Some(DEFAULT_TAG.to_owned()),
            tag => tag.map(str::to_owned),
        };
        Ok(Self { host: host.to_owned(), path: format!("{folder}{path}"), tag, digest })
    }

    /// The registry's host and port; `docker.io` if the name has none.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The path in the registry, with `library/`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The tag.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest of a manifest or index.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The name without tag and digest as people write it: `debian`, `ghcr.io/a/b`.
    pub fn repository(&self) -> String {
        match self.host.as_str() {
            DEFAULT_HOST => self.path.strip_prefix(DEFAULT_FOLDER).unwrap_or(&self.path).to_owned(),
            host => format!("{host}/{}", self.path),
        }
    }

    /// The name as people write it: `debian:12`.
    pub fn familiar(&self) -> String {
        self.with_suffix(self.repository())
    }

    /// The same name with the digest in place of a tag.
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { tag: None, digest: Some(digest), ..self.clone() }
    }

    /// The same tag and digest of `HOST/PATH` elsewhere. `None`: the text is no host and path.
    pub(crate) fn moved(&self, place: &str) -> Option<Self> {
        let (host, path) = place.split_once('/')?;
        let is_name = is_host(host) && path.split('/').all(is_component) && place.len() <= LONGEST;
        is_name.then(|| Self { host: host.to_owned(), path: path.to_owned(), ..self.clone() })
    }

    /// The same name without the digest, if it has a tag.
    pub(crate) fn tagged(&self) -> Option<Self> {
        self.tag.is_some().then(|| Self { digest: None, ..self.clone() })
    }

    /// Whether the other has the same host and path.
    pub(crate) fn same_repository(&self, other: &Self) -> bool {
        self.host == other.host && self.path == other.path
    }

    fn with_suffix(&self, mut text: String) -> String {
        if let Some(tag) = &self.tag {
            text = format!("{text}:{tag}");
        }
        match self.digest {
            Some(digest) => format!("{text}@{digest}"),
            None => text,
        }
    }
}

/// The complete name: `docker.io/library/debian:12`.
impl Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_suffix(format!("{}/{}", self.host, self.path)))
    }
}

fn is_tag(tag: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(word)
        && tag.bytes().all(|byte| word(byte) || byte == b'.' || byte == b'-')
}

/// Letters and digits, with one `.`, one or two `_`, or any number of `-` between them.
fn is_component(component: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return false };
    alphanumeric(*first)
        && alphanumeric(*last)
        && bytes
            .split(|byte| alphanumeric(*byte))
            .all(|gap| matches!(gap, b"" | b"." | b"_" | b"__") || gap.iter().all(|byte| *byte == b'-'))
}

fn is_host(host: &str) -> bool {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_name = match name.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => name.split('.').all(|label| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        }),
    };
    is_name && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|number| number > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_completed() {
        for (text, full, short) in [
            ("debian", "docker.io/library/debian:latest", "debian:latest"),
            ("debian:12", "docker.io/library/debian:12", "debian:12"),
            ("a/b", "docker.io/a/b:latest", "a/b:latest"),
            ("ghcr.io/a/b:v1.0", "ghcr.io/a/b:v1.0", "ghcr.io/a/b:v1.0"),
            ("localhost/x", "localhost/x:latest", "localhost/x:latest"),
            ("localhost:5000/x", "localhost:5000/x:latest", "localhost:5000/x:latest"),
            ("127.0.0.1:5000/x:y", "127.0.0.1:5000/x:y", "127.0.0.1:5000/x:y"),
            ("[::1]:5000/x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"),
            ("index.docker.io/library/x", "docker.io/library/x:latest", "x:latest"),
        ] {
            let name = Reference::parse(text).unwrap();
            assert_eq!((name.to_string().as_str(), name.familiar().as_str()), (full, short));
            assert_eq!(Reference::parse(full).unwrap(), name);
        }
    }

    #[test]
    fn digests_replace_the_default_tag() {
        let digest = Digest::of(b"");
        let name = Reference::parse(&format!("x@{digest}")).unwrap();
        assert_eq!((name.tag(), name.digest()), (None, Some(digest)));
        let name = Reference::parse(&format!("x:1@{digest}")).unwrap();
        assert_eq!((name.tag(), name.digest()), (Some("1"), Some(digest)));
        assert_eq!(name.tagged().unwrap().familiar(), "x:1");
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in [
            "",
            "A",
            "a//b",
            "/a",
            "a/",
            "a:",
            "a:-x",
            "a b",
            "a@sha256:12",
            "-a",
            "a..b",
            "a___b",
            "x.y:0/a",
            "x.y:99999/a",
            "[::g]/a",
            "../a",
            "a\n",
            "x..y/a",
            "a:b:c",
            "a@b@c",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
        assert!(Reference::parse(&"a".repeat(256)).is_err());
        assert!(Reference::parse(&format!("a:{}", "b".repeat(129))).is_err());
    }
}
