//! URLs as Go reads them (`net/url`), and what Go says of texts that are none.

use kubernetes_wire::api::query::{go_quote, go_quote_octets, go_text};

use crate::go_address;
use escapes::Part;

mod escapes;

/// A URL. What Go unescapes may be no UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GoUrl {
    pub(crate) scheme: String,
    /// What follows the scheme, if it does not begin with a slash.
    opaque: String,
    user: Option<User>,
    host: Vec<u8>,
    /// The path, with its escapes.
    pub(crate) path: String,
    /// What follows the question mark, if there is one.
    query: Option<String>,
    /// The fragment, with its escapes.
    fragment: String,
    /// Whether the path follows the scheme at once.
    has_no_authority: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

impl GoUrl {
    /// Reads a URL that is absolute: it begins with a scheme or a slash
    /// (`ParseRequestURI`). It has no fragment: a `#` belongs to what is before it.
    pub(crate) fn parse_absolute(text: &str) -> Result<Self, String> {
        let url = Self::read(text, true);
        url.map_err(|error| format!("parse {}: {error}", go_quote(text)))
    }

    pub(crate) fn is_absolute(text: &str) -> bool {
        Self::read(text, true).is_ok()
    }

    /// Reads a URL with its fragment (`Parse`).
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let error = |text, error| format!("parse {}: {error}", go_quote(text));
        let mut url = Self::read(before, false).map_err(|e| error(before, e))?;
        let fragment = escapes::normalized(fragment, Part::Fragment);
        url.fragment = fragment.map_err(|e| error(text, e))?;
        Ok(url)
    }

    fn read(text: &str, must_be_absolute: bool) -> Result<Self, String> {
        if text.bytes().any(|octet| octet.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() && must_be_absolute {
            return Err("empty url".to_owned());
        }
        let mut url = Self::default();
        if text == "*" {
            text.clone_into(&mut url.path);
            return Ok(url);
        }
        let (scheme, rest) = after_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let rest = match rest.split_once('?') {
            Some((rest, query)) => {
                url.query = Some(query.to_owned());
                rest
            }
            None => rest,
        };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if must_be_absolute {
                return Err("invalid URI for request".to_owned());
            }
            let segment = rest.split('/').next();
            if segment.is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let may_have_authority =
            !scheme.is_empty() || !must_be_absolute && !rest.starts_with("///");
        let path = match rest.strip_prefix("//") {
            Some(rest) if may_have_authority => {
                let end = rest.find('/').unwrap_or(rest.len());
                let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
                url.read_authority(authority)?;
                path
            }
            _ => {
                url.has_no_authority = !scheme.is_empty() && rest.starts_with('/');
                rest
            }
        };
        url.path = escapes::normalized(path, Part::Path)?;
        Ok(url)
    }

    fn read_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = host_of(&self.scheme, host)?;
        self.user = user.map(User::parse).transpose()?;
        Ok(())
    }

    /// Returns the host and the port, as they are written.
    pub(crate) fn host(&self) -> String {
        go_text(&self.host)
    }

    /// Returns the host without port and brackets.
    pub(crate) fn hostname(&self) -> String {
        let (host, _) = self.host_and_port();
        let inner = host.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]"));
        go_text(inner.unwrap_or(host))
    }

    pub(crate) fn port(&self) -> String {
        go_text(self.host_and_port().1)
    }

    fn host_and_port(&self) -> (&[u8], &[u8]) {
        let colon = self.host.iter().rposition(|octet| *octet == b':');
        let parts = colon.and_then(|colon| self.host.split_at_checked(colon));
        match parts {
            Some((host, port)) if is_port(port) => (host, port.strip_prefix(b":").unwrap_or(port)),
            _ => (&self.host, b""),
        }
    }

    /// Returns the query, with its escapes.
    pub(crate) fn query(&self) -> &str {
        self.query.as_deref().unwrap_or_default()
    }

    /// Writes the URL. Two URLs are equal if their texts are (`String`).
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        if self.opaque.is_empty() {
            self.write_authority(&mut text);
            text.push_str(&self.path);
        } else {
            text.push_str(&self.opaque);
        }
        if let Some(query) = &self.query {
            text.push('?');
            text.push_str(query);
        }
        if !self.fragment.is_empty() {
            text.push('#');
            text.push_str(&self.fragment);
        }
        text
    }

    fn write_authority(&self, text: &mut String) {
        let is_empty = self.host.is_empty() && self.user.is_none();
        if is_empty && (self.scheme.is_empty() || self.has_no_authority) {
            return;
        }
        if !is_empty || !self.path.is_empty() {
            text.push_str("//");
        }
        if let Some(user) = &self.user {
            escapes::escape(&user.name, Part::User, text);
            if let Some(password) = &user.password {
                text.push(':');
                escapes::escape(password, Part::User, text);
            }
            text.push('@');
        }
        escapes::escape(&self.host, Part::Host, text);
    }
}

