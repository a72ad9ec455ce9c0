use super::*;
use crate::io::{KernelDst, KernelSrc};
use std::vec;
use std::vec::Vec;

/// The bytes 0, 1, 2 ... of a position in a file.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn filled(room: usize, all: &[u8]) -> Frames {
    let mut frames = Frames::new(room).unwrap();
    assert_eq!(frames.put(all), Ok(all.len().min(room)));
    frames
}

#[test]
fn bytes_come_out_as_they_went_in() {
    let all = bytes(3 * FRAME_SIZE + 100);
    for step in [1, 511, 512, 513, FRAME_SIZE - 1, FRAME_SIZE, FRAME_SIZE + 1, 4 * FRAME_SIZE] {
        let mut frames = filled(all.len(), &all);
        assert_eq!((frames.len(), Dst::remaining(&frames)), (all.len(), 0));
        let mut out = Vec::<u8>::new();
        while !frames.is_empty() {
            let mut part = vec![0; step];
            let got = frames.get(&mut part).unwrap();
            assert!(got == step || frames.is_empty());
            out.extend(&part[..got]);
        }
        assert!(out == all, "{step}");
        assert_eq!(frames.get(&mut [0]), Ok(0));
    }
}

#[test]
fn whole_frames_are_passed_on() {
    let all = bytes(2 * FRAME_SIZE + 7);
    let mut frames = filled(3 * FRAME_SIZE, &all);
    assert!(frames.take_frame(FRAME_SIZE - 1).is_none());
    let (frame, len) = frames.take_frame(usize::MAX).unwrap();
    let mut out = vec![0; len];
    frame.read(0, &mut out);
    assert!(len == FRAME_SIZE && out == all[..FRAME_SIZE]);
    // What was begun is copied.
    assert_eq!(frames.get(&mut [0]), Ok(1));
    assert!(frames.take_frame(usize::MAX).is_none());
    let other = Frame::alloc().unwrap();
    assert_eq!(frames.get_frame(&other, 1, FRAME_SIZE - 1), Ok(FRAME_SIZE - 1));
    let mut out = vec![0; FRAME_SIZE - 1];
    other.read(1, &mut out);
    assert!(out == all[FRAME_SIZE + 1..2 * FRAME_SIZE]);
    assert_eq!(frames.take_frame(7).map(|(_, len)| len), Some(7));
    assert!(frames.is_empty() && frames.take_frame(1).is_none());
}

#[test]
fn frames_and_zeros_are_stored() {
    let source = Frame::alloc().unwrap();
    source.write(0, &bytes(FRAME_SIZE));
    let mut frames = Frames::new(2 * FRAME_SIZE).unwrap();
    assert_eq!(frames.put_frame(&source, 0, FRAME_SIZE), Ok(FRAME_SIZE));
    assert_eq!(frames.put_zeros(9), Ok(9));
    assert_eq!(frames.put_frame(&source, 5, FRAME_SIZE - 5), Ok(FRAME_SIZE - 9));
    let mut out = vec![1; 2 * FRAME_SIZE];
    assert_eq!(frames.get(&mut out), Ok(2 * FRAME_SIZE));
    let expected = [&bytes(FRAME_SIZE)[..], &[0; 9], &bytes(FRAME_SIZE)[5..FRAME_SIZE - 4]].concat();
    assert!(out == expected);
    // The source of a write that took nothing.
    assert_eq!(Frames::new(0).unwrap().put(&[1]), Ok(0));
    assert_eq!(KernelSrc(&[]).take_frame(1).map(|_| ()), None);
    assert_eq!(KernelDst(&mut []).put_zeros(1), Ok(0));
}
