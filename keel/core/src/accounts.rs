//! Users and groups by name: passwd(5) and group(5).

use alloc::vec::Vec;

/// Most supplementary groups, as Linux has it.
const MOST_GROUPS: usize = 65536;

/// A user with what a process of it gets.
#[derive(Debug, PartialEq, Eq)]
pub struct Account<'a> {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
    /// Home directory.
    pub home: &'a [u8],
}

/// A name that no line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Of a user.
    User,
    /// Of a group.
    Group,
}

/// An id from digits.
fn number(text: &[u8]) -> Option<u32> {
    let text = core::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok().filter(|id| *id <= i32::MAX as u32)
}

/// Fields of the lines of a list.
fn lines(list: &[u8]) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
    let lines = list.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.starts_with(b"#"));
    lines.map(|line| line.split(|&byte| byte == b':'))
}

/// Finds `USER[:GROUP]`, names or numbers, as container engines do: the first line with that name or number; a number need not be
/// listed; without a group it is that of the user, with the groups that list the user. Empty: root.
pub fn find<'a>(wanted: &[u8], users: &'a [u8], groups: &[u8]) -> Result<Account<'a>, Missing> {
    let (user, group) = match wanted.iter().position(|&byte| byte == b':') {
        Some(at) => (&wanted[..at], &wanted[at + 1..]),
        None => (wanted, &b""[..]),
    };
    let user = if user.is_empty() { &b"0"[..] } else { user };
    let known = lines(users).find_map(|mut fields| {
        let (name, uid, gid) = (fields.next()?, number(fields.nth(1)?)?, number(fields.next()?)?);
        (name == user || number(user) == Some(uid)).then(|| (name, uid, gid, fields.nth(1).unwrap_or(b"/")))
    });
    let (name, uid, gid, home) = match (known, number(user)) {
        (Some(known), _) => known,
        (None, Some(uid)) => (&b""[..], uid, 0, &b"/"[..]),
        (None, None) => return Err(Missing::User),
    };
    let home = if home.is_empty() { b"/" } else { home };
    let mut account = Account { uid, gid, groups: Vec::new(), home };
    if !group.is_empty() {
        account.gid = find_group(group, groups).ok_or(Missing::Group)?;
        add(&mut account.groups, account.gid);
        return Ok(account);
    }
    add(&mut account.groups, gid);
    for mut fields in lines(groups) {
        let (Some(gid), Some(members)) = (fields.nth(2).and_then(number), fields.next()) else { continue };
        let lists = !name.is_empty() && members.split(|&byte| byte == b',').any(|member| member == name);
        if lists {
            add(&mut account.groups, gid);
        }
    }
    Ok(account)
}

/// Finds a group, by name or number; a number need not be listed.
fn find_group(wanted: &[u8], groups: &[u8]) -> Option<u32> {
    let listed = lines(groups).find_map(|mut fields| {
        let (name, gid) = (fields.next()?, number(fields.nth(1)?)?);
        (name == wanted || number(wanted) == Some(gid)).then_some(gid)
    });
    listed.or(number(wanted))
}

/// Adds a group to those of a process, which setgroups(2) sorts.
fn add(groups: &mut Vec<u32>, gid: u32) {
    if let Err(at) = groups.binary_search(&gid)
        && groups.len() < MOST_GROUPS
        && groups.try_reserve(1).is_ok()
    {
        groups.insert(at, gid);
    }
}

impl Account<'_> {
    /// Adds further groups, names or numbers. `Err`: the place of the first one that is in no line of `groups`.
    pub fn add_groups(&mut self, wanted: &[Vec<u8>], groups: &[u8]) -> Result<(), usize> {
        for (at, wanted) in wanted.iter().enumerate() {
            let gid = find_group(wanted, groups).ok_or(at)?;
            add(&mut self.groups, gid);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &[u8] =
        b"root:x:0:0:root:/root:/bin/sh\nbroken\n#redis:x:1:1::/:\n\nredis:x:101:102::/var/lib/redis:/bin/false\n\
        7:x:70:71::/seven:\nnohome:x:5:5\n";
    const GROUPS: &[u8] = b"root:x:0:\nredis:x:102:\ntty:x:5:redis,root\ndisk:x:6:other\nadm:x:4:redis\nx:y:z\n";

    fn ids(wanted: &str) -> Result<(u32, u32, Vec<u32>, &'static str), Missing> {
        let home = |home| core::str::from_utf8(home).unwrap();
        find(wanted.as_bytes(), USERS, GROUPS).map(|found| (found.uid, found.gid, found.groups, home(found.home)))
    }

    #[test]
    fn names_and_numbers() {
        assert_eq!(ids(""), Ok((0, 0, [0, 5].into(), "/root")));
        assert_eq!(ids("redis"), Ok((101, 102, [4, 5, 102].into(), "/var/lib/redis")));
        assert_eq!(ids("101"), ids("redis"));
        assert_eq!(ids("redis:disk"), Ok((101, 6, [6].into(), "/var/lib/redis")));
        assert_eq!(ids("redis:"), ids("redis"));
        assert_eq!(ids(":adm"), Ok((0, 4, [4].into(), "/root")));
        assert_eq!(ids("1000:1001"), Ok((1000, 1001, [1001].into(), "/")));
        assert_eq!(ids("1000"), Ok((1000, 0, [0].into(), "/")));
        // A name that looks like a number.
        assert_eq!(ids("7"), Ok((70, 71, [71].into(), "/seven")));
        assert_eq!(ids("nohome").unwrap().3, "/");
        assert_eq!(ids("broken"), Err(Missing::User));
        assert_eq!(ids("4294967295"), Err(Missing::User));
        assert_eq!(ids("redis:none"), Err(Missing::Group));
        assert_eq!(find(b"5", b"", b"").unwrap().uid, 5);
    }

    #[test]
    fn further_groups() {
        let add = |wanted: &[&str]| {
            let mut account = find(b"redis", USERS, GROUPS).unwrap();
            let wanted: Vec<Vec<u8>> = wanted.iter().map(|name| name.as_bytes().into()).collect();
            account.add_groups(&wanted, GROUPS).map(|()| account.groups)
        };
        assert_eq!(add(&["disk", "tty", "77", "6"]), Ok([4, 5, 6, 77, 102].into()));
        assert_eq!(add(&["disk", "none", "x"]), Err(1));
        assert_eq!(add(&["4294967295"]), Err(0));
    }
}
