//! Does the API server trust apifront's word for who a caller is? This is tried with
//! SelfSubjectReviews for a made-up user, or for a user whom roles name.

use apifront_upstream::Server;

use super::client::{Answer, Client};
use super::impersonation::Named;
use super::{Finding, Section};
use crate::config::{Access, Config, Identity};

const SECTION: Section = Section::Callers;

/// A user name with no rights but those of every authenticated user.
const NAME: &str = "apifront-doctor";
const GROUP: &str = "system:authenticated";

/// `named` are the subjects whom roles allow to impersonate.
pub(super) async fn examine(server: &Server, config: &Config, named: &Named) -> Finding {
    let identity = match &config.access {
        Access::Owner => {
            let found = "every request acts as apifront's own user: there is no --config";
            return Finding::neutral(SECTION, "identity", found);
        }
        Access::Delegated(delegated) => &delegated.identity,
    };
    let subject = format!("identity.mode {}", mode(identity));
    let (name, headers) = match identity {
        Identity::PassThrough => {
            let found = "callers' own tokens are passed on; client certificates are refused";
            return Finding::neutral(SECTION, subject, found);
        }
        Identity::RequestHeader(_) => (
            NAME,
            vec![("X-Remote-User", NAME), ("X-Remote-Group", GROUP)],
        ),
        // Without a group, the API server adds `GROUP`.
        Identity::Impersonate => match named.user() {
            Some(user) => (user, vec![("Impersonate-User", user)]),
            None if named.anybody() => {
                let found = "roles name no user in whose name the API server could be asked";
                return Finding::neutral(SECTION, subject, found);
            }
            None => (
                NAME,
                vec![("Impersonate-User", NAME), ("Impersonate-Group", GROUP)],
            ),
        },
    };
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let headers: Vec<_> = headers.into_iter().map(owned).collect();
    let asked = async { Client::new(&server.forward)?.who(&headers).await };
    match asked.await {
        Ok(answer) => judge(subject, identity, name, &answer),
        Err(error) => Finding::fault(SECTION, subject, error).mended_by(remedy(identity)),
    }
}

fn judge(subject: String, identity: &Identity, asked_as: &str, answer: &Answer) -> Finding {
    match answer.user() {
        Some(name) if name == asked_as => Finding::good(
            SECTION,
            subject,
            "the API server takes apifront's word for callers",
        ),
        Some(name) => {
            let found = format!(
                "the API server ignores the headers: a request of {asked_as:?} is one of {name:?}"
            );
            Finding::fault(SECTION, subject, found).mended_by(remedy(identity))
        }
        None => {
            let found = format!("the API server refuses: {}", answer.error());
            Finding::fault(SECTION, subject, found).mended_by(remedy(identity))
        }
    }
}

fn mode(identity: &Identity) -> &'static str {
    match identity {
        Identity::RequestHeader(_) => "RequestHeader",
        Identity::Impersonate => "Impersonate",
        Identity::PassThrough => "PassThrough",
    }
}

fn remedy(identity: &Identity) -> String {
    match identity {
        Identity::RequestHeader(files) => format!(
            "start kube-apiserver with --requestheader-client-ca-file=(the CA that signed {}), \
             with the certificate's common name in --requestheader-allowed-names, and with \
             --requestheader-username-headers=X-Remote-User \
             --requestheader-group-headers=X-Remote-Group \
             --requestheader-extra-headers-prefix=X-Remote-Extra-",
            files.cert_file.display()
        ),
        Identity::Impersonate | Identity::PassThrough => {
            "allow apifront's user to impersonate: apply examples/cluster/rbac-impersonate.yaml"
                .to_owned()
        }
    }
}
