//! The balancers under test, each on core 0 before the same backends, and what the kernel says they used.

use super::backend::Backend;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One balancer, or none: then the address is a backend's.
pub(crate) struct Balancer {
    pub(crate) name: &'static str,
    pub(crate) address: String,
    process: Option<Child>,
    _folder: Option<TempDir>,
}

/// Those that this machine has.
pub(crate) fn all(backend: &Backend) -> Vec<Balancer> {
    let direct = Balancer { name: "direct", address: backend.addresses[0].clone(), process: None, _folder: None };
    vec![direct, bare(backend), nginx(backend), haproxy(backend), pointsman(backend)]
}

impl Balancer {
    fn start(name: &'static str, mut command: Command, address: String, folder: Option<TempDir>) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect(name);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(&address).is_err() {
            assert!(Instant::now() < deadline, "{name} listens on {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { name, address, process: Some(process), _folder: folder }
    }

    /// CPU time used so far, seconds (utime and stime of `/proc/PID/stat`, in ticks of 10 ms).
    pub(crate) fn cpu(&self) -> f64 {
        let Some(process) = &self.process else { return 0.0 };
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
    }

    /// Resident memory, MiB (VmRSS).
    pub(crate) fn rss(&self) -> f64 {
        let Some(process) = &self.process else { return 0.0 };
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// An address that was free a moment ago.
fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn on_core_0(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(program.as_ref());
    command
}

fn bare(backend: &Backend) -> Balancer {
    let address = free_address();
    let mut command = on_core_0(std::env::current_exe().unwrap());
    command.arg("bare").arg(&address).args(&backend.addresses);
    Balancer::start("bare Pingora", command, address, None)
}

fn nginx(backend: &Backend) -> Balancer {
    let (address, folder) = (free_address(), tempfile::tempdir().unwrap());
    let servers: String = backend.addresses.iter().map(|address| format!("server {address}; ")).collect();
    let path = folder.path().display();
    let text = format!(
        "daemon off; master_process off; pid {path}/pid; error_log /dev/null;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
           access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy; fastcgi_temp_path {path}/f;\n\
           uwsgi_temp_path {path}/u; scgi_temp_path {path}/s; client_body_buffer_size 128k; keepalive_requests 1000000000;\n\
           upstream engines {{ {servers} keepalive 128; keepalive_requests 1000000000; }}\n\
           server {{ listen {address}; location / {{\n\
             proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_buffering off;\n\
           }} }}\n\
         }}\n"
    );
    fs::write(folder.path().join("nginx.conf"), text).unwrap();
    let mut command = on_core_0("nginx");
    command.arg("-c").arg(folder.path().join("nginx.conf"));
    Balancer::start("nginx", command, address, Some(folder))
}

fn haproxy(backend: &Backend) -> Balancer {
    let (address, folder) = (free_address(), tempfile::tempdir().unwrap());
    let servers: String =
        backend.addresses.iter().enumerate().map(|(n, address)| format!("  server s{n} {address}\n")).collect();
    let text = format!(
        "global\n  nbthread 1\n  maxconn 2000\n\
         defaults\n  mode http\n  timeout connect 2s\n  timeout client 60s\n  timeout server 60s\n\
         frontend clients\n  bind {address}\n  default_backend engines\n\
         backend engines\n  balance leastconn\n  http-reuse always\n{servers}"
    );
    fs::write(folder.path().join("haproxy.cfg"), text).unwrap();
    let mut command = on_core_0("haproxy");
    command.arg("-f").arg(folder.path().join("haproxy.cfg"));
    Balancer::start("HAProxy", command, address, Some(folder))
}

fn pointsman(backend: &Backend) -> Balancer {
    let (address, folder) = (free_address(), tempfile::tempdir().unwrap());
    let replicas: Vec<String> =
        backend.addresses.iter().map(|address| format!("{{ url: \"http://{address}\" }}")).collect();
    let text = format!(
        "server: {{ listen: [\"{address}\"], admin_listen: \"127.0.0.1:0\", threads: 1 }}\n\
         models: [{{ name: base, engine: vllm, pools: [{{ name: edge, replicas: [{}] }}] }}]\n",
        replicas.join(", ")
    );
    fs::write(folder.path().join("pointsman.yaml"), text).unwrap();
    let mut command = on_core_0(Path::new(env!("CARGO_MANIFEST_DIR")).join("target/release/pointsman"));
    command.arg("serve").arg("-c").arg(folder.path().join("pointsman.yaml"));
    Balancer::start("Pointsman", command, address, Some(folder))
}
