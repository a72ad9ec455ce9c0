//! DNS messages: questions of the pod, and answers of the host's name servers. Both are hostile input.

use domain::base::iana::{Class, Opcode, Rcode};
use domain::base::message_builder::PushError;
use domain::base::name::ToLabelIter;
use domain::base::{Message, MessageBuilder, Name, ParsedName, ParsedRecord, Rtype, StaticCompressor, ToName, Ttl};
use domain::rdata::{A, Aaaa, AllRecordData, Cname};
use std::net::IpAddr;
use std::time::Duration;

/// Maximum size of a message.
pub const MAX_MESSAGE: usize = 65_535;
/// Size of answers to a client that names none (RFC 1035).
const PLAIN: u16 = 512;
/// Maximum size of datagrams with answers, in both directions (RFC 6891, DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// Maximum number of records of an answer that are used.
const MOST_RECORDS: usize = 512;

/// A name without compression.
pub type OwnedName = Name<Vec<u8>>;

/// A question of the pod.
#[derive(Clone, Debug)]
pub struct Question {
    /// The client's id.
    pub id: u16,
    /// The name, in the client's spelling.
    pub name: OwnedName,
    /// The type of records.
    pub rtype: Rtype,
    /// `Some`: the client uses EDNS; the size of datagrams that it accepts.
    payload: Option<u16>,
}

/// What the pod sent.
#[derive(Debug)]
pub enum Asked {
    /// A question to decide on.
    Question(Question),
    /// Something else, with the answer.
    Answered(Vec<u8>),
    /// Nothing that has an answer.
    Nothing,
}

/// Reads a question.
pub fn question(bytes: &[u8]) -> Asked {
    let Ok(message) = Message::from_octets(bytes) else { return Asked::Nothing };
    let header = message.header();
    if header.qr() {
        return Asked::Nothing;
    }
    let failed = |rcode| {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(header.id());
        builder.header_mut().set_qr(true);
        builder.header_mut().set_opcode(header.opcode());
        builder.header_mut().set_rcode(rcode);
        Asked::Answered(builder.finish())
    };
    if header.opcode() != Opcode::QUERY {
        return failed(Rcode::NOTIMP);
    }
    let Ok(asked) = message.sole_question() else { return failed(Rcode::FORMERR) };
    let payload = message.opt().map(|opt| opt.udp_payload_size().clamp(PLAIN, PAYLOAD));
    let question = Question { id: header.id(), name: asked.qname().to_name(), rtype: asked.qtype(), payload };
    let is_meta = matches!(asked.qtype(), Rtype::ANY | Rtype::AXFR | Rtype::IXFR | Rtype::MAILA | Rtype::MAILB);
    if asked.qclass() != Class::IN || is_meta || asked.qtype() == Rtype::OPT {
        return Asked::Answered(question.answer(Rcode::NOTIMP, &[], None));
    }
    Asked::Question(question)
}

/// Records of an answer.
type Records<'a> = Vec<ParsedRecord<'a, Vec<u8>>>;

impl Question {
    /// The name as policies have it; `None`: it is not a host name.
    pub fn host_name(&self) -> Option<policy::Name> {
        let mut text = String::new();
        for label in self.name.iter_labels().filter(|label| !label.is_root()) {
            let label = std::str::from_utf8(label.as_slice()).ok().filter(|label| label.is_ascii())?;
            if label.contains('.') {
                return None;
            }
            text.push_str(if text.is_empty() { "" } else { "." });
            text.push_str(label);
        }
        policy::Name::parse(&text).ok()
    }

    /// What equal questions have in common.
    pub fn key(&self) -> (Vec<u8>, u16) {
        (self.name.as_slice().to_ascii_lowercase(), self.rtype.to_int())
    }

