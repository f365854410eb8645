//! Reads `HcclCommConfig`, a struct with a dozen layouts.
//!
//! The caller writes the size of its struct and its version. Neither alone says which fields exist,
//! so a field is read only if the version has it **and** the struct reaches that far. Two layouts
//! that were current for a few days have the version numbers of other layouts, but different
//! fields. They are recognised by version and size together. Bytes beyond the caller's size are not
//! read. A newer version or a larger struct is accepted.

mod texts;

use crate::message::{Failure, refuse};
use crate::profile::{BUFFER_MEGABYTES, Product};

/// The size in bytes of version 11, the newest version that this library knows.
const KNOWN: usize = 2248;
const MAGIC: u32 = 0xf0f0_f0f0;
const NOT_SET: u32 = 0xffff_ffff;

/// The settings of one communicator that the emulator uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommConfig {
    /// The name; empty for a default name.
    pub(crate) name: String,
    /// The size of each communication buffer, in MiB.
    pub(crate) buffer_megabytes: u32,
    /// Whether the caller has set the size of the communication buffers.
    is_sized: bool,
    /// `hcclOpExpansionMode`, or 0 if it is not set. The meaning of the numbers depends on the
    /// product.
    pub(crate) expansion: u32,
    /// `hcclAlgo` as given.
    pub(crate) algorithm: String,
    /// The execution time limit in seconds; 0 means no limit, and `None` means the default.
    pub(crate) exec_timeout: Option<u32>,
    /// The largest total size of a rank's symmetric windows, in bytes.
    pub(crate) window_bytes: u64,
}

/// The default limit for a rank's symmetric windows, in GiB.
const WINDOW_GIGABYTES: u64 = 16;

impl Default for CommConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            buffer_megabytes: BUFFER_MEGABYTES,
            is_sized: false,
            expansion: 0,
            algorithm: String::new(),
            exec_timeout: None,
            window_bytes: WINDOW_GIGABYTES << 30,
        }
    }
}

impl CommConfig {
    /// Makes a configuration from the part that a rank of another process sends.
    pub(super) fn of_guest(name: String, buffer_megabytes: u32) -> Self {
        Self { name, buffer_megabytes, ..Self::default() }
    }

    /// Fills in the defaults of the devices for the buffer size and `hcclOpExpansionMode`, where
    /// the caller has set none.
    pub(crate) fn with_defaults(mut self, megabytes: u32, expansion: u32) -> Self {
        if !self.is_sized {
            self.buffer_megabytes = megabytes;
        }
        if self.expansion == 0 {
            self.expansion = expansion;
        }
        self
    }
}

/// The caller's struct, up to the size that the caller has given.
struct Given {
    bytes: [u8; KNOWN],
    size: usize,
    version: u32,
}

impl Given {
    /// Returns the `N` bytes at an offset, if the version is at least `since` and the struct
    /// reaches that far.
    fn field<const N: usize>(&self, since: u32, offset: usize) -> Option<[u8; N]> {
        if self.version < since || offset + N > self.size {
            return None;
        }
        self.bytes[offset..].first_chunk().copied()
    }

    fn number(&self, since: u32, offset: usize) -> Option<u32> {
        self.field(since, offset).map(u32::from_ne_bytes)
    }

    fn text<const N: usize>(
        &self,
        since: u32,
        offset: usize,
        what: &str,
    ) -> Result<String, Failure> {
        let Some(bytes) = self.field::<N>(since, offset) else { return Ok(String::new()) };
        let Some(end) = bytes.iter().position(|byte| *byte == 0) else {
            return refuse!(
                HCCL_E_PARA,
                "{what} of HcclCommConfig has no NUL in its {N} bytes; end the text with one"
            );
        };
        match std::str::from_utf8(&bytes[..end]) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => refuse!(
                HCCL_E_PARA,
                "{what} of HcclCommConfig is not valid UTF-8; pass a text in UTF-8"
            ),
        }
    }
}

