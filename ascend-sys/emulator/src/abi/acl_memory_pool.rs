//! The entries for memory pools. Streams allocate and free the memory of a pool in stream order.
#![allow(non_snake_case, reason = "CANN's names")]

use super::acl_copy::may_reach;
use super::acl_memory::{end_exports, resolve};
use super::arguments::{Handle, In, Out};
use super::entries::{Acl, entries};
use crate::machine;
use crate::message::{Failure, fail};
use crate::stream::Stream;
use crate::stream_pool::{self, StreamPool};
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, ACL_ERROR_RT_PARAM_INVALID,
    aclrtMemAllocationType, aclrtMemHandleType, aclrtMemLocationType, aclrtMemPool,
    aclrtMemPoolAttr as Attr, aclrtMemPoolProps,
};
use std::ffi::c_void;

entries! {
    Acl;

    fn aclrtMemPoolCreate(mem_pool: Out<aclrtMemPool>, pool_props: In<aclrtMemPoolProps>) {
        let mem_pool = mem_pool.required("memPool")?;
        let properties = pool_props.required("poolProps")?;
        let device = device_of(properties)?;
        // With 0, the pool has no limit of its own, so the memory of the device is the limit.
        let most = if properties.maxSize == 0 { u64::MAX } else { properties.maxSize as u64 };
        let made = stream_pool::create(device, most);
        mem_pool.write(std::ptr::without_provenance_mut(made as usize));
        Ok(())
    }

    fn aclrtMemPoolDestroy(mem_pool: Handle<StreamPool>) {
        stream_pool::destroy(mem_pool.number())
    }

    fn aclrtMemPoolSetAttr(mem_pool: Handle<StreamPool>, attr: Attr, value: *mut c_void) {
        let value = AttributeValue::of(value)?;
        stream_pool::with(mem_pool.number(), |pool| {
            if let Some(place) = reuse_of(attr) {
                pool.reuse[place] = match value.flag() {
                    flag @ (0 | 1) => flag,
                    flag => return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "value is {flag}; pass 0 or 1"
                    ),
                };
                return Ok(());
            }
            let level = match attr {
                Attr::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD => {
                    pool.set_threshold(value.bytes());
                    return Ok(());
                }
                Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH => &mut pool.reserved,
                Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH => &mut pool.used,
                Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT
                | Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT => {
                    return fail!(
                        ACL_ERROR_RT_PARAM_INVALID,
                        "attr is {}, which can be queried but not set; read it with \
                         aclrtMemPoolGetAttr",
                        attr.0
                    );
                }
                _ => return no_attribute(attr),
            };
            let bytes = value.bytes();
            if bytes != 0 {
                return fail!(
                    ACL_ERROR_RT_PARAM_INVALID,
                    "value is {bytes}; pass 0, which resets the maximum"
                );
            }
            level.begin_anew();
            Ok(())
        })
    }

    fn aclrtMemPoolGetAttr(
        mem_pool: Handle<StreamPool>,
        attr: Attr,
        value: Out<u64, *mut c_void>,
    ) {
        let value = value.required("value")?;
        stream_pool::with(mem_pool.number(), |pool| {
            if let Some(place) = reuse_of(attr) {
                value.cast::<u32>().write(pool.reuse[place]);
                return Ok(());
            }
            value.write(match attr {
                Attr::ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD => pool.threshold(),
                Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT => pool.reserved.now,
                Attr::ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH => pool.reserved.high,
                Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT => pool.used.now,
                Attr::ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH => pool.used.high,
                _ => return no_attribute(attr),
            });
            Ok(())
        })
    }

    fn aclrtMemPoolMallocAsync(
        ptr: Out<*mut c_void>,
        size: usize,
        mem_pool: Handle<StreamPool>,
        stream: Handle<Stream>,
    ) {
        let ptr = ptr.required("ptr")?;
        if size == 0 {
            return fail!(ACL_ERROR_INVALID_PARAM, "size is 0; pass at least 1");
        }
        let stream = stream.find()?;
        let address = stream_pool::allocate(mem_pool.number(), size, stream, ENTRY)?;
        ptr.write(std::ptr::with_exposed_provenance_mut(address));
        Ok(())
    }

    fn aclrtMemPoolFreeAsync(ptr: *mut c_void, stream: Handle<Stream>) {
        if ptr.is_null() {
            return Err(Failure::null("ptr"));
        }
        let stream = stream.find()?;
        may_reach(stream, resolve(ptr, 1, "ptr")?.place)?;
        let address = ptr.addr();
        stream_pool::free(address, stream, |device| {
            end_exports(device, address)
                .map_err(|text| Failure::new(ACL_ERROR_RT_PARAM_INVALID, format!("ptr: {text}")))
        })
    }

    fn aclrtMemPoolTrimTo(mem_pool: Handle<StreamPool>, min_bytes_to_keep: usize) {
        stream_pool::with(mem_pool.number(), |pool| {
            pool.keep(min_bytes_to_keep as u64);
            Ok(())
        })
    }
}

/// Returns the device to whose memory a pool belongs. Checks the properties of the pool.
fn device_of(properties: &aclrtMemPoolProps) -> Result<&'static machine::Device, Failure> {
    let aclrtMemPoolProps { allocType, handleType, location, .. } = *properties;
    if allocType != aclrtMemAllocationType::ACL_MEM_ALLOCATION_TYPE_PINNED {
        return fail!(
            ACL_ERROR_RT_PARAM_INVALID,
            "poolProps has allocType {}; set 0 (PINNED)",
            allocType.0
        );
    }
    if handleType != aclrtMemHandleType::ACL_MEM_HANDLE_TYPE_NONE
        || location.type_ != aclrtMemLocationType::ACL_MEM_LOCATION_TYPE_DEVICE
    {
        return fail!(
            ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            "poolProps has handleType {} and a location of type {}; set handleType 0 and type 1, \
             because the emulator has only pools of device memory that are not exported",
            handleType.0,
            location.type_.0
        );
    }
    machine::find_device(i32::try_from(location.id).unwrap_or(-1))
}

/// Returns the index of an attribute among the flags for reuse; `None` for any other attribute.
fn reuse_of(attr: Attr) -> Option<usize> {
    match attr {
        Attr::ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES => Some(0),
        Attr::ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC => Some(1),
        Attr::ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES => Some(2),
        _ => None,
    }
}

fn no_attribute<T>(attr: Attr) -> Result<T, Failure> {
    fail!(ACL_ERROR_RT_PARAM_INVALID, "attr is {}; pass 1 to 8", attr.0)
}

/// The address of the value of an attribute. A flag has 4 bytes, an amount 8 bytes.
struct AttributeValue(*const c_void);

impl AttributeValue {
    fn of(value: *mut c_void) -> Result<AttributeValue, Failure> {
        if value.is_null() { Err(Failure::null("value")) } else { Ok(AttributeValue(value)) }
    }

    fn flag(&self) -> u32 {
        // SAFETY: the address is not NULL, so by the C contract it has the number of bytes of its
        // attribute.
        unsafe { self.0.cast::<u32>().read_unaligned() }
    }

    fn bytes(&self) -> u64 {
        // SAFETY: as for `flag`.
        unsafe { self.0.cast::<u64>().read_unaligned() }
    }
}