    /// The message to a name server. `edns`: with the size of datagrams, which very old servers refuse.
    pub fn query(&self, id: u16, edns: bool) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(true);
        let mut questions = builder.question();
        // A vector has room for it.
        let _ = questions.push((&self.name, self.rtype));
        let mut rest = questions.additional();
        if edns {
            let _ = rest.opt(|opt| {
                opt.set_udp_payload_size(PAYLOAD);
                Ok(())
            });
        }
        rest.finish()
    }

    /// An answer without records.
    pub fn failure(&self, rcode: Rcode) -> Vec<u8> {
        self.answer(rcode, &[], None)
    }

    /// An answer with these addresses, as far as they are of the type that was asked for.
    pub fn addresses(&self, addresses: &[IpAddr], ttl: Duration, datagram: bool) -> Vec<u8> {
        let ttl = Ttl::from_secs(u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX));
        let fill = |answer: &mut Answers| {
            addresses.iter().try_for_each(|address| match (address, self.rtype) {
                (IpAddr::V4(v4), Rtype::A) => answer.push((&self.name, ttl, A::new(*v4))),
                (IpAddr::V6(v6), Rtype::AAAA) => answer.push((&self.name, ttl, Aaaa::new(*v6))),
                _ => Ok(()),
            })
        };
        self.build(Rcode::NOERROR, datagram.then(|| self.limit()), fill)
    }

    /// Size of the client's datagrams.
    fn limit(&self) -> usize {
        self.payload.unwrap_or(PLAIN).into()
    }

    fn answer(&self, rcode: Rcode, records: &[ParsedRecord<'_, Vec<u8>>], limit: Option<usize>) -> Vec<u8> {
        self.build(rcode, limit, |answer| {
            for record in records {
                // A record whose data can't be parsed is left out.
                if let Ok(Some(record)) = record.to_record::<AllRecordData<_, ParsedName<_>>>() {
                    answer.push(record)?;
                }
            }
            Ok(())
        })
    }

    /// An answer, cut with the bit for it set if it is larger than `limit`.
    fn build(
        &self,
        rcode: Rcode,
        limit: Option<usize>,
        fill: impl FnOnce(&mut Answers) -> Result<(), PushError>,
    ) -> Vec<u8> {
        let Ok(mut builder) = MessageBuilder::from_target(StaticCompressor::new(Vec::new()));
        const OPT: usize = 11;
        builder.set_push_limit(limit.unwrap_or(MAX_MESSAGE).saturating_sub(OPT));
        let header = builder.header_mut();
        header.set_id(self.id);
        header.set_qr(true);
        header.set_rd(true);
        header.set_ra(true);
        header.set_rcode(rcode);
        let mut questions = builder.question();
        // The smallest limit has room for the longest name.
        let _ = questions.push((&self.name, self.rtype));
        let mut answer = questions.answer();
        let cut = fill(&mut answer).is_err();
        answer.header_mut().set_tc(cut);
        let mut rest = answer.additional();
        rest.clear_push_limit();
        if self.payload.is_some() {
            let _ = rest.opt(|opt| {
                opt.set_udp_payload_size(PAYLOAD);
                Ok(())
            });
        }
        rest.finish().into_target()
    }
}

type Answers = domain::base::message_builder::AnswerBuilder<StaticCompressor<Vec<u8>>>;

/// What a name server sent.
#[derive(Debug)]
pub enum Answered {
    /// Not the answer to this question.
    Other,
    /// Only a part; ask over TCP.
    Cut,
    /// The server failed, or does not serve this host: another one may.
    Failed,
    /// An answer.
    Answer(Answer),
}

/// An answer of a name server.
#[derive(Debug)]
pub struct Answer {
    message: Message<Vec<u8>>,
    rcode: Rcode,
}

