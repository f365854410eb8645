//! Tests of teams: their possible members, and the windows that belong to them.

use ascend_emulator_testing::common::{self, Block};
use ascend_emulator_testing::operator::{self, on_product};
use ascend_emulator_testing::ranks::{Rank, on_block};
use ascend_emulator_testing::{hccl, ok, refuses};
use ascend_sys::*;
use std::ptr::{null, null_mut};

/// Returns a description like the one that `HcclTeamCreateDescInit` makes, with these ranks.
fn describe(ranks: &[u32]) -> HcclTeamCreateDesc {
    HcclTeamCreateDesc {
        header: CommAbiHeader { version: 1, magicWord: 0x0fcf_0f14, size: 88, reserved: 0 },
        rankIds: if ranks.is_empty() { null() } else { ranks.as_ptr() },
        rankNum: ranks.len() as u32,
        selfRankId: u32::MAX,
        netLayer: u32::MAX,
        protocol: CommProtocol::COMM_PROTOCOL_RESERVED,
        requirement: HcommTeamSyncMemRequirement::default(),
        reserved: [0; 4],
    }
}

fn on(product: u32, ranks: u32, run: impl Fn(&mut Rank) + Sync) {
    let config = AscendExtBlockConfig { deviceCount: ranks, product, ..Block::config() };
    on_block(AscendExtBlockConfig { memoryBytes: 1 << 24, ..config }, |rank| {
        rank.join();
        run(rank);
        hccl!(HcclCommDestroy(rank.comm));
    });
}

fn world(comm: HcclComm) -> HcommTeamHandle {
    let mut team = null_mut();
    hccl!(HcclWorldTeamCreate(comm, &describe(&[]), &mut team));
    assert!(!team.is_null());
    team
}

#[test]
fn a_world_team_has_all_ranks_and_sub_teams_some() {
    for product in [2, 3, 950] {
        on(product, 4, |rank| {
            let (comm, mut named, mut sub) = (rank.comm, null_mut(), null_mut());
            let all = world(comm);
            hccl!(HcclWorldTeamCreate(comm, &describe(&[0, 1, 2, 3]), &mut named));
            let said = "has all 4 ranks";
            for wrong in [&[0, 1][..], &[1, 0, 2, 3]] {
                let wish = describe(wrong);
                refuses!(HCCL_E_PARA, [said], HcclWorldTeamCreate(comm, &wish, &mut sub));
            }
            let (wish, said) = (describe(&[0, 1, 2, 3, 4]), "rankNum is 5");
            refuses!(HCCL_E_PARA, [said], HcclWorldTeamCreate(comm, &wish, &mut sub));
            let half: Vec<u32> = (0..4).filter(|other| other % 2 == rank.rank % 2).collect();
            let mut wish = describe(&half);
            wish.selfRankId = rank.rank;
            hccl!(HcclSubTeamCreate(all, &wish, &mut sub));
            let said = "only the world team";
            let mut none = null_mut();
            refuses!(HCCL_E_PARA, [said], HcclSubTeamCreate(sub, &wish, &mut none));
            refuses!(HCCL_E_PARA, ["still has the sub-team"], HcclTeamDestroy(all));
            hccl!(HcclTeamDestroy(sub));
            refuses!(HCCL_E_PARA, ["the team", "is gone"], HcclTeamDestroy(sub));
            hccl!(HcclTeamDestroy(all));
            hccl!(HcclTeamDestroy(named));
        });
    }
}

#[test]
fn ranks_that_cannot_be_a_sub_team_are_refused() {
    on(3, 3, |rank| {
        let (all, me, mut sub) = (world(rank.comm), rank.rank, null_mut());
        let other = (me + 1) % 3;
        let cases = [
            (&[][..], "rankNum is 0"),
            (&[me, 3], "3 is not a rank of the communicator"),
            (&[me, other, me], "is in rankIds twice"),
            (&[other], "which makes this call"),
        ];
        for (list, piece) in cases {
            let wish = describe(list);
            refuses!(HCCL_E_PARA, [piece], HcclSubTeamCreate(all, &wish, &mut sub));
        }
        let list = [me];
        let wish = HcclTeamCreateDesc { selfRankId: other, ..describe(&list) };
        refuses!(HCCL_E_PARA, ["selfRankId"], HcclSubTeamCreate(all, &wish, &mut sub));
    });
}

