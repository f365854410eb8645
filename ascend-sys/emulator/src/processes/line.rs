//! A connection to another process of the machine: frames of bytes, with descriptors.
//!
//! Sending and receiving do not wait. Bytes that cannot be sent at once are kept, and are sent when
//! the [listener](super::listener) finds that there is room.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// The size of the longest frame of a stranger, in bytes. A stranger is a process that has not
/// introduced itself.
pub(crate) const LONGEST_OF_A_STRANGER: usize = 16 << 10;
/// The number of bytes that are read in one turn from a process that sends without a pause, so that
/// other processes get their turn.
const AT_A_TIME: usize = 1 << 20;
/// The size of the longest frame, in bytes. The longest frames have errors of communicators of some
/// thousand ranks.
pub(crate) const LONGEST: usize = 16 << 20;
/// The largest number of descriptors with a frame.
pub(crate) const MOST_FILES: usize = 4;
/// The largest number of descriptors of frames that are not complete.
pub(crate) const MOST_AT_ONCE: usize = 64;
/// The largest number of bytes that wait to be sent to one process. Without the limit, a stopped
/// process, which does not read, would take all memory.
const MOST_WAITING: usize = 64 << 20;
/// The size of the head of a frame, in bytes. The head holds the length of the frame, and the
/// number of descriptors that come with it.
const HEAD: usize = 2 * size_of::<u32>();

/// A frame, and the descriptors that came with it.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// The receiving half of a connection; see the [module](self).
pub(crate) struct Line {
    stream: UnixStream,
    /// The part of the next frame that has arrived.
    received: Vec<u8>,
    /// The descriptors that came with bytes of frames that are not complete yet, in their order.
    files: VecDeque<OwnedFd>,
    /// Whether the process has not introduced itself. If so, only one short frame is accepted.
    is_stranger: bool,
}

/// The sending half of a connection.
pub(crate) struct Outlet {
    stream: UnixStream,
    waiting: VecDeque<Outgoing>,
    bytes: usize,
}

struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    files: Vec<Arc<OwnedFd>>,
}

/// Makes the two halves of a connection.
pub(crate) fn halves(stream: UnixStream) -> io::Result<(Line, Outlet)> {
    stream.set_nonblocking(true)?;
    let outlet = Outlet { stream: stream.try_clone()?, waiting: VecDeque::new(), bytes: 0 };
    Ok((Line { stream, received: Vec::new(), files: VecDeque::new(), is_stranger: true }, outlet))
}

/// Returns the id of the process and that of the user at the other end of a connection.
pub(crate) fn credentials(stream: &UnixStream) -> io::Result<(i32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure and its length are writable.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    if result == 0 { Ok((found.pid, found.uid)) } else { Err(io::Error::last_os_error()) }
}

/// Returns the id of the user whose processes may connect to this process.
pub(crate) fn own_user() -> u32 {
    // SAFETY: has no conditions.
    unsafe { libc::geteuid() }
}

/// Makes an entry for [`wait_for`]. A negative descriptor is ignored.
pub(super) fn polled(fd: i32, events: i16) -> libc::pollfd {
    libc::pollfd { fd, events, revents: 0 }
}

/// Waits until one of the descriptors is ready, for at most `limit`.
pub(super) fn wait_for(polled: &mut [libc::pollfd], limit: Duration) {
    let limit = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: `polled.len()` structures, writable.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit) };
}

/// Room for the control data of a message with [`MOST_FILES`] descriptors, aligned for the kernel.
type Control = [u64; 8];
const FILE_BYTES: usize = MOST_FILES * size_of::<i32>();

// SAFETY: this only computes a size.
const _: () =
    assert!(unsafe { libc::CMSG_SPACE(FILE_BYTES as u32) } as usize <= size_of::<Control>());

impl Line {
    pub(crate) fn descriptor(&self) -> i32 {
        self.stream.as_raw_fd()
    }

