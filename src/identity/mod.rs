//! Names the caller to the servers behind apifront. `header_stripping.rs` says which
//! headers a request loses before; `server/forward/request_head.rs` makes both changes.

mod header_stripping;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::api::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};
use kubernetes_wire::api::{Reason, Status, UserInfo};
use serde::Deserialize;

use crate::authn::impersonation_headers::{
    IMPERSONATE_EXTRA_PREFIX, IMPERSONATE_GROUP, IMPERSONATE_UID, IMPERSONATE_USER,
};
use crate::authn::{Impersonation, extra_key};
use crate::authz::well_known_usernames;

pub use header_stripping::{VIEW, changes};

/// `identity.mode` of the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Mode {
    /// `X-Remote-*`, which are trusted because of apifront's proxy client
    /// certificate.
    #[default]
    RequestHeader,
    /// `Impersonate-*`, with apifront's own credentials.
    Impersonate,
    /// The caller's own bearer token.
    PassThrough,
    /// Sends no identity: every caller acts as the user of `--kubeconfig`.
    #[serde(skip)]
    Personal,
}

/// An authenticated caller, after impersonation.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The user as whom requests are made.
    pub user: &'a UserInfo,
    /// The bearer token, if it authenticated the caller.
    pub token: Option<&'a str>,
    /// The user that the caller asked to impersonate. Modes that send the caller's
    /// own credentials send it along. In the other modes `user` is enough.
    pub impersonation: Option<&'a Impersonation>,
}

/// Names `caller` in the headers of a request that is forwarded. [`changes`] must
/// have been applied before.
///
/// Fails if a receiver could read a value differently, because no other user may
/// ever be named.
pub fn apply(mode: Mode, caller: Caller<'_>, headers: &mut HeaderMap) -> Result<(), Status> {
    match mode {
        Mode::RequestHeader => request_header(caller.user, headers),
        Mode::Impersonate => impersonate(&as_impersonated(caller.user), headers),
        Mode::PassThrough => {
            let Some(token) = caller.token else {
                return Err(Status::failure(
                    401,
                    Reason::Unauthorized,
                    "only callers with a bearer token can be forwarded: identity.mode is PassThrough",
                ));
            };
            let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                .map_err(|_| unsendable("the bearer token"))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
            own_impersonation(caller, headers)
        }
        Mode::Personal => own_impersonation(caller, headers),
    }
}

/// Sets the headers like client-go's `SetAuthProxyHeaders`.
fn request_header(user: &UserInfo, headers: &mut HeaderMap) -> Result<(), Status> {
    set(headers, "x-remote-user", non_empty(&user.name)?)?;
    if !user.uid.is_empty() {
        set(headers, "x-remote-uid", &user.uid)?;
    }
    for group in user.groups.iter().filter(|g| !g.is_empty()) {
        add(headers, "x-remote-group", group)?;
    }
    add_extra(headers, "x-remote-extra-", user)
}

fn own_impersonation(caller: Caller<'_>, headers: &mut HeaderMap) -> Result<(), Status> {
    match caller.impersonation {
        Some(impersonation) => impersonate(&impersonation.wanted, headers),
        None => Ok(()),
    }
}

fn impersonate(user: &UserInfo, headers: &mut HeaderMap) -> Result<(), Status> {
    set(headers, IMPERSONATE_USER, non_empty(&user.name)?)?;
    if !user.uid.is_empty() {
        set(headers, IMPERSONATE_UID, &user.uid)?;
    }
    for group in &user.groups {
        add(headers, IMPERSONATE_GROUP, group)?;
    }
    add_extra(headers, IMPERSONATE_EXTRA_PREFIX, user)
}

/// Returns the user to request so that the API server arrives at `user`. It lacks
/// the group that the API server adds by itself, because apifront may have no right
/// to request that group.
fn as_impersonated(user: &UserInfo) -> UserInfo {
    let unauthenticated = user.groups.iter().any(|g| g == UNAUTHENTICATED);
    let implied = match user.name.as_str() {
        ANONYMOUS => Some(UNAUTHENTICATED),
        // If the list has this group, the API server adds none.
        _ if unauthenticated => None,
        _ => Some(AUTHENTICATED),
    };
    let mut asked = user.clone();
    asked
        .groups
        .retain(|g| !g.is_empty() && Some(g.as_str()) != implied);
    // Without any group, the API server would give a service account or a node the
    // groups of its kind.
    let has_kind = well_known_usernames::service_account(&user.name).is_some()
        || well_known_usernames::node_name(&user.name).is_some();
    if asked.groups.is_empty() && has_kind {
        asked.groups.extend(implied.map(str::to_owned));
    }
    asked
}

fn add_extra(headers: &mut HeaderMap, prefix: &str, user: &UserInfo) -> Result<(), Status> {
    for (key, values) in &user.extra {
        let name = format!("{prefix}{}", extra_key::encode(key));
        for value in values {
            add(headers, &name, value)?;
        }
    }
    Ok(())
}

/// Refuses an empty name: the receiver would take apifront itself for the user.
fn non_empty(name: &str) -> Result<&str, Status> {
    if name.is_empty() {
        return Err(unsendable("an empty user name"));
    }
    Ok(name)
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Status> {
    let (name, value) = header(name, value)?;
    headers.insert(name, value);
    Ok(())
}

fn add(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Status> {
    let (name, value) = header(name, value)?;
    headers
        .try_append(name, value)
        .map_err(|_| unsendable("so many groups or extra values"))?;
    Ok(())
}

/// Makes a header. Refuses a value that receivers would change: they trim white
/// space, which would turn `"admin "` into `"admin"`.
fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), Status> {
    let what = || unsendable(name);
    if value.trim_matches([' ', '\t']) != value {
        return Err(what());
    }
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| what())?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| what())?;
    Ok((header, value))
}

fn unsendable(what: &str) -> Status {
    Status::internal_error(format!(
        "the identity of the caller cannot be forwarded: {what} has no form as an HTTP header"
    ))
}

#[cfg(test)]
mod tests;