#[test]
fn a_team_lies_on_the_layer_and_protocol_that_it_names() {
    const HCCS: CommProtocol = CommProtocol::COMM_PROTOCOL_HCCS;
    const ROCE: CommProtocol = CommProtocol::COMM_PROTOCOL_ROCE;
    // The nine ranks are on two servers.
    on(2, 9, |rank| {
        let (comm, mut team) = (rank.comm, null_mut());
        let wish =
            |layer, protocol| HcclTeamCreateDesc { netLayer: layer, protocol, ..describe(&[]) };
        let none = CommProtocol::COMM_PROTOCOL_RESERVED;
        for right in [wish(1, ROCE), wish(1, none), wish(u32::MAX, HCCS)] {
            hccl!(HcclWorldTeamCreate(comm, &right, &mut team));
        }
        let wrong = [
            (wish(0, none), "different instances of layer 0"),
            (wish(2, none), "no layer 2"),
            (wish(1, HCCS), "no link of the protocol 0 on layer 1"),
            (wish(u32::MAX, CommProtocol::COMM_PROTOCOL_UB_CTP), "on any layer"),
        ];
        for (wish, piece) in wrong {
            refuses!(HCCL_E_PARA, [piece], HcclWorldTeamCreate(comm, &wish, &mut team));
        }
        if rank.rank < 8 {
            let server: Vec<u32> = (0..8).collect();
            let mut sub = null_mut();
            let wish = HcclTeamCreateDesc { netLayer: 0, protocol: HCCS, ..describe(&server) };
            hccl!(HcclSubTeamCreate(team, &wish, &mut sub));
        }
    });
}

#[test]
fn windows_are_memory_that_a_world_team_knows() {
    on(3, 2, |rank| {
        let (comm, all) = (rank.comm, world(rank.comm));
        let (mut window, mut second, mut sub) = (null_mut(), null_mut(), null_mut());
        let memory = CommMem {
            type_: CommMemType::COMM_MEM_TYPE_DEVICE,
            addr: rank.upload(&[0; 64]),
            size: 64,
        };
        hccl!(HcclTeamWindowRegister(comm, all, &memory, &mut window, 1));
        hccl!(HcclTeamWindowRegister(comm, all, &memory, &mut second, 0));
        assert_ne!(window, second);
        refuses!(
            HCCL_E_PARA,
            ["flag is 2"],
            HcclTeamWindowRegister(comm, all, &memory, &mut window, 2)
        );
        let longer = CommMem { size: 65, ..memory };
        refuses!(
            HCCL_E_PARA,
            ["localMem->addr", "beyond the end"],
            HcclTeamWindowRegister(comm, all, &longer, &mut window, 1)
        );
        let empty = CommMem { size: 0, ..memory };
        refuses!(
            HCCL_E_PARA,
            ["localMem->size is 0"],
            HcclTeamWindowRegister(comm, all, &empty, &mut window, 1)
        );
        let list = [rank.rank];
        hccl!(HcclSubTeamCreate(all, &describe(&list), &mut sub));
        refuses!(
            HCCL_E_PARA,
            ["only the world team"],
            HcclTeamWindowRegister(comm, sub, &memory, &mut window, 1)
        );
        hccl!(HcclTeamDestroy(sub));
        let other = world(comm);
        refuses!(HCCL_E_PARA, ["another team"], HcclTeamWindowDeregister(other, window));
        refuses!(HCCL_E_PARA, ["still has the window"], HcclTeamDestroy(all));
        hccl!(HcclTeamWindowDeregister(all, window));
        refuses!(HCCL_E_PARA, ["is gone"], HcclTeamWindowDeregister(all, window));
        hccl!(HcclTeamWindowDeregister(all, second));
        hccl!(HcclTeamDestroy(all));
    });
}

