//! A way leads where a walk leads, or does not hold.

use super::host_dir::HostDir;
use super::{World, expire};
use crate::acl::Kind;
use crate::cred::{MAY_READ, MAY_WRITE};
use crate::walk::Walk;
use crate::ways::{self, Key, Question};
use crate::{Attr, Change, Cred, PathRef, ops};
use hal::sync::grace::read;
use std::format;
use std::fs;
use std::rc::Rc;
use std::string::{String, ToString};
use std::vec::Vec;
use uapi::Result;

const USER: Cred<'static> = Cred { uid: 1000, gid: 1000, groups: &[], caps: 0, domain: None, ids: None };

/// A call by path, with what it needs to be found as a way.
struct Call {
    cred: Cred<'static>,
    question: Question,
    follow: bool,
    mode: u32,
    base: Option<PathRef>,
    path: String,
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Attributes(Attr, (u32, bool)),
    Target(Vec<u8>),
    Allowed,
}

impl Call {
    fn key(&self, w: &World) -> Key<'_> {
        let base = self.base.as_ref().map_or(0, |base| base.number());
        let caller = 1 + u64::from(self.cred.uid);
        Key { caller, root: w.tree.root().number(), base, question: self.question, path: self.path.as_bytes() }
    }

    fn start(&self, w: &World) -> PathRef {
        self.base.clone().unwrap_or_else(|| w.tree.root().clone())
    }

    /// As a handler does it.
    fn walk(&self, w: &World) -> Result<(PathRef, Answer)> {
        let walk = Walk::new(w.tree.root().clone(), self.cred);
        let place = walk.resolve(&self.start(w), self.path.as_bytes(), self.follow)?;
        let answer = if self.question == Question::LINK {
            Answer::Target(place.inode().readlink()?.to_vec())
        } else if self.mode != 0 {
            if self.mode & MAY_WRITE != 0 {
                ops::check_writable(&place)?;
            }
            self.cred.check(&**place.inode(), self.mode)?;
            Answer::Allowed
        } else {
            Answer::Attributes(place.inode().attr()?, (place.mount().id, place.is_mount_root()))
        };
        Ok((place, answer))
    }

    /// The same, and remembers it.
    fn handle(&self, w: &World) {
        if let Ok((place, _)) = self.walk(w) {
            ways::learn(&self.key(w), w.tree.root(), &self.start(w), &self.cred, &place);
        }
    }

    /// Without the big lock.
    fn find(&self, w: &World) -> Option<Answer> {
        read(|reading| {
            let way = ways::find(&self.key(w), reading)?;
            Some(if self.question == Question::LINK {
                Answer::Target(way.target().to_vec())
            } else if self.mode != 0 {
                Answer::Allowed
            } else {
                Answer::Attributes(*way.shown()?.view(reading)?.attr(), way.mount())
            })
        })
    }

    fn agrees(&self, w: &World, what: &str) -> bool {
        let found = self.find(w);
        if let Some(found) = &found {
            let walked = self.walk(w).map(|(_, answer)| answer);
            assert_eq!(walked.as_ref(), Ok(found), "{} after {what}", self.path);
        }
        found.is_some()
    }
}

fn calls(w: &World) -> Vec<Call> {
    let mut calls = Vec::new();
    let stat = |cred, path: &str, follow, base| Call {
        cred,
        question: Question::attributes(follow),
        follow,
        mode: 0,
        base,
        path: path.to_string(),
    };
    for top in ["", "/h", "/w"] {
        let base = w.get(&format!("{top}/a")).unwrap();
        for cred in [Cred::ROOT, USER] {
            for name in
                ["f", "g", "a", "a/f", "a/b/f", "a/b/../f", "link/f", "link", "./b//f", "a/b", "jump", "a/e/../f"]
            {
                let path = format!("{top}/{name}");
                calls.push(stat(cred, &path, true, None));
                calls.push(stat(cred, &path, false, None));
                for mode in [MAY_READ, MAY_READ | MAY_WRITE] {
                    let question = Question::access(mode, true, true);
                    calls.push(Call { question, mode, ..stat(cred, &path, true, None) });
                }
            }
            for name in ["f", "b/f", "../f", ".", "b/../../link/f"] {
                calls.push(stat(cred, name, true, Some(base.clone())));
            }
            for name in ["link", "jump"] {
                let path = format!("{top}/{name}");
                calls.push(Call { question: Question::LINK, ..stat(cred, &path, false, None) });
            }
        }
    }
    calls
}

fn build(w: &World) {
    for top in ["", "/h", "/w"] {
        for dir in ["a", "a/b", "a/e", "c", "c/b", "e"] {
            // The host's directory is in two places.
            let _ = w.mkdir(&format!("{top}/{dir}"));
        }
        for file in ["f", "g", "a/f", "a/b/f", "c/f", "c/b/f", "b"] {
            let _ = w.create(&format!("{top}/{file}"), 0o100644);
        }
        let _ = w.symlink("a/b", &format!("{top}/link"));
        let _ = w.symlink(&format!("{top}/a/b/f"), &format!("{top}/jump"));
    }
}