impl CommConfig {
    /// Reads the caller's struct.
    ///
    /// # Safety
    ///
    /// `config` is null, or it points to a struct whose first eight bytes give its size in bytes.
    /// All of these bytes can be read.
    pub(crate) unsafe fn read(config: *const u8, product: Product) -> Result<Self, Failure> {
        if config.is_null() {
            return match product {
                Product::Ascend950 => refuse!(
                    HCCL_E_PTR,
                    "the config is NULL; pass one that HcclCommConfigInit has initialised"
                ),
                Product::A2 | Product::A3 => refuse!(
                    HCCL_E_PARA,
                    "the config is NULL; pass one that HcclCommConfigInit has initialised"
                ),
            };
        }
        // SAFETY: the caller promises the first eight bytes; old versions are aligned to four only.
        let size = unsafe { config.cast::<u64>().read_unaligned() };
        if size < 32 {
            return refuse!(
                HCCL_E_PARA,
                "the config says that it has {size} bytes; the smallest version has 32. Initialise it with HcclCommConfigInit"
            );
        }
        let size = usize::try_from(size).unwrap_or(KNOWN).min(KNOWN);
        let mut given = Given { bytes: [0; KNOWN], size, version: 0 };
        // SAFETY: the caller promises as many bytes as the struct says, and the copy is no longer
        // than the array.
        unsafe { given.bytes.as_mut_ptr().copy_from_nonoverlapping(config, size) };
        let word = |offset: usize| {
            given.bytes[offset..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let magic = word(8);
        if magic != MAGIC {
            return refuse!(
                HCCL_E_PARA,
                "the config's magic word is {magic:#x} instead of {MAGIC:#x}. Initialise it with HcclCommConfigInit"
            );
        }
        given.version = word(12);
        given.interpret(product)
    }
}

impl Given {
    fn interpret(&self, product: Product) -> Result<CommConfig, Failure> {
        let mut config = CommConfig::default();
        match self.number(1, 24) {
            Some(0) => return refuse!(HCCL_E_PARA, "hcclBufferSize is 0; set at least 1 (MB)"),
            Some(NOT_SET) | None => {}
            Some(megabytes) => {
                config.buffer_megabytes = megabytes;
                config.is_sized = true;
            }
        }
        match self.number(1, 28) {
            None | Some(NOT_SET | 0 | 1) => {}
            Some(2) if product == Product::A2 => {}
            // CANN for 950 is always deterministic and does not read the field.
            Some(_) if product == Product::Ascend950 => {}
            Some(mode) => {
                return refuse!(
                    HCCL_E_PARA,
                    "hcclDeterministic is {mode}, which {product} does not support; set 0 or 1, \
                     or on an A2 also 2"
                );
            }
        }
        config.name = self.text::<128>(2, 32, "hcclCommName")?;
        self.text::<128>(3, 160, "hcclUdi")?;
        config.expansion = self.number(4, 288).unwrap_or(0);
        if let Some(class) = self.number(5, 292)
            && class != NOT_SET
            && (class > 255 || !class.is_multiple_of(4))
        {
            return refuse!(
                HCCL_E_PARA,
                "hcclRdmaTrafficClass is {class}; set a multiple of 4 from 0 to 252"
            );
        }
        if let Some(level) = self.number(5, 296)
            && level != NOT_SET
            && level > 7
        {
            return refuse!(HCCL_E_PARA, "hcclRdmaServiceLevel is {level}; set 0 to 7");
        }
        // Two layouts that were current for a few days have different fields after the job id.
        let (zero_copy, tail) = match (self.version, self.size) {
            (7, 328) => (self.field::<1>(7, 324), false),
            (8, 448) => {
                self.text::<128>(8, 313, "hcclBufferName")?;
                (self.field::<1>(7, 312), false)
            }
            _ => (self.field::<1>(7, 312), true),
        };
        if let Some([value]) = zero_copy
            && value > 1
        {
            return refuse!(HCCL_E_PARA, "aclGraphZeroCopyEnable is {value}; set 0 or 1");
        }
        if tail {
            self.tail(&mut config, product)?;
        }
        Ok(config)
    }

    fn retries(&self) -> Result<(), Failure> {
        let levels = self.text::<50>(8, 1920, "hcclRetryEnable")?;
        if !levels.is_empty() && !texts::retry_levels(&levels) {
            return refuse!(
                HCCL_E_PARA,
                "hcclRetryEnable is \"{levels}\"; write it in the form \"L1:1, L2:0\""
            );
        }
        let retry = self.text::<128>(8, 1970, "hcclRetryParams")?;
        if !retry.is_empty() && !texts::retry_parameters(&retry) {
            return refuse!(
                HCCL_E_PARA,
                "hcclRetryParams is \"{retry}\"; write it in the form \"MaxCnt:1, HoldTime:5000, \
                 IntervalTime:1000\", with 1 to 10 attempts and 0 to 60000 milliseconds"
            );
        }
        Ok(())
    }

    /// Reads the fields since version 8, in the layouts that stayed in use.
    fn tail(&self, config: &mut CommConfig, product: Product) -> Result<(), Failure> {
        // CANN warns about a value that is out of range, and ignores the value.
        config.exec_timeout = self.number(8, 316).filter(|seconds| *seconds <= i32::MAX as u32);
        config.algorithm = self.text::<1600>(8, 320, "hcclAlgo")?;
        let algorithm = &config.algorithm;
        if !algorithm.is_empty() && !texts::algorithms(algorithm) {
            return refuse!(
                HCCL_E_PARA,
                "hcclAlgo is \"{algorithm}\"; write it in the form level0:NA;level1:NHR, or \
                 allreduce=level0:NA;level1:ring/alltoall=level0:NA;level1:pairwise"
            );
        }
        // CANN for 950 does not read the retry fields.
        if product != Product::Ascend950 {
            self.retries()?;
        }
        self.text::<128>(9, 2098, "hcclBufferName")?;
        if let Some(qos) = self.number(10, 2228)
            && qos != NOT_SET
            && qos > 7
        {
            return refuse!(HCCL_E_PARA, "hcclQos is {qos}; set 0 to 7");
        }
        if let Some(gigabytes) = self.field::<8>(10, 2232).map(u64::from_ne_bytes) {
            config.window_bytes = gigabytes.saturating_mul(1 << 30);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ascend_sys::HcclResult;

    /// Returns a struct as `HcclCommConfigInit` of some release leaves it, with a name.
    fn client(version: u32, size: usize) -> Vec<u8> {
        let mut bytes = vec![0u8; size.max(32)];
        let mut put = |offset: usize, value: &[u8]| {
            if offset + value.len() <= size {
                bytes[offset..offset + value.len()].copy_from_slice(value);
            }
        };
        put(0, &(size as u64).to_ne_bytes());
        put(8, &MAGIC.to_ne_bytes());
        put(12, &version.to_ne_bytes());
        put(24, &[0xff; 8]);
        if version >= 2 {
            put(32, b"training");
        }
        if version >= 5 {
            put(292, &[0xff; 8]);
        }
        if version >= 8 && size > 1000 {
            put(316, &[0xff; 4]);
        }
        if version >= 10 {
            put(2228, &[0xff; 4]);
        }
        bytes
    }

    fn read(bytes: &[u8], product: Product) -> Result<CommConfig, Failure> {
        // SAFETY: the vector has the size that it says.
        unsafe { CommConfig::read(bytes.as_ptr(), product) }
    }

    /// The version and the size of each layout.
    const LAYOUTS: [(u32, usize); 16] = [
        (1, 32),
        (2, 160),
        (3, 288),
        (4, 292),
        (5, 300),
        (6, 312),
        (7, 320),
        (7, 328),
        (8, 2104),
        (8, 448),
        (9, 2232),
        (10, 2232),
        (10, 2240),
        (10, 2248 + 4096),
        (11, 2248),
        (12, 3000),
    ];

    #[test]
    fn each_field_is_there_from_its_version_on() {
        for (version, size) in LAYOUTS {
            let with = |offset: usize, value: u32| {
                let mut bytes = client(version, size);
                // If the struct ends before the field, these bytes are outside the struct.
                bytes.resize(size.max(offset + 4), 0);
                bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
                read(&bytes, Product::A3)
            };
            let expansion = with(288, 2).unwrap().expansion;
            assert_eq!(expansion, if version >= 4 { 2 } else { 0 }, "version {version}, {size}");
            let refused = |offset, value| with(offset, value).is_err();
            let what = format!("version {version}, {size} bytes");
            assert_eq!(refused(292, 6), version >= 5, "traffic class, {what}");
            assert_eq!(refused(296, 8), version >= 5, "service level, {what}");
            assert_eq!(refused(2228, 8), version >= 10, "quality of service, {what}");
        }
    }

    #[test]
    fn every_layout_there_ever_was() {
        for (version, size) in LAYOUTS {
            for product in [Product::A2, Product::A3, Product::Ascend950] {
                let config = read(&client(version, size), product).unwrap();
                assert_eq!(config.name, if version >= 2 { "training" } else { "" });
                assert_eq!(config.buffer_megabytes, 200);
                assert_eq!(config.exec_timeout, None);
            }
        }
    }

    #[test]
    fn a_field_beyond_the_size_or_the_version_is_not_taken() {
        let mut bytes = client(11, 2248);
        bytes[316..320].copy_from_slice(&30u32.to_ne_bytes());
        assert_eq!(read(&bytes, Product::A3).unwrap().exec_timeout, Some(30));
        bytes[12..16].copy_from_slice(&7u32.to_ne_bytes());
        assert_eq!(read(&bytes, Product::A3).unwrap().exec_timeout, None);
        bytes[12..16].copy_from_slice(&11u32.to_ne_bytes());
        bytes[..8].copy_from_slice(&318u64.to_ne_bytes());
        assert_eq!(read(&bytes, Product::A3).unwrap().exec_timeout, None);
    }

    #[test]
    fn the_short_lived_layouts_keep_their_fields_apart() {
        let mut bytes = client(8, 448);
        bytes[313..318].copy_from_slice(b"share");
        assert_eq!(read(&bytes, Product::A3).unwrap().exec_timeout, None);
        let mut bytes = client(7, 328);
        bytes[312..324].fill(9);
        assert!(read(&bytes, Product::A3).is_ok());
        bytes[324] = 2;
        assert!(read(&bytes, Product::A3).is_err());
    }

    #[test]
    fn the_950_does_not_read_whether_it_shall_be_deterministic() {
        for mode in [0, 1, 2, 3, 77, u32::MAX] {
            let mut bytes = client(11, 2248);
            bytes[28..32].copy_from_slice(&mode.to_ne_bytes());
            let is_read = |product| read(&bytes, product).is_ok();
            assert!(is_read(Product::Ascend950), "{mode}");
            assert_eq!(is_read(Product::A2), mode <= 2 || mode == NOT_SET, "{mode}");
            assert_eq!(is_read(Product::A3), mode <= 1 || mode == NOT_SET, "{mode}");
        }
    }

    #[test]
    fn what_is_refused_and_with_which_code() {
        let with = |offset: usize, value: &[u8]| {
            let mut bytes = client(11, 2248);
            bytes[offset..offset + value.len()].copy_from_slice(value);
            read(&bytes, Product::A3).map_err(|failure| failure.in_hccl().0)
        };
        let wrong = Err(HcclResult::HCCL_E_PARA);
        assert_eq!(with(0, &31u64.to_ne_bytes()), wrong);
        assert_eq!(with(8, &[0; 4]), wrong);
        assert_eq!(with(24, &[0; 4]), wrong);
        assert_eq!(with(28, &2u32.to_ne_bytes()), wrong);
        assert_eq!(with(28, &3u32.to_ne_bytes()), wrong);
        assert_eq!(with(32, &[b'x'; 128]), wrong);
        assert_eq!(with(292, &6u32.to_ne_bytes()), wrong);
        assert_eq!(with(312, &[2]), wrong);
        assert_eq!(with(1970, b"MaxCnt:11, HoldTime:1, IntervalTime:1\0"), wrong);
        assert!(with(1970, b"MaxCnt:10,HoldTime:1, IntervalTime:60000\0").is_ok());
        assert_eq!(with(2228, &8u32.to_ne_bytes()), wrong);
        assert_eq!(with(320, b"level1:fast\0"), wrong);
        assert!(with(320, b"level0:NA;level1:NHR\0").is_ok());
        assert_eq!(with(1920, b"yes\0"), wrong);
        assert!(with(1920, b"L1:1, L2:0\0").is_ok());
        // SAFETY: null is allowed.
        let null =
            |product| unsafe { CommConfig::read(std::ptr::null(), product) }.unwrap_err().code;
        assert_eq!(null(Product::A3), HcclResult::HCCL_E_PARA);
        assert_eq!(null(Product::Ascend950), HcclResult::HCCL_E_PTR);
    }
}
