//! kube-apiserver's behaviour, written once and asked of every server that
//! claims to have it. The tests `kube_apiserver::…` prove the suite itself.

/// Makes a test of each function for each subject. Behaviour that only a cache
/// before a store can have stands after `before etcd:`. What is not asked of
/// apifront before kube-apiserver proves other things.
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
