//! Tests of structs with a version, laid out byte by byte as clients of older and newer headers do,
//! with the offsets of CANN's headers. Each struct is at the end of mapped memory, so reading a
//! byte after it is a crash. Bytes that the client does not write contain junk.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::operator::*;
use ascend_emulator_testing::ranks::{Rank, name_of, on_block, root_info};
use ascend_emulator_testing::{call, hccl, issue, not_issued, ok, refuses};
use ascend_sys::*;
use std::ffi::{CStr, CString, c_void};
use std::ptr::{null, null_mut};

const JUNK: u8 = 0xa5;
const PARA: HcclResult = HcclResult::HCCL_E_PARA;

/// A struct as a client lays it out in memory.
struct Laid {
    bytes: Vec<u8>,
    /// The pages that contain the struct in their last bytes. The page after them cannot be
    /// accessed.
    pages: *mut c_void,
}

const PAGE: usize = 4096;
const PAGES: usize = 2;

impl Laid {
    /// Lays out a struct of `size` bytes with these fields, each given with its offset.
    fn new(size: usize, fields: &[(usize, &[u8])]) -> Laid {
        let mut bytes = vec![JUNK; size];
        for (offset, field) in fields {
            bytes[*offset..offset + field.len()].copy_from_slice(field);
        }
        assert!(size <= PAGES * PAGE);
        // SAFETY: a new mapping touches no existing memory.
        let pages = unsafe {
            let (none, private) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(null_mut(), (PAGES + 1) * PAGE, none, private, -1, 0)
        };
        assert_ne!(pages, libc::MAP_FAILED);
        let all = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: these are the first pages of the mapping made above.
        assert_eq!(unsafe { libc::mprotect(pages, PAGES * PAGE, all) }, 0);
        let laid = Laid { bytes, pages };
        // SAFETY: the address has room for `size` bytes, and nothing else uses this memory.
        unsafe { laid.at::<u8>().copy_from_nonoverlapping(laid.bytes.as_ptr(), size) };
        laid
    }

    /// Lays out a struct that begins with a `CommAbiHeader`.
    fn with_header(header: [u32; 3], size: usize, fields: &[(usize, &[u8])]) -> Laid {
        let [version, magic, said] = header;
        let header = [version, magic, said, 0].map(u32::to_ne_bytes).concat();
        Laid::new(size, &[&[(0, header.as_slice())][..], fields].concat())
    }

    fn at<T>(&self) -> *mut T {
        self.pages.wrapping_byte_add(PAGES * PAGE - self.bytes.len()).cast()
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        // SAFETY: `new` made this mapping, and no call uses it any more.
        unsafe { libc::munmap(self.pages, (PAGES + 1) * PAGE) };
    }
}

const UNSET: [u8; 4] = [0xff; 4];
const CONFIG_MAGIC: u32 = 0xf0f0_f0f0;

/// The fields of `HcclCommConfig`: the first version that has the field, its offset, and its value.
/// The name and the algorithm are set; the other values are those of `HcclCommConfigInit`.
const CONFIG: [(u32, usize, &[u8]); 17] = [
    (1, 24, &UNSET),
    (1, 28, &UNSET),
    (2, 32, b"older and newer\0"),
    (3, 160, &[0]),
    (4, 288, &[0; 4]),
    (5, 292, &UNSET),
    (5, 296, &UNSET),
    (6, 300, &[0; 4]),
    (6, 304, &[0; 8]),
    (7, 312, &[0]),
    (8, 316, &UNSET),
    (8, 320, b"level0:NA\0"),
    (8, 1920, &[0]),
    (8, 1970, &[0]),
    (9, 2098, &[0]),
    (10, 2228, &UNSET),
    (10, 2232, &16u64.to_ne_bytes()),
];

/// The layouts of `HcclCommConfig`: the version and the number of bytes. No release has the last
/// two.
const CONFIGS: [(u32, usize); 16] = [
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
    (11, 2248),
    (10, 2248 + 4096),
    (12, 3000),
];

