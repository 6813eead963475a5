//! etcd with its data in a temporary folder.

use std::path::Path;
use std::process::Command;

use super::process::Process;
use super::{binaries, ports};

pub struct Etcd {
    pub client_port: u16,
    process: Process,
}

impl Etcd {
    pub fn start(folder: &Path) -> Self {
        let (client_port, peer_port) = (ports::free(), ports::free());
        let client = format!("http://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let process = Process::spawn(
            "etcd",
            Command::new(binaries::path("etcd"))
                .arg("--data-dir")
                .arg(folder.join("etcd"))
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}")])
                .args(["--log-level", "warn"])
                // Nothing here survives the machine.
                .arg("--unsafe-no-fsync"),
            &folder.join("etcd.log"),
        );
        Self {
            client_port,
            process,
        }
    }

    pub fn alive(&mut self) -> bool {
        self.process.alive()
    }
}
