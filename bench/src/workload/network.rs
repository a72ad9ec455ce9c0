//! TCP and UDP over the loopback device.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

use anyhow::Result;

use super::measure;
use super::wake::{answer, exchange, process, reap};

/// Size of a send or receive of a stream, in bytes.
const BLOCK: usize = 64 << 10;
/// KiB received between two clock readings.
const ROUND: usize = 1024;

/// Both ends of a loopback connection.
fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let client = TcpStream::connect(listener.local_addr()?)?;
    let (server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    Ok((client, server))
}

/// Runs `body` with the other end of a connection, in a thread or in a process.
fn beside(in_process: bool, body: fn(&TcpStream), measured: impl FnOnce(&TcpStream) -> Result<f64>) -> Result<f64> {
    let (own, theirs) = pair()?;
    if in_process {
        let mut own = Some(own);
        let pid = process(|| {
            own = None;
            body(&theirs);
        })?;
        drop(theirs);
        let cost = own.as_ref().map_or(Ok(0.0), measured);
        drop(own);
        reap(pid);
        return cost;
    }
    let thread = std::thread::spawn(move || body(&theirs));
    let cost = measured(&own);
    drop(own);
    // The thread has no result.
    let _ = thread.join();
    cost
}

/// A byte through a connection and back.
pub fn tcp(in_process: bool) -> Result<f64> {
    beside(in_process, |theirs| answer(theirs, theirs), |own| exchange(own, own))
}

/// A KiB of a long stream.
pub fn tcp_stream(in_process: bool) -> Result<f64> {
    let send = |mut to: &TcpStream| {
        let block = vec![1; BLOCK];
        while to.write_all(&block).is_ok() {}
    };
    let receive = |mut from: &TcpStream| {
        let mut block = vec![0; BLOCK];
        let mut failed = Ok(());
        let cost = measure(1, || {
            let mut left = ROUND << 10;
            while left > 0 && failed.is_ok() {
                match from.read(&mut block[..BLOCK.min(left)]) {
                    Ok(got) => left -= got,
                    Err(error) => failed = Err(error),
                }
            }
        });
        failed?;
        Ok(cost / ROUND as f64)
    };
    beside(in_process, send, receive)
}

/// connect, accept and close, in one thread.
pub fn tcp_connect() -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let mut failed = Ok(());
    let cost = measure(10, || {
        let both = TcpStream::connect(address).and_then(|client| Ok((client, listener.accept()?)));
        if let Err(error) = both {
            failed = Err(error);
        }
    });
    failed?;
    Ok(cost)
}

/// A datagram to another process and back.
pub fn udp() -> Result<f64> {
    let (own, theirs) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    own.connect(theirs.local_addr()?)?;
    theirs.connect(own.local_addr()?)?;
    let pid = process(|| {
        let mut byte = [0];
        while matches!(theirs.recv(&mut byte), Ok(1)) && theirs.send(&byte).is_ok() {}
    })?;
    let mut failed = Ok(0);
    let cost = measure(10, || {
        let mut byte = [1];
        let done = own.send(&byte).and_then(|_| own.recv(&mut byte));
        if done.is_err() {
            failed = done;
        }
    });
    // An empty datagram ends the other process.
    own.send(&[])?;
    reap(pid);
    failed?;
    Ok(cost)
}