#[test]
fn each_change_of_names_and_permissions_is_seen() {
    let w = World::new(HostDir::new("t-ways"));
    build(&w);
    let calls = calls(&w);
    let mut x = 7u64;
    let mut random = |below: u64| {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33 ^ x >> 45) % below
    };
    let lists: Vec<Rc<crate::acl::Acl>> = [[6u16, 0], [6, 7]]
        .iter()
        .map(|[owner, user]| {
            let mut value = std::vec![2, 0, 0, 0];
            for (tag, perm, id) in
                [(1u16, *owner, u32::MAX), (2, *user, 1000), (4, 5, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)]
            {
                value.extend(tag.to_le_bytes());
                value.extend(perm.to_le_bytes());
                value.extend(id.to_le_bytes());
            }
            Rc::new(crate::acl::Acl::parse(&value).unwrap().unwrap())
        })
        .collect();
    let (mut held, mut changes) = (0, [0; 12]);
    for _ in 0..500 {
        // A few are used often.
        let first = random(calls.len() as u64) as usize;
        for call in calls.iter().cycle().skip(first).take(40) {
            (0..4).for_each(|_| call.handle(&w));
            held += usize::from(call.agrees(&w, "use"));
        }
        let top = ["", "/h", "/w"][random(3) as usize];
        let mut name = || {
            let names = ["a", "a/b", "a/f", "a/b/f", "f", "g", "link", "jump", "c", "c/b", "c/f", "b", "e", "a/e"];
            format!("{top}/{}", names[random(names.len() as u64) as usize])
        };
        let (one, other) = (name(), name());
        let what = random(12);
        let done = match what {
            0 | 1 => w.rename(&one, &other),
            2 => w.rename2(&one, &other, ops::RENAME_EXCHANGE),
            3 => w.unlink(&one),
            4 => w.rmdir(&one),
            // A link that is replaced.
            5 => {
                w.unlink(&one).and_then(|()| w.symlink(["c/b", "a/b", "a", "/c/b"][random(4) as usize], &one).map(drop))
            }
            6 => w.unlink(&other).and_then(|()| w.link(&one, &other)),
            7 | 8 => w.get(&one).and_then(|place| {
                let mode = Some([0o755, 0o700, 0o644, 0o070, 0o777][random(5) as usize]);
                place.inode().change(&Change { mode, ..Change::default() })
            }),
            9 => w.get(&one).and_then(|place| {
                let uid = Some([0, 1000][random(2) as usize]);
                place.inode().change(&Change { uid, ..Change::default() })
            }),
            10 => w.get(&one).and_then(|place| {
                let list = lists.get(random(3) as usize).cloned();
                let mode = place.inode().perm()?.0;
                place.inode().put_acl(Kind::Access, list, mode & 0o7777)
            }),
            _ => w.write(&one, b"other content"),
        };
        changes[what as usize] += usize::from(done.is_ok());
        for call in &calls {
            call.agrees(&w, &format!("{what} {one} {other}"));
        }
        if random(8) == 0 {
            build(&w);
            calls.iter().for_each(|call| {
                call.agrees(&w, "building");
            });
        }
    }
    assert!(held > 5_000, "{held}");
    assert!(changes.iter().all(|n| *n > 2), "{changes:?}");
}

#[test]
fn a_way_expires_with_the_names_of_the_host() {
    let host = HostDir::new("t-ways-host");
    host.write("f", b"before");
    let w = World::new(host);
    for path in ["/h/f", "/w/f"] {
        fs::write(w.host.root.join("f"), b"before").unwrap();
        expire();
        let question = Question::attributes(true);
        let call = Call { cred: Cred::ROOT, question, follow: true, mode: 0, base: None, path: path.to_string() };
        (0..4).for_each(|_| call.handle(&w));
        assert!(call.agrees(&w, "use"), "{path}");
        fs::remove_file(w.host.root.join("f")).unwrap();
        expire();
        assert_eq!(call.find(&w), None, "{path}");
        call.handle(&w);
        assert_eq!(call.find(&w), None, "{path}");
    }
}

#[test]
fn what_happens_everywhere_invalidates_all() {
    let w = World::new(HostDir::new("t-ways-all"));
    build(&w);
    let calls = calls(&w);
    let learn = || (0..4).for_each(|_| calls.iter().for_each(|call| call.handle(&w)));
    let found = || calls.iter().filter(|call| call.find(&w).is_some()).count();
    learn();
    // Those that lead nowhere, and a few that share a place in the table, are not there.
    let many = calls.len() / 2;
    assert!(found() > many, "{} of {}", found(), calls.len());
    let private = crate::node::Private::new(9, crate::node::Space::new(10));
    let over = private.node(&crate::NewNode::plain(0o040755, 0, 0));
    w.tree.attach(b"/a", over, "tmpfs", "tmpfs", false).unwrap();
    assert_eq!(found(), 0);
    learn();
    assert!(found() > many / 2);
    calls.iter().for_each(|call| {
        call.agrees(&w, "mount");
    });
    crate::mount::shrink(crate::dentry::unused::Share::All);
    assert_eq!(found(), 0);
    learn();
    ways::clear();
    assert_eq!(found(), 0);
    learn();
    w.tree.seal();
    assert_eq!(found(), 0);
}
