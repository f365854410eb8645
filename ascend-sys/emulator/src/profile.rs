//! Lists the differences between products that concern the runtime (not HCCL).

use ascend_program::check;
use std::time::Duration;

/// A product: the chip, and the rules that come with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Product {
    /// Atlas A2.
    A2,
    /// Atlas A3.
    A3,
    /// Ascend 950.
    Ascend950,
}

const GIB: u64 = 1 << 30;

impl Product {
    /// Returns the product with the number that `AscendExtBlockConfig` uses.
    pub(crate) fn from_number(number: u32) -> Option<Product> {
        match number {
            2 => Some(Product::A2),
            3 => Some(Product::A3),
            950 => Some(Product::Ascend950),
            _ => None,
        }
    }

    /// Returns the product with the name that the environment variable uses.
    pub(crate) fn from_name(name: &str) -> Option<Product> {
        match name.to_ascii_lowercase().as_str() {
            "a2" => Some(Product::A2),
            "a3" => Some(Product::A3),
            "950" | "ascend950" => Some(Product::Ascend950),
            _ => None,
        }
    }

    /// Returns the name that `aclrtGetSocName` returns, NUL-terminated. Programs check its first
    /// letters. Each product has the name of a chip whose numbers of cores are known.
    pub(crate) fn soc_name(self) -> &'static std::ffi::CStr {
        match self {
            Product::A2 => c"Ascend910B2",
            Product::A3 => c"Ascend910_9392",
            Product::Ascend950 => c"Ascend950PR_958b",
        }
    }

    /// Returns the product as the rules for kernels name it.
    pub(crate) fn of_kernels(self) -> check::Product {
        match self {
            Product::A2 => check::Product::A2,
            Product::A3 => check::Product::A3,
            Product::Ascend950 => check::Product::Ascend950,
        }
    }

    pub(crate) fn cube_cores(self) -> u32 {
        self.of_kernels().cube_cores()
    }

    pub(crate) fn vector_cores(self) -> u32 {
        self.of_kernels().vector_cores()
    }

    /// Returns the size of a vector core's local memory in bytes, if it is known.
    pub(crate) fn bytes_of_a_vector_core(self) -> Option<u64> {
        match self {
            Product::A2 | Product::A3 => Some(192 << 10),
            Product::Ascend950 => None,
        }
    }

    /// Returns the size of the L2 cache in bytes, if it is known.
    pub(crate) fn l2_bytes(self) -> Option<u64> {
        match self {
            Product::A2 => Some(192 << 20),
            Product::A3 | Product::Ascend950 => None,
        }
    }

    /// Returns the default size of device memory in bytes.
    pub(crate) fn default_memory(self) -> u64 {
        match self {
            Product::A2 | Product::A3 => 64 * GIB,
            Product::Ascend950 => 128 * GIB,
        }
    }

    /// Returns the number of bytes of memory that an allocation of `size` bytes takes up. Returns
    /// `None` if that number is too large.
    pub(crate) fn charged_size(self, size: usize) -> Option<usize> {
        let padding = match self {
            Product::A2 | Product::A3 => 32,
            Product::Ascend950 => 0,
        };
        size.checked_next_multiple_of(32)?.checked_add(padding)
    }

    pub(crate) fn max_streams(self) -> usize {
        1984
    }

    pub(crate) fn max_notifies(self) -> usize {
        match self {
            Product::A2 | Product::A3 => 8192,
            Product::Ascend950 => 65_535,
        }
    }

    pub(crate) fn has_count_notifies(self) -> bool {
        self == Product::Ascend950
    }
}

/// The default size of each of the two parts of a communication buffer, in MiB.
pub(crate) const BUFFER_MEGABYTES: u32 = 200;
/// The default time limit of an operation of HCCL for the first contact with a peer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
/// The default time limit of a running operation of HCCL for its peers.
pub(crate) const EXEC_TIMEOUT: Duration = Duration::from_secs(1836);
