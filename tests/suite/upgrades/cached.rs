//! Reads and watches with an invalid `Upgrade` are answered from memory. Those with
//! a valid one get kube-apiserver's answer.

use super::{ASKED, HANDSHAKE, answer, request, told};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;

const WATCH: &str = "/api/v1/namespaces?watch=1&resourceVersion=0&timeoutSeconds=1\
     &fieldSelector=metadata.name%3Dnone";
/// A list that nobody changes.
const LIST: &str = "/api/v1/namespaces?resourceVersion=0&fieldSelector=metadata.name%3Ddefault";

async fn warm() {
    let front = Apifront::quiet();
    front.warm(&front.admin_client(), LIST).await;
}

/// Returns an answer without the version of its list. That depends on the writes of
/// others that each cache has seen.
fn without_version(answer: &str) -> String {
    let list = "List\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"";
    match answer.split_once(list) {
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}{list}{after}")
        }
        None => answer.to_owned(),
    }
}

#[tokio::test]
async fn reads_are_those_of_kube_apiserver() {
    warm().await;
    let direct = Cluster::quiet().admin_client();
    let front = Apifront::quiet().admin_client();
    for path in [LIST, WATCH] {
        for form in ASKED {
            for version in ["HTTP/1.1", "HTTP/1.0"] {
                let asked = request("GET", path, version, form);
                let ask = async |client: &crate::harness::client::Client| {
                    let mut connection = client.raw().await.expect("a connection");
                    connection.write(asked.as_bytes()).await.expect("written");
                    answer(&mut connection).await
                };
                let (direct, front) = tokio::join!(ask(&direct), ask(&front));
                let (direct, front) = (without_version(&direct), without_version(&front));
                assert_eq!(told(&direct), told(&front), "{asked}");
            }
        }
    }
}

#[tokio::test]
async fn half_an_upgrade_is_a_hit() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    warm().await;
    let front = Apifront::quiet().admin_client();
    for path in [LIST, WATCH] {
        for form in ASKED {
            // No protocol is named, so this is not meant as an upgrade.
            let is_unnamed = form.lines == ["Connection: Upgrade"];
            if form.is_upgrade && !is_unnamed {
                continue;
            }
            let asked = request("GET", path, "HTTP/1.1", form);
            let asked = asked.replace(HANDSHAKE, "X-Apifront-Debug: cache\r\n");
            let mut connection = front.raw().await.expect("a connection");
            connection.write(asked.as_bytes()).await.expect("written");
            let answer = answer(&mut connection).await.to_ascii_lowercase();
            assert!(answer.starts_with("http/1.1 200 "), "{form:?}: {answer}");
            assert!(
                answer.contains("x-apifront-cache: hit"),
                "{form:?}: {answer}"
            );
        }
    }
}
