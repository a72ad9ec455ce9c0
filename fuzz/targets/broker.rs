//! Messages between monitor and broker, commands of the user to the broker, and DNS messages of the pod and of name servers: no bytes make the decoders fail, and
//! what is answered is a DNS message with only acceptable addresses.
#![no_main]

use broker::dns::message::{Answered, Asked, answer, question};
use broker::{Reply, Request};
use libfuzzer_sys::fuzz_target;
use std::net::IpAddr;

fuzz_target!(|data: &[u8]| {
    if let Some(request) = Request::decode(data) {
        assert_eq!(Request::decode(&request.encode()), Some(request));
    }
    let _ = Reply::decode(data);
    // A command is refused with a reason and a remedy.
    if let Err(why) = broker::control::parse(data) {
        assert!(why.contains("; "), "{why}");
    }
    // A question of the pod, and what a server answers to it.
    let length = data.first().map_or(0, |byte| usize::from(*byte));
    let (first, second) = data.get(1..).unwrap_or_default().split_at_checked(length).unwrap_or_default();
    let asked = match question(first) {
        Asked::Question(asked) => asked,
        Asked::Answered(bytes) => {
            assert!(!bytes.is_empty());
            return;
        }
        Asked::Nothing => return,
    };
    asked.host_name();
    let query = asked.query(7, true);
    // The server answers with the id and the question that were sent.
    let mut message = vec![0, 7];
    message.extend_from_slice(second.get(..10).unwrap_or_default());
    message.extend_from_slice(query.get(12..query.len() - 11).unwrap_or_default());
    message.extend_from_slice(second.get(10..).unwrap_or_default());
    for stream in [false, true] {
        if let Answered::Answer(answer) = answer(message.clone(), &asked, 7, stream) {
            for datagram in [false, true] {
                let bytes = answer.filtered(&asked, datagram, |ip: IpAddr, _| !ip.is_loopback());
                assert!(!datagram || bytes.len() <= 1232, "{}", bytes.len());
            }
        }
    }
});
