//! Nested grants: their places inside other grants, and which grants cover parts of others.

use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The deepest of `places` that contains `at`, other than `at` itself.
pub fn around<'p>(at: &Path, places: impl Iterator<Item = &'p Path>) -> Option<&'p Path> {
    places.filter(|place| *place != at && at.starts_with(place)).max_by_key(|place| place.components().count())
}

/// Resolves the host's symbolic links in `at`, which lies in the grant of `host` at `outer`; the last component is not
/// resolved. Returns `InvalidInput` if a link leads out of `host`.
pub fn without_links(at: &Path, outer: &Path, host: &Path) -> Result<PathBuf, Error> {
    let (Ok(beneath), Some(name)) = (at.strip_prefix(outer), at.file_name()) else { return Ok(at.into()) };
    let host = host.canonicalize()?;
    let mut parent = beneath.parent().unwrap_or(Path::new(""));
    let mut missing = Vec::new();
    loop {
        match host.join(parent).canonicalize() {
            Ok(real) => {
                let beneath = real.strip_prefix(&host).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
                let mut place = outer.join(beneath);
                place.extend(missing.iter().rev());
                return Ok(place.join(name));
            }
            // The component does not exist; the pod creates it.
            Err(error) if error.kind() == ErrorKind::NotFound && parent.file_name().is_some() => {
                missing.extend(parent.file_name());
                parent = parent.parent().unwrap_or(Path::new(""));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Splits `PATH:AT` with a relative AT, unless a file has the whole name.
pub fn relative_place<'g>(host: &'g Path, cwd: &Path) -> Option<(&'g Path, PathBuf)> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = host.as_os_str().as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':')?;
    let (path, at) = (bytes.get(..colon)?, bytes.get(colon + 1..)?);
    if path.is_empty() || at.is_empty() || cwd.join(host).symlink_metadata().is_ok() {
        return None;
    }
    let name = std::ffi::OsStr::from_bytes;
    Some((Path::new(name(path)), cwd.join(name(at))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn places_are_found_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("g/real/deep")).unwrap();
        for (target, link) in [("real", "g/link"), ("../..", "g/out"), ("none", "g/dead")] {
            std::os::unix::fs::symlink(target, root.join(link)).unwrap();
        }
        let place = |at: &str| without_links(Path::new(at), Path::new("/at"), &root.join("g"));
        assert_eq!(place("/at/x").unwrap(), Path::new("/at/x"));
        assert_eq!(place("/at/link").unwrap(), Path::new("/at/link"));
        assert_eq!(place("/at/link/deep/x").unwrap(), Path::new("/at/real/deep/x"));
        assert_eq!(place("/at/link/new/er/x").unwrap(), Path::new("/at/real/new/er/x"));
        assert_eq!(place("/at/out/x").unwrap_err().kind(), ErrorKind::InvalidInput);
        let places = ["/", "/a", "/a/b", "/ab"].map(Path::new);
        let around = |at| around(Path::new(at), places.into_iter()).and_then(Path::to_str);
        assert_eq!([around("/a/b/c"), around("/a/b"), around("/ab/c")], [Some("/a/b"), Some("/a"), Some("/ab")]);
        assert_eq!([around("/"), around("/x")], [None, Some("/")]);
    }

    #[test]
    fn relative_places() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a:b"), "").unwrap();
        let place = |text| relative_place(Path::new(text), dir.path());
        assert_eq!(place("empty:proj/.git"), Some((Path::new("empty"), dir.path().join("proj/.git"))));
        assert_eq!(place("a:b"), None);
        for text in ["a", ":a", "a:"] {
            assert_eq!(place(text), None, "{text}");
        }
    }
}
