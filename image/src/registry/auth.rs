//! Challenges of registries: `WWW-Authenticate`.

/// What a registry asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A name and a password with each request.
    Basic,
    /// A token of another server.
    Bearer { realm: String, service: Option<String>, scope: Option<String> },
}

/// Parses one header; `None` for schemes that Hull does not have.
pub(super) fn parse(header: &str) -> Option<Challenge> {
    let (scheme, mut rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
    if scheme.eq_ignore_ascii_case("basic") {
        return Some(Challenge::Basic);
    }
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let (mut realm, mut service, mut scope) = (None, None, None);
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_at(after.find(',').unwrap_or(after.len())),
        };
        let place = match name.trim_matches([' ', ',']).to_ascii_lowercase().as_str() {
            "realm" => &mut realm,
            "service" => &mut service,
            "scope" => &mut scope,
            _ => &mut None,
        };
        *place = Some(value.to_owned());
        rest = after;
    }
    Some(Challenge::Bearer { realm: realm?, service, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text = r#"Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push""#;
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("r.example".to_owned()),
            scope: Some("repository:a/b:pull,push".to_owned()),
        };
        assert_eq!(parse(text), Some(bearer));
        assert_eq!(parse("Basic realm=\"x\""), Some(Challenge::Basic));
        let plain = Challenge::Bearer { realm: "http://x".to_owned(), service: Some("y".to_owned()), scope: None };
        assert_eq!(parse("bearer realm=http://x, service=y"), Some(plain));
        for text in ["", "Digest x", "Bearer", "Bearer service=\"x\"", "Bearer realm=\"x", "Bearer ==,=="] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
