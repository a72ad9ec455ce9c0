//! From hal's boot hook to the first program.

pub mod first;
mod user;

use crate::cred::UserNs;
use crate::file::{self, FdTable};
use crate::fs::setup;
use crate::mm;
use crate::sched::timer;
use crate::task;
use crate::task::pidns::PidNs;
use crate::tty::stream;
use abi::boot::{BootInfo, PodConfig};
use abi::request::Exit;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use uapi::Errno;

/// Exit code of a failure of Hull's own.
const EXIT_HULL: u8 = 125;

/// Initialises the pod and runs its first program; the boot stack is not used again.
pub fn boot(_info: &'static BootInfo) -> ! {
    timer::on_renewal(mm::vdso::renew_clocks);
    mm::caller::CALLER.set(&task::caller::Current);
    file::caller::CALLER.set(&task::caller::Current);
    socket::caller::CALLER.set(&task::caller::Current);
    let Some(mut config) = PodConfig::decode(hal::boot::config()) else {
        fail("the pod's configuration", Errno::EINVAL);
    };
    let pids = match own_pids(&config) {
        Ok(pids) => pids,
        Err(errno) => fail("the PID namespace", errno),
    };
    let tree = match setup::init(&config, pids.clone()) {
        Ok(tree) => tree,
        Err(errno) => no_tree(&config, errno),
    };
    user::choose(&tree, &mut config);
    let fs = match setup::first_context(&tree, &config) {
        Ok(fs) => fs,
        Err(errno) => no_directory(&config.cwd, errno),
    };
    if let Some(network) = &config.network {
        socket::inet::outward::set(network);
    }
    stream::set_stop_signal(config.stop_signal);
    let files = FdTable::new();
    if let Err(errno) = stream::give_owner(&config, &tree) {
        fail("the owner of the terminal", errno);
    }
    let streams = stream::standard(&config);
    let standard = (0..).zip(&streams).filter_map(|(number, file)| Some((number, file.clone()?)));
    for (number, file) in standard.chain(stream::passed(&config)) {
        if let Err(errno) = i32::try_from(number).map_or(Err(Errno::EBADF), |number| files.replace(number, file, false))
        {
            fail("a descriptor of the first program", errno);
        }
    }
    first::first(config, pids, fs, files, move |process| stream::give_terminal(&streams, process))
}

/// The PID namespace of the programs, if the first one is process 1; else they are in the first, where keel is.
fn own_pids(config: &PodConfig) -> uapi::Result<Option<Rc<PidNs>>> {
    let wanted = config.container.as_ref().is_some_and(|container| container.own_pids);
    wanted.then(|| PidNs::create(None, UserNs::first())).transpose()
}

/// Reports that there is no root.
fn no_tree(config: &PodConfig, errno: Errno) -> ! {
    if !config.exports.iter().any(|export| export.is_image) {
        fail("the pod's file tree", errno);
    }
    let reason = match errno {
        Errno::EINVAL => "not an EROFS file system",
        Errno::EOPNOTSUPP => {
            "it needs features that hull does not read; make it without compression, in blocks of 4096 bytes"
        }
        Errno::EUCLEAN => "damaged; make it anew",
        Errno::EIO => "it can't be read",
        other => fail("the pod's image", other),
    };
    let text = format!("hull: the image: {reason}");
    hal::ring::end(Exit { code: EXIT_HULL }, text.as_bytes())
}

/// Reports that the working directory of `--workdir` can't be used.
fn no_directory(name: &[u8], errno: Errno) -> ! {
    let reason = match errno {
        Errno::ENOENT => "no such directory in the pod",
        Errno::ENOTDIR => "not a directory",
        Errno::EACCES => "permission denied",
        Errno::ENAMETOOLONG => "the name is too long",
        Errno::ELOOP => "too many symbolic links",
        _ => "can't be entered",
    };
    let name = String::from_utf8_lossy(name);
    let text = format!("hull: --workdir {name}: {reason}; name a directory that the pod sees, or grant one");
    hal::ring::end(Exit { code: EXIT_HULL }, text.as_bytes())
}

fn fail(what: &str, errno: Errno) -> ! {
    let text = format!("hull: {what}: {errno:?}");
    hal::ring::end(Exit { code: EXIT_HULL }, text.as_bytes())
}