impl User {
    fn parse(text: &str) -> Result<Self, String> {
        let is_valid =
            |octet: u8| octet.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&octet);
        if !text.bytes().all(is_valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        let (name, password) = match text.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (text, None),
        };
        Ok(Self {
            name: escapes::unescaped(name.as_bytes(), Part::User)?,
            password: password
                .map(|password| escapes::unescaped(password.as_bytes(), Part::User))
                .transpose()?,
        })
    }
}

/// Returns the scheme, which may be empty, and what follows its colon.
fn after_scheme(text: &str) -> Result<(&str, &str), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let Some((scheme, rest)) = text.split_once(':') else {
        return Ok(("", text));
    };
    if scheme.is_empty() {
        return Err("missing protocol scheme".to_owned());
    }
    match scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_letter) {
        true => Ok((scheme, rest)),
        false => Ok(("", text)),
    }
}

/// Reads a host with its port.
fn host_of(scheme: &str, text: &str) -> Result<Vec<u8>, String> {
    if let Some(before) = text.rfind('[') {
        return match before {
            0 => bracketed(text),
            _ => Err("invalid IP-literal".to_owned()),
        };
    }
    // Other URLs may name many hosts with ports, of which the last is checked.
    let colon = match scheme {
        "http" | "https" => text.find(':'),
        _ => text.rfind(':'),
    };
    let port = colon
        .and_then(|colon| text.get(colon..))
        .unwrap_or_default();
    check_port(port)?;
    escapes::unescaped(text.as_bytes(), Part::Host)
}

/// Reads an IPv6 address in brackets, with its port: `[fe80::1%25eth0]:80`.
fn bracketed(text: &str) -> Result<Vec<u8>, String> {
    let Some((address, port)) = text.rsplit_once(']') else {
        return Err("missing ']' in host".to_owned());
    };
    check_port(port)?;
    let address = address.strip_prefix('[').unwrap_or(address);
    let zone = address.find("%25").unwrap_or(address.len());
    let (address, zone) = address.split_at_checked(zone).unwrap_or((address, ""));
    let mut host = escapes::unescaped(address.as_bytes(), Part::Host)?;
    host.extend(escapes::unescaped(zone.as_bytes(), Part::Zone)?);
    let address = go_address::parse(&host).map_err(|error| format!("invalid host: {error}"))?;
    if address.ip.is_ipv4() {
        return Err("invalid IP-literal".to_owned());
    }
    Ok([b"[", host.as_slice(), b"]", port.as_bytes()].concat())
}

fn check_port(text: &str) -> Result<(), String> {
    match is_port(text.as_bytes()) {
        true => Ok(()),
        false => Err(format!(
            "invalid port {} after host",
            go_quote_octets(text.as_bytes())
        )),
    }
}

/// Tells whether a text is a colon and digits, of which there may be none, or is empty.
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
