//! Errors of images: one line that names the thing, the reason and the remedy.

use std::fmt::Display;
use std::io;

/// Longest excerpt of a name from an archive or a registry in a message.
const EXCERPT: usize = 200;

/// A failure with a reason and a remedy.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}; {remedy}")]
pub struct Error {
    what: String,
    why: String,
    remedy: String,
    kind: Kind,
}

/// What callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    NotFound,
    /// No space is left.
    Full,
    Other,
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// `what` failed because of `why`; `remedy` says what to do.
    pub fn new(what: impl Display, why: impl Display, remedy: impl Display) -> Self {
        let [what, why, remedy] = [what.to_string(), why.to_string(), remedy.to_string()].map(|text| printable(&text));
        Self { what, why, remedy, kind: Kind::Other }
    }

    /// There is no image of that name.
    pub fn no_such_image(name: &str) -> Self {
        let remedy = "see hull images, or get it with hull pull or hull load";
        Self { kind: Kind::NotFound, ..Self::new(name, "no such image", remedy) }
    }

    /// A failed system call on a file.
    pub fn io(what: impl Display, error: &io::Error) -> Self {
        let remedy = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space, for instance with hull prune"
            }
            io::ErrorKind::PermissionDenied => "check its owner and mode",
            io::ErrorKind::NotFound => "check the path",
            io::ErrorKind::ReadOnlyFilesystem => "use a writable store: --store DIR or HULL_STORE",
            _ => "check the file and its file system",
        };
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Kind::Full,
            _ => Kind::Other,
        };
        Self { kind, ..Self::new(what, reason(error), remedy) }
    }

    /// A file of the store that is not what it was.
    pub(crate) fn damaged(path: impl Display, why: impl Display) -> Self {
        let remedy = "fetch or load the image again; if that does not help, remove it with hull rmi first";
        Self::new(path, format!("the store is damaged: {why}"), remedy)
    }

    /// A failed system call on a file that the store must have.
    pub(crate) fn of_store(path: &std::path::Path, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::damaged(path.display(), "it is missing"),
            _ => Self::io(path.display(), error),
        }
    }

    /// An archive, layout or registry that offers something invalid.
    pub fn invalid(what: impl Display, why: impl Display) -> Self {
        Self::new(what, why, "it is damaged or no image: make or fetch it again")
    }

    /// An archive that can't be unpacked. One that is packed otherwise is no damaged one.
    pub(crate) fn packed(what: impl Display, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::Unsupported {
            let remedy = "unpack it first, and hand it over through a pipe: xz -dc FILE | hull import - NAME";
            return Self::new(what, reason(error), remedy);
        }
        Self::invalid(what, reason(error))
    }

    /// Something exceeds a limit.
    pub(crate) fn limit(what: impl Display, why: impl Display) -> Self {
        Self::new(what, why, "if you trust it, raise the limit with --max-size SIZE")
    }

    /// Whether an image does not exist.
    pub fn is_not_found(&self) -> bool {
        self.kind == Kind::NotFound
    }

    /// Whether no space is left on a device.
    pub(crate) fn is_full(&self) -> bool {
        self.kind == Kind::Full
    }

    /// The same error about another thing, if it is one about `what`.
    pub(crate) fn renamed(self, what: &str, name: impl Display, remedy: &str) -> Self {
        if self.what == what { Self { kind: self.kind, ..Self::new(name, self.why, remedy) } } else { self }
    }

    /// The same error about a thing inside another one: `OUTER: WHAT: …`.
    pub(crate) fn within(self, outer: impl Display) -> Self {
        let what = format!("{}: {}", printable(&outer.to_string()), self.what);
        Self { what, ..self }
    }
}

/// Text of an I/O error without Rust's "(os error 2)".
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

/// Text on one line without control characters.
fn printable(text: &str) -> String {
    let mut line = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == EXCERPT * 2 {
            line.push('…');
            break;
        }
        if character.is_control() { line.extend(character.escape_default()) } else { line.push(character) }
    }
    line
}

/// A name from an archive, short enough for a message.
pub(crate) fn excerpt(name: &str) -> String {
    match name.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_it_names() {
        let error = Error::invalid("a\nb\x1b[31m", "why").within("archive");
        let text = error.to_string();
        assert!(text.starts_with("archive: a\\nb\\u{1b}[31m: why; "), "{text}");
        assert!(Error::invalid("x".repeat(100_000), "y").to_string().len() < 1000);
    }
}
