//! Prints the calls of HCCL clients.

use super::names::Thing;
use super::printer::Printer;
use super::text::Text;
use crate::declared::*;
use crate::dtype;
use crate::layout::Number;
use crate::step::*;

impl Printer<'_> {
    /// Prints the types and constants that come before the function.
    pub(super) fn types(&self, file: &mut Text) {
        for (at, client) in self.program.clients.iter().enumerate() {
            if let Some((core, block)) = client.what.core {
                let core = match core {
                    Core::Aic => "ON_AIC",
                    Core::Aiv => "ON_AIV",
                };
                let name = self.config(ClientId(at as u32));
                file.line(&format!(
                    "constexpr HcclServerConfig {name} = {{CoreType::{core}, {block}}};"
                ));
            }
        }
        file.blank();
        self.matmul_types(file);
        file.blank();
    }

    fn config(&self, client: ClientId) -> String {
        let name = self.program.clients[client.0 as usize].name.to_ascii_uppercase();
        format!("{}_CONFIG", name.trim_matches('_'))
    }

    pub(super) fn declare_client(&mut self, client: ClientId) {
        let ty = self.client_type(client);
        let wanted = &self.program.clients[client.0 as usize].name;
        let name = self.names.give(Thing::Client(client), wanted);
        self.text.line(&format!("{ty} {name};"));
    }

    pub(super) fn client_type(&self, client: ClientId) -> String {
        let Declared { what, .. } = &self.program.clients[client.0 as usize];
        // An operation that only the engine of the 950 has needs the client of that engine.
        let server = match self.is_of_950(client) {
            true => "HcclServerType::HCCL_SERVER_TYPE_CCU",
            false => "HcclServerType::HCCL_SERVER_TYPE_AICPU",
        };
        match what.core {
            Some(_) => format!("Hccl<{server}, {}>", self.config(client)),
            None if self.is_of_950(client) => format!("Hccl<{server}>"),
            None => "Hccl".to_owned(),
        }
    }

    /// Returns whether a client uses an operation that only the Ascend 950 has.
    fn is_of_950(&self, client: ClientId) -> bool {
        self.program.blocks.iter().flatten().any(|node| match &node.step {
            Step::Hccl(Hccl::Prepare { task, operation, .. }) => {
                self.program.tasks[task.0 as usize].what == client
                    && matches!(operation, Operation::AlltoAllvWrite { .. })
            }
            _ => false,
        })
    }

    pub(super) fn client(&self, client: ClientId) -> String {
        self.name(Thing::Client(client))
    }

    pub(super) fn client_and_task(&self, task: TaskId) -> (String, String) {
        let client = self.program.tasks[task.0 as usize].what;
        (self.client(client), self.name(Thing::Task(task)))
    }

    pub(super) fn call(&mut self, call: &Hccl) {
        match call {
            Hccl::Init(client, offset) => {
                let context = self.program.clients[client.0 as usize].what.group;
                let tiling = match (offset, self.program.tiling.is_some()) {
                    (_, false) => {
                        return self.problem(
                            "a client is initialised from a tiling struct, but there is none: \
                             give the kernel one",
                        );
                    }
                    (0, true) => "&tilingData".to_owned(),
                    _ => format!("reinterpret_cast<const uint8_t*>(&tilingData) + {offset}"),
                };
                let name = self.client(*client);
                let call = match (self.program.clients[client.0 as usize].what.by_address, offset) {
                    (false, _) => format!("InitV2(GetHcclContext<{context}>(), {tiling})"),
                    (true, 0) => format!("Init(GetHcclContext<{context}>(), tiling)"),
                    (true, _) => format!("Init(GetHcclContext<{context}>(), tiling + {offset})"),
                };
                self.text.line(&format!("{name}.{call};"));
            }
            Hccl::Configure(client, _, path) => self.configure(*client, path),
            Hccl::Prepare { task, operation, repeat, commit } => {
                self.prepare(*task, operation, *repeat, *commit);
            }
            Hccl::Commit(task) => {
                let (client, task) = self.client_and_task(*task);
                self.text.line(&format!("{client}.Commit({task});"));
            }
            Hccl::Wait(task) => {
                let (client, task) = self.client_and_task(*task);
                self.text.line(&format!("{client}.Wait({task});"));
            }
            Hccl::After(client, task) => {
                let of = self.program.tasks[task.0 as usize].what;
                let group = self.program.clients[of.0 as usize].what.group;
                let (client, task) = (self.client(*client), self.name(Thing::Task(*task)));
                self.text.line(&format!("{client}.InterHcclGroupSync({group}, {task});"));
            }
            Hccl::Barrier(client, queue) => {
                let queue = self.argument(*queue);
                let client = self.client(*client);
                self.text.line(&format!("{client}.QueueBarrier(static_cast<uint16_t>({queue}));"));
            }
            Hccl::Finalize(client, sync) => {
                let client = self.client(*client);
                let how = if *sync { "" } else { "<false>" };
                self.text.line(&format!("{client}.Finalize{how}();"));
            }
        }
    }

    fn configure(&mut self, client: ClientId, path: &str) {
        let Some(tiling) = &self.program.tiling else {
            return self.problem(
                "a client is configured from a tiling struct, but there is none: give the kernel \
                 one",
            );
        };
        let of = super::names::tiling_name(tiling);
        let field = self.path(path);
        let field = field.trim_start_matches("tilingData.");
        // Offsets count from the start of the struct with which the client was initialised.
        let start = (self.program.blocks.iter().flatten())
            .find_map(|node| match node.step {
                Step::Hccl(Hccl::Init(of, offset)) if of == client => Some(offset),
                _ => None,
            })
            .unwrap_or(0);
        let from = if start == 0 { String::new() } else { format!(" - {start}") };
        let by_address = self.program.clients[client.0 as usize].what.by_address;
        let client = self.client(client);
        let call = match by_address {
            true => format!("{client}.SetCcTiling(tiling + offsetof({of}, {field}))"),
            false => format!("{client}.SetCcTilingV2(offsetof({of}, {field}){from})"),
        };
        self.leave_if(&format!("{call} != HCCL_SUCCESS"));
    }

    fn prepare(&mut self, task: TaskId, operation: &Operation, repeat: ValueId, commit: bool) {
        let Declared { name, what: client } = &self.program.tasks[task.0 as usize];
        let (call, mut arguments) = match operation {
            Operation::AllReduce(of, reduction) => {
                let mut arguments = self.exchange(of);
                arguments.push(reduction_name(*reduction).to_owned());
                ("AllReduce", arguments)
            }
            Operation::AllGather(of, stride) => {
                let mut arguments = self.exchange(of);
                arguments.push(self.argument(*stride));
                ("AllGather", arguments)
            }
            Operation::ReduceScatter(of, reduction, stride) => {
                let mut arguments = self.exchange(of);
                arguments.push(reduction_name(*reduction).to_owned());
                arguments.push(self.argument(*stride));
                ("ReduceScatter", arguments)
            }
            Operation::AlltoAll(of, stride) => {
                let mut arguments = self.exchange(of);
                if !self.is_plain(*stride, 0) || !self.is_plain(repeat, 1) {
                    arguments.push(self.argument(*stride));
                }
                ("AlltoAll", arguments)
            }
            Operation::AlltoAllV {
                send,
                recv,
                dtype,
                send_counts,
                send_displs,
                recv_counts,
                recv_displs,
            } => {
                let prefix = name;
                let send_counts = self.per_rank(send_counts, &format!("{prefix}_send_counts"));
                let send_displs = self.per_rank(send_displs, &format!("{prefix}_send_displs"));
                let recv_counts = self.per_rank(recv_counts, &format!("{prefix}_recv_counts"));
                let recv_displs = self.per_rank(recv_displs, &format!("{prefix}_recv_displs"));
                let element = element(*dtype);
                let dtype = self.dtype(*dtype);
                let (send, recv) = (self.address(send, element), self.address(recv, element));
                let arguments = vec![
                    send,
                    send_counts,
                    send_displs,
                    dtype.clone(),
                    recv,
                    recv_counts,
                    recv_displs,
                    dtype,
                ];
                ("AlltoAllV", arguments)
            }
            Operation::BatchWrite { items, count, queue } => {
                let mut arguments = vec![self.address(items, Number::U8), self.argument(*count)];
                if !self.is_plain(*queue, 0) {
                    arguments.push(self.argument(*queue));
                }
                if !self.is_plain(repeat, 1) {
                    self.problem("a BatchWrite must have one turn: leave the repeat at 1");
                }
                ("BatchWrite", arguments)
            }
            Operation::AlltoAllvWrite { send, offsets, sizes, window, local } => {
                let places = [(send, Number::U8), (offsets, Number::U64), (sizes, Number::U64)];
                let mut arguments: Vec<_> =
                    places.map(|(place, element)| self.address(place, element)).into();
                arguments.extend([window, local].map(|value| self.argument(*value)));
                if !self.is_plain(repeat, 1) {
                    self.problem("an AlltoAllvWrite must have one turn: leave the repeat at 1");
                }
                ("AlltoAllvWrite", arguments)
            }
        };
        if !self.is_plain(repeat, 1) && !call.ends_with("Write") {
            arguments.push(self.argument(repeat));
        }
        let commits = if commit { "<true>" } else { "" };
        let client = self.client(*client);
        let target = self.target(Thing::Task(task), "HcclHandle", name);
        let arguments = arguments.join(", ");
        self.text.line(&format!("{target} = {client}.{call}{commits}({arguments});"));
        // The failure depends only on the arguments, so all cores that prepare return here, before
        // any of them waits. Then the server never gets its last message, so the launch fails
        // instead of ending without a result.
        let task = self.name(Thing::Task(task));
        self.leave_if(&format!("{task} == INVALID_HANDLE_ID"));
    }

    fn leave_if(&mut self, failed: &str) {
        self.text.open(&format!("if ({failed})"));
        self.text.line("return;");
        self.text.close("");
    }

    fn exchange(&mut self, of: &Exchange) -> Vec<String> {
        vec![
            self.address(&of.send, element(of.dtype)),
            self.address(&of.recv, element(of.dtype)),
            self.argument(of.count),
            self.dtype(of.dtype),
        ]
    }

    /// Prints one number for each rank, in the form that the call expects: an array in the memory
    /// of the core.
    fn per_rank(&mut self, numbers: &PerRank, name: &str) -> String {
        match numbers {
            // The call only reads the array, but its parameter is not `const`.
            PerRank::Tiling(_, path, _) => format!("const_cast<uint64_t*>({})", self.path(path)),
            PerRank::Values(values) => {
                let list: Vec<_> = (values.iter())
                    .map(|value| match self.is_unsigned(*value) {
                        true => self.argument(*value),
                        // Between braces, C++ rejects a conversion that might not fit.
                        false => format!("static_cast<uint64_t>({})", self.argument(*value)),
                    })
                    .collect();
                // The name does not belong to a part of the program, so it stays taken until the
                // block ends.
                let name = self.names.more(name);
                let length = values.len().max(1);
                self.text.line(&format!("uint64_t {name}[{length}] = {{{}}};", list.join(", ")));
                name
            }
        }
    }

    fn is_unsigned(&self, value: ValueId) -> bool {
        use crate::layout::Number::*;
        matches!(self.number(value), U8 | U16 | U32 | U64)
    }

    fn dtype(&mut self, dtype: u32) -> String {
        let name = match dtype {
            0 => "INT8",
            1 => "INT16",
            2 => "INT32",
            3 => "FP16",
            4 => "FP32",
            5 => "INT64",
            6 => "UINT64",
            7 => "UINT8",
            8 => "UINT16",
            9 => "UINT32",
            10 => "FP64",
            11 => "BFP16",
            12 => "INT128",
            14 => "HIF8",
            15 => "FP8E4M3",
            16 => "FP8E5M2",
            17 => "FP8E8M0",
            _ => {
                self.problem(&format!(
                    "there is no HcclDataType {dtype}: use a number of that enum"
                ));
                "RESERVED"
            }
        };
        format!("HcclDataType::HCCL_DATA_TYPE_{name}")
    }
}

/// Returns the type of the elements of an operation. If kernels do not have that type, returns
/// `u8`, so that offsets count bytes.
fn element(dtype: u32) -> Number {
    dtype::number(dtype).unwrap_or(Number::U8)
}

/// Returns the enumerator of a reduction.
fn reduction_name(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Sum => "HcclReduceOp::HCCL_REDUCE_SUM",
        Reduction::Prod => "HcclReduceOp::HCCL_REDUCE_PROD",
        Reduction::Max => "HcclReduceOp::HCCL_REDUCE_MAX",
        Reduction::Min => "HcclReduceOp::HCCL_REDUCE_MIN",
    }
}
