//! Runs the embedded API server by itself.
//!
//! ```text
//! cargo run --example embedded -- --listen 127.0.0.1:8002
//! kubectl --server http://127.0.0.1:8002 get pods -A
//! ```

use std::{net::SocketAddr, time::Duration};

use apifront_embedded::EmbeddedServer;
use clap::Parser;

/// Serves the in-memory Kubernetes API server on plain HTTP, without any
/// authentication. Everything is gone when it ends.
#[derive(Parser)]
struct Arguments {
    /// Where to listen; keep it on loopback.
    #[arg(long, default_value = "127.0.0.1:8002")]
    listen: SocketAddr,
    /// Start without sample objects.
    #[arg(long)]
    empty: bool,
    /// Seconds between changes of a sample pod; 0 for none.
    #[arg(long, default_value_t = 3)]
    activity: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let server = if arguments.empty {
        EmbeddedServer::new()
    } else {
        EmbeddedServer::with_samples()
    };
    if arguments.activity > 0 {
        server.spawn_activity(Duration::from_secs(arguments.activity));
    }
    let handle = server.start(arguments.listen).await?;
    let address = handle.address();
    println!("An in-memory Kubernetes API server is at http://{address}. Try:");
    println!("  kubectl --server http://{address} get pods -A");
    println!("  kubectl --server http://{address} get pods -A --watch");
    println!("  kubectl --server http://{address} api-resources");
    println!("Everything is gone when it ends; Ctrl-C ends it.");
    tokio::signal::ctrl_c().await?;
    handle.stop().await;
    Ok(())
}
