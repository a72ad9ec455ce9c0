//! `hull cp`.

use super::args::CopyArgs;
use super::{complain, human};
use crate::failure::{Failure, Result};
use image::Source;
use std::ffi::OsStr;
use std::io::{BufWriter, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `hull cp`.
pub fn copy(args: &CopyArgs) -> Result<u8> {
    let (name, path) = source(args)?;
    let is_archive = args.destination == Path::new("-");
    if is_archive && std::io::stdout().is_terminal() {
        return Err(Failure::request("cp", "standard output is a terminal", "redirect it, or name a file"));
    }
    let image = args.store.open()?.resolve(&name)?;
    let source = Source::find(&image, &path, args.follow_link)?;
    if is_archive {
        source.write_archive(BufWriter::with_capacity(1 << 18, std::io::stdout().lock()))?;
        return Ok(0);
    }
    let copied = source.write_to(&args.destination, args.archive)?;
    if copied.left_out > 0 {
        let text = format!("devices or sockets that are not made on the host: {}", copied.left_out);
        complain(&format!("warning: {text}; an archive has them: write to `-`"));
    }
    if !args.quiet {
        complain(&format!("copied {} to {}", human::size(copied.bytes), args.destination.display()));
    }
    Ok(0)
}

/// The image and the path in it. Files of the host as the source, or images as the destination, are explained.
fn source(args: &CopyArgs) -> Result<(String, Vec<u8>)> {
    const FORM: &str = "write hull cp IMAGE:PATH DEST, such as hull cp debian:12:/etc/passwd .";
    let (from, to) = (args.source.as_os_str(), args.destination.as_os_str());
    let wrong =
        |what: &OsStr, why: &str, remedy: &str| Err(Failure::request(what.to_string_lossy().into_owned(), why, remedy));
    match (parse(from), parse(to)) {
        (None, Some(_)) => {
            let remedy = "grant the file to a pod with -v SRC:AT, or make a new image with hull import";
            wrong(to, "files of an image can't be changed", remedy)
        }
        (Some(_), Some(_)) => wrong(to, "it names an image; copies go to the host", FORM),
        (None, None) => wrong(from, "it names no image", FORM),
        (Some(([], _)), None) => wrong(from, "the image has no name", FORM),
        (Some((_, [])), None) => wrong(from, "no path follows the image's name", FORM),
        (Some((name, path)), None) => Ok((String::from_utf8_lossy(name).into_owned(), path.to_vec())),
    }
}

/// Splits `IMAGE:PATH`; `None`: a path of the host, which has no colon, or begins with a slash or a dot. An absolute path
/// begins at the first `:/`, as no name of an image has one; any other one at the last colon.
fn parse(text: &OsStr) -> Option<(&[u8], &[u8])> {
    let bytes = text.as_bytes();
    if bytes == b"-" || bytes.starts_with(b"/") || bytes.starts_with(b".") {
        return None;
    }
    let absolute = bytes.windows(2).position(|pair| pair == b":/");
    let at = absolute.or_else(|| bytes.iter().rposition(|&byte| byte == b':'))?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_paths() {
        let split = |text: &'static str| {
            parse(OsStr::new(text)).map(|(name, path)| [name, path].map(|part| std::str::from_utf8(part).unwrap()))
        };
        assert_eq!(split("debian:/etc"), Some(["debian", "/etc"]));
        assert_eq!(split("debian:12:/etc/a:b"), Some(["debian:12", "/etc/a:b"]));
        assert_eq!(split("debian:12:etc"), Some(["debian:12", "etc"]));
        assert_eq!(split("localhost:5000/a/b:c:/x"), Some(["localhost:5000/a/b:c", "/x"]));
        assert_eq!(split("debian:"), Some(["debian", ""]));
        for host in ["-", "/a:/b", "./a:b", "../a:b", "file"] {
            assert_eq!(split(host), None, "{host}");
        }
    }
}