    /// Receives the frames that have arrived, without waiting. Returns an error if the other end is
    /// closed or has sent an invalid frame. Even then, `frames` has the frames that arrived before.
    pub(crate) fn receive(&mut self, frames: &mut Vec<Frame>) -> io::Result<()> {
        let mut buffer = [0; 16 << 10];
        let mut left = AT_A_TIME;
        // Takes the frames that arrived after the first frame of a stranger.
        self.cut(frames)?;
        while left > 0 && (frames.is_empty() || !self.is_stranger) {
            match self.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(length) => {
                    self.received.extend_from_slice(&buffer[..length]);
                    left = left.saturating_sub(length);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            self.cut(frames)?;
        }
        Ok(())
    }

    /// Notes that the process has introduced itself, so that all its frames are accepted.
    pub(crate) fn trust(&mut self) {
        self.is_stranger = false;
    }

    /// Moves complete frames out of the received bytes.
    fn cut(&mut self, frames: &mut Vec<Frame>) -> io::Result<()> {
        let mut start = 0;
        while let Some(head) = self.received[start..].first_chunk::<HEAD>() {
            let [length, files] = words(*head);
            let longest = if self.is_stranger { LONGEST_OF_A_STRANGER } else { LONGEST };
            if length > longest || files > MOST_FILES {
                let text = format!(
                    "it has sent a frame that is too large, with {length} bytes and {files} \
                     descriptors"
                );
                return Err(io::Error::other(text));
            }
            let Some(bytes) = self.received[start + HEAD..].get(..length) else { break };
            if self.files.len() < files {
                return Err(io::Error::other("it has sent a frame without all of its descriptors"));
            }
            frames
                .push(Frame { bytes: bytes.to_vec(), files: self.files.drain(..files).collect() });
            start += HEAD + length;
            if self.is_stranger {
                break;
            }
        }
        self.received.drain(..start);
        Ok(())
    }

    /// Reads bytes and descriptors from the socket.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut control: Control = [0; 8];
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: the pieces that the header names are there and writable during the call, and it
        // is read as the kernel has written it. Descriptors are new, and nobody else has them.
        unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &raw mut piece;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control) as _;
            let flags = libc::MSG_CMSG_CLOEXEC;
            let length = libc::recvmsg(self.stream.as_raw_fd(), &raw mut header, flags);
            let Ok(length) = usize::try_from(length) else {
                return Err(io::Error::last_os_error());
            };
            let mut entry = libc::CMSG_FIRSTHDR(&raw const header);
            while let Some(found) = entry.as_ref() {
                if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                    let data = libc::CMSG_DATA(entry);
                    let bytes = found.cmsg_len - libc::CMSG_LEN(0) as usize;
                    for at in 0..bytes / size_of::<i32>() {
                        let file = data.cast::<i32>().add(at).read_unaligned();
                        self.files.push_back(OwnedFd::from_raw_fd(file));
                    }
                }
                entry = libc::CMSG_NXTHDR(&raw const header, entry);
            }
            let most = if self.is_stranger { MOST_FILES } else { MOST_AT_ONCE };
            if self.files.len() > most || header.msg_flags & libc::MSG_CTRUNC != 0 {
                return Err(io::Error::other(
                    "it has sent more descriptors than belong to a frame, or this process can \
                     open no more files (ulimit -n)",
                ));
            }
            Ok(length)
        }
    }
}

/// Returns the two numbers of the head of a frame.
fn words(head: [u8; HEAD]) -> [usize; 2] {
    let word = u64::from_le_bytes(head);
    [word as u32 as usize, (word >> 32) as usize]
}

impl Outlet {
    /// Sends a frame at once, or keeps it until there is room.
    pub(crate) fn send(&mut self, frame: &[u8], files: Vec<Arc<OwnedFd>>) -> io::Result<()> {
        let length = u32::try_from(frame.len()).ok().filter(|_| frame.len() <= LONGEST);
        let length = length.ok_or_else(|| io::Error::other("the frame is too long"))?;
        if self.bytes + frame.len() > MOST_WAITING {
            return Err(io::Error::other("the process does not read its frames"));
        }
        let head = [length.to_le_bytes(), (files.len() as u32).to_le_bytes()].concat();
        let bytes: Vec<u8> = head.iter().chain(frame).copied().collect();
        self.bytes += bytes.len();
        self.waiting.push_back(Outgoing { bytes, sent: 0, files });
        self.flush()
    }

