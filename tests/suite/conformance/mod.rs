//! What kube-apiserver does, written once and asked of every server that
//! claims to do the same. `kube_apiserver::…` proves the suite.

/// Makes a test of each function for each subject. What only a cache before a
/// store can do stands after `before etcd:`.
macro_rules! conformance {
    ($($test:ident),+ $(,)? $(; before etcd: $($cache:ident),+)?) => {
        conformance!(@subject kube_apiserver: $($test)+ $($($cache)+)?);
        conformance!(@subject apifront: $($test)+ $($($cache)+)?);
        conformance!(@subject embedded: $($test)+);
        conformance!(@subject apifront_before_embedded: $($test)+);
    };
    (@subject $subject:ident: $($test:ident)+) => {
        mod $subject {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::harness::subject::Subject::$subject().await).await;
            })+
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
