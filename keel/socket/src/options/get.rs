//! getsockopt(2) of SOL_SOCKET.

use super::super::inet::outward::settle::{Under, settle};
use super::super::message::shown_credentials;
use super::super::{Socket, filter};
use super::{DEVICE_NAME, Value, check_passing, inert, int, is_switch, pair};
use file::caller::caller;
use uapi::raw::net;
use uapi::{Errno, Result};

/// Words of `SO_MEMINFO`.
const MEMORY_WORDS: usize = 9;

/// A value and its length as the program is told it, which counts instructions for a filter.
pub struct Answer {
    /// At most as many bytes as there is room for.
    pub bytes: Value,
    /// Its length.
    pub len: usize,
}

/// Answers with a value for a program with room for so many bytes. Options differ in what they say of too little of it.
pub fn get(socket: &Socket, name: u32, room: usize) -> Result<Answer> {
    let options = socket.ops.options();
    match name {
        net::SO_ATTACH_FILTER => return filter::get(options, room),
        net::SO_PEERNAME => {
            let name = socket.ops.peer().map_err(|_| Errno::ENOTCONN)?;
            return if name.len() < room { Err(Errno::EINVAL) } else { Ok(cut(Value::from_slice(&name), room)) };
        }
        net::SO_COOKIE if room < size_of::<u64>() => return Err(Errno::EINVAL),
        net::SO_NETNS_COOKIE if room != size_of::<u64>() => return Err(Errno::EINVAL),
        net::SO_BINDTODEVICE if options.device.get() != 0 && room < DEVICE_NAME => return Err(Errno::EINVAL),
        _ => {}
    }
    value(socket, name, room).map(|value| cut(value, room))
}

fn cut(mut bytes: Value, room: usize) -> Answer {
    bytes.truncate(room);
    Answer { len: bytes.len(), bytes }
}

fn value(socket: &Socket, name: u32, room: usize) -> Result<Value> {
    let options = socket.ops.options();
    check_passing(socket, name)?;
    let timeout = |ns: u64| pair((ns / 1_000_000_000) as i64, (ns % 1_000_000_000 / 1000) as i64);
    Ok(match name {
        // As Linux has it, this one is on with the other new one.
        net::SO_TIMESTAMP_NEW => int(i32::from(options.is_on(name) || options.is_on(net::SO_TIMESTAMPNS_NEW))),
        name if is_switch(name) => int(i32::from(options.is_on(name))),
        net::SO_TYPE => int(socket.kind as i32),
        net::SO_DOMAIN => int(socket.family as i32),
        net::SO_PROTOCOL => int(socket.protocol as i32),
        net::SO_NETNS_COOKIE => Value::from_slice(&socket.ops.net().cookie().to_ne_bytes()),
        net::SO_ERROR => {
            settle(Under::Data);
            int(socket.ops.take_error().map_or(0, Errno::code))
        }
        net::SO_ACCEPTCONN => int(i32::from(socket.ops.is_listening())),
        net::SO_SNDBUF => int(options.send_buffer.get() as i32),
        net::SO_RCVBUF => int(options.receive_buffer.get() as i32),
        net::SO_RCVTIMEO_OLD | net::SO_RCVTIMEO_NEW => timeout(options.receive_timeout_ns.get()),
        net::SO_SNDTIMEO_OLD | net::SO_SNDTIMEO_NEW => timeout(options.send_timeout_ns.get()),
        net::SO_TIMESTAMPING_OLD | net::SO_TIMESTAMPING_NEW => options.stamping.get(name),
        net::SO_PASSCRED => int(i32::from(options.pass_credentials.get())),
        net::SO_LOCK_FILTER => int(i32::from(options.filter_locked.get())),
        net::SO_PASSPIDFD => int(i32::from(options.pass_pidfd.get())),
        net::SO_PASSRIGHTS => int(i32::from(options.pass_rights.get())),
        net::SO_PRIORITY => int(options.priority.get() as i32),
        net::SO_MARK => int(options.mark.get() as i32),
        net::SO_RCVLOWAT => int(options.low_water.get()),
        net::SO_SNDLOWAT => int(1),
        net::SO_BUSY_POLL => int(options.busy_poll_us.get()),
        net::SO_INCOMING_CPU => int(options.incoming_cpu.get()),
        net::SO_BUF_LOCK => {
            let locks = [options.send_buffer_locked.get(), options.receive_buffer_locked.get()];
            int(i32::from(locks[0]) | i32::from(locks[1]) << 1)
        }
        net::SO_MEMINFO => memory(socket),
        net::SO_BINDTODEVICE => match options.device.get() {
            0 => Value::new(),
            1 => Value::from_slice(b"lo\0"),
            _ => return Err(Errno::ENODEV),
        },
        net::SO_BINDTOIFINDEX => int(options.device.get()),
        net::SO_COOKIE => Value::from_slice(&socket.inode.attr.get().ino.to_ne_bytes()),
        net::SO_LINGER => {
            let [on, seconds] = options.linger.get();
            super::pair32(on as u32, seconds as u32)
        }
        net::SO_PEERCRED => {
            let mut value = Value::new();
            for word in shown_credentials(socket.ops.peer_credentials()?) {
                value.extend_from_slice(&word.to_ne_bytes());
            }
            value
        }
        net::SO_PEERPIDFD => int(caller().open_pidfd(&socket.ops.peer_process().ok_or(Errno::ENODATA)?)?),
        net::SO_PEERGROUPS => {
            let groups = socket.ops.peer_groups().ok_or(Errno::ENODATA)?;
            let mut value = Value::new();
            value.try_reserve(groups.groups.len() * size_of::<u32>()).map_err(|_| Errno::ENOMEM)?;
            value.extend_from_slice(bytemuck::cast_slice(&groups.groups));
            value
        }
        _ => match inert::get(socket, options.inert(), name, room) {
            Err(Errno::ENOPROTOOPT) => return socket.ops.get_option(net::SOL_SOCKET as i32, name as i32),
            other => other?,
        },
    })
}

/// `SO_MEMINFO`: what waits, the limits, and what was lost.
fn memory(socket: &Socket) -> Value {
    let options = socket.ops.options();
    let usage = socket.ops.usage();
    let mut words = [0u32; MEMORY_WORDS];
    words[0] = usage.received as u32;
    words[1] = options.receive_buffer.get();
    words[2] = usage.sent as u32;
    words[3] = options.send_buffer.get();
    words[8] = usage.drops as u32;
    Value::from_slice(bytemuck::cast_slice(&words))
}
