//! Watches with timeouts that exceed the range of clocks.

use std::time::Duration;

use http_body_util::BodyExt;

use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;

/// Opens a watch. Returns the status, whether the stream ended within 2 s, and the
/// events until then, by type and name.
async fn begun(client: &Client, path: &str) -> (u16, bool, Vec<String>) {
    let answer = client.open(path, &[]).await;
    let status = answer.status().as_u16();
    let mut body = answer.into_body();
    let mut said = Vec::new();
    let read = async {
        while let Some(Ok(frame)) = body.frame().await {
            said.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(2), read).await;
    let said = String::from_utf8_lossy(&said).into_owned();
    let kind = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let name = event["object"]["metadata"]["name"].as_str();
        format!("{} {}", event["type"], name.unwrap_or_default())
    };
    (status, ended.is_ok(), said.lines().map(kind).collect())
}

/// `timeoutSeconds=9223372036854775807` must not cause a panic.
#[tokio::test]
async fn no_timeout_is_too_long_or_too_short() {
    let cluster = Cluster::shared();
    let ns = namespace("endless", 2, 10).await;
    let front = Apifront::shared();
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let (direct, client) = (cluster.admin_client(), front.admin_client());
    front
        .warm(&client, &format!("{list}?resourceVersion=0"))
        .await;
    for seconds in [
        "9223372036854775807",
        "9223372036854775806",
        "9223372037",
        "9223372036",
        "18446744074",
        "1000000000",
        "4294967296",
        "0",
        "-1",
        "-9223372036854775808",
        "9223372036854775808",
    ] {
        for version in ["0", ""] {
            let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds={seconds}");
            let (expected, found) = tokio::join!(begun(&direct, &path), begun(&client, &path));
            println!("timeoutSeconds={seconds} from {version}: {expected:?}");
            assert_eq!(found.0, expected.0, "{path}: {found:?}");
            assert_eq!(found.1, expected.1, "{path}: whether it has ended");
            // The events before an immediate end depend on chance, on both servers.
            if !expected.1 {
                assert_eq!(found.2, expected.2, "{path}");
            }
        }
    }
    assert!(!front.process.log_tail().contains("panicked"));
}
