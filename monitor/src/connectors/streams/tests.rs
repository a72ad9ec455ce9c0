//! The connector on pipes, files and pseudo-terminals.
#![allow(unsafe_code)]

use super::*;
use crate::connectors::{Reply, errno_of};
use crate::memory::io::GuestSlice;
use abi::operation::{Arguments, Encoded, MAX_ARGUMENTS, Operation};
use abi::request;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

fn slice(bytes: &mut [u8]) -> GuestSlice {
    // SAFETY: the tests use a slice only while its buffer lives and is not otherwise touched.
    unsafe { GuestSlice::ram(bytes.as_mut_ptr(), bytes.len()) }
}

fn pipes() -> (OwnedFd, OwnedFd, StreamsConnector) {
    let (stdin, feed) = rustix::pipe::pipe().unwrap();
    let (drain, stdout) = rustix::pipe::pipe().unwrap();
    (feed, drain, StreamsConnector::with([Some(stdin), Some(stdout), None]))
}

/// A completed operation: id and result.
type Completed = (u64, Result);

fn run(
    streams: &mut StreamsConnector,
    id: u64,
    number: u32,
    args: &[u64],
    input: &mut [u8],
    output: &mut [u8],
) -> Vec<Completed> {
    let mut all = [0; MAX_ARGUMENTS];
    all[..args.len()].copy_from_slice(args);
    let outcome = match StreamRequest::decode(&Encoded { number, arguments: Arguments::raw(all) }) {
        Ok(request) => streams.start(id, request, &[slice(input)], &[slice(output)]),
        Err(invalid) => Some(Err(errno_of(invalid))),
    };
    outcome.map(|result| (id, result)).into_iter().collect()
}

fn ok(id: u64, result: u64) -> Completed {
    (id, Ok(result.encode()))
}

fn failed(id: u64, error: Errno) -> Completed {
    (id, Err(error))
}

#[test]
fn reads_wait_and_keep_their_order() {
    let (feed, _drain, mut streams) = pipes();
    assert_eq!(streams.kinds(), [StreamKind::Pipe, StreamKind::Pipe, StreamKind::Closed]);
    let (mut a, mut b) = ([0; 3], [0; 8]);
    assert_eq!(run(&mut streams, 9, request::StreamRead::NUMBER, &[0, 1], &mut [], &mut b), [failed(9, Errno::AGAIN)]);
    assert_eq!(run(&mut streams, 1, request::StreamRead::NUMBER, &[0], &mut [], &mut a), []);
    assert_eq!(run(&mut streams, 2, request::StreamRead::NUMBER, &[0], &mut [], &mut b), []);
    rustix::io::write(&feed, b"hello").unwrap();
    let waiting = streams.waiting();
    let mut fds: Vec<_> = waiting.iter().map(|(fd, events)| PollFd::new(fd, *events)).collect();
    assert_eq!(rustix::event::poll(&mut fds, None).unwrap(), 2);
    assert_eq!(streams.ready(), [ok(1, 3), ok(2, 2)]);
    assert_eq!((&a, &b[..2]), (b"hel", &b"lo"[..]));
    drop(feed);
    assert_eq!(run(&mut streams, 3, request::StreamRead::NUMBER, &[0], &mut [], &mut b), [ok(3, 0)]);
    assert!(streams.pending() == 0);
}

#[test]
fn writes_fill_a_pipe_without_blocking() {
    let (_feed, drain, mut streams) = pipes();
    let mut big: Vec<u8> = (0..300_000u32).map(|index| index as u8).collect();
    let expected = big.clone();
    assert_eq!(run(&mut streams, 1, request::StreamWrite::NUMBER, &[1], &mut big, &mut []), []);
    let mut tail = *b"tail";
    assert_eq!(run(&mut streams, 2, request::StreamWrite::NUMBER, &[1], &mut tail, &mut []), []);
    let mut got = Vec::new();
    let mut done = Vec::new();
    let mut buffer = [0; 10_000];
    while streams.pending() > 0 {
        let bytes = rustix::io::read(&drain, &mut buffer).unwrap();
        got.extend_from_slice(&buffer[..bytes]);
        done.extend(streams.ready());
    }
    assert_eq!(done, [ok(1, 300_000), ok(2, 4)]);
    while got.len() < 300_004 {
        let bytes = rustix::io::read(&drain, &mut buffer).unwrap();
        got.extend_from_slice(&buffer[..bytes]);
    }
    assert_eq!(&got[..300_000], expected);
    assert_eq!(&got[300_000..], b"tail");
}

