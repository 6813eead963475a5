//! kube-apiserver's behaviour, written once and tested on every server that claims
//! to have it. The tests `kube_apiserver::…` prove the suite itself.

/// Makes a test of each function for each subject. Tests of behaviour that only a
/// cache before a store can have come after `before etcd:`. Other suites cover
/// apifront before kube-apiserver.
macro_rules! conformance {
    ($($test:ident),+ $(,)? $(; before etcd: $($cache:ident),+)?) => {
        conformance!(@of kube_apiserver [#[ignore = "it proves the suite: make test-proofs"]]
            $($test)+ $($($cache)+)?);
        conformance!(@of apifront [] $($test)+ $($($cache)+)?);
        conformance!(@of embedded
            [#[ignore = "it proves the embedded server: make test-proofs"]] $($test)+);
        conformance!(@of apifront_before_embedded
            [#[ignore = "it proves the embedded server: make test-proofs"]] $($test)+);
    };
    (@of $subject:ident $left_out:tt $($test:ident)+) => {
        mod $subject {
            $(conformance!(@one $subject $left_out $test);)+
        }
    };
    (@one $subject:ident [$($left_out:tt)*] $test:ident) => {
        #[tokio::test]
        $($left_out)*
        async fn $test() {
            super::$test(crate::harness::subject::Subject::$subject().await).await;
        }
    };
}

mod compaction;
mod crud;
mod custom_resources;
mod errors;
mod lists;
mod patches;
mod representations;
mod storage_lists;
mod storage_watches;
mod tables;
mod watch_start;
mod watches;
