//! The rules of CANN's documentation for the settings of one kind of communication, for each
//! product.

use super::setting::{TilingResult, refuse};
use super::{CmdType, DataType, Mc2CcTilingConfig};
use crate::Product;
use crate::dtype::ReduceKind;

impl Mc2CcTilingConfig {
    pub(super) fn check(&self, product: Product) -> TilingResult {
        self.check_operation(product)?;
        self.check_reduction()?;
        self.check_types(product)?;
        self.check_algorithm(product)?;
        self.check_engine()?;
        self.check_copies(product)
    }

    fn check_operation(&self, product: Product) -> TilingResult {
        let op = self.op_type;
        match (op, product) {
            (CmdType::AllToAllV, Product::A2) => refuse(
                "op_type",
                op,
                "kernels on the A2 do not support it; use `AlltoAll` with equal counts",
            ),
            (CmdType::BatchWrite, Product::Ascend950) => {
                refuse("op_type", op, "the 950 does not support it; use `AlltoAllvWrite`")
            }
            (CmdType::AllToAllVWrite, Product::A2 | Product::A3) => {
                refuse("op_type", op, "only the 950 supports it; use `BatchWrite`")
            }
            _ => Ok(()),
        }
    }

    fn check_reduction(&self) -> TilingResult {
        match self.reduce_op {
            Some(kind) if !self.op_type.reduces() => {
                let rule =
                    format!("{} does not combine elements; leave `reduce_op` out", self.op_type);
                refuse("reduce_op", kind, rule)
            }
            Some(kind @ ReduceKind::Prod) => refuse(
                "reduce_op",
                kind,
                "kernels support sum, max and min; call the collective on the host",
            ),
            _ => Ok(()),
        }
    }

    fn check_types(&self, product: Product) -> TilingResult {
        use DataType as T;
        let Some(source) = self.source_type else {
            if let Some(destination) = self.destination_type {
                return refuse(
                    "destination_type",
                    destination,
                    "there is no `source_type`; give both",
                );
            }
            if product == Product::Ascend950 {
                let rule = "the 950 takes the type from this setting and not from the kernel; give the type of the elements";
                return refuse("source_type", "not given", rule);
            }
            return Ok(());
        };
        let destination = self.destination_type.unwrap_or(source);
        let narrow = matches!(source, T::I8 | T::HiF8 | T::F8E4M3 | T::F8E5M2);
        let on_950 = product == Product::Ascend950;
        if on_950 && narrow && self.op_type == CmdType::ReduceScatter {
            if !matches!(destination, T::F16 | T::BF16 | T::F32) {
                let rule =
                    format!("ReduceScatter of {source} writes f16, bf16 or f32; give one of these");
                return refuse("destination_type", destination, rule);
            }
            return Ok(());
        }
        let reduced = matches!(source, T::I16 | T::F16 | T::BF16 | T::I32 | T::F32)
            || (source == T::I8 && !on_950);
        let moved = !on_950 || !matches!(source, T::U64 | T::F8E8M0);
        let taken = if self.op_type.reduces() { reduced } else { moved };
        if !taken {
            let rule = format!(
                "{} of the {product} does not support this type in kernels; use another type",
                self.op_type
            );
            return refuse("source_type", source, rule);
        }
        if destination != source {
            let rule = format!(
                "{} of the {product} writes the type that it reads, {source}; leave \
                 `destination_type` out",
                self.op_type
            );
            return refuse("destination_type", destination, rule);
        }
        Ok(())
    }

    fn check_algorithm(&self, product: Product) -> TilingResult {
        let algorithm = self.algorithm.as_deref().unwrap_or(self.op_type.algorithm());
        let usual = self.op_type.algorithm();
        // The start is the name of the operation with the `=`. Every usual algorithm has an `=`.
        let start = usual.split_inclusive('=').next().unwrap_or(usual);
        if product == Product::A3 && !algorithm.starts_with(&format!("{start}level0:")) {
            let rule = format!(
                "{} of the A3 takes `{start}level0:...`, usually `{usual}`; leave `algorithm` out",
                self.op_type
            );
            return refuse("algorithm", format!("{algorithm:?}"), rule);
        }
        if self.step_size == 0 {
            return Ok(());
        }
        let step = self.step_size;
        if self.op_type != CmdType::AllToAllV || product != Product::A3 {
            return refuse("step_size", step, "only `AlltoAllV` of the A3 has steps; leave it out");
        }
        if algorithm != usual {
            let rule = format!("steps need the algorithm `{usual}`; leave `algorithm` out");
            return refuse("step_size", step, rule);
        }
        Ok(())
    }

    fn check_engine(&self) -> TilingResult {
        let most = ascend_sys::CommEngine::COMM_ENGINE_CCU.0;
        if i32::from(self.engine) > most {
            return refuse(
                "engine",
                self.engine,
                format!("CANN numbers its engines 0 to {most}; use one of these numbers"),
            );
        }
        Ok(())
    }

    fn check_copies(&self, product: Product) -> TilingResult {
        use CmdType::{AllGather, AllReduce, AllToAll};
        let on_a2 = |op| product == Product::A2 && self.op_type == op;
        if self.skip_local_rank_copy && !on_a2(AllGather) && !on_a2(AllToAll) {
            let rule = "only `AllGather` and `AlltoAll` of the A2 can skip this copy; leave the setting out";
            return refuse("skip_local_rank_copy", true, rule);
        }
        if self.skip_buffer_window_copy && !on_a2(AllReduce) && !on_a2(AllToAll) {
            let rule = "only `AllReduce` and `AlltoAll` of the A2 can skip this copy; leave the setting out";
            return refuse("skip_buffer_window_copy", true, rule);
        }
        Ok(())
    }
}
