//! The entries of the emulator's own extension of the ABI: progress counters, failures by ticket,
//! waits for any activity, blocks of devices, findings, timelines and faults. The extension
//! functions for HCCL are in the files about their subjects.
#![allow(non_snake_case, reason = "the names of the header ascend_ext.h")]

use super::arguments::{Handle, In, InOut, Out, OutSlice, OutText};
use super::entries::{Acl, entries};
use crate::callback::may_block;
use crate::check;
use crate::ending;
use crate::executor::{self, goals};
use crate::faults;
use crate::faults::asked::FaultKind;
use crate::machine::{self, BlockRequest};
use crate::message::{Failure, fail};
use crate::profile::{BUFFER_MEGABYTES, CONNECT_TIMEOUT, EXEC_TIMEOUT, Product};
use crate::sleep;
use crate::stream::Stream;
use crate::timeline;
use ascend_program::check::Late;
use ascend_sys::{
    ACL_ERROR_INVALID_PARAM, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, ACL_SUCCESS, AscendExtBlockConfig,
    AscendExtCheck, AscendExtFault, AscendExtFindingForm, AscendExtProgress, AscendExtTimelineForm,
    aclError,
};
use std::ffi::{c_char, c_void};
use std::time::Duration;

entries! {
    Acl;

    fn ascendExtStreamProgress(stream: Handle<Stream>, progress: Out<*const AscendExtProgress>) {
        let progress = progress.required("progress")?;
        let stream = stream.find()?;
        // In checked mode there are no counters, because the checker must see everything from which
        // the program learns of progress.
        let told = check::engine(stream.device_id()).is_none();
        let line = (&raw const stream.queue.progress).cast();
        progress.write(if told { line } else { std::ptr::null() });
        Ok(())
    }

    fn ascendExtStreamFailure(
        stream: Handle<Stream>,
        ticket: u64,
        code: Out<aclError>,
        text: OutText[text_len],
        text_len: usize,
    ) {
        let code = code.required("code")?;
        let failure = Stream::named(stream.number())?.failure(ticket);
        code.write(failure.as_ref().map_or(ACL_SUCCESS, Failure::acl_code));
        let words = failure.as_ref().map_or(String::new(), Failure::with_task);
        text.write(&words);
        Ok(())
    }

    fn ascendExtAwaitActivity(activity: InOut<u64>, timeout_ms: u32) {
        may_block()?;
        let (seen, activity) = activity.required("activity")?;
        activity.write(goals::await_activity(seen, Duration::from_millis(timeout_ms.into())));
        Ok(())
    }

    fn ascendExtAwaitTask(stream: Handle<Stream>, ticket: u64, timeout_ms: u32, patience_ms: u32) {
        may_block()?;
        let stream = Stream::named(stream.number())?;
        let [timeout, patience] =
            [timeout_ms, patience_ms].map(|ms| Duration::from_millis(ms.into()));
        if executor::wait_sliced(stream, ticket, timeout, patience.max(timeout)) {
            return Ok(());
        }
        fail!(
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            "not complete yet, and {}",
            if timeout < patience { "the call is repeated".into() } else { stream.unfinished() }
        )
    }

    fn ascendExtTaskPeers(
        stream: Handle<Stream>,
        first: u64,
        last: u64,
        ranks: OutSlice<u32>[room],
        room: usize,
        count: Out<usize>,
    ) {
        let (ranks, count) = (ranks.required("ranks")?, count.required("count")?);
        let awaited = Stream::named(stream.number())?.awaits(first..=last);
        count.write(awaited.len());
        ranks.write(&awaited);
        Ok(())
    }

    fn ascendExtThreadWaits(patience_ms: u32) {
        sleep::say(Duration::from_millis(patience_ms.into()));
        Ok(())
    }

    fn ascendExtBlockCreate(
        config: In<AscendExtBlockConfig>,
        block: Out<u32>,
        first_device: Out<i32>,
    ) {
        let block = block.required("block")?;
        let first = first_device.required("firstDevice")?;
        let config = config.required("config")?;
        if config.size as usize != size_of::<AscendExtBlockConfig>() {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->size is {}; set it to sizeof(AscendExtBlockConfig)",
                config.size
            );
        }
        let Some(product) = Product::from_number(config.product) else {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->product is {}; set 2, 3 or 950",
                config.product
            );
        };
        if config.check > AscendExtCheck::ASCEND_EXT_CHECK_RACES.0 {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "config->check is {}; set 0 or 1",
                config.check
            );
        }
        let time = |ms: u32, unset| if ms == 0 { unset } else { Duration::from_millis(ms.into()) };
        let settings = machine::create_block(&BlockRequest {
            count: config.deviceCount,
            product,
            connect_timeout: time(config.connectTimeoutMs, CONNECT_TIMEOUT),
            exec_timeout: time(config.execTimeoutMs, EXEC_TIMEOUT),
            buffer_megabytes: BUFFER_MEGABYTES,
            expansion: 0,
            memory: config.memoryBytes,
            kernel_seed: match config.kernelSeed {
                0 => machine::kernel_seed_from_environment()?,
                seed => seed,
            },
            kernel_late: match late(&config.kernelLate)? {
                None => machine::kernel_late_from_environment()?,
                late => late,
            },
            checked: config.check == AscendExtCheck::ASCEND_EXT_CHECK_RACES.0,
        })?;
        block.write(settings.block);
        first.write(settings.first as i32);
        Ok(())
    }

    fn ascendExtBlockDestroy(block: u32) {
        may_block()?;
        ending::destroy_block(block)
    }

    fn ascendExtFindings(block: u32, count: Out<u32>) {
        let count = count.required("count")?;
        count.write(check::engine_of_block(block).map_or(0, |engine| engine.count()));
        Ok(())
    }

    fn ascendExtFinding(
        block: u32,
        index: u32,
        form: AscendExtFindingForm,
        text: OutText[text_len],
        text_len: usize,
        length: Out<usize>,
    ) {
        let length = length.required("length")?;
        let picture = match form {
            AscendExtFindingForm::ASCEND_EXT_FINDING_TEXT => false,
            AscendExtFindingForm::ASCEND_EXT_FINDING_SVG => true,
            other => {
                return fail!(ACL_ERROR_INVALID_PARAM, "form is {}; pass 0 or 1", other.0);
            }
        };
        let told =
            check::engine_of_block(block).and_then(|engine| check::tell(&engine, index, picture));
        let Some(words) = told else {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "block {block} has no finding {index}; pass an index below the number of \
                 ascendExtFindings"
            );
        };
        length.write(words.len());
        text.write(&words);
        Ok(())
    }

    fn ascendExtHostAccess(pointer: *const c_void, bytes: usize, write: i32) {
        check::host_accessed(pointer.addr(), bytes, write != 0);
        Ok(())
    }

    fn ascendExtTimelineRecord(block: u32, on: i32) {
        match on {
            1 => {
                let settings = machine::block(block)?;
                timeline::begin(block, settings.first..settings.first + settings.count).map(|_| ())
            }
            0 => timeline::end(block, None),
            other => fail!(ACL_ERROR_INVALID_PARAM, "on is {other}; pass 0 or 1"),
        }
    }

    fn ascendExtTimeline(
        block: u32,
        form: AscendExtTimelineForm,
        text: OutText[text_len],
        text_len: usize,
        length: Out<usize>,
    ) {
        let length = length.required("length")?;
        let words = timeline::tell(block, form)?;
        length.write(words.len());
        text.write(&words);
        Ok(())
    }

    fn ascendExtFaultSet(block: u32, fault: In<AscendExtFault>) {
        let fault = fault.required("fault")?;
        if fault.size as usize != size_of::<AscendExtFault>() {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "fault->size is {}; set it to sizeof(AscendExtFault)",
                fault.size
            );
        }
        let Some(kind) = FaultKind::from_number(fault.kind, fault.milliseconds) else {
            return fail!(
                ACL_ERROR_INVALID_PARAM,
                "fault->kind is {}; set 1 to 6",
                fault.kind
            );
        };
        faults::set(block, fault.device, kind, fault.number)
    }

    fn ascendExtFaultClear(block: u32, device: u32) {
        faults::clear(block, device)
    }
}

/// Parses `kernelLate` of a block's configuration: the unit or server that is as late as possible
/// in kernels. Returns `None` if the text is empty.
fn late(text: &[c_char]) -> Result<Option<Late>, Failure> {
    let text = text.iter().take_while(|letter| **letter != 0);
    let text: Vec<u8> = text.flat_map(|letter| letter.to_ne_bytes()).collect();
    let text = (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned());
    machine::late("config->kernelLate", text)
        .map_err(|text| Failure::new(ACL_ERROR_INVALID_PARAM, text))
}
