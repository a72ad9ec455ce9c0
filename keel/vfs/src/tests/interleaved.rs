//! Requests and answers in any order: cached state never goes back.
//!
//! While a request of one thread is under way, before the host has carried it out or after, others do whatever they like.
//! Attributes and names are believed for ever here, so anything old that is remembered stays, and is found when all is
//! compared with the host's directory.

use super::host_dir::HostDir;
use super::{World, content};
use crate::io::{KernelDst, KernelSrc};
use crate::{Change, PathRef, SetTime};
use std::cell::{Cell, RefCell};
use std::format;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use std::string::String;
use std::vec::Vec;

/// Belief for longer than any test.
const EVER: u64 = 1 << 60;
/// Threads that wait for the host at a time.
const DEPTH: usize = 3;
const NAMES: [&str; 6] = ["a", "b", "sub/a", "sub/b", "other/a", "c"];

struct Random(Cell<u64>);

impl Random {
    fn below(&self, most: usize) -> usize {
        self.0.set(self.0.get().wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        (self.0.get() >> 33) as usize % most
    }
}

/// Threads of a pod.
struct Threads {
    world: World,
    random: Random,
    depth: Cell<usize>,
    /// Steps that may still be done in the midst of others.
    budget: Cell<usize>,
    open: RefCell<Vec<PathRef>>,
    /// What was done, for the report.
    done: RefCell<Vec<String>>,
}

impl Threads {
    fn new(name: &str, seed: u64) -> Rc<Self> {
        let host = HostDir::new(&format!("{name}-{seed}"));
        for name in NAMES {
            host.write(&format!("d/{name}"), b"from the host");
            host.write(&format!("private/{name}"), b"from the host");
        }
        Rc::new(Self {
            world: World::believing(host, EVER),
            random: Random(Cell::new(seed)),
            depth: Cell::new(0),
            budget: Cell::new(0),
            open: RefCell::default(),
            done: RefCell::default(),
        })
    }

    /// Has other threads run while requests are under way.
    fn interleave(self: &Rc<Self>) {
        let this = Rc::downgrade(self);
        let meanwhile = move |_, _| {
            let Some(this) = this.upgrade() else { return };
            if this.depth.get() < DEPTH && this.budget.get() > 0 && this.random.below(3) == 0 {
                this.budget.set(this.budget.get() - 1);
                this.step();
            }
        };
        self.world.host.meanwhile.replace(Some(Rc::new(meanwhile)));
    }

    fn name(&self) -> String {
        let root = if self.random.below(5) == 0 { "/h/private" } else { "/w/d" };
        format!("{root}/{}", NAMES[self.random.below(NAMES.len())])
    }

    /// Something that a thread does. It may fail when another one was faster.
    fn step(&self) {
        self.depth.set(self.depth.get() + 1);
        let data_len = if self.random.below(2) == 0 { 200 } else { 5000 };
        let (w, name, other, depth) = (&self.world, self.name(), self.name(), self.depth.get());
        let data = std::vec![b'a' + self.random.below(26) as u8; 1 + self.random.below(data_len)];
        let what = self.random.below(17);
        self.done.borrow_mut().push(format!("{depth}: begin {what} {name} {other}"));
        let ended = match what {
            0..=2 => w.get(&name).and_then(|f| f.inode().append_later(&mut KernelSrc(&data))).map(drop),
            3 => w.get(&name).and_then(|f| {
                let at = self.random.below(9000) as u64;
                f.inode().write_at(at, &mut KernelSrc(&data)).map(drop)
            }),
            4 => w.get(&name).and_then(|f| f.inode().truncate(self.random.below(9000) as u64)),
            5 | 6 => w.get(&name).and_then(|f| f.inode().attr()).map(drop),
            7 | 8 => w.get(&name).and_then(|f| f.inode().read_at(0, &mut KernelDst(&mut [0; 9000]))).map(drop),
            9 => w.create(&name, 0o100644).and_then(|f| {
                for _ in 0..self.random.below(3) {
                    self.change(&f)?;
                }
                self.open.borrow_mut().push(f);
                Ok(())
            }),
            10 => w.unlink(&name),
            11 => w.rename(&name, &other),
            12 => w.link(&name, &other),
            13 => w.get(&name).map(|f| self.open.borrow_mut().push(f)),
            14 => w.get(&name).and_then(|f| self.change(&f)),
            15 => {
                let (one, two) = [("/w/d/sub", "/w/d/other"), ("/w/d/other", "/w/d/sub")][self.random.below(2)];
                w.rename2(one, two, crate::ops::RENAME_EXCHANGE)
            }
            _ => {
                w.get(name.rsplit_once('/').map_or("/w/d", |(dir, _)| dir)).and_then(|d| d.inode().readdir()).map(drop)
            }
        };
        // Some stay open for a while, and their nodes with them.
        while self.open.borrow().len() > 3 {
            let gone = self.open.borrow_mut().remove(0);
            drop(gone);
        }
        self.done.borrow_mut().push(format!("{depth}: end {what} {name}: {ended:?}"));
        self.depth.set(self.depth.get() - 1);
    }

