//! Options of an overlay mount, as mount(2) and fsconfig(2) give them.

use crate::memory::{append, push};
use alloc::vec::Vec;
use uapi::{Errno, Result};

/// Most lower layers.
pub const MAX_LAYERS: usize = 500;

/// What an overlay is to be made of: paths that were not looked at yet.
#[derive(Debug, Default)]
pub struct Options {
    /// Lower layers, the uppermost first.
    pub lower: Vec<Vec<u8>>,
    /// The layer that takes changes.
    pub upper: Option<Vec<u8>>,
    /// Where that is prepared.
    pub work: Option<Vec<u8>>,
    /// Marks of the overlay are `user.` attributes.
    pub user_attributes: bool,
    /// As the tables show them, each with a leading comma.
    pub shown: Vec<u8>,
}

/// Parts of a text between separators that have no backslash before them.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_escaped = false;
    text.split(move |&byte| {
        let separates = byte == separator && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        separates
    })
}

/// Without the backslashes that keep the next byte from having a meaning. ENOMEM.
fn unescaped(text: &[u8]) -> Result<Vec<u8>> {
    let mut out = crate::memory::copy(text)?;
    let mut is_escaped = false;
    out.retain(|&byte| {
        is_escaped = byte == b'\\' && !is_escaped;
        !is_escaped
    });
    Ok(out)
}

/// An option as the tables show it: without bytes that have a meaning there. ENOMEM.
fn show(out: &mut Vec<u8>, option: &[u8]) -> Result<()> {
    for &byte in option {
        match byte {
            b',' | b' ' | b'\t' | b'\n' | b'\\' => {
                append(out, &[b'\\', b'0' + (byte >> 6), b'0' + (byte >> 3 & 7), b'0' + (byte & 7)])?;
            }
            _ => append(out, &[byte])?,
        }
    }
    Ok(())
}

impl Options {
    /// From `lowerdir=a:b,upperdir=…`. EINVAL: one is unknown, or would have an effect that is not there; ENOMEM.
    pub fn parse(data: &[u8]) -> Result<Self> {
        let mut all = Self::default();
        let (mut lower, mut upper, mut work, mut others) = (Vec::new(), None, None, Vec::new());
        for option in split(data, b',').filter(|option| !option.is_empty()) {
            let mut parts = option.splitn(2, |&byte| byte == b'=');
            let (key, value) = (parts.next().unwrap_or_default(), parts.next());
            match (key, value) {
                (b"lowerdir", Some(value)) => {
                    all.lower.clear();
                    split(value, b':').try_for_each(|path| all.add_lower(path))?;
                    lower.clear();
                    push(&mut lower, option)?;
                }
                (b"lowerdir+", Some(value)) => {
                    all.add_lower(value)?;
                    push(&mut lower, option)?;
                }
                (b"upperdir", Some(value)) => {
                    all.upper = Some(Self::path(value)?);
                    upper = Some(option);
                }
                (b"workdir", Some(value)) => {
                    all.work = Some(Self::path(value)?);
                    work = Some(option);
                }
                (b"userxattr", None) => {
                    all.user_attributes = true;
                    push(&mut others, option)?;
                }
                // What is written is in memory, or its layer's own matter: nothing has to be left out.
                (b"volatile" | b"default_permissions", None) => push(&mut others, option)?,
                (b"override_creds", None)
                | (b"redirect_dir", Some(b"off" | b"nofollow"))
                | (b"index" | b"nfs_export" | b"metacopy" | b"verity", Some(b"off"))
                | (b"xino", Some(b"off" | b"auto"))
                | (b"uuid", Some(b"off" | b"null" | b"auto")) => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        for option in lower.into_iter().chain(upper).chain(work).chain(others) {
            append(&mut all.shown, b",")?;
            show(&mut all.shown, option)?;
        }
        Ok(all)
    }

    fn path(text: &[u8]) -> Result<Vec<u8>> {
        if text.is_empty() { Err(Errno::EINVAL) } else { unescaped(text) }
    }

    fn add_lower(&mut self, text: &[u8]) -> Result<()> {
        if self.lower.len() == MAX_LAYERS {
            return Err(Errno::EINVAL);
        }
        push(&mut self.lower, Self::path(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_and_unescaped() {
        let all = Options::parse(br"userxattr,lowerdir=a\:b:c\\:d\,e,workdir=w,upperdir=u,index=off").unwrap();
        assert_eq!(all.lower, [&br"a:b"[..], br"c\", b"d,e"]);
        assert_eq!((all.upper.as_deref(), all.work.as_deref()), (Some(&b"u"[..]), Some(&b"w"[..])));
        assert!(all.user_attributes);
        assert_eq!(all.shown, br",lowerdir=a\134:b:c\134\134:d\134\054e,upperdir=u,workdir=w,userxattr");
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for bad in ["lowerdir=", "lowerdir=a::b", "lowerdir=:a", "lowerdir", "redirect_dir=on", "metacopy=on", "x"] {
            assert_eq!(Options::parse(bad.as_bytes()).err(), Some(Errno::EINVAL), "{bad}");
        }
        let many = [&b"lowerdir=a"[..], &b":a".repeat(MAX_LAYERS)].concat();
        assert_eq!(Options::parse(&many).err(), Some(Errno::EINVAL));
    }
}