/// Lays out a configuration of this version. Its own size field says that it has `said` bytes.
fn comm_config(version: u32, size: usize, said: usize, magic: u32) -> Laid {
    let head = [&said.to_ne_bytes()[..], &magic.to_ne_bytes(), &version.to_ne_bytes(), &[0; 8]];
    let head = head.concat();
    let mut fields: Vec<(usize, &[u8])> = vec![(0, &head)];
    // Two layouts were in use for a few days only. They have other fields after the number of the
    // job.
    let (common, own): (usize, &[(usize, &[u8])]) = match (version, size) {
        (7, 328) => (312, &[(312, &[9; 12]), (324, &[0])]),
        (8, 448) => (313, &[(313, b"shared\0")]),
        _ => (size, &[]),
    };
    let has = |(since, offset, value): &(u32, usize, &[u8])| {
        *since <= version && offset + value.len() <= common
    };
    fields.extend(CONFIG.iter().filter(|field| has(field)).map(|field| (field.1, field.2)));
    fields.extend(own);
    if version >= 11 && size >= 2244 {
        fields.push((2240, &UNSET));
    }
    Laid::new(size, &fields)
}

/// Writes a rank table with one rank, on the first device, and returns the path of its file.
fn table(product: u32) -> CString {
    let name = format!("versions-{product}-{}", std::process::id());
    let path = std::env::temp_dir().join(format!("{name}.json"));
    let text = format!(
        "{{\"version\": \"1.0\", \"status\": \"completed\", \"server_count\": \"1\", \"server_list\": \
         [{{\"server_id\": \"{name}\", \"device\": [{{\"device_id\": \"0\", \"rank_id\": \"0\"}}]}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    CString::new(path.to_str().unwrap()).unwrap()
}

/// Makes a communicator of one rank with the configuration, once by each function that takes a
/// configuration. Calls `then` with the name of the function, its result, the error text and the
/// communicator.
fn join_by_each(
    rank: &Rank,
    table: Option<&CStr>,
    config: &Laid,
    mut then: impl FnMut(&str, HcclResult, String, HcclComm),
) {
    let (config, mut parent, mut ranks) = (config.at(), rank.comm, [0]);
    let mut one = |name, join: &mut dyn FnMut(&mut HcclComm) -> HcclResult| {
        let mut comm = null_mut();
        let _ = common::message();
        let code = join(&mut comm);
        then(name, code, common::message(), comm);
        if !comm.is_null() {
            hccl!(HcclCommDestroy(comm));
        }
    };
    one("HcclCommInitRootInfoConfig", &mut |comm| {
        call!(HcclCommInitRootInfoConfig(1, &root_info(), 0, config, comm))
    });
    if let Some(table) = table {
        one("HcclCommInitClusterInfoConfig", &mut |comm| {
            call!(HcclCommInitClusterInfoConfig(table.as_ptr(), 0, config, comm))
        });
    }
    one("HcclCreateSubCommConfig", &mut |comm| {
        call!(HcclCreateSubCommConfig(&mut parent, 1, ranks.as_mut_ptr(), 1, 0, config, comm))
    });
}

#[test]
fn a_configuration_of_each_version_makes_a_communicator_by_each_function() {
    for product in PRODUCTS {
        on_block(block(product, 1), |rank| {
            rank.join();
            // A rank table of this version is not possible on a 950.
            let table = (product != 950).then(|| table(product));
            for (version, size) in CONFIGS {
                let config = comm_config(version, size, size, CONFIG_MAGIC);
                join_by_each(rank, table.as_deref(), &config, |function, code, text, comm| {
                    let what = format!("{product}: {function}, version {version}, {size} bytes");
                    assert_eq!(code.0, 0, "{what}: {text}");
                    let is_named = name_of(comm) == "older and newer";
                    assert_eq!(is_named, version >= 2, "{what}");
                    let mut algorithm = [1u8; 1600];
                    let kind = HcclConfigType::HCCL_CONFIG_TYPE_HCCL_ALGO;
                    hccl!(HcclConfigGetInfo(comm, kind, 1600, algorithm.as_mut_ptr().cast()));
                    let given: &[u8] =
                        if version >= 8 && size > 448 { b"level0:NA\0" } else { b"\0" };
                    assert!(algorithm.starts_with(given), "{what}");
                });
            }
            if let Some(table) = table {
                std::fs::remove_file(table.to_str().unwrap()).unwrap();
            }
            hccl!(HcclCommDestroy(rank.comm));
        });
    }
}

#[test]
fn a_configuration_without_its_magic_word_or_a_possible_size_is_refused_by_each_function() {
    on_block(block(3, 1), |rank| {
        rank.join();
        let table = table(0);
        for magic in [0, !CONFIG_MAGIC, CONFIG_MAGIC + 1] {
            let config = comm_config(11, 2248, 2248, magic);
            join_by_each(rank, Some(&table), &config, |function, code, text, comm| {
                assert_eq!(code, PARA, "{function}: {text}");
                assert!(text.contains("magic word") && comm.is_null(), "{function}: {text}");
            });
        }
        for said in [0, 1, 31] {
            let config = comm_config(11, 2248, said, CONFIG_MAGIC);
            join_by_each(rank, Some(&table), &config, |function, code, text, comm| {
                assert_eq!(code, PARA, "{function}: {text}");
                let piece = format!("has {said} bytes");
                assert!(text.contains(&piece) && comm.is_null(), "{function}: {text}");
            });
        }
        for (version, said) in [(11, usize::MAX), (u32::MAX, usize::MAX), (11, 1 << 63)] {
            let config = comm_config(version, 2248, said, CONFIG_MAGIC);
            join_by_each(rank, Some(&table), &config, |function, code, text, comm| {
                assert_eq!(code.0, 0, "{function}, {said:#x} bytes: {text}");
                assert_eq!(name_of(comm), "older and newer", "{function}");
            });
        }
        std::fs::remove_file(table.to_str().unwrap()).unwrap();
        hccl!(HcclCommDestroy(rank.comm));
    });
}

const CHANNEL_MAGIC: u32 = 0x0f0f_0f0f;

/// Lays out an `HcclChannelDesc` of `size` bytes for a channel with 3 notifies to a rank.
fn channel(header: [u32; 3], size: usize, remote: u32, product: u32) -> Laid {
    let (remote, notifies) = (remote.to_ne_bytes(), 3u32.to_ne_bytes());
    let protocol = protocol_of(product).0.to_ne_bytes();
    let endpoints = [0xff; 320];
    let none = [0; 12];
    let mut fields: Vec<(usize, &[u8])> =
        vec![(16, &remote), (20, &protocol), (24, &endpoints), (344, &notifies)];
    fields.extend((size >= 364).then_some((352, &none[..])));
    Laid::with_header(header, size, &fields)
}

/// Requests a channel once by each function that takes a description. Calls `then` with the name of
/// the function, its result, the error text and the channel.
fn channel_by_each(
    rank: &Rank,
    product: u32,
    desc: &Laid,
    mut then: impl FnMut(&str, HcclResult, String, ChannelHandle),
) {
    let (comm, desc, mut config) = (rank.comm, desc.at(), null_mut());
    hccl!(HcclChannelConfigCreate(&mut config));
    let mut one = |name, ask: &dyn Fn(&mut ChannelHandle) -> HcclResult| {
        let mut channel = 0;
        let _ = common::message();
        let code = ask(&mut channel);
        then(name, code, common::message(), channel);
    };
    one("HcclChannelAcquire", &|to| call!(HcclChannelAcquire(comm, CPU, desc, 1, to)));
    one("HcclChannelAcquireWithConfig", &|to| {
        call!(HcclChannelAcquireWithConfig(comm, CPU, desc, 1, config, to))
    });
    if product == 950 {
        one("HcclChannelQuery", &|to| call!(HcclChannelQuery(comm, CPU, desc, 1, to)));
    }
    hccl!(HcclChannelConfigDestroy(config));
}

#[test]
fn a_channel_is_described_in_each_version_to_each_function() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            let peer = 1 - rank.rank;
            let mut found = Vec::new();
            for (version, size, said) in [
                (1, 496, 496),
                // A smaller description ends after the number of notifies, before the list of
                // memory.
                (0, 352, 352),
                (1, 352, 352),
                // These descriptions are newer, and the last one claims more bytes than it has.
                (2, 496 + 64, 496 + 64),
                (9, 4096, 4096),
                (u32::MAX, 496, u32::MAX),
            ] {
                let desc = channel([version, CHANNEL_MAGIC, said], size, peer, product);
                channel_by_each(rank, product, &desc, |function, code, text, channel| {
                    let what = format!("{product}: {function}, version {version}, {said} bytes");
                    assert_eq!(code.0, 0, "{what}: {text}");
                    found.push(channel);
                });
            }
            assert!(found[0] != 0 && found.iter().all(|one| *one == found[0]), "{found:?}");
        });
    }
}

