//! `hull cp`.

use super::args::CopyArgs;
use super::{complain, human, print};
use crate::failure::{Failure, Result};
use image::{Addition, Source};
use std::ffi::OsStr;
use std::io::{BufWriter, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path in an image.
#[derive(Debug, PartialEq, Eq)]
struct Inside {
    image: String,
    path: Vec<u8>,
}

/// Which way files are copied.
#[derive(Debug, PartialEq, Eq)]
enum Way {
    FromImage(Inside),
    IntoImage(Inside),
}

/// `hull cp`.
pub fn copy(args: &CopyArgs) -> Result<u8> {
    match way(args)? {
        Way::FromImage(from) => copy_out(args, &from),
        Way::IntoImage(to) => copy_in(args, &to),
    }
}

fn copy_out(args: &CopyArgs, from: &Inside) -> Result<u8> {
    let is_archive = args.destination == Path::new("-");
    if is_archive && std::io::stdout().is_terminal() {
        return Err(Failure::request("cp", "standard output is a terminal", "redirect it, or name a file"));
    }
    let image = args.store.open()?.resolve(&from.image)?;
    let source = Source::find(&image, &from.path, args.follow_link)?;
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

fn copy_in(args: &CopyArgs, to: &Inside) -> Result<u8> {
    if args.source == Path::new("-") && std::io::stdin().is_terminal() {
        return Err(Failure::request("cp", "standard input is a terminal", "redirect it, or name a file"));
    }
    let addition = Addition { archive: args.archive, follow: args.follow_link };
    let added = args.store.open()?.add(&to.image, &to.path, &args.source, addition)?;
    if !args.quiet {
        let size = human::size(added.bytes);
        complain(&match &added.name {
            Some(name) => {
                format!("copied {} to a new image {}, a layer of {size}", args.source.display(), name.familiar())
            }
            None => format!("copied {} to a new image without a name, a layer of {size}", args.source.display()),
        });
    }
    print(&format!("{}\n", added.id));
    Ok(0)
}

/// Which way, and the image and the path in it.
fn way(args: &CopyArgs) -> Result<Way> {
    const FORM: &str =
        "write hull cp IMAGE:PATH DEST or hull cp FILE IMAGE:PATH, such as hull cp debian:12:/etc/passwd .";
    let (from, to) = (args.source.as_os_str(), args.destination.as_os_str());
    let wrong = |what: &OsStr, why: &str| Err(Failure::request(what.to_string_lossy().into_owned(), why, FORM));
    let (own, parts) = match (parse(from), parse(to)) {
        (Some(_), Some(_)) => return wrong(to, "both name an image; a copy goes from the host or to the host"),
        (None, None) => return wrong(from, "it names no image"),
        (Some(parts), None) => (from, parts),
        (None, Some(parts)) => (to, parts),
    };
    let inside = match parts {
        ([], _) => return wrong(own, "the image has no name"),
        (_, []) => return wrong(own, "no path follows the image's name"),
        (name, path) => Inside { image: String::from_utf8_lossy(name).into_owned(), path: path.to_vec() },
    };
    Ok(if own == from { Way::FromImage(inside) } else { Way::IntoImage(inside) })
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