    /// Changes attributes of a file.
    fn change(&self, file: &PathRef) -> uapi::Result<()> {
        let mtime = Some(SetTime::At(1_000_000 + self.random.below(1000) as i64, 5));
        let mode = Some(0o600 | self.random.below(0o100) as u32);
        let change = match self.random.below(3) {
            0 => Change { mtime, ..Change::default() },
            1 => Change { mode, ..Change::default() },
            _ => Change { mode, mtime, ..Change::default() },
        };
        file.inode().change(&change)
    }

    /// The pod sees what the host has.
    fn compare(&self) {
        let w = &self.world;
        w.flush();
        let told = || self.done.borrow().iter().rev().take(40).rev().cloned().collect::<Vec<_>>().join("\n");
        for name in NAMES {
            let (seen, path) = (w.get(&format!("/w/d/{name}")), w.host.root.join("d").join(name));
            let Ok(meta) = fs::symlink_metadata(&path) else {
                assert!(seen.is_err(), "{name} is no more\n{}", told());
                continue;
            };
            let seen = seen.unwrap_or_else(|e| panic!("{name} is there: {e:?}\n{}", told()));
            let attr = seen.inode().attr().unwrap();
            let mtime = (meta.mtime(), meta.mtime_nsec() as u32);
            let perm = seen.inode().perm().unwrap();
            assert_eq!(
                (attr.ino, attr.size, attr.nlink, (attr.mtime, attr.mtime_ns), attr.mode, perm.0),
                (meta.ino(), meta.len(), meta.nlink() as u32, mtime, meta.mode(), meta.mode()),
                "{name}\n{}",
                told()
            );
            let seen = content(&**seen.inode()).unwrap_or_else(|e| panic!("{name} is not read: {e:?}\n{}", told()));
            let real = fs::read(&path).unwrap();
            assert!(seen == real, "content of {name}\n{}", told());
        }
        for directory in ["d", "d/sub", "d/other"] {
            let real = fs::read_dir(w.host.root.join(directory)).unwrap().flatten();
            let mut real: Vec<String> = real.map(|e| e.file_name().into_string().unwrap()).collect();
            real.sort();
            assert_eq!(w.list(&format!("/w/{directory}")), real, "{directory}\n{}", told());
        }
        for name in NAMES {
            let path = format!("/h/private/{name}");
            let (directory, last) = path.rsplit_once('/').unwrap();
            let is_listed = w.list(directory).iter().any(|n| n == last);
            assert_eq!(w.get(&path).is_ok(), is_listed, "{path}\n{}", told());
        }
    }
}

/// Runs of the test: `HULL_TEST_LONG=1` for many.
fn seeds() -> u64 {
    if std::env::var_os("HULL_TEST_LONG").is_some() { 4000 } else { 150 }
}

#[test]
fn what_is_known_never_goes_back() {
    for seed in 0..seeds() {
        let threads = Threads::new("interleaved", seed);
        threads.interleave();
        for _ in 0..40 {
            threads.budget.set(6);
            threads.step();
            threads.budget.set(0);
            threads.compare();
        }
        let Some(Threads { world, open, .. }) = Rc::into_inner(threads) else { panic!("threads are still in use") };
        drop(open);
        assert!(world.end(), "nothing of the tree remains: {seed}");
    }
}

/// The host's own processes change files, too: what they did is seen when what is known is no longer believed.
#[test]
fn what_the_host_does_meanwhile_is_seen() {
    const BRIEF: u64 = 2_000_000;
    for seed in 0..20 {
        let host = HostDir::new(&format!("both-{seed}"));
        host.write("d/f", &[b'.'; 6000]);
        let (world, random) = (Rc::new(World::believing(host, BRIEF)), Random(Cell::new(seed)));
        let path = world.host.root.join("d/f");
        let random = Rc::new(random);
        let (host_random, host_path) = (random.clone(), path.clone());
        let meanwhile = move |_, _| {
            if host_random.below(4) == 0 {
                let mut bytes = fs::read(&host_path).unwrap();
                let at = host_random.below(bytes.len());
                bytes[at] = b'A' + host_random.below(26) as u8;
                let file = fs::OpenOptions::new().write(true).open(&host_path).unwrap();
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..=at], at as u64).unwrap();
            }
        };
        for _ in 0..15 {
            world.host.meanwhile.replace(Some(Rc::new(meanwhile.clone())));
            for _ in 0..4 {
                let file = world.get("/w/d/f").unwrap();
                if random.below(2) == 0 {
                    file.inode().write_at(random.below(6000) as u64, &mut KernelSrc(b"pod")).unwrap();
                } else {
                    content(&**file.inode()).unwrap();
                }
            }
            world.host.meanwhile.replace(None);
            world.flush();
            super::pass(BRIEF * 2);
            assert_eq!(content(&**world.get("/w/d/f").unwrap().inode()).unwrap(), fs::read(&path).unwrap(), "{seed}");
        }
    }
}