#[test]
fn a_channel_without_its_magic_word_or_a_possible_size_is_refused_by_each_function() {
    for product in PRODUCTS {
        on_product(product, 2, |rank| {
            if rank.rank == 1 {
                return;
            }
            for (magic, said, piece) in [
                (0, 496, "magic word"),
                (0x0fcf_0f0f, 496, "magic word"),
                (CHANNEL_MAGIC, 0, "header.size is 0"),
                (CHANNEL_MAGIC, 15, "header.size is 15"),
            ] {
                let desc = channel([1, magic, said], 496, 1, product);
                channel_by_each(rank, product, &desc, |function, code, text, channel| {
                    assert_eq!(code, PARA, "{product}: {function}: {text}");
                    assert!(text.contains("channelDescs[0]") && text.contains(piece), "{text}");
                    assert_eq!(channel, 0);
                });
            }
        });
    }
}

const ENDPOINT_CHANNEL_MAGIC: u32 = 0x0fcf_0f0f;

/// Returns the HCCS endpoint of a device.
fn endpoint_of(device: i32) -> EndpointDesc {
    let mut count = 0;
    issue!(HcommEndpointGetDescNum(device, &mut count));
    let mut all = vec![EndpointDesc::default(); count as usize];
    issue!(HcommEndpointGetDescs(device, &mut count, all.as_mut_ptr()));
    all.into_iter().find(|one| one.protocol == HCCS).unwrap()
}

