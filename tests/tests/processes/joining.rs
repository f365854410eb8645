//! Whatever the order of joining, there is one connection between two processes, and messages
//! arrive in order.

use hccl::prelude::*;

use crate::ranks::{Place, host_and_guests, is_rank, run};

pub fn sums(place: &Place, mut comm: Communicator) {
    let stream = place.device.stream().unwrap();
    let mut x = place.device.upload(&[place.rank as i32; 1000], &stream).unwrap();
    comm.all_reduce_in_place(&mut x, Sum, &stream).unwrap().wait().unwrap();
    let sum: i32 = (0..place.ranks as i32).sum();
    assert_eq!(x.to_vec(&stream).wait().unwrap(), [sum; 1000]);
}

#[test]
fn two_threads_that_come_to_a_process_with_ranks_at_once_come_by_one_way() {
    const NAME: &str =
        "joining::two_threads_that_come_to_a_process_with_ranks_at_once_come_by_one_way";
    let body = |place: Place| sums(&place, place.communicator());
    if is_rank(body) {
        std::process::exit(0);
    }
    for round in 0..5 {
        for output in host_and_guests(NAME, 2) {
            assert!(
                output.status.success(),
                "{round}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}

#[test]
fn two_communicators_that_are_made_at_once_in_opposite_orders_are_made() {
    const NAME: &str =
        "joining::two_communicators_that_are_made_at_once_in_opposite_orders_are_made";
    for _ in 0..5 {
        run(NAME, &[1, 1], |place| {
            let mut roots = [place.root(), place.root()];
            let is_odd = place.rank == 1;
            if is_odd {
                roots.reverse();
            }
            let begin = |root: &RootInfo| {
                let builder = Communicator::builder().device(&place.device).rank(place.rank);
                builder.world_size(2).root_info(root).build()
            };
            let begun = roots.each_ref().map(begin);
            let mut made = begun.map(|pending| pending.wait().unwrap());
            if is_odd {
                made.reverse();
            }
            made.into_iter().for_each(|comm| sums(&place, comm));
        });
    }
}
