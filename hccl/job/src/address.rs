//! The address of a store: a TCP port, or a socket that only this machine can reach.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

/// The reason why a store has no address: there are no ports after 65535.
pub(crate) const NO_PORT: &str =
    "MASTER_PORT leaves no port for the store: set a smaller MASTER_PORT on all ranks";

/// The address of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// The name of an abstract socket, which is in no file system.
    Local(String),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => write!(f, "{host}:{port}"),
            Address::Local(name) => write!(f, "the socket @{name} of this machine"),
        }
    }
}

/// A connection between a store and a client.
pub(crate) enum Connection {
    Tcp(TcpStream),
    Local(UnixStream),
}

pub(crate) enum Listener {
    Tcp(TcpListener),
    Local(UnixListener),
}

impl Address {
    pub(crate) fn connect(&self, limit: Duration) -> io::Result<Connection> {
        match self {
            Address::Tcp(host, port) => {
                let mut last = io::Error::new(
                    io::ErrorKind::NotFound,
                    "the host has no address: check MASTER_ADDR",
                );
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpStream::connect_timeout(&address, limit) {
                        Ok(stream) => {
                            stream.set_nodelay(true)?;
                            return Ok(Connection::Tcp(stream));
                        }
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Local(name) => {
                let address = SocketAddr::from_abstract_name(name)?;
                let stream = UnixStream::connect_addr(&address)?;
                of_same_user(&stream)?;
                Ok(Connection::Local(stream))
            }
        }
    }

    /// Listens at this address. If the host resolves to the loopback address, only this machine can
    /// connect.
    pub(crate) fn listen(&self) -> io::Result<Listener> {
        match self {
            Address::Tcp(host, port) => {
                let mut last = io::Error::new(
                    io::ErrorKind::NotFound,
                    "the host has no address: check MASTER_ADDR",
                );
                for address in (host.as_str(), *port).to_socket_addrs()? {
                    match TcpListener::bind(address) {
                        Ok(listener) => return Ok(Listener::Tcp(listener)),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
            Address::Local(name) => {
                let address = SocketAddr::from_abstract_name(name)?;
                UnixListener::bind_addr(&address).map(Listener::Local)
            }
        }
    }
}

impl Listener {
    /// Listens on a free port of the loopback address.
    pub(crate) fn on_loopback() -> io::Result<(Listener, u16)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        Ok((Listener::Tcp(listener), port))
    }

    /// Waits for the next connection, and returns it with a text that names the other side. Fails
    /// if the process at the other end of a local socket belongs to another user.
    pub(crate) fn accept(&self) -> io::Result<(Connection, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok((Connection::Tcp(stream), from.to_string()))
            }
            Listener::Local(listener) => {
                let (stream, _) = listener.accept()?;
                let process = of_same_user(&stream)?;
                Ok((Connection::Local(stream), format!("process {process}")))
            }
        }
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Listener::Tcp(listener) => listener.as_raw_fd(),
            Listener::Local(listener) => listener.as_raw_fd(),
        }
    }

    /// Makes a thread that waits in [`accept`](Self::accept) return with an error.
    pub(crate) fn shut_down(&self) {
        // SAFETY: the descriptor is open for as long as `self` lives, and no memory is involved.
        unsafe { libc::shutdown(self.descriptor(), libc::SHUT_RDWR) };
    }
}

/// Returns the id of the process at the other end. Fails unless that process belongs to the user of
/// this process.
fn of_same_user(stream: &UnixStream) -> io::Result<i32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length are writable for the call.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has no arguments and cannot fail.
    let own = unsafe { libc::geteuid() };
    if found.uid == own {
        return Ok(found.pid);
    }
    let why = format!(
        "process {} belongs to user {}, not to user {own}: start all ranks of the job as one user",
        found.pid, found.uid
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

impl Connection {
    pub(crate) fn try_clone(&self) -> io::Result<Connection> {
        match self {
            Connection::Tcp(stream) => stream.try_clone().map(Connection::Tcp),
            Connection::Local(stream) => stream.try_clone().map(Connection::Local),
        }
    }

    /// Sets the longest time that a read may take; `None` sets no limit.
    pub(crate) fn set_read_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        // The standard library rejects a limit of zero.
        let limit = limit.map(|limit| limit.max(Duration::from_millis(1)));
        match self {
            Connection::Tcp(stream) => stream.set_read_timeout(limit),
            Connection::Local(stream) => stream.set_read_timeout(limit),
        }
    }

    pub(crate) fn set_write_limit(&self, limit: Duration) -> io::Result<()> {
        match self {
            Connection::Tcp(stream) => stream.set_write_timeout(Some(limit)),
            Connection::Local(stream) => stream.set_write_timeout(Some(limit)),
        }
    }

    pub(crate) fn hang_up(&self) {
        // The call fails if the other side has closed the connection already.
        let _ = match self {
            Connection::Tcp(stream) => stream.shutdown(std::net::Shutdown::Both),
            Connection::Local(stream) => stream.shutdown(std::net::Shutdown::Both),
        };
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.read(buffer),
            Connection::Local(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Tcp(stream) => stream.write(bytes),
            Connection::Local(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
