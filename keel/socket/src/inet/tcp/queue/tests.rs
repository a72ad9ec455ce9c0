//! The queue of a connection against a queue of single bytes.

use super::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;
use vfs::io::{KernelDst, KernelSrc};

struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % most
    }
}

/// What a receiver gets of a queue, and of its model.
fn take(queue: &Bytes, model: &mut VecDeque<u8>, room: usize, limit: usize) -> (Vec<u8>, Vec<u8>) {
    let mut out = vec![0; room];
    let taken = queue.take(&mut KernelDst(&mut out), limit).unwrap();
    out.truncate(taken);
    let expected = model.drain(..room.min(limit).min(model.len())).collect();
    (out, expected)
}

#[test]
fn bytes_come_in_order_and_once() {
    for seed in 0..40 {
        let (queue, mut random) = (Bytes::default(), Random(seed));
        let (mut model, mut taken, mut next) = (VecDeque::new(), 0_u64, 0_u8);
        for _ in 0..400 {
            let size = [1, 10, 700, 5000, 20_000][random.below(5)];
            let limit = [usize::MAX, 300, 4096][random.below(3)];
            match random.below(8) {
                0..=3 => {
                    let data: Vec<u8> = (0..1 + random.below(size)).map(|at| next.wrapping_add(at as u8)).collect();
                    let added = queue.add(&mut KernelSrc(&data), limit).unwrap();
                    assert_eq!(added, data.len().min(limit));
                    next = next.wrapping_add(added as u8);
                    model.extend(&data[..added]);
                }
                4 | 5 => {
                    let (got, expected) = take(&queue, &mut model, 1 + random.below(size), limit);
                    assert_eq!(got, expected);
                    taken += got.len() as u64;
                }
                6 => {
                    let (skip, room) = (random.below(size), 1 + random.below(size));
                    let mut out = vec![0; room];
                    let seen = queue.peek(&mut KernelDst(&mut out), skip, limit).unwrap();
                    let expected: Vec<u8> = model.iter().skip(skip).take(room.min(limit)).copied().collect();
                    assert_eq!(&out[..seen], &expected[..]);
                }
                _ => {
                    let limit = random.below(size);
                    let dropped = queue.drop_bytes(limit);
                    assert_eq!(dropped, model.drain(..limit.min(model.len())).count());
                    taken += dropped as u64;
                }
            }
            assert_eq!(queue.len(), model.len());
            assert_eq!(queue.positions(), (taken, taken + model.len() as u64));
        }
        queue.clear();
        assert_eq!(queue.len(), 0);
    }
}

/// Bytes that are in a page already, as sendfile(2) and urgent data bring them, keep their place.
#[test]
fn pages_are_appended_between_bytes() {
    let queue = Bytes::default();
    queue.add(&mut KernelSrc(b"first "), usize::MAX).unwrap();
    let page = Frame::alloc().unwrap();
    page.write(100, b"in a page");
    queue.append(Piece { page, start: 100, len: 9, mergeable: false, packet: false });
    queue.add(&mut KernelSrc(b" last"), usize::MAX).unwrap();
    let mut out = [0; 40];
    let taken = queue.take(&mut KernelDst(&mut out), usize::MAX).unwrap();
    assert_eq!(&out[..taken], b"first in a page last");
}
