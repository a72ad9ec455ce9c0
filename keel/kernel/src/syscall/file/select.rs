//! select(2).

use crate::mm::user;
use crate::syscall::file::poll::{Timeout, Watch, keeps_timeouts, wait_ready, with_mask};
use crate::task;
use smallvec::SmallVec;
use uapi::raw::general as g;
use uapi::{Errno, Result};

/// poll(2) events that make a descriptor readable, writable, exceptional.
const MEANING: [u32; 3] = [
    g::POLLIN | g::POLLRDNORM | g::POLLRDBAND | g::POLLHUP | g::POLLERR | g::POLLNVAL,
    g::POLLOUT | g::POLLWRNORM | g::POLLWRBAND | g::POLLERR | g::POLLNVAL,
    g::POLLPRI | g::POLLNVAL,
];

/// The words of a set.
type Words = SmallVec<[u64; 16]>;

/// select(2). The time left is written back.
pub fn sys_select(count: i32, read: usize, write: usize, except: usize, timeout: usize) -> Result<usize> {
    let until = match timeout {
        0 => Timeout::Never,
        _ => {
            let [seconds, micros]: [i64; 2] = user::read(timeout)?;
            // More microseconds than a second has are seconds.
            let sum = seconds.checked_add(micros / 1_000_000).and_then(|seconds| u64::try_from(seconds).ok());
            let (Some(seconds), Ok(micros)) = (sum, u64::try_from(micros % 1_000_000)) else {
                return Err(Errno::EINVAL);
            };
            Timeout::after_ns(Some(seconds.saturating_mul(1_000_000_000).saturating_add(micros * 1000)))
        }
    };
    let result = select(count, [read, write, except], until);
    if timeout != 0 && !keeps_timeouts() {
        let left = until.left_ns() / 1000;
        // As in Linux, a time that can't be stored does not spoil the result.
        let _ = user::write(timeout, &[left / 1_000_000, left % 1_000_000]);
    }
    result
}

/// pselect6(2). `mask` points to the address and the size of the signal mask.
pub fn sys_pselect6(
    count: i32,
    read: usize,
    write: usize,
    except: usize,
    timeout: usize,
    mask: usize,
) -> Result<usize> {
    let [set, size] = if mask == 0 { [0, 0] } else { user::read::<[usize; 2]>(mask)? };
    let until = Timeout::from_timespec(timeout)?;
    let result = with_mask(set, size, || select(count, [read, write, except], until));
    if timeout != 0 && !keeps_timeouts() {
        let left = until.left_ns();
        // As in Linux, a time that can't be stored does not spoil the result.
        let _ = user::write(timeout, &[left / 1_000_000_000, left % 1_000_000_000]);
    }
    result
}

fn select(count: i32, sets: [usize; 3], timeout: Timeout) -> Result<usize> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let files = task::current().files();
    // Descriptors beyond the table are not looked at.
    let count = count.min(files.slots());
    let words = count.div_ceil(64);

    let mut wanted: [Words; 3] = Default::default();
    for (set, &address) in wanted.iter_mut().zip(&sets) {
        set.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
        for i in 0..words {
            let mut word = if address == 0 { 0 } else { user::read::<u64>(address.wrapping_add(i * 8))? };
            if i == words - 1 && count % 64 != 0 {
                word &= (1 << (count % 64)) - 1;
            }
            set.push(word);
        }
    }

    let mut watches: SmallVec<[Watch; 8]> = SmallVec::new();
    let mut numbers: SmallVec<[usize; 8]> = SmallVec::new();
    let [readers, writers, others] = &wanted;
    let bits = readers.iter().zip(writers).zip(others).map(|((r, w), x)| (r | w | x).count_ones() as usize).sum();
    watches.try_reserve_exact(bits).map_err(|_| Errno::ENOMEM)?;
    numbers.try_reserve_exact(bits).map_err(|_| Errno::ENOMEM)?;
    for (i, ((r, w), x)) in readers.iter().zip(writers).zip(others).enumerate() {
        let mut any = r | w | x;
        while any != 0 {
            let bit = any.trailing_zeros();
            any &= any - 1;
            let asked = |set: &u64, events: u32| if set >> bit & 1 != 0 { events } else { 0 };
            let events = asked(r, MEANING[0]) | asked(w, MEANING[1]) | asked(x, MEANING[2]);
            let fd = i * 64 + bit as usize;
            let file = files.get_raw(fd as i32)?;
            // One with O_PATH is there, but can't be polled.
            let (file, found) = if file.is_path() { (None, g::POLLNVAL) } else { (Some(file), 0) };
            watches.push(Watch { file, events, found });
            numbers.push(fd);
        }
    }

    // POLLHUP and POLLERR are found for every file but count only for the sets that mean them.
    let mut found: [Words; 3] = Default::default();
    for set in &mut found {
        set.try_reserve_exact(words).map_err(|_| Errno::ENOMEM)?;
        set.resize(words, 0);
    }
    let mut total = 0;
    loop {
        let ready = wait_ready(&mut watches, timeout)?;
        for (watch, &fd) in watches.iter().zip(&numbers) {
            for s in 0..3 {
                let bit = wanted[s][fd / 64] & 1 << (fd % 64);
                if bit != 0 && watch.found & MEANING[s] != 0 {
                    found[s][fd / 64] |= bit;
                    total += 1;
                }
            }
        }
        if total > 0 || ready == 0 || timeout == Timeout::Now {
            break;
        }
        // Only hang-ups outside the requested sets: watch the other descriptors.
        for watch in watches.iter_mut().filter(|watch| watch.found != 0) {
            watch.file = None;
            watch.found = 0;
        }
    }

    for (set, &address) in found.iter().zip(&sets) {
        if address != 0 {
            for (i, word) in set.iter().enumerate() {
                user::write(address.wrapping_add(i * 8), word)?;
            }
        }
    }
    Ok(total)
}
