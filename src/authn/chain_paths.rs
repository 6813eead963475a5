//! The paths through the certificates of a chain, from a subject's name to its
//! issuer's.
//!
//! A client chooses the certificates that it presents, and needs only the key of the
//! first. If all have the same name, each may have issued each other. `webpki` goes
//! 200,000 steps of such paths before it gives up, which takes a second for each
//! authority that it looks for.

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// The most steps of all paths together. A usual chain has one step for each
/// certificate after the leaf. An authority with two certificates, as during its
/// replacement, doubles the steps after it.
const MAX_PATH_STEPS: usize = 64;

/// The subject's and the issuer's name of a certificate. `None` if they are
/// malformed. The certificate then counts as the issuer of every other, and as
/// issued by every other.
type Names = Option<(Vec<u8>, Vec<u8>)>;

/// Tells whether the paths from the leaf, which comes first, have few steps.
pub(super) fn are_few(chain: &[CertificateDer<'_>]) -> bool {
    let names: Vec<Names> = chain.iter().map(|certificate| names(certificate)).collect();
    let mut left = MAX_PATH_STEPS;
    go_on(&names, &mut vec![0], &mut left)
}

/// Follows all continuations of a path. Returns false when no steps are left.
fn go_on(names: &[Names], path: &mut Vec<usize>, left: &mut usize) -> bool {
    let Some(child) = path.last().and_then(|at| names.get(*at)) else {
        return true;
    };
    for (at, parent) in names.iter().enumerate() {
        let may_have_issued = match (parent, child) {
            (Some((subject, _)), Some((_, issuer))) => subject == issuer,
            _ => true,
        };
        if !may_have_issued || path.contains(&at) {
            continue;
        }
        let Some(rest) = left.checked_sub(1) else {
            return false;
        };
        *left = rest;
        path.push(at);
        let are_few = go_on(names, path, left);
        path.pop();
        if !are_few {
            return false;
        }
    }
    true
}

fn names(certificate: &CertificateDer<'_>) -> Names {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let raw = |name: &X509Name<'_>| name.as_raw().to_vec();
    Some((raw(parsed.subject()), raw(parsed.issuer())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::testing::Authority;

    fn certificates(name: &str, count: usize) -> Vec<CertificateDer<'static>> {
        let root = Authority::new(name);
        let made = (0..count).map(|_| root.intermediate(name).1);
        made.collect()
    }

    #[test]
    fn real_chains_have_few_paths() {
        let root = Authority::new("root");
        let mut chain = Vec::new();
        let mut last = root;
        for n in 0..14 {
            let (next, certificate) = last.intermediate(&format!("{n}"));
            chain.insert(0, certificate);
            last = next;
        }
        chain.insert(0, last.client(&[]).chain[0].clone());
        assert!(are_few(&chain));
        // Certificates that are on no path do not count.
        let mut chain = certificates("other", 15);
        chain.insert(0, last.client(&[]).chain[0].clone());
        assert!(are_few(&chain));
        // An authority with two certificates.
        let mut chain = certificates("14", 2);
        chain.insert(0, Authority::new("14").client(&[]).chain[0].clone());
        assert!(are_few(&chain));
        assert!(are_few(&[]));
    }

    #[test]
    fn certificates_of_one_name_have_many() {
        let mut chain = certificates("all", 6);
        chain.insert(0, Authority::new("all").client(&[]).chain[0].clone());
        assert!(!are_few(&chain));
        let unreadable = vec![CertificateDer::from(vec![1, 2, 3]); 6];
        assert!(!are_few(&unreadable));
    }
}
