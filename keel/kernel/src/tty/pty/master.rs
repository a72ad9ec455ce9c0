//! The master side.

use super::pair::READY;
use super::{Pair, open_slave};
use crate::file::{Abilities, File, FileOps, Queues, wait_on};
use crate::mm::user;
use crate::task;
use crate::task::descriptors;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use uapi::raw::general as g;
use uapi::raw::ioctl;
use uapi::{Errno, Result};
use vfs::PathRef;
use vfs::{Attr, Dst, Inode, Src};

/// Bytes moved at a time.
const STEP: usize = 512;

/// An open master.
pub struct Master {
    pair: Rc<Pair>,
    inode: Rc<dyn Inode>,
}

/// Opens `/dev/ptmx`: a new pseudo-terminal. ENOSPC.
pub fn open_master(inode: &Rc<dyn Inode>, flags: u32, place: PathRef) -> Result<Rc<File>> {
    let pair = Pair::create(super::devpts::instance(&place)?, task::current().cred().fsuid)?;
    Ok(File::new(Rc::new(Master { pair, inode: inode.clone() }), flags, Some(place)))
}

impl Master {
    /// The first byte of a read in packet mode, if there is one: the status bits, or 0.
    fn packet_head(&self) -> Option<u8> {
        self.pair.packet.get().then(|| self.pair.status.take())
    }

    fn readable(&self) -> bool {
        !self.pair.output.borrow().is_empty() || self.pair.packet.get() && self.pair.status.get() != 0
    }

    fn open_peer(&self, flags: usize) -> Result<usize> {
        let flags = flags as u32;
        let name = alloc::format!("/dev/pts/{}", self.pair.index);
        // After a chroot the name may not exist; the descriptor works anyway.
        let place = crate::task::path::Caller::current().resolve(g::AT_FDCWD, name.as_bytes(), true).ok();
        let file = open_slave(self.pair.index, flags, place)?;
        descriptors::install(file, flags).map(|fd| fd as usize)
    }
}

impl FileOps for Master {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn abilities(&self) -> Abilities {
        Abilities::STREAM.without(Abilities::NO_WAIT)
    }

    fn read(&self, file: &File, dst: &mut dyn Dst) -> Result<usize> {
        if dst.remaining() == 0 {
            return Ok(0);
        }
        let pair = &*self.pair;
        let ready = || (self.readable() || pair.is_abandoned()).then_some(());
        if ready().is_none() {
            if file.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            wait_on(&pair.master_readers, ready)?;
        }
        if !self.readable() {
            return Err(Errno::EIO);
        }
        let mut head = 0;
        if let Some(status) = self.packet_head() {
            head = dst.put(&[status])?;
            if status != 0 {
                return Ok(head);
            }
        }
        let count = dst.remaining().min(READY).min(pair.output.borrow().len());
        let bytes: Vec<u8> = pair.output.borrow_mut().drain(..count).collect();
        pair.slave_writers.wake_all();
        Ok(head + if bytes.is_empty() { 0 } else { dst.put(&bytes)? })
    }

    fn write(&self, file: &File, src: &mut dyn Src) -> Result<usize> {
        let pair = &*self.pair;
        let mut done = 0;
        let mut buffer = [0; STEP];
        let room = || pair.takes_typing().then_some(());
        let end = |done: usize, errno: Errno| if done > 0 { Ok(done) } else { Err(errno) };
        while src.remaining() > 0 {
            if room().is_none() && file.nonblocking() {
                return end(done, Errno::EAGAIN);
            }
            let want = src.remaining().min(STEP);
            let got = match src.get(&mut buffer[..want]) {
                Ok(got) => got,
                Err(errno) => return end(done, errno),
            };
            let mut rest = &buffer[..got];
            loop {
                let taken = match pair.type_bytes(rest) {
                    Ok(taken) => taken,
                    Err(errno) => return end(done, errno),
                };
                pair.slave_readers.wake_all();
                done += taken;
                rest = rest.get(taken..).unwrap_or_default();
                if rest.is_empty() {
                    break;
                }
                if file.nonblocking() {
                    return end(done, Errno::EAGAIN);
                }
                if let Err(errno) = wait_on(&pair.master_writers, room) {
                    return end(done, errno);
                }
            }
            if got < want {
                break;
            }
        }
        Ok(done)
    }

    fn attr(&self) -> Result<Attr> {
        self.inode.attr()
    }

    fn poll(&self, _file: &File) -> u32 {
        let pair = &*self.pair;
        let mut events = 0;
        if self.readable() {
            events |= g::POLLIN | g::POLLRDNORM;
        }
        if pair.packet.get() && pair.status.get() != 0 {
            events |= g::POLLPRI;
        }
        if pair.is_abandoned() {
            events |= g::POLLHUP;
        }
        if pair.takes_typing() {
            events |= g::POLLOUT | g::POLLWRNORM;
        }
        events
    }

    fn poll_queues(&self, _file: &File, _events: u32, out: &mut Queues) {
        out.push(self.pair.master_readers.clone());
        out.push(self.pair.master_writers.clone());
    }

    fn ioctl(&self, _file: &File, command: u32, arg: usize) -> Result<usize> {
        let pair = &self.pair;
        match command {
            ioctl::TIOCGPTN => user::write(arg, &pair.index).map(|()| 0),
            ioctl::TIOCSPTLCK => {
                let locked: i32 = user::read(arg)?;
                pair.locked.set(locked != 0);
                Ok(0)
            }
            ioctl::TIOCGPTLCK => user::write(arg, &i32::from(pair.locked.get())).map(|()| 0),
            ioctl::TIOCGPTPEER => self.open_peer(arg),
            ioctl::TIOCPKT => {
                let on: i32 = user::read(arg)?;
                if on != 0 && !pair.packet.get() {
                    pair.status.set(0);
                }
                pair.packet.set(on != 0);
                Ok(0)
            }
            ioctl::TIOCGPKT => user::write(arg, &i32::from(pair.packet.get())).map(|()| 0),
            ioctl::TIOCSIG => pair.send_signal(arg),
            ioctl::FIONREAD => user::write(arg, &(pair.output.borrow().len().min(READY) as i32)).map(|()| 0),
            ioctl::TIOCGPGRP => user::write(arg, &pair.control.foreground()).map(|()| 0),
            ioctl::TIOCGSID => {
                let session = pair.control.session().ok_or(Errno::ENOTTY)?;
                user::write(arg, &session.sid).map(|()| 0)
            }
            ioctl::TIOCNOTTY => Err(Errno::ENOTTY),
            ioctl::TCFLSH => {
                match arg as u32 {
                    g::TCIFLUSH => pair.flush_master_input(),
                    g::TCOFLUSH => pair.flush_master_output(),
                    g::TCIOFLUSH => {
                        pair.flush_master_input();
                        pair.flush_master_output();
                    }
                    _ => return Err(Errno::EINVAL),
                }
                Ok(0)
            }
            _ => pair.request(command, arg, false),
        }
    }

    fn inode(&self) -> Option<Rc<dyn Inode>> {
        Some(self.inode.clone())
    }

    fn release(&self, _file: &File) {
        self.pair.close_master();
    }
}
