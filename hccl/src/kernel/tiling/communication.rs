//! Filling the communication structs of a tiling struct, and checking those that come from
//! elsewhere.

use std::hash::{DefaultHasher, Hash, Hasher};

use ascend_program::layout::{Communication, Layout, Role};

use super::built_in::{A2_FAMILY, CC_BYTES, CC_VERSION, INIT_VERSION};
use super::{Mc2InitTiling, Tiling, TilingError};
use crate::Result;
use crate::error::product::Product;

fn problem(layout: &Layout, problem: String) -> TilingError {
    TilingError::Communication { tiling: layout.path().into(), problem: problem.into() }
}

/// Writes the `Mc2InitTiling` and these members into a tiling struct.
pub(super) fn write<T: Tiling>(
    tiling: &mut T,
    init: impl FnOnce(&[u32]) -> [u8; 64],
    members: &[[u8; CC_BYTES]],
) -> std::result::Result<(), TilingError> {
    let layout = T::LAYOUT;
    if layout.role != Role::User {
        return Err(problem(layout, "give the whole struct that this is a field of".to_owned()));
    }
    if !Communication::of(layout).has_init() {
        return Err(problem(
            layout,
            "there is no `Mc2InitTiling` in it: make one the first field of the struct".to_owned(),
        ));
    }
    let (places, given) = (T::CC_TILINGS, members.len());
    if given > places.len() {
        let there = places.len();
        let text = format!(
            "{given} configurations were given, but it has {there} `Mc2CcTiling`: add a field for each"
        );
        return Err(problem(layout, text));
    }
    // The places lie in the struct, whose size was checked when it was compiled.
    let offsets: Vec<u32> = places[..given].iter().map(|&place| place as u32).collect();
    let init = init(&offsets);
    // SAFETY: the bytes of the struct, which nobody else sees meanwhile. The writes are an
    // `Mc2InitTiling` where `LAYOUT` says that there is one, and the head of an `Mc2CcTiling` where
    // it says that there is one; every byte pattern of both is a value.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut((&raw mut *tiling).cast::<u8>(), size_of::<T>()) };
    bytes[..init.len()].copy_from_slice(&init);
    for (&place, member) in places.iter().zip(members) {
        bytes[place as usize..][..CC_BYTES].copy_from_slice(member);
    }
    Ok(())
}

/// Checks that a struct can be used for a launch: its ranges, and, for a kernel with a client, the
/// parts that the server reads.
pub(in crate::kernel) fn ready<T: Tiling>(
    tiling: &T,
    client: bool,
    product: Option<Product>,
) -> Result<()> {
    tiling.check()?;
    if !client {
        return Ok(());
    }
    let bytes = tiling.as_bytes();
    check(T::LAYOUT, bytes)?;
    let a2 = Mc2InitTiling::read(bytes).device_family() == A2_FAMILY;
    match product {
        Some(product) if a2 != (product == Product::A2) => {
            let of = if a2 { "the A2" } else { "a product other than the A2" };
            let text = format!(
                "its `Mc2InitTiling` was filled for {of}, and the device is of the product {product:?}: \
                 give that one to `Mc2InitTilingConfig::builder().product(..)`"
            );
            Err(problem(T::LAYOUT, text).into())
        }
        _ => Ok(()),
    }
}

/// Checks that the communication structs in these bytes, as many as the layout has, were filled for
/// this layout.
pub(super) fn check(layout: &Layout, bytes: &[u8]) -> std::result::Result<(), TilingError> {
    let communication = Communication::of(layout);
    if layout.role != Role::User || !communication.has_init() {
        return Ok(());
    }
    let init = Mc2InitTiling::read(bytes);
    let (version, count) = (init.version(), init.count());
    if version != INIT_VERSION {
        let text = if version == 0 {
            "its `Mc2InitTiling` was not filled: use `Mc2InitTilingConfig::fill`".to_owned()
        } else {
            format!("its `Mc2InitTiling` has version {version}, but {INIT_VERSION} is known here")
        };
        return Err(problem(layout, text));
    }
    let places = communication.cc_tilings();
    if count as usize > places.len() {
        let there = places.len();
        let text =
            format!("its `Mc2InitTiling` counts {count} `Mc2CcTiling`, but there are {there}");
        return Err(problem(layout, text));
    }
    for offset in init.offsets() {
        if !places.contains(&u64::from(offset)) {
            let text = format!(
                "its `Mc2InitTiling` has an `Mc2CcTiling` at offset {offset}, but here they are at {places:?}\n\
                 The other side has another layout, perhaps with an `Mc2CcTiling` of another release of CANN."
            );
            return Err(problem(layout, text));
        }
        let version = bytes[offset as usize + 3];
        if version != CC_VERSION {
            let text = format!(
                "the `Mc2CcTiling` at offset {offset} has version {version}, but {CC_VERSION} is known here"
            );
            return Err(problem(layout, text));
        }
    }
    Ok(())
}

/// Returns a number for the links that a kernel with this tiling struct needs: the same for all
/// that communicate alike. The struct was found to be [`ready`].
pub(in crate::kernel) fn way_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for offset in Mc2InitTiling::read(bytes).offsets() {
        bytes.get(offset as usize..).and_then(|rest| rest.get(..CC_BYTES)).hash(&mut hasher);
    }
    hasher.finish()
}
