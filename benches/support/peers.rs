//! Starts nginx, haproxy and pingora for a fair comparison: one process on one core,
//! connections kept alive on both sides, no logs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use super::{bare_pingora, cores};
use harness::certificates::Pair;
use harness::process::{Process, temporary_folder};
use harness::{eventually, ports};

const READY_WITHIN: std::time::Duration = std::time::Duration::from_secs(10);

pub struct Peer {
    pub address: SocketAddr,
    pub process: Process,
}

impl Peer {
    /// Starts nginx, which serves the file `answer.json` in `root` under every path.
    pub async fn nginx_file(core: usize, root: &Path, tls: Option<&Pair>) -> Self {
        let port = ports::free();
        let listen = match tls {
            None => format!("listen 127.0.0.1:{port};"),
            Some(pair) => format!(
                "listen 127.0.0.1:{port} ssl http2; ssl_certificate {}; ssl_certificate_key {};",
                pair.cert.display(),
                pair.key.display()
            ),
        };
        let site = format!(
            "server {{ {listen} location / {{ root {}; default_type application/json; \
             try_files /answer.json =404; }} }}",
            root.display()
        );
        nginx(core, port, &site).await
    }

    pub async fn nginx_proxy(core: usize, upstream: SocketAddr) -> Self {
        let port = ports::free();
        let site = format!(
            "upstream up {{ server {upstream}; keepalive 256; keepalive_requests 1000000000; }}
             server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://up; \
             proxy_http_version 1.1; proxy_set_header Connection \"\"; }} }}"
        );
        nginx(core, port, &site).await
    }

    pub async fn bare_pingora(core: usize, upstream: SocketAddr) -> Self {
        let port = ports::free();
        let folder = temporary_folder("pingora");
        let mut command = bare_pingora::command(port, upstream);
        start("pingora", core, port, &mut command, &folder).await
    }

    pub async fn haproxy(core: usize, upstream: SocketAddr) -> Self {
        let port = ports::free();
        let folder = temporary_folder("haproxy");
        let config = folder.join("haproxy.cfg");
        let text = format!(
            "global\n nbthread 1\n maxconn 4096\n\
             defaults\n mode http\n timeout client 60s\n timeout server 60s\n \
             timeout connect 5s\n http-reuse always\n\
             frontend front\n bind 127.0.0.1:{port}\n default_backend back\n\
             backend back\n server up {upstream}\n"
        );
        std::fs::write(&config, text).expect("haproxy.cfg");
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&config);
        start("haproxy", core, port, &mut command, &folder).await
    }
}

async fn nginx(core: usize, port: u16, site: &str) -> Peer {
    let folder = temporary_folder("nginx");
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {kind};"))
        .collect();
    let text = format!(
        // nginx runs as one process, like a single worker, and ends on a signal.
        "daemon off; master_process off; pid nginx.pid; error_log stderr error;
         events {{ worker_connections 4096; }}
         http {{ access_log off; {temporary} sendfile on; tcp_nopush on;
         keepalive_timeout 3600; keepalive_requests 1000000000;
         open_file_cache max=16; {site} }}"
    );
    let config = folder.join("nginx.conf");
    std::fs::write(&config, text).expect("nginx.conf");
    let mut command = Command::new("nginx");
    command.args(["-e", "stderr", "-p"]).arg(&folder);
    command.arg("-c").arg(&config);
    start("nginx", core, port, &mut command, &folder).await
}

async fn start(name: &str, core: usize, port: u16, command: &mut Command, folder: &Path) -> Peer {
    let log = folder.join("log");
    let process = cores::on(core, || Process::spawn(name, command, &log));
    let address = ports::loopback(port);
    eventually(&format!("{name} listens"), READY_WITHIN, || async {
        tokio::net::TcpStream::connect(address).await.is_ok()
    })
    .await;
    Peer { address, process }
}
