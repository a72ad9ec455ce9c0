//! Closing files that lie in other files.
//!
//! The last use of a description may be a message that waits in a socket, whose own last use is a message in the next one, and
//! so on (`SCM_RIGHTS`, unix(7)). Kernel stacks are small: below a few of them the rest waits until the first one is
//! closed, as Linux leaves it to work that runs on the way back to the program.

use super::{Abilities, File, FileOps};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, OnceCell, RefCell};
use hal::cell::Global;
use uapi::raw::general as g;
use uapi::{Errno, Result};
use vfs::Attr;

/// Files that are closed one in the other.
const MOST_NESTED: u32 = 3;
/// Room in the list that is kept.
const ROOM: usize = 64;

/// What is still to be closed.
static WAITING: Global<RefCell<Vec<File>>> = Global::new(RefCell::new(Vec::new()));

/// What a description that was closed does.
struct Gone;

impl FileOps for Gone {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::NONE
    }

    fn attr(&self) -> Result<Attr> {
        Err(Errno::EBADF)
    }
}

/// Stands for operations that were taken out of a description.
pub(super) fn gone() -> Rc<dyn FileOps> {
    static GONE: Global<OnceCell<Rc<dyn FileOps>>> = Global::new(OnceCell::new());
    GONE.get_or_init(|| Rc::new(Gone)).clone()
}

/// The last use of a description is over: now, or a little later.
pub(super) fn close(file: &mut File) {
    let Some(me) = sched::try_current() else { return file.end() };
    let nesting = &me.nesting;
    let depth = nesting.get();
    if depth >= MOST_NESTED {
        let mut waiting = WAITING.borrow_mut();
        // Without memory for the list it is closed here.
        if waiting.try_reserve(1).is_ok() {
            waiting.push(taken(file));
            return;
        }
    }
    nesting.set(depth + 1);
    file.end();
    if depth == 0 {
        while let Some(next) = next() {
            drop(next);
        }
    }
    nesting.set(depth);
}

fn next() -> Option<File> {
    let mut waiting = WAITING.borrow_mut();
    if waiting.is_empty() && waiting.capacity() > ROOM {
        *waiting = Vec::new();
    }
    waiting.pop()
}

/// All of a description that matters at its end. What is left has no end any more.
fn taken(file: &mut File) -> File {
    File {
        flags: Cell::new(file.flags.replace(g::O_PATH)),
        pos: Cell::new(file.pos.get()),
        pos_lock: super::position::PositionLock::default(),
        abilities: file.abilities,
        ops: core::mem::replace(&mut file.ops, gone()),
        path: file.path.take(),
        owner: core::mem::take(&mut file.owner),
        took_locks: Cell::new(false),
        unlocked: core::mem::take(&mut file.unlocked),
        uses: Cell::new(0),
        created: file.created.clone(),
        denied: Cell::new(0),
    }
}
