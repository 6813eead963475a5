//! kubectl works with extension APIs.

use std::time::Duration;

use tokio::io::AsyncReadExt;

use crate::harness::kubectl::Both;
use crate::harness::twins::WardleTwins;

fn both(wardle: &WardleTwins) -> Both {
    let twins = &wardle.twins;
    let (direct, front) = twins.kubeconfigs();
    Both::new(
        (&direct, twins.oracle.server_url()),
        (&front, twins.front.url()),
    )
}

fn of_wardle(line: &str) -> bool {
    line.contains("wardle")
}

#[tokio::test]
async fn discovery_knows_the_extension() {
    let wardle = WardleTwins::shared();
    let both = both(&wardle);
    for arguments in [
        &["api-resources"][..],
        &["api-resources", "-o", "wide"],
        &["api-resources", "-o", "name"],
        &["api-versions"],
    ] {
        let told = both.same(arguments, of_wardle).await;
        let told = told.expect("the same (- direct, + front)").stdout;
        assert!(told.lines().count() >= 1, "{arguments:?}: {told}");
    }
    let resources = ["api-resources", "--api-group=wardle.example.com"];
    let told = both.must_be_same(&resources).await.stdout;
    assert!(
        told.contains("flunders") && told.contains("fischers"),
        "{told}"
    );
}

#[tokio::test]
async fn explain_knows_the_extension() {
    let wardle = WardleTwins::shared();
    let both = both(&wardle);
    for arguments in [
        &["explain", "flunders"][..],
        &["explain", "flunders", "--recursive"],
        &["explain", "fischers", "--recursive"],
        &["explain", "flunders.spec.referenceType"],
        &[
            "explain",
            "flunders",
            "--api-version=wardle.example.com/v1beta1",
            "--recursive",
        ],
        &["explain", "flunders", "--output=plaintext-openapiv2"],
    ] {
        let told = both.must_be_same(arguments).await.stdout;
        assert!(told.contains("wardle.example.com"), "{arguments:?}: {told}");
    }
}

#[tokio::test]
async fn get_prints_the_same() {
    let wardle = WardleTwins::shared();
    let both = both(&wardle);
    let ns = wardle.namespace("kubectl").await;
    let manifest = "
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: one, labels: {sample-label: 'true'}}
spec: {reference: other}
---
apiVersion: wardle.example.com/v1alpha1
kind: Flunder
metadata: {name: two}
";
    let apply = ["apply", "-n", &ns, "-f", "-"];
    let told = both.front.run_with_input(&apply, manifest).await.ok();
    assert!(
        told.contains("flunder.wardle.example.com/one created"),
        "{told}"
    );
    for output in [
        &[][..],
        &["-o", "wide"],
        &["-o", "json"],
        &["-o", "yaml"],
        &["-o", "name"],
        &["-o", "jsonpath={.items[*].metadata.name}"],
        &["-o", "custom-columns=N:.metadata.name,R:.spec.reference"],
        &["-o", "go-template={{range .items}}{{.metadata.uid}}{{end}}"],
        &["--show-labels", "--no-headers"],
        &["--show-kind", "--sort-by=.metadata.name"],
        &["-l", "sample-label"],
        &["--server-print=false"],
        &["--chunk-size=1"],
        &["--show-managed-fields", "-o", "yaml"],
    ] {
        for resource in ["flunders", "flunders.v1beta1.wardle.example.com"] {
            let arguments = [&["get", resource, "-n", &ns], output].concat();
            both.must_be_same(&arguments).await;
        }
    }
    for arguments in [
        &["get", "flunder", "one", "-n", &ns, "-o", "yaml"][..],
        &["describe", "flunder", "one", "-n", &ns],
        &["get", "flunder", "none", "-n", &ns],
    ] {
        both.must_be_same(arguments).await;
    }
    let all = both.front.run(&["get", "flunders", "-A"]).await.ok();
    assert!(all.contains(&ns), "{all}");

    let changed = manifest.replace("reference: other", "reference: another");
    let told = both.front.run_with_input(&apply, &changed).await.ok();
    assert!(
        told.contains("one configured") && told.contains("two unchanged"),
        "{told}"
    );
    let server_side = ["apply", "--server-side", "-n", &ns, "-f", "-"];
    let third = manifest.replace("one", "three").replace("two", "four");
    let told = both.front.run_with_input(&server_side, &third).await.ok();
    assert!(told.contains("three serverside-applied"), "{told}");
    // The schema does not know this field.
    let wrong = manifest.replace("reference:", "refrence:");
    for kubectl in [&both.direct, &both.front] {
        let printed = kubectl.run_with_input(&apply, &wrong).await;
        assert_ne!(printed.code, Some(0));
        assert!(
            printed.stderr.contains("unknown field"),
            "{}",
            printed.stderr
        );
    }
    let diff = ["diff", "-n", &ns, "-f", "-"];
    let printed = both.front.run_with_input(&diff, manifest).await;
    assert_eq!(printed.code, Some(1), "{}", printed.stderr);
    for arguments in [
        &["label", "flunder", "one", "x=y", "-n", &ns][..],
        &["annotate", "flunder", "one", "x=y", "-n", &ns],
        &[
            "patch",
            "flunder",
            "one",
            "-n",
            &ns,
            "--type=merge",
            "-p",
            "{\"spec\":{\"reference\":\"p\"}}",
        ],
        &[
            "wait",
            "flunder/one",
            "-n",
            &ns,
            "--for=jsonpath={.metadata.labels.x}=y",
            "--timeout=20s",
        ],
        &["delete", "flunder", "two", "-n", &ns],
        &["delete", "flunders", "-n", &ns, "-l", "sample-label"],
    ] {
        both.front.run(arguments).await.ok();
    }
}

#[tokio::test]
async fn a_watch_shows_what_happens() {
    let wardle = WardleTwins::shared();
    let both = both(&wardle);
    let ns = wardle.namespace("kubectl-watch").await;
    let mut watch = both
        .front
        .start(&["get", "flunders", "-n", &ns, "--watch", "-o", "name"]);
    let mut out = watch.stdout.take().expect("piped");
    let manifest = |name: &str| {
        format!(
            "{{apiVersion: wardle.example.com/v1alpha1, kind: Flunder, metadata: {{name: {name}}}}}"
        )
    };
    let mut text = String::new();
    for name in ["first", "second"] {
        both.front
            .run_with_input(&["apply", "-n", &ns, "-f", "-"], &manifest(name))
            .await
            .ok();
        let mut buffer = [0; 4096];
        let expected = format!("flunder.wardle.example.com/{name}");
        let seen = async {
            while !text.contains(&expected) {
                let n = out.read(&mut buffer).await.expect("output");
                assert!(n > 0, "kubectl ended: {text}");
                text.push_str(&String::from_utf8_lossy(&buffer[..n]));
            }
        };
        tokio::time::timeout(Duration::from_secs(30), seen)
            .await
            .expect("an event");
    }
    watch.kill().await.expect("kill");
}
