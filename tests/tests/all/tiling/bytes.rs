//! Conversion from and to bytes: every value survives, and bytes that no struct can have are
//! refused.

use hccl::Error;
use hccl::kernel::tiling::{Item, Layout, Number, TilingError};
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, TCubeTiling, Tiling};

use crate::tiling::structs::{AllToAll, Everything, Fused, Older, Part, Sample, Shape};

/// The number of random structs of each kind.
const TRIES: usize = 500;

/// Marks the bytes that belong to bools.
fn bools(layout: &Layout, base: usize, marks: &mut [bool]) {
    for field in layout.fields() {
        let start = base + field.offset as usize;
        match &field.item {
            Item::Number(Number::Bool) => marks[start..start + field.count() as usize].fill(true),
            Item::Number(_) => {}
            Item::Struct(inner) => {
                for n in 0..field.count() as usize {
                    bools(inner, start + n * inner.size as usize, marks);
                }
            }
        }
    }
}

#[test]
fn any_bytes_come_back_as_they_were() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut marks = vec![false; size_of::<Everything>()];
    bools(Everything::LAYOUT, 0, &mut marks);
    assert_eq!(marks.iter().filter(|&&mark| mark).count(), 4 + 5);
    for _ in 0..TRIES {
        // The bytes begin at every alignment.
        let start = random.usize(..8);
        let mut bytes = vec![0; start + marks.len()];
        random.fill(&mut bytes);
        let bytes = &mut bytes[start..];
        for (byte, _) in bytes.iter_mut().zip(&marks).filter(|(_, mark)| **mark) {
            *byte &= 1;
        }
        let read = Everything::from_bytes(bytes).unwrap();
        assert_eq!(read.as_bytes(), bytes);

        let bools = marks.iter().enumerate().filter(|(_, mark)| **mark).map(|(at, _)| at);
        let at = random.choice(bools.collect::<Vec<_>>()).unwrap();
        let no_bool = random.u8(2..);
        bytes[at] = no_bool;
        let error = Everything::from_bytes(bytes).err().expect("that is no bool");
        let is_it = |error: &Error| matches!(error, Error::Tiling(TilingError::NotBool { offset, found, .. }) if (*offset, *found) == (at, no_bool));
        assert!(is_it(&error), "{error}");
    }
}

#[test]
fn any_values_come_back_as_they_were() {
    fn of<T: Sample>(random: &mut fastrand::Rng) {
        for _ in 0..TRIES {
            let mut tiling = T::zeroed();
            tiling.fill();
            tiling.set(|| random.u64(..));
            let read = T::from_bytes(tiling.as_bytes()).unwrap();
            assert_eq!(read.bits(), tiling.bits());
            assert_eq!(read.as_bytes(), tiling.as_bytes());
        }
    }
    let mut random = fastrand::Rng::with_seed(2);
    of::<AllToAll>(&mut random);
    of::<Everything>(&mut random);
    of::<Fused>(&mut random);
    of::<Older>(&mut random);
}

#[test]
fn another_number_of_bytes_is_refused() {
    fn of<T: Tiling>() {
        let size = size_of::<T>();
        assert_eq!(T::zeroed().as_bytes(), vec![0; size]);
        for other in [0, 1, size - 1, size + 1] {
            let error = T::from_bytes(&vec![0; other]).err().expect("it is another size");
            assert!(
                matches!(error, Error::Tiling(TilingError::WrongSize { expected, found, .. }) if (expected, found) == (size, other)),
                "{error}"
            );
        }
    }
    of::<Everything>();
    of::<Mc2InitTiling>();
    of::<Mc2CcTiling>();
    of::<Mc2CcTiling<280>>();
    of::<TCubeTiling>();
}

#[test]
fn setters_keep_to_the_range() {
    let mut shape = Shape { rank_dim: 1, scale: 0.0, lengths: [0; 2] };
    for refused in [0, 65, u32::MAX] {
        let text = shape.set_rank_dim(refused).err().unwrap().to_string();
        let rule = "but it must lie in 1..=MOST_RANKS as u32";
        assert_eq!(text, format!("Shape: `rank_dim` is {refused}, {rule}"));
        assert_eq!(shape.rank_dim, 1);
    }
    shape.set_rank_dim(64).unwrap().set_lengths([1, (1 << 40) - 1]).unwrap();
    assert_eq!((shape.rank_dim, shape.lengths), (64, [1, (1 << 40) - 1]));
    assert!(shape.set_lengths([0, 1 << 40]).is_err());
    assert_eq!(shape.lengths, [1, (1 << 40) - 1]);
}

#[test]
fn ranges_hold_for_bytes_too_however_deep() {
    let mut fused = Fused::zeroed();
    fused.fill();
    Fused::from_bytes(fused.as_bytes()).unwrap();
    fused.shape.lengths[1] = 1 << 40;
    let error = fused.check().unwrap_err();
    let text = "Shape: `lengths` is 1099511627776, but it must lie in ..1<<40";
    assert_eq!(error.to_string(), text);
    assert_eq!(Fused::from_bytes(fused.as_bytes()).err().unwrap().to_string(), text);
}

#[test]
fn the_offsets_of_communication_members_are_constants() {
    const OFFSET: u64 = AllToAll::ALL_TO_ALL_OFFSET;
    assert_eq!((OFFSET, AllToAll::CC_TILINGS), (64, &[64][..]));
    assert_eq!(Fused::ALL_GATHER_OFFSET, 64);
    assert_eq!(Fused::CC_TILINGS, [64, 576, 1088]);
    assert_eq!((Older::ALL_REDUCE_OFFSET, Older::CC_TILINGS), (64, &[64][..]));
    assert_eq!(std::mem::offset_of!(Older, turns), 344);
    assert!(Everything::CC_TILINGS.is_empty());
}

#[test]
fn the_hash_is_of_the_layout_and_nothing_else() {
    use std::borrow::Cow;
    // The hash is the same in every build and on every machine.
    const HASH: u64 = Part::LAYOUT_HASH;
    assert_eq!(HASH, 2_499_091_028_370_584_976);
    let mut hashes = vec![HASH];
    let mut other = |change: &dyn Fn(&mut Layout)| {
        let mut layout = Part::LAYOUT.clone();
        change(&mut layout);
        hashes.push(layout.hash());
    };
    other(&|layout| layout.name = "Parts".into());
    other(&|layout| layout.namespace = "tests".into());
    other(&|layout| layout.size = 16);
    other(&|layout| layout.align = 8);
    other(&|layout| layout.fields.to_mut()[0].name = "row".into());
    other(&|layout| layout.fields.to_mut()[1].offset = 5);
    other(&|layout| layout.fields.to_mut()[0].item = Item::Number(Number::I32));
    other(&|layout| layout.fields.to_mut()[0].lengths = Cow::Owned(vec![1]));
    other(&|layout| layout.fields.to_mut()[2].lengths = Cow::Owned(vec![1, 3]));
    other(&|layout| layout.fields.to_mut()[0].item = Item::Struct(Cow::Borrowed(Part::LAYOUT)));
    other(&|layout| drop(layout.fields.to_mut().pop()));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "two of them are the same");
    assert_eq!(Part::LAYOUT.clone().hash(), HASH);
}
