//! Debian's registry of images, `docker-registry`.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A registry that ends with the value.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    /// Its address and port, which begin the names of its images.
    pub host: String,
}

impl Registry {
    /// Starts one on a free port of the loopback device, with its files in `place`.
    ///
    /// # Panics
    /// If it is not installed or does not start.
    pub fn start(place: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = format!("127.0.0.1:{port}");
        fs::create_dir_all(place).unwrap();
        let log = "level: error, accesslog: { disabled: true }";
        let storage = format!("filesystem: {{ rootdirectory: {} }}", place.display());
        let config =
            format!("version: 0.1\nlog: {{ {log} }}\nstorage: {{ {storage} }}\nhttp: {{ addr: \"{host}\" }}\n");
        let path = place.join("registry.yml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new("docker-registry");
        let child = command.arg("serve").arg(path).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let registry = Self { child: child.expect("this test needs docker-registry"), host };
        for _ in 0..400 {
            if TcpStream::connect(&registry.host).is_ok() {
                return registry;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the registry did not start");
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