#[test]
fn cancelled_operations_complete() {
    let (_feed, _drain, mut streams) = pipes();
    let mut buffer = [0; 8];
    assert_eq!(run(&mut streams, 1, request::StreamRead::NUMBER, &[0], &mut [], &mut buffer), []);
    assert_eq!(run(&mut streams, 2, request::Cancel::NUMBER, &[1], &mut [], &mut []), [ok(2, 0)]);
    assert_eq!(streams.ready(), [failed(1, Errno::CANCELED)]);
    assert_eq!(run(&mut streams, 3, request::Cancel::NUMBER, &[1], &mut [], &mut []), [failed(3, Errno::NOENT)]);
    // A cancelled write that was half done returns its byte count.
    let mut big = vec![1; 100_000];
    assert_eq!(run(&mut streams, 4, request::StreamWrite::NUMBER, &[1], &mut big, &mut []), []);
    assert_eq!(run(&mut streams, 5, request::Cancel::NUMBER, &[4], &mut [], &mut []), [ok(5, 0)]);
    assert!(matches!(streams.ready()[..], [(4, Ok(Reply { result: 4096..100_000, .. }))]));
    for id in 0..MAX_PENDING as u64 {
        assert_eq!(run(&mut streams, id, request::StreamRead::NUMBER, &[0], &mut [], &mut buffer), []);
    }
    assert_eq!(
        run(&mut streams, 999, request::StreamRead::NUMBER, &[0], &mut [], &mut buffer),
        [failed(999, Errno::BUSY)]
    );
}

#[test]
fn a_closed_reader_is_a_broken_pipe() {
    let (_feed, drain, mut streams) = pipes();
    drop(drain);
    let mut text = *b"x";
    assert_eq!(run(&mut streams, 1, request::StreamWrite::NUMBER, &[1], &mut text, &mut []), [failed(1, Errno::PIPE)]);
    let done = run(&mut streams, 2, request::StreamPoll::NUMBER, &[1, 0], &mut [], &mut []);
    assert_eq!(done, [ok(2, PollFlags::ERR.bits().into())]);
}

#[test]
fn polls_wait_for_events() {
    let (feed, _drain, mut streams) = pipes();
    let (input, output) = (u64::from(PollFlags::IN.bits()), u64::from(PollFlags::OUT.bits()));
    assert_eq!(run(&mut streams, 1, request::StreamPoll::NUMBER, &[0, input, 1], &mut [], &mut []), [ok(1, 0)]);
    assert_eq!(run(&mut streams, 2, request::StreamPoll::NUMBER, &[1, output], &mut [], &mut []), [ok(2, output)]);
    assert_eq!(run(&mut streams, 3, request::StreamPoll::NUMBER, &[0, input], &mut [], &mut []), []);
    rustix::io::write(&feed, b"x").unwrap();
    assert_eq!(streams.ready(), [ok(3, input)]);
    assert_eq!(
        run(&mut streams, 4, request::StreamPoll::NUMBER, &[0, 1 << 16], &mut [], &mut []),
        [failed(4, Errno::INVAL)]
    );
}

#[test]
fn hostile_requests_fail() {
    let (_feed, _drain, mut streams) = pipes();
    for number in [2, 3, u64::MAX] {
        for op in [
            request::StreamRead::NUMBER,
            request::StreamWrite::NUMBER,
            request::StreamPoll::NUMBER,
            request::StreamStat::NUMBER,
            request::StreamSeek::NUMBER,
        ] {
            assert_eq!(run(&mut streams, 1, op, &[number], &mut [], &mut []), [failed(1, Errno::BADF)]);
        }
    }
    assert_eq!(run(&mut streams, 1, request::StreamRead::NUMBER, &[1], &mut [], &mut [0]), []);
    assert_eq!(
        run(&mut streams, 1, request::StreamRead::NUMBER, &[0, 7], &mut [], &mut [0]),
        [failed(1, Errno::INVAL)]
    );
    assert_eq!(run(&mut streams, 1, request::StreamSeek::NUMBER, &[0], &mut [], &mut []), [failed(1, Errno::SPIPE)]);
    assert_eq!(
        run(&mut streams, 1, request::StreamStat::NUMBER, &[0], &mut [], &mut [0; 5]),
        [failed(1, Errno::RANGE)]
    );
    assert_eq!(
        run(&mut streams, 1, request::StreamGetTermios::NUMBER, &[0], &mut [], &mut [0; 36]),
        [failed(1, Errno::NOTTY)]
    );
    assert_eq!(
        run(&mut streams, 1, request::StreamSetTermios::NUMBER, &[0], &mut [0; 36], &mut []),
        [failed(1, Errno::NOTTY)]
    );
    assert_eq!(run(&mut streams, 1, request::Mkdir::NUMBER, &[0], &mut [], &mut []), [failed(1, Errno::NOSYS)]);
}

