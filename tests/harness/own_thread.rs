//! Runs work on a thread of its own: each server of the tests, since the runtimes of
//! tests come and go, and who must not wait for the other clients of a benchmark.

use tokio::sync::oneshot;

/// Ends the thread when dropped.
pub struct OwnThread {
    _stop: oneshot::Sender<()>,
}

impl OwnThread {
    /// Runs the future that `serve` returns, in a new runtime.
    pub fn run<F: Future>(serve: impl FnOnce() -> F + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("runtime");
            runtime.block_on(async {
                tokio::select! {
                    _ = serve() => {}
                    _ = stopped => {}
                }
            });
        });
        Self { _stop: stop }
    }
}
