//! kube-apiserver's behaviour, written once and asked of every server that
//! claims to have it. The tests `kube_apiserver::…` prove the suite itself.

/// Makes a test of each function for each subject. Behaviour that only a cache
/// before a store can have stands after `before etcd:`.
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
