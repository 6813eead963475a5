//! A stop ends streams whose upgrade was ignored, and tunnels, whatever the form of
//! the request.

use super::{ASKED, SOON, request};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::streams;

#[tokio::test]
async fn everything_that_was_asked_to_upgrade_ends_with_the_process() {
    skip_under_oracle!("it stops apifront");
    let cluster = Cluster::shared();
    let ns = streams::pod().await;
    let mut front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    let pods = format!("/api/v1/namespaces/{ns}/pods");
    let mut open = Vec::new();
    for form in ASKED {
        for path in [
            format!("{pods}/p/log?follow=1"),
            format!("{pods}/p/exec?command=sleep&command=60&stdout=1"),
            format!("{pods}?watch=1"),
        ] {
            let mut connection = client.raw().await.expect("a connection");
            let asked = request("GET", &path, "HTTP/1.1", form);
            connection.write(asked.as_bytes()).await.expect("written");
            let head = tokio::time::timeout(SOON, connection.read_exact(12)).await;
            let head = head.expect("an answer").expect("an answer");
            open.push((
                form,
                path,
                String::from_utf8_lossy(&head).into_owned(),
                connection,
            ));
        }
    }
    assert!(open.iter().any(|(_, _, head, _)| head.ends_with("101")));
    front.process.signal("TERM");
    let status = front.process.wait(SOON).await;
    assert!(status.success(), "{status}\n{}", front.process.log_tail());
    for (form, path, head, mut connection) in open {
        let rest = connection.read_until_quiet(SOON).await;
        let rest = String::from_utf8_lossy(&rest).into_owned();
        // An HTTP answer ends in order, with its last chunk.
        if !path.contains("/exec?") && head.ends_with("200") {
            assert!(rest.ends_with("\r\n0\r\n\r\n"), "{form:?} {path}: {rest}");
        }
    }
}
