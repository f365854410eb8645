//! The two types of the system's `<netinet/in.h>` that CANN's structures contain.
//!
//! They are written by hand so that the generated file is the same on every machine.

/// An IPv4 address.
#[repr(C)]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq, Hash)]
pub struct in_addr {
    /// The address in network byte order.
    pub s_addr: u32,
}

/// An IPv6 address.
// C declares a union that has 32-bit words too, so the alignment is 4.
#[repr(C, align(4))]
#[derive(Debug, Default, Copy, Clone, PartialEq, Eq, Hash)]
pub struct in6_addr {
    /// The address in network byte order.
    pub s6_addr: [u8; 16],
}
