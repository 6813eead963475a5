//! What kube-apiserver does, written once and asked of every server that
//! claims to do the same. `kube_apiserver::…` proves the suite.

/// Makes a test of each function for each subject.
macro_rules! conformance {
    ($($test:ident),+ $(,)?) => {
        mod kube_apiserver {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::harness::subject::Subject::kube_apiserver().await).await;
            })+
        }
        mod apifront {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::harness::subject::Subject::apifront().await).await;
            })+
        }
        mod embedded {
            $(#[tokio::test]
            async fn $test() {
                super::$test(crate::harness::subject::Subject::embedded().await).await;
            })+
        }
        mod apifront_before_embedded {
            $(#[tokio::test]
            async fn $test() {
                let subject = crate::harness::subject::Subject::apifront_before_embedded();
                super::$test(subject.await).await;
            })+
        }
    };
}

mod crud;
mod custom_resources;
mod errors;
mod lists;
mod patches;
mod tables;
mod watch_start;
mod watches;