/// Reads the answer to a question that was sent with this id. `stream`: over TCP.
pub fn answer(bytes: Vec<u8>, question: &Question, id: u16, stream: bool) -> Answered {
    let Ok(message) = Message::from_octets(bytes) else { return Answered::Other };
    let header = message.header();
    if !header.qr() || header.id() != id || header.opcode() != Opcode::QUERY {
        return Answered::Other;
    }
    let rcode = header.rcode();
    let is_same = message.sole_question().is_ok_and(|asked| {
        asked.qtype() == question.rtype && asked.qclass() == Class::IN && asked.qname().name_eq(&question.name)
    });
    // A server that does not understand EDNS may leave the question out.
    let is_plain_failure = rcode == Rcode::FORMERR && message.header_counts().qdcount() == 0;
    if !is_same && !is_plain_failure {
        return Answered::Other;
    }
    if rcode != Rcode::NOERROR && rcode != Rcode::NXDOMAIN {
        return Answered::Failed;
    }
    if header.tc() && !stream {
        return Answered::Cut;
    }
    Answered::Answer(Answer { message, rcode })
}

impl Answer {
    /// The answer for the pod: aliases of the name and the records that were asked for, and of these the addresses that
    /// `accept` accepts.
    pub fn filtered(
        &self,
        question: &Question,
        datagram: bool,
        mut accept: impl FnMut(IpAddr, Duration) -> bool,
    ) -> Vec<u8> {
        let mut records: Records<'_> = Vec::new();
        let mut owner: OwnedName = question.name.clone();
        let Ok(section) = self.message.answer() else { return question.failure(Rcode::SERVFAIL) };
        for record in section.take(MOST_RECORDS) {
            let Ok(record) = record else { break };
            if record.class() != Class::IN || !record.owner().name_eq(&owner) {
                continue;
            }
            if record.rtype() == question.rtype {
                let ttl = Duration::from_secs(record.ttl().as_secs().into());
                let is_acceptable = match record.rtype() {
                    Rtype::A => record.to_record::<A>().ok().flatten().map(|record| record.data().addr().into()),
                    Rtype::AAAA => record.to_record::<Aaaa>().ok().flatten().map(|record| record.data().addr().into()),
                    _ => {
                        records.push(record);
                        continue;
                    }
                };
                if is_acceptable.is_some_and(|address| accept(address, ttl)) {
                    records.push(record);
                }
            } else if record.rtype() == Rtype::CNAME
                && let Ok(Some(alias)) = record.to_record::<Cname<ParsedName<_>>>()
            {
                owner = alias.data().cname().to_name();
                records.push(record);
            }
        }
        question.answer(self.rcode, &records, datagram.then(|| question.limit()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A question of a client.
    pub fn ask(id: u16, name: &str, rtype: Rtype, payload: Option<u16>) -> Vec<u8> {
        let mut builder = MessageBuilder::new_vec();
        builder.header_mut().set_id(id);
        builder.header_mut().set_rd(true);
        let mut questions = builder.question();
        questions.push((&name.parse::<OwnedName>().unwrap(), rtype)).unwrap();
        let mut rest = questions.additional();
        if let Some(payload) = payload {
            rest.opt(|opt| {
                opt.set_udp_payload_size(payload);
                Ok(())
            })
            .unwrap();
        }
        rest.finish()
    }

    /// A name server's answer to a message.
    pub fn respond(query: &[u8], rcode: Rcode, records: &[(&str, u32, Result<IpAddr, &str>)]) -> Vec<u8> {
        let query = Message::from_octets(query).unwrap();
        let mut answer = MessageBuilder::new_vec().start_answer(&query, rcode).unwrap();
        for (owner, ttl, data) in records {
            let (owner, ttl) = (owner.parse::<OwnedName>().unwrap(), Ttl::from_secs(*ttl));
            match data {
                Ok(IpAddr::V4(v4)) => answer.push((owner, ttl, A::new(*v4))).unwrap(),
                Ok(IpAddr::V6(v6)) => answer.push((owner, ttl, Aaaa::new(*v6))).unwrap(),
                Err(alias) => answer.push((owner, ttl, Cname::new(alias.parse::<OwnedName>().unwrap()))).unwrap(),
            }
        }
        answer.finish()
    }

    /// Code, whether it is cut, and addresses.
    pub fn addresses(bytes: &[u8]) -> (Rcode, bool, Vec<IpAddr>) {
        let message = Message::from_octets(bytes).unwrap();
        let mut all = Vec::new();
        for record in message.answer().unwrap() {
            let record = record.unwrap();
            if let Ok(Some(a)) = record.to_record::<A>() {
                all.push(a.data().addr().into());
            } else if let Ok(Some(aaaa)) = record.to_record::<Aaaa>() {
                all.push(aaaa.data().addr().into());
            }
        }
        (message.header().rcode(), message.header().tc(), all)
    }

    fn asked(bytes: &[u8]) -> Question {
        match question(bytes) {
            Asked::Question(question) => question,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn questions() {
        let question = asked(&ask(7, "WWW.Example.org", Rtype::AAAA, Some(4096)));
        assert_eq!(question.host_name().unwrap().as_str(), "www.example.org");
        assert_eq!((question.id, question.rtype, question.limit()), (7, Rtype::AAAA, 1232));
        assert_eq!(asked(&ask(7, "a.b", Rtype::A, None)).limit(), 512);
        assert_eq!(asked(&ask(1, "a.B", Rtype::A, None)).key(), asked(&ask(2, "A.b", Rtype::A, None)).key());
        for name in ["a\\.b.org", "a\\032b.org", "\\200.org", "."] {
            assert!(asked(&ask(7, name, Rtype::A, None)).host_name().is_none(), "{name}");
        }
        assert!(matches!(super::question(b"short"), Asked::Nothing));
        let code = |bytes: &[u8]| match super::question(bytes) {
            Asked::Answered(answer) => Message::from_octets(answer).unwrap().header().rcode(),
            other => panic!("{other:?}"),
        };
        assert_eq!(code(&ask(7, "a.b", Rtype::ANY, None)), Rcode::NOTIMP);
        assert_eq!(code(&[0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Rcode::FORMERR);
        assert_eq!(code(&[0, 7, 0x28, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Rcode::NOTIMP);
        assert!(matches!(super::question(&[0, 7, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Asked::Nothing));
    }

    #[test]
    fn answers_are_filtered() {
        let question = asked(&ask(7, "a.example", Rtype::A, None));
        let query = question.query(99, true);
        let (good, bad): (IpAddr, IpAddr) = ("1.2.3.4".parse().unwrap(), "10.0.0.1".parse().unwrap());
        let records = [
            ("a.example", 60, Err("B.example")),
            ("b.example", 60, Ok(good)),
            ("b.example", 60, Ok(bad)),
            ("c.example", 60, Ok("5.5.5.5".parse().unwrap())),
        ];
        let bytes = respond(&query, Rcode::NOERROR, &records);
        let Answered::Answer(answer) = super::answer(bytes.clone(), &question, 99, false) else { panic!() };
        let mut offered = Vec::new();
        let reply = answer.filtered(&question, true, |address, ttl| {
            offered.push((address, ttl.as_secs()));
            address == good
        });
        assert_eq!(offered, [(good, 60), (bad, 60)]);
        assert_eq!(addresses(&reply), (Rcode::NOERROR, false, vec![good]));
        assert_eq!(Message::from_octets(reply).unwrap().header().id(), 7);
        assert!(matches!(super::answer(bytes.clone(), &question, 98, false), Answered::Other));
        let other = asked(&ask(7, "b.example", Rtype::A, None));
        assert!(matches!(super::answer(bytes, &other, 99, false), Answered::Other));
        let failed = respond(&query, Rcode::REFUSED, &[]);
        assert!(matches!(super::answer(failed, &question, 99, false), Answered::Failed));
    }

    #[test]
    fn long_answers_are_cut_in_datagrams() {
        let many: Vec<IpAddr> = (0..100).map(|n| IpAddr::from([1, 1, 1, n])).collect();
        let question = asked(&ask(7, "a.example", Rtype::A, None));
        let bytes = question.addresses(&many, Duration::from_secs(60), true);
        assert!(bytes.len() <= 512);
        assert!(addresses(&bytes).1);
        let (code, cut, all) = addresses(&question.addresses(&many, Duration::from_secs(60), false));
        assert_eq!((code, cut, all), (Rcode::NOERROR, false, many));
    }
}