#[test]
fn a_team_belongs_to_one_rank_of_its_communicator_and_ends_with_it() {
    let block = Block::new(2);
    let (mut devices, mut comms) = ([block.first, block.first + 1], [null_mut(); 2]);
    ok!(aclrtSetDevice(block.first));
    hccl!(HcclCommInitAll(2, devices.as_mut_ptr(), comms.as_mut_ptr()));
    let (all, mut window) = (world(comms[0]), null_mut());
    let memory = CommMem { type_: CommMemType(0), addr: common::malloc(64), size: 64 };
    refuses!(
        HCCL_E_PARA,
        ["belongs to rank 0", "not to rank 1"],
        HcclTeamWindowRegister(comms[1], all, &memory, &mut window, 1)
    );
    hccl!(HcclTeamWindowRegister(comms[0], all, &memory, &mut window, 1));
    hccl!(HcclCommDestroy(comms[0]));
    refuses!(HCCL_E_PARA, ["the team", "is gone"], HcclTeamDestroy(all));
    hccl!(HcclCommDestroy(comms[1]));
}

#[test]
fn nothing_is_refused_by_its_name() {
    on(950, 1, |rank| {
        let (comm, all, wish) = (rank.comm, world(rank.comm), describe(&[]));
        let (mut team, mut window) = (null_mut(), null_mut());
        let memory = CommMem { type_: CommMemType(0), addr: rank.upload(&[0; 64]), size: 64 };
        let none = HcclTeamCreateDesc { rankNum: 1, ..wish };
        let at = null_mut();
        refuses!(HCCL_E_PTR, ["comm"], HcclWorldTeamCreate(at, &wish, &mut team));
        refuses!(HCCL_E_PTR, ["desc"], HcclWorldTeamCreate(comm, null(), &mut team));
        refuses!(HCCL_E_PTR, ["desc->rankIds"], HcclWorldTeamCreate(comm, &none, &mut team));
        refuses!(HCCL_E_PTR, ["worldTeam"], HcclWorldTeamCreate(comm, &wish, null_mut()));
        refuses!(HCCL_E_PTR, ["worldTeam"], HcclSubTeamCreate(null_mut(), &wish, &mut team));
        refuses!(HCCL_E_PTR, ["desc"], HcclSubTeamCreate(all, null(), &mut team));
        refuses!(HCCL_E_PTR, ["argument team"], HcclSubTeamCreate(all, &wish, null_mut()));
        refuses!(HCCL_E_PTR, ["argument team"], HcclTeamDestroy(null_mut()));
        let to = &raw mut window;
        refuses!(HCCL_E_PTR, ["comm"], HcclTeamWindowRegister(at, all, &memory, to, 1));
        refuses!(
            HCCL_E_PTR,
            ["worldTeam"],
            HcclTeamWindowRegister(comm, null_mut(), &memory, to, 1)
        );
        refuses!(HCCL_E_PTR, ["localMem"], HcclTeamWindowRegister(comm, all, null(), to, 1));
        refuses!(HCCL_E_PTR, ["window"], HcclTeamWindowRegister(comm, all, &memory, null_mut(), 1));
        refuses!(HCCL_E_PTR, ["worldTeam"], HcclTeamWindowDeregister(null_mut(), window));
        refuses!(HCCL_E_PTR, ["window"], HcclTeamWindowDeregister(all, null_mut()));
        let made_up = 0x1000 as HcommTeamHandle;
        refuses!(HCCL_E_PARA, ["not the handle of any team"], HcclTeamDestroy(made_up));
        refuses!(
            HCCL_E_PARA,
            ["not the handle of any window"],
            HcclTeamWindowDeregister(all, made_up)
        );
    });
}

fn query(rank: &Rank, peer: u32, link: &CommLink) -> HcclResult {
    let mut desc = HcclChannelDesc::unset();
    (desc.remoteRank, desc.notifyNum) = (peer, 2);
    desc.channelProtocol = link.srcEndpointDesc.protocol;
    (desc.localEndpoint, desc.remoteEndpoint) = (link.srcEndpointDesc, link.dstEndpointDesc);
    let (descs, mut channels) = ([desc; 2], [0; 2]);
    let engine = CommEngine::COMM_ENGINE_AICPU;
    hccl!(HcclChannelQuery(rank.comm, engine, descs.as_ptr(), 2, channels.as_mut_ptr()));
    assert!(!channels.contains(&0) && channels[0] != channels[1], "{channels:?}");
    HcclResult::HCCL_SUCCESS
}

