//! What the broker is told when it starts.

use policy::rule::{Refusal, RuleError};
use policy::{Listen, Name, Rule, Verdict};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// Maximum size of an encoded setup.
pub const MAX_BYTES: usize = 16 << 20;

/// A published port of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {
    /// UDP instead of TCP.
    pub udp: bool,
    /// The host's address and port.
    pub host: SocketAddr,
    /// The pod's port.
    pub pod: u16,
    /// The address is one that was not named, of a protocol that the host may lack.
    pub optional: bool,
}

/// A rule as its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRule {
    text: String,
    /// `None`: it allows.
    denies: Option<u8>,
    private: bool,
    line: u32,
}

/// The configuration of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Rules of the policy.
    pub rules: Vec<WrittenRule>,
    /// Published ports.
    pub publish: Vec<Publish>,
    /// Ports that the pod may open by listening, as texts.
    pub listen: Vec<String>,
    /// Name servers instead of the host's.
    pub dns: Vec<IpAddr>,
    /// Names of `--add-host` and their addresses.
    pub hosts: Vec<(String, IpAddr)>,
    /// Path of the file for records of decisions.
    pub audit: Option<Vec<u8>>,
    /// Path of the file for the policy that the run needed, and what it contains besides the network.
    pub record: Option<(Vec<u8>, String)>,
    /// Whether the first denial is told on standard error.
    pub tells: bool,
    /// Process id of the monitor.
    pub pod: u32,
    /// User, group and groups to change to.
    pub identity: Option<(u32, u32, Vec<u32>)>,
    /// Path of the network namespace to enter.
    pub namespace: Option<Vec<u8>>,
    /// Run without the parts of the jail that the host lacks.
    pub weak: bool,
    /// The pod has a network: its policy can be changed.
    pub network: bool,
    /// It is the host's, without rules.
    pub host: bool,
    /// The pod's place among the running pods of the user.
    pub place: Option<WantedPlace>,
}

/// A place in the registry of running pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedPlace {
    /// Path of the registry.
    pub registry: Vec<u8>,
    /// Name in the registry.
    pub name: String,
    /// The pod does not run without it.
    pub required: bool,
}

const REFUSALS: [Refusal; 3] = [Refusal::Access, Refusal::Unreachable, Refusal::Refused];

impl Setup {
    /// Sets the rules of the policy.
    pub fn set_rules(&mut self, rules: &[Rule]) {
        let written = |rule: &Rule| {
            let shown = rule.to_string();
            let text = shown.split_once(' ').map_or("", |(_, text)| text).to_owned();
            let denies = match rule.verdict {
                Verdict::Allow => None,
                Verdict::Deny(refusal) => REFUSALS.iter().position(|own| *own == refusal).map(|index| index as u8),
            };
            WrittenRule { text, denies, private: rule.private, line: u32::try_from(rule.line).unwrap_or(0) }
        };
        self.rules = rules.iter().map(written).collect();
    }

    /// The rules of the policy.
    pub fn rules(&self) -> Result<Vec<Rule>, RuleError> {
        let rule = |written: &WrittenRule| {
            let refusal = |number| REFUSALS.get(usize::from(number)).copied().unwrap_or_default();
            let verdict = written.denies.map_or(Verdict::Allow, |number| Verdict::Deny(refusal(number)));
            let line = usize::try_from(written.line).unwrap_or(0);
            Ok(Rule { private: written.private, line, ..Rule::parse(&written.text, verdict)? })
        };
        self.rules.iter().map(rule).collect()
    }

    /// Ports that the pod may open by listening; texts of another form are left out.
    pub fn may_listen(&self) -> Vec<Listen> {
        self.listen.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Names of [`Self::hosts`]; those that are no host names are left out.
    pub fn fixed(&self) -> Vec<(Name, IpAddr)> {
        self.hosts.iter().filter_map(|(name, ip)| Some((Name::parse(name).ok()?, *ip))).collect()
    }

    /// Writes it for another process.
    pub fn encode(&self) -> Vec<u8> {
        // A vector has room for everything.
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Reads it.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setup_survives_the_way_to_the_broker() {
        let text = "version = 1\n[network]\nallow = ['[fd00::/8]:443', { peer = 'a.b', private = true }]\n\
                    deny = [{ peer = 'tcp:all:25', error = 'refused' }]";
        let rules = policy::Policy::parse(text.as_bytes()).unwrap().network.rules;
        let mut setup = Setup { pod: 7, audit: Some(b"/a".to_vec()), ..Setup::default() };
        setup.publish.push(Publish { udp: true, host: "[::]:53".parse().unwrap(), pod: 53, optional: true });
        setup.set_rules(&rules);
        let other = Setup::decode(&setup.encode()).unwrap();
        assert_eq!((other.rules().unwrap(), &other), (rules, &setup));
        assert_eq!(Setup::decode(b"\xff\xff"), None);
    }
}