/// Makes a channel between endpoints, once by each function that takes an `HcommChannelDesc`. The
/// description has this header, this size and this pointer to the name. Calls `then` with the name
/// of the function, its result, the error text and the channel.
fn endpoint_channel_by_each(
    (own, other): (EndpointHandle, &EndpointDesc),
    header: [u32; 3],
    (size, name): (usize, *const c_void),
    mut then: impl FnMut(&str, i32, String, ChannelHandle),
) {
    // SAFETY: the struct consists of plain data, and is read as its bytes.
    let to: &[u8; 160] = unsafe { &*std::ptr::from_ref(other).cast() };
    let (notifies, none, name) = (2u32.to_ne_bytes(), [0; 12], name.addr().to_ne_bytes());
    let mut fields: Vec<(usize, &[u8])> = vec![(16, to), (176, &notifies), (180, &[0])];
    // The channel has no memory and no socket, and any role and port.
    fields.extend([(184, &none[..]), (200, &none[..8]), (208, &UNSET[..]), (212, &none[..2])]);
    fields.extend((size >= 348).then_some((344, &UNSET[..])));
    fields.extend((size >= 360).then_some((352, &name[..])));
    let desc = Laid::with_header(header, size, &fields);
    let mut config = null_mut();
    issue!(HcommChannelConfigCreate(&mut config));
    let mut one = |function, create: &dyn Fn(&mut ChannelHandle) -> i32| {
        let mut channel = 0;
        let _ = common::message();
        let code = create(&mut channel);
        then(function, code, common::message(), channel);
        if channel != 0 {
            issue!(HcommChannelDestroy(&channel, 1));
        }
    };
    one("HcommChannelCreate", &|to| call!(HcommChannelCreate(own, CPU, desc.at(), 1, to)));
    one("HcommChannelCreateWithConfig", &|to| {
        call!(HcommChannelCreateWithConfig(own, CPU, desc.at(), 1, config, to))
    });
    issue!(HcommChannelConfigDestroy(config));
}

#[test]
fn a_channel_between_endpoints_is_described_in_each_version_to_each_function() {
    let block = Block::with(block(3, 2));
    ok!(aclrtSetDevice(block.first));
    let (own, other) = (endpoint_of(block.first), endpoint_of(block.first + 1));
    let mut endpoint = null_mut();
    issue!(HcommEndpointCreate(&own, &mut endpoint));
    let ends = (endpoint, &other);
    let (name, junk): (*const c_void, _) = (c"named".as_ptr().cast(), [JUNK; 8]);
    let junk = usize::from_ne_bytes(junk) as *const c_void;
    for (version, size, said, name) in [
        (0, 344, 344, junk),
        (1, 344, 344, junk),
        (2, 352, 352, junk),
        // Before version 4 the field of the name is junk.
        (3, 360, 360, junk),
        (4, 360, 360, name),
        (4, 360, 360, null()),
        // The struct ends within the pointer to the name.
        (4, 360, 356, junk),
        (4, 360, 359, junk),
        (5, 360 + 64, 360 + 64, name),
        (u32::MAX, 360, u32::MAX, name),
    ] {
        let header = [version, ENDPOINT_CHANNEL_MAGIC, said];
        endpoint_channel_by_each(ends, header, (size, name), |function, code, text, channel| {
            assert_eq!(code, 0, "{function}, version {version}, {said} bytes: {text}");
            assert_ne!(channel, 0);
        });
    }
    for (magic, said, piece) in [
        (0, 360, "magic word"),
        (CHANNEL_MAGIC, 360, "magic word"),
        (ENDPOINT_CHANNEL_MAGIC, 0, "header.size is 0"),
        (ENDPOINT_CHANNEL_MAGIC, 15, "header.size is 15"),
    ] {
        let header = [4, magic, said];
        endpoint_channel_by_each(ends, header, (360, name), |function, code, text, channel| {
            assert_eq!(code, PARA.0 as i32, "{function}: {text}");
            assert!(text.contains("channelDescs[0]") && text.contains(piece), "{text}");
            assert_eq!(channel, 0);
        });
    }
    issue!(HcommEndpointDestroy(endpoint));
}