#[test]
fn the_channels_of_a_team_are_found_by_a_query() {
    on_product(950, 3, |rank| {
        let (comm, mut sub) = (rank.comm, null_mut());
        let all = world(comm);
        let mut channels = HcclTeamCreateChannelsDesc {
            header: CommAbiHeader { version: 1, magicWord: 0x0fcf_0f15, size: 48, reserved: 0 },
            engine: CommEngine::COMM_ENGINE_AICPU,
            notifyNum: 2,
            protocol: CommProtocol::COMM_PROTOCOL_UB_CTP,
            channelCnt: 2,
            reserved: [0; 4],
        };
        if rank.rank == 1 {
            // Rank 1 is not in the team of the other ranks, so it makes no calls.
            return;
        }
        hccl!(HcclSubTeamCreate(all, &describe(&[2, 0]), &mut sub));
        hccl!(HcclTeamChannelsCreate(comm, sub, &channels));
        let (mut links, mut count, peer) = (null_mut(), 0, 2 - rank.rank);
        hccl!(HcclRankGraphGetLinks(comm, 0, rank.rank, peer, &mut links, &mut count));
        // SAFETY: the library has returned the address of the links.
        query(rank, peer, unsafe { &*links });
        channels.channelCnt = 0;
        refuses!(HCCL_E_PARA, ["channelCnt is 0"], HcclTeamChannelsCreate(comm, sub, &channels));
        (channels.channelCnt, channels.notifyNum) = (1, 65);
        refuses!(HCCL_E_PARA, ["notifyNum is 65"], HcclTeamChannelsCreate(comm, sub, &channels));
        (channels.notifyNum, channels.protocol) = (2, CommProtocol::COMM_PROTOCOL_HCCS);
        refuses!(HCCL_E_PARA, ["over HCCS"], HcclTeamChannelsCreate(comm, sub, &channels));
        channels.protocol = CommProtocol::COMM_PROTOCOL_RESERVED;
        refuses!(HCCL_E_PARA, ["name a protocol"], HcclTeamChannelsCreate(comm, sub, &channels));
        channels.engine = CommEngine(7);
        refuses!(HCCL_E_PARA, ["engine"], HcclTeamChannelsCreate(comm, sub, &channels));
        refuses!(HCCL_E_PTR, ["comm"], HcclTeamChannelsCreate(null_mut(), sub, &channels));
        refuses!(HCCL_E_PTR, ["team"], HcclTeamChannelsCreate(comm, null_mut(), &channels));
        refuses!(HCCL_E_PTR, ["desc"], HcclTeamChannelsCreate(comm, sub, null()));
    });
}

#[test]
fn a_team_has_the_protocol_of_its_channels() {
    on_product(3, 2, |rank| {
        let (comm, mut all, mut channel) = (rank.comm, null_mut(), 0);
        let protocol = CommProtocol::COMM_PROTOCOL_HCCS;
        let wish = HcclTeamCreateDesc { protocol, ..describe(&[]) };
        hccl!(HcclWorldTeamCreate(comm, &wish, &mut all));
        let mut channels = HcclTeamCreateChannelsDesc {
            engine: CommEngine::COMM_ENGINE_CPU,
            notifyNum: 1,
            protocol: CommProtocol::COMM_PROTOCOL_RESERVED,
            channelCnt: 1,
            ..Default::default()
        };
        hccl!(HcclTeamChannelsCreate(comm, all, &channels));
        // The channel exists already, so the call returns although the other rank does not make it.
        if rank.rank == 0 {
            let desc = operator::desc(1, protocol, 1);
            hccl!(HcclChannelAcquire(comm, channels.engine, &desc, 1, &mut channel));
            assert_ne!(channel, 0);
        }
        channels.channelCnt = 2;
        refuses!(HCCL_E_NOT_SUPPORT, ["one channel"], HcclTeamChannelsCreate(comm, all, &channels));
    });
}
