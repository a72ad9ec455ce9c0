//! `--rate`: how much of a connector a pod may use per second.

use crate::values::amount;
use monitor::{Rate, Rates};
use std::fmt;
use std::num::NonZeroU64;

/// A value of `--rate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    connector: Connector,
    quantity: Quantity,
    per_second: NonZeroU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connector {
    Files,
    Network,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Bytes,
    Operations,
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connector = match self.connector {
            Connector::Files => "files",
            Connector::Network => "network",
        };
        let unit = match self.quantity {
            Quantity::Bytes => "",
            Quantity::Operations => "op",
        };
        write!(f, "{connector}={}{unit}/s", self.per_second)
    }
}

/// Parses `files=10M`, `network=500op`, each also with `/s`.
pub fn parse(text: &str) -> Result<RateLimit, String> {
    const FORM: &str = "write CONNECTOR=AMOUNT, such as files=10M or network=500op";
    let (connector, value) = text.split_once('=').ok_or_else(|| format!("not a rate; {FORM}"))?;
    let connector = match connector {
        "files" => Connector::Files,
        "network" => Connector::Network,
        _ => return Err("unknown connector; write files=… or network=…".into()),
    };
    let value = value.strip_suffix("/s").unwrap_or(value);
    let (quantity, number) = match value.strip_suffix("ops").or_else(|| value.strip_suffix("op")) {
        Some(number) => {
            (Quantity::Operations, number.parse().map_err(|_| format!("not a number of operations; {FORM}"))?)
        }
        None => (Quantity::Bytes, amount(value).map_err(|_| format!("not a rate; {FORM}"))?),
    };
    let per_second =
        NonZeroU64::new(number).ok_or("nothing could be done at a rate of 0; leave the grant out instead")?;
    Ok(RateLimit { connector, quantity, per_second })
}

/// The rates of a pod: of several for the same quantity the last one counts.
pub fn rates(limits: &[RateLimit]) -> Rates {
    let mut rates = Rates::default();
    for limit in limits {
        let rate: &mut Rate = match limit.connector {
            Connector::Files => &mut rates.files,
            Connector::Network => &mut rates.network,
        };
        match limit.quantity {
            Quantity::Bytes => rate.bytes = Some(limit.per_second),
            Quantity::Operations => rate.operations = Some(limit.per_second),
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_connectors() {
        let parsed = |texts: &[&str]| rates(&texts.iter().map(|text| parse(text).unwrap()).collect::<Vec<_>>());
        let number = NonZeroU64::new;
        let expected = Rates {
            files: Rate { bytes: number(5 << 20), operations: number(100) },
            network: Rate { bytes: None, operations: number(1) },
        };
        assert_eq!(parsed(&["files=10M", "files=5M/s", "files=100op/s", "network=1ops"]), expected);
        assert_eq!(parsed(&[]), Rates::default());
        assert!(["files=1024/s", "network=7op/s"].iter().all(|text| parse(text).unwrap().to_string() == *text));
    }

    #[test]
    fn mistakes() {
        for (text, why) in [
            ("files", "not a rate; "),
            ("disk=1M", "unknown connector; "),
            ("files=", "not a rate; "),
            ("files=1Q/s", "not a rate; "),
            ("network=op", "not a number of operations; "),
            ("network=0", "nothing could be done "),
        ] {
            assert!(parse(text).unwrap_err().starts_with(why), "{text}");
        }
    }
}
