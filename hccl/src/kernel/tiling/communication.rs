//! Functions that fill the communication structs of a tiling struct, and that check structs which
//! were filled elsewhere.

use std::hash::{DefaultHasher, Hash, Hasher};

use ascend_program::layout::{Communication, Layout, Role};

use super::built_in::{A2_FAMILY, CC_BYTES, CC_VERSION, INIT_VERSION};
use super::{Mc2InitTiling, Tiling, TilingError};
use crate::Result;
use crate::error::product::Product;

fn problem(layout: &Layout, problem: String) -> TilingError {
    TilingError::Communication { tiling: layout.path().into(), problem: problem.into() }
}

/// Writes the `Mc2InitTiling` of a tiling struct, and an `Mc2CcTiling` for each of `members`.
/// `init` makes the `Mc2InitTiling` from the offsets of the members in bytes.
pub(super) fn write<T: Tiling>(
    tiling: &mut T,
    init: impl FnOnce(&[u32]) -> [u8; 64],
    members: &[[u8; CC_BYTES]],
) -> std::result::Result<(), TilingError> {
    let layout = T::LAYOUT;
    if layout.role != Role::User {
        return Err(problem(layout, "fill the whole struct that contains this one".to_owned()));
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
        let were = if given == 1 { "configuration was" } else { "configurations were" };
        let text =
            format!("{given} {were} given, but it has {there} `Mc2CcTiling`: add a field for each");
        return Err(problem(layout, text));
    }
    // The cast keeps the offsets: they are below the size of the struct, which was checked at
    // compile time.
    let offsets: Vec<u32> = places[..given].iter().map(|&place| place as u32).collect();
    let init = init(&offsets);
    // SAFETY: the slice covers the bytes of the struct, which is borrowed exclusively. The writes
    // go to the offsets that `LAYOUT` gives for an `Mc2InitTiling` and for the beginnings of
    // `Mc2CcTiling`s. Every byte pattern of both structs is a valid value.
    let bytes =
        unsafe { std::slice::from_raw_parts_mut((&raw mut *tiling).cast::<u8>(), size_of::<T>()) };
    bytes[..init.len()].copy_from_slice(&init);
    for (&place, member) in places.iter().zip(members) {
        bytes[place as usize..][..CC_BYTES].copy_from_slice(member);
    }
    Ok(())
}

/// Checks that a tiling struct can be used for a launch: its fields are within their ranges. For a
/// kernel with a client, also checks that the parts that the server reads were filled for
/// `product`.
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
                "its `Mc2InitTiling` was filled for {of}, but the device is of the product {product:?}: \
                 pass that product to `Mc2InitTilingConfig::builder().product(..)`"
            );
            Err(problem(T::LAYOUT, text).into())
        }
        _ => Ok(()),
    }
}

/// Checks that the communication structs in a tiling struct were filled for its layout. Accepts
/// every struct without an `Mc2InitTiling`, and CANN's own structs. `bytes` must have the size of
/// the layout.
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
            format!(
                "its `Mc2InitTiling` has version {version}, but `hccl` reads version {INIT_VERSION}: fill it with this release of `hccl`"
            )
        };
        return Err(problem(layout, text));
    }
    let places = communication.cc_tilings();
    if count as usize > places.len() {
        let there = places.len();
        let text = format!(
            "its `Mc2InitTiling` counts {count} `Mc2CcTiling`, but the struct has {there}: compare the layouts of both sides"
        );
        return Err(problem(layout, text));
    }
    for offset in init.offsets() {
        if !places.contains(&u64::from(offset)) {
            let text = format!(
                "its `Mc2InitTiling` has an `Mc2CcTiling` at offset {offset}, but here they are at {places:?}\n\
                 The other side has another layout, perhaps with an `Mc2CcTiling` of another \
                 release of CANN. Use the same struct on both sides."
            );
            return Err(problem(layout, text));
        }
        let version = bytes[offset as usize + 3];
        if version != CC_VERSION {
            let text = format!(
                "the `Mc2CcTiling` at offset {offset} has version {version}, but `hccl` reads version {CC_VERSION}: fill it with this release of `hccl`"
            );
            return Err(problem(layout, text));
        }
    }
    Ok(())
}

/// Returns a number that stands for the links which a kernel with this tiling struct needs. Tiling
/// structs with equal `Mc2CcTiling`s have the same number. [`ready`] must have accepted the struct.
pub(in crate::kernel) fn way_of(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for offset in Mc2InitTiling::read(bytes).offsets() {
        bytes.get(offset as usize..).and_then(|rest| rest.get(..CC_BYTES)).hash(&mut hasher);
    }
    hasher.finish()
}