#[test]
fn files_have_a_position() {
    let file = tempfile::tempfile().unwrap();
    let mut streams = StreamsConnector::with([None, Some(file.into()), None]);
    assert_eq!(streams.kinds()[1], StreamKind::File);
    let mut text = *b"0123456789";
    assert_eq!(run(&mut streams, 1, request::StreamWrite::NUMBER, &[1], &mut text, &mut []), [ok(1, 10)]);
    assert_eq!(run(&mut streams, 2, request::StreamSeek::NUMBER, &[1, 4, 0], &mut [], &mut []), [ok(2, 4)]);
    assert_eq!(
        run(&mut streams, 3, request::StreamSeek::NUMBER, &[1, (-1i64) as u64, 1], &mut [], &mut []),
        [ok(3, 3)]
    );
    let mut buffer = [0; 4];
    assert_eq!(run(&mut streams, 4, request::StreamRead::NUMBER, &[1], &mut [], &mut buffer), [ok(4, 4)]);
    assert_eq!(&buffer, b"3456");
    let mut attr = [0; 112];
    assert_eq!(run(&mut streams, 5, request::StreamStat::NUMBER, &[1], &mut [], &mut attr), [ok(5, 0)]);
    let attr: abi::request::NodeAttr = bytemuck::pod_read_unaligned(&attr);
    assert_eq!(attr.size, 10);
    for (to, whence) in [(u64::MAX, 0), (1, 9), (1 << 63, 3)] {
        let done = run(&mut streams, 6, request::StreamSeek::NUMBER, &[1, to, whence], &mut [], &mut []);
        assert_eq!(done, [failed(6, Errno::INVAL)]);
    }
}

#[test]
fn terminals_are_restored() {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal = rustix::fs::open(&name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let copy = rustix::io::dup(&terminal).unwrap();
    let before = terminal::attributes(terminal.as_fd()).unwrap();
    let mut streams = StreamsConnector::with([Some(copy), None, None]);
    assert_eq!(streams.kinds()[0], StreamKind::Terminal);
    assert_eq!(streams.window(), Some((0, 0)));
    let mut bytes = [0; 36];
    assert_eq!(run(&mut streams, 1, request::StreamGetTermios::NUMBER, &[0], &mut [], &mut bytes), [ok(1, 0)]);
    assert_eq!(bytes, before);
    // c_lflag without ICANON and ECHO, as an editor does it; VMIN 0.
    bytes[12] &= !0o12;
    bytes[17 + 6] = 0;
    assert_eq!(run(&mut streams, 2, request::StreamSetTermios::NUMBER, &[0, 0], &mut bytes, &mut []), [ok(2, 0)]);
    assert_eq!(terminal::attributes(terminal.as_fd()).unwrap(), bytes);
    assert_eq!(
        run(&mut streams, 3, request::StreamSetTermios::NUMBER, &[0, 3], &mut bytes, &mut []),
        [failed(3, Errno::INVAL)]
    );
    let short = run(&mut streams, 4, request::StreamSetTermios::NUMBER, &[0, 0], &mut bytes[..20], &mut []);
    assert_eq!(short, [failed(4, Errno::INVAL)]);
    drop(streams);
    assert_eq!(terminal::attributes(terminal.as_fd()).unwrap(), before);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Random requests in random order: no panic, no blocking, and each operation completes exactly once.
    #[test]
    fn random_requests_end_once(
        requests in proptest::collection::vec(
            (14..28u32, proptest::array::uniform3(0..6u64), 0..9000usize, proptest::bool::ANY, 0..70_000usize),
            1..60,
        )
    ) {
        let (feed, drain, mut streams) = pipes();
        let mut memory = vec![0; 9000];
        let mut ended = std::collections::BTreeSet::new();
        let mut started = 0;
        for (id, (number, args, len, wild, drained)) in requests.into_iter().enumerate() {
            let id = id as u64;
            let words = [args[0], if wild { u64::MAX - args[1] } else { args[1] }, args[2], 0, 0, 0];
            let encoded = Encoded { number, arguments: Arguments::raw(words) };
            let Ok(request) = StreamRequest::decode(&encoded) else { continue };
            let all = [slice(&mut memory[..len])];
            started += 1;
            let mut done = Vec::new();
            if let Some(result) = streams.start(id, request, &all, &all) {
                done.push((id, result));
            }
            if drained % 3 == 0 {
                rustix::io::write(&feed, b"some input").unwrap();
            }
            if drained % 2 == 0 && stream::Stream::new(drain.try_clone().unwrap()).poll(PollFlags::IN).unwrap() == PollFlags::IN {
                rustix::io::read(&drain, &mut vec![0; drained + 1]).unwrap();
            }
            done.extend(streams.ready());
            for (id, _) in done {
                proptest::prop_assert!(ended.insert(id), "{} ended twice", id);
            }
        }
        // The wait for a signal may never complete.
        let waiting = usize::from(streams.signal_wait.is_some());
        proptest::prop_assert_eq!(ended.len() + streams.pending() + waiting, started);
    }
}
