//! Commands of the user to the broker of a running pod, over a local `SOCK_SEQPACKET` socket.
//!
//! A connection carries one command, a message of text: `show`, or `allow`, `deny` or `revoke`, a space and a rule as
//! `--allow` and `--deny` take it. The answer is text too, in messages of at most [`MAX_PART`] bytes up to the end of the
//! connection; its first byte is [`DONE`] or [`REFUSED`].

use policy::{Rule, Verdict};

/// Name of the socket in the pod's directory of the registry.
pub const SOCKET: &str = "control";
/// Maximum size of a command in bytes.
pub const MAX_COMMAND: usize = 1024;
/// Maximum size of a message of an answer in bytes.
pub const MAX_PART: usize = 16 << 10;
/// First byte of an answer: the command was carried out.
pub const DONE: u8 = b'+';
/// First byte of an answer: it was not. What follows is the reason, `; ` and the remedy.
pub const REFUSED: u8 = b'-';

/// What the user wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Adds a rule, which allows or denies.
    Add(Rule),
    /// Removes the rules that were written like this one, whatever their verdict is.
    Revoke(Rule),
    /// Lists the rules.
    Show,
}

/// Reads a command; otherwise why it is none.
pub fn parse(message: &[u8]) -> Result<Command, String> {
    let wrong = || "not a command of this version; use the hull that runs the pod".to_owned();
    if message.len() > MAX_COMMAND {
        return Err(format!("longer than {MAX_COMMAND} bytes; write a shorter rule"));
    }
    let text = std::str::from_utf8(message).map_err(|_| wrong())?;
    if text == "show" {
        return Ok(Command::Show);
    }
    let (verb, rule) = text.split_once(' ').ok_or_else(wrong)?;
    let parse = |verdict| Rule::parse(rule, verdict).map_err(|error| format!("{error}; see docs/policy.md"));
    match verb {
        "allow" => parse(Verdict::Allow).map(Command::Add),
        "deny" => parse(Verdict::Deny(Default::default())).map(Command::Add),
        "revoke" => parse(Verdict::Allow).map(Command::Revoke),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn commands() {
        let rule = |text: &str, verdict| Rule::parse(text, verdict).unwrap();
        assert_eq!(parse(b"show"), Ok(Command::Show));
        assert_eq!(parse(b"allow tcp:a.b:1"), Ok(Command::Add(rule("tcp:a.b:1", Verdict::Allow))));
        assert_eq!(parse(b"deny all"), Ok(Command::Add(rule("all", Verdict::Deny(Default::default())))));
        assert_eq!(parse(b"revoke ::1"), Ok(Command::Revoke(rule("::1", Verdict::Allow))));
        for message in [&b""[..], b"show ", b"allow", b"permit all", b"\xff", b"Show", b"allow\0all"] {
            assert!(parse(message).unwrap_err().starts_with("not a command"), "{message:?}");
        }
        assert!(parse(b"allow ").unwrap_err().starts_with("no peer; "));
        assert!(parse(b"allow a:0").unwrap_err().ends_with("; see docs/policy.md"));
        assert!(parse(&[b'a'; MAX_COMMAND + 1]).unwrap_err().starts_with("longer than "));
    }

    proptest! {
        /// No bytes make the parser fail.
        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..100), verb in 0_usize..4) {
            let _ = parse(&bytes);
            let _ = parse(&[["allow ", "deny ", "revoke ", "show"][verb].as_bytes(), &bytes].concat());
        }
    }
}