#[test]
fn of_the_header_of_a_thread_configuration_only_the_magic_word_counts() {
    const MAGIC: u32 = 0x0f0f_0f2f;
    let ts = ThreadType::THREAD_TYPE_TS;
    for product in PRODUCTS {
        on_product(product, 1, |rank| {
            for (version, said) in [(1, 32), (0, 0), (1, 16), (9, 4096), (u32::MAX, u32::MAX)] {
                let notifies = 3u16.to_ne_bytes();
                let config = Laid::with_header([version, MAGIC, said], 32, &[(16, &notifies)]);
                let (mut thread, from) = (0, config.at());
                hccl!(HcclThreadAcquireWithConfig(rank.comm, CPU, 1, ts, from, &mut thread));
                not_issued!(
                    HCCL_E_PTR,
                    ["notify 3", "which has 3"],
                    HcommThreadNotifyWaitOnThread(thread, 3, LONG)
                );
            }
            for magic in [0, CHANNEL_MAGIC] {
                let config = Laid::with_header([1, magic, 32], 32, &[(16, &[3, 0])]);
                let (mut thread, from) = (0, config.at());
                refuses!(
                    HCCL_E_PARA,
                    ["magic word of config[0]"],
                    HcclThreadAcquireWithConfig(rank.comm, CPU, 1, ts, from, &mut thread)
                );
                assert_eq!(thread, 0);
            }
        });
    }
}

/// Returns the header of the current release, and headers that no release writes.
fn headers(magic: u32, size: u32) -> [[u32; 3]; 5] {
    [[1, magic, size], [0; 3], [u32::MAX; 3], [1, magic, 0], [9, !magic, size + 64]]
}

#[test]
fn the_header_of_a_team_is_not_looked_at() {
    on_product(950, 2, |rank| {
        let ranks = [0u32, 1];
        let list = ranks.as_ptr().addr().to_ne_bytes();
        let (two, unset, own) = (2u32.to_ne_bytes(), UNSET, rank.rank.to_ne_bytes());
        let ctp = UB_CTP.0.to_ne_bytes();
        let (mut engine, count) = (AICPU.0.to_ne_bytes().to_vec(), 1u32.to_ne_bytes());
        engine.extend([two, ctp, count].concat());
        for (header, of_channels) in
            headers(0x0fcf_0f14, 88).into_iter().zip(headers(0x0fcf_0f15, 48))
        {
            let fields: [(usize, &[u8]); 6] =
                [(16, &list), (24, &two), (28, &own), (32, &unset), (36, &unset), (40, &[0; 32])];
            let desc = Laid::with_header(header, 88, &fields);
            let (mut world, mut sub) = (null_mut(), null_mut());
            hccl!(HcclWorldTeamCreate(rank.comm, desc.at(), &mut world));
            hccl!(HcclSubTeamCreate(world, desc.at(), &mut sub));
            let channels = Laid::with_header(of_channels, 48, &[(16, &engine)]);
            hccl!(HcclTeamChannelsCreate(rank.comm, sub, channels.at()));
            hccl!(HcclTeamDestroy(sub));
            hccl!(HcclTeamDestroy(world));
        }
    });
}

#[test]
fn a_launch_of_an_operator_is_unsupported_whatever_its_headers_say() {
    on_product(3, 1, |rank| {
        for (of_operator, of_launch) in headers(CHANNEL_MAGIC, 360).into_iter().zip(headers(0, 0)) {
            let operator = Laid::with_header(of_operator, 360, &[]);
            let launch = Laid::with_header(of_launch, 128, &[]);
            let (operator, launch) = (operator.at(), launch.at());
            refuses!(
                HCCL_E_NOT_SUPPORT,
                ["HcclAicpuKernelLaunch"],
                HcclAicpuKernelLaunch(rank.comm, operator, null(), 0, rank.stream, launch)
            );
        }
    });
}