    /// Ends the connection for both sides, so that the other process does not go on without frames
    /// that could not be sent.
    pub(crate) fn end(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Returns whether a frame waits for room.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Sends as many waiting bytes as there is room for.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(next) = self.waiting.front_mut() {
            let files = if next.sent == 0 { &next.files[..] } else { &[] };
            let sent = send(&self.stream, &next.bytes[next.sent..], files);
            match sent {
                Ok(sent) => next.sent += sent,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            if next.sent == next.bytes.len() {
                self.bytes -= next.bytes.len();
                self.waiting.pop_front();
            }
        }
        Ok(())
    }
}

/// Sends bytes, with descriptors, and returns the number of bytes that were sent. Raises no signal,
/// because an unexpected signal would end a C program.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8], files: &[Arc<OwnedFd>]) -> io::Result<usize> {
    let mut control: Control = [0; 8];
    let mut piece =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let files = &files[..files.len().min(MOST_FILES)];
    let size = (files.len() * size_of::<i32>()) as u32;
    // SAFETY: the header names pieces that are there during the call; the control data has room for
    // these descriptors, as asserted above.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        if !files.is_empty() {
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as _;
        }
        if let Some(entry) = libc::CMSG_FIRSTHDR(&raw const header).as_mut() {
            entry.cmsg_level = libc::SOL_SOCKET;
            entry.cmsg_type = libc::SCM_RIGHTS;
            entry.cmsg_len = libc::CMSG_LEN(size) as _;
            let data = libc::CMSG_DATA(entry).cast::<i32>();
            for (at, file) in files.iter().enumerate() {
                data.add(at).write_unaligned(file.as_raw_fd());
            }
        }
        let sent = libc::sendmsg(stream.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL);
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn pair() -> ((Line, Outlet), (Line, Outlet)) {
        let (one, other) = UnixStream::pair().unwrap();
        let mut both = (halves(one).unwrap(), halves(other).unwrap());
        both.0.0.trust();
        both.1.0.trust();
        both
    }

    fn take(line: &mut Line) -> Vec<Frame> {
        let mut frames = Vec::new();
        line.receive(&mut frames).unwrap();
        frames
    }

    #[test]
    fn frames_arrive_whole_with_their_descriptors() {
        let ((mut line, _), (_, mut outlet)) = pair();
        let (reader, writer) = std::io::pipe().unwrap();
        outlet.send(b"first", Vec::new()).unwrap();
        outlet.send(b"second", vec![Arc::new(writer.into())]).unwrap();
        outlet.send(b"", Vec::new()).unwrap();
        let mut frames = Vec::new();
        while frames.len() < 3 {
            frames.append(&mut take(&mut line));
        }
        let said: Vec<_> = frames.iter().map(|frame| &*frame.bytes).collect();
        assert_eq!(said, [&b"first"[..], b"second", b""]);
        let files: Vec<_> = frames.iter_mut().flat_map(|frame| frame.files.drain(..)).collect();
        assert_eq!(files.len(), 1);
        for file in files {
            std::fs::File::from(file).write_all(b"through").unwrap();
        }
        drop(outlet);
        let mut text = String::new();
        std::io::BufReader::new(reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert!(line.receive(&mut frames).is_err(), "nobody is there any more");
    }

    #[test]
    fn what_has_no_room_is_sent_later_and_what_is_never_read_is_given_up() {
        let ((mut line, _), (_, mut outlet)) = pair();
        let large: Vec<u8> = (0..3 << 20).map(|at| at as u8).collect();
        outlet.send(&large, Vec::new()).unwrap();
        assert!(outlet.is_waiting());
        let mut frames = Vec::new();
        while frames.is_empty() {
            frames = take(&mut line);
            outlet.flush().unwrap();
        }
        assert!(frames[0].bytes == large && !outlet.is_waiting());
        assert!(outlet.send(&vec![0; LONGEST + 1], Vec::new()).is_err());
        assert!((0..100).any(|_| outlet.send(&large, Vec::new()).is_err()));
    }

    #[test]
    fn a_frame_that_is_too_long_ends_the_line() {
        let (one, mut other) = UnixStream::pair().unwrap();
        let (mut line, _outlet) = halves(one).unwrap();
        other.write_all(&u64::MAX.to_le_bytes()).unwrap();
        assert!(line.receive(&mut Vec::new()).is_err());
    }
}
