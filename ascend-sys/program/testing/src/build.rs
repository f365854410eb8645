//! Builds programs for tests by hand, because the recorder is in another crate.

use std::borrow::Cow;

use ascend_program::check::Product;
use ascend_program::cube::{Shape, Tiles};
use ascend_program::layout::{Field, Item, Layout, Number, Role};
use ascend_program::step::*;
use ascend_program::*;

/// A builder of one program. Each step gets the next line of `kernel.rs`.
pub struct Builder {
    pub program: Program,
    /// The open blocks, the innermost last.
    open: Vec<BlockId>,
    line: u32,
    /// The innermost open call. It is 0 if there is none.
    call: u32,
}

impl Builder {
    pub fn new(mix: Mix) -> Self {
        let program = Program {
            name: "kernel".into(),
            doc: String::new(),
            mix,
            parameters: Vec::new(),
            workspace: true,
            views: Vec::new(),
            tiling: None,
            groups: 1,
            values: Vec::new(),
            variables: Vec::new(),
            queues: Vec::new(),
            scratches: Vec::new(),
            locals: Vec::new(),
            clients: Vec::new(),
            tasks: Vec::new(),
            matmuls: Vec::new(),
            blocks: vec![Vec::new()],
            files: vec!["src/kernel.rs".into()],
            calls: Vec::new(),
            allowed: Vec::new(),
        };
        Builder { program, open: vec![BlockId(0)], line: 0, call: 0 }
    }

    // The functions below declare the things of the kernel.

    pub fn parameter(&mut self, name: &str, number: Number, output: bool) -> Base {
        self.program.parameters.push(Parameter { name: name.into(), number, output });
        Base::Parameter(self.program.parameters.len() as u32 - 1)
    }

    pub fn input(&mut self, name: &str, number: Number) -> Base {
        self.parameter(name, number, false)
    }

    pub fn output(&mut self, name: &str, number: Number) -> Base {
        self.parameter(name, number, true)
    }

    pub fn variable(&mut self, name: &str, number: Number) -> VariableId {
        self.program.variables.push(Declared { name: name.into(), what: number });
        VariableId(self.program.variables.len() as u32 - 1)
    }

    pub fn queue(
        &mut self,
        name: &str,
        number: Number,
        position: Position,
        buffers: u8,
        length: ValueId,
    ) -> QueueId {
        let what = Queue { number, position, buffers, length };
        self.program.queues.push(Declared { name: name.into(), what });
        QueueId(self.program.queues.len() as u32 - 1)
    }

    pub fn scratch(&mut self, name: &str, number: Number, length: ValueId) -> ScratchId {
        self.program
            .scratches
            .push(Declared { name: name.into(), what: Scratch { number, length } });
        ScratchId(self.program.scratches.len() as u32 - 1)
    }

    /// Returns a tensor with a buffer of its own.
    pub fn held(&mut self, name: &str, number: Number, length: ValueId) -> Local {
        self.held_in(name, number, length).1
    }

    fn held_in(&mut self, name: &str, number: Number, length: ValueId) -> (ScratchId, Local) {
        let buffer = self.scratch(&format!("{name}_buffer"), number, length);
        let tensor = self.local(name, number);
        self.buffer(Buffer::InitScratch(buffer));
        self.buffer(Buffer::Get(buffer, tensor));
        (buffer, Local { tensor, offset: None })
    }

    /// Returns a tensor with a buffer of its own that is full, so that every unit may use it. Must
    /// be called for a vector core.
    pub fn filled(&mut self, name: &str, number: Number, elements: u64) -> Local {
        let length = self.n(elements);
        let (buffer, local) = self.held_in(name, number, length);
        self.fill(buffer, elements * u64::from(number.size()));
        local
    }

    /// Adds a copy of `length` elements into local memory.
    pub fn copy_in(&mut self, to: Local, from: Place, length: ValueId) {
        let pieces = Pieces { length, count: None, gap: None };
        self.step(Step::Copy(Copy::In { to, from, pieces }));
    }

    /// Adds a copy of `length` elements out of local memory.
    pub fn copy_out(&mut self, to: Place, from: Local, length: ValueId) {
        let pieces = Pieces { length, count: None, gap: None };
        self.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
    }

    /// Adds steps in which core 0 writes `bytes` bytes of the workspace, and then a barrier of all
    /// vector cores.
    pub fn write_workspace(&mut self, bytes: u64) {
        self.on_block(0, |b| {
            let from = b.filled("seed", Number::U8, bytes);
            let (to, length) = (b.at(Base::Workspace, 0), b.n(bytes));
            let pieces = Pieces { length, count: None, gap: None };
            b.step(Step::Copy(Copy::Out { to, from, pieces, add: false }));
        });
        self.sync_vectors();
    }

    /// Adds steps that fill a buffer of `bytes` bytes, whatever its type, and make all units wait
    /// for that.
    pub fn fill(&mut self, buffer: ScratchId, bytes: u64) {
        // Every product can fill elements of this type.
        let tensor = self.local("fill", Number::U16);
        let value = self.value(Of::Constant(0), Number::U16);
        let count = self.n(bytes.next_multiple_of(32) / 2);
        self.buffer(Buffer::Get(buffer, tensor));
        self.step(Step::Vector(Vector::Fill { to: Local { tensor, offset: None }, value, count }));
        self.sync(Sync::Pipe(Pipe::All));
    }

    pub fn local(&mut self, name: &str, number: Number) -> LocalId {
        self.program.locals.push(Declared { name: name.into(), what: number });
        LocalId(self.program.locals.len() as u32 - 1)
    }

    pub fn client(&mut self, name: &str, group: u32, core: Option<(Core, u32)>) -> ClientId {
        self.program.groups = self.program.groups.max(group + 1);
        self.program
            .clients
            .push(Declared { name: name.into(), what: Client { group, core, by_address: false } });
        ClientId(self.program.clients.len() as u32 - 1)
    }

    pub fn task(&mut self, name: &str, client: ClientId) -> TaskId {
        self.program.tasks.push(Declared { name: name.into(), what: client });
        TaskId(self.program.tasks.len() as u32 - 1)
    }

    pub fn matmul(
        &mut self,
        name: &str,
        number: Number,
        bias: Option<Number>,
        at: u32,
    ) -> MatmulId {
        let what = Matmul {
            a: number,
            b: number,
            c: number,
            bias,
            transposed_a: false,
            transposed_b: false,
            tiling: (at, "matmul".into()),
        };
        self.program.matmuls.push(Declared { name: name.into(), what });
        MatmulId(self.program.matmuls.len() as u32 - 1)
    }

    // The functions below add values.

    pub fn value(&mut self, of: Of, number: Number) -> ValueId {
        self.program.values.push(Value { of, number, name: None });
        ValueId(self.program.values.len() as u32 - 1)
    }

    pub fn n(&mut self, n: u64) -> ValueId {
        self.value(Of::Constant(n), Number::U64)
    }

    pub fn float(&mut self, number: Number, n: f64) -> ValueId {
        self.value(Of::Constant(n.to_bits()), number)
    }

    pub fn field(&mut self, path: &str, offset: u32) -> ValueId {
        self.value(Of::Tiling { offset, path: path.into(), element: None }, Number::U64)
    }

    pub fn binary(&mut self, operator: Binary, a: ValueId, b: ValueId) -> ValueId {
        let number = match operator.compares() {
            true => Number::Bool,
            false => self.program.values[a.0 as usize].number,
        };
        self.value(Of::Binary(operator, a, b), number)
    }

    pub fn get(&mut self, variable: VariableId) -> ValueId {
        let number = self.program.variables[variable.0 as usize].what;
        self.value(Of::Variable(variable), number)
    }

    pub fn name(&mut self, name: &str, value: ValueId) -> ValueId {
        self.program.values[value.0 as usize].name = Some(name.into());
        self.step(Step::Name(value));
        value
    }

    /// Returns `block_idx` as a `u64`.
    pub fn block_index(&mut self) -> ValueId {
        let index = self.value(Of::BlockIndex, Number::I64);
        self.value(Of::Cast(index), Number::U64)
    }

    // The functions below add steps.

    pub fn step(&mut self, step: Step) {
        self.line += 1;
        let source = Source { file: 0, line: self.line, column: 5, call: self.call };
        let block = self.open[self.open.len() - 1];
        self.program.blocks[block.0 as usize].push(Node { step, source });
    }

    /// Adds the steps of a function that the kernel calls.
    pub fn call<R>(&mut self, function: &str, body: impl FnOnce(&mut Self) -> R) -> R {
        self.line += 1;
        let around = self.call;
        let from = Source { file: 0, line: self.line, column: 5, call: around };
        let (function, doc) = (function.to_owned(), format!("What {function} does."));
        self.program.calls.push(FunctionCall { function, doc, from });
        self.call = self.program.calls.len() as u32;
        let result = body(self);
        self.call = around;
        result
    }

    pub fn inside(&mut self, step: impl FnOnce(BlockId) -> Step, body: impl FnOnce(&mut Self)) {
        self.program.blocks.push(Vec::new());
        let block = BlockId(self.program.blocks.len() as u32 - 1);
        self.step(step(block));
        self.open.push(block);
        body(self);
        self.open.pop();
    }

    pub fn on(&mut self, core: Core, body: impl FnOnce(&mut Self)) {
        self.inside(|block| Step::On(core, block), body);
    }

    pub fn when(&mut self, condition: ValueId, body: impl FnOnce(&mut Self)) {
        self.inside(|then| Step::If { condition, then, otherwise: None }, body);
    }

    /// Adds steps for only the core with this index among its kind.
    pub fn on_block(&mut self, index: u64, body: impl FnOnce(&mut Self)) {
        let (now, index) = (self.block_index(), self.n(index));
        let condition = self.binary(Binary::Equal, now, index);
        self.when(condition, body);
    }

    /// Adds `for name in 0..to`.
    pub fn range(&mut self, name: &str, to: ValueId, body: impl FnOnce(&mut Self, ValueId)) {
        let variable = self.variable(name, Number::U64);
        let (from, step) = (self.n(0), self.n(1));
        let now = self.get(variable);
        self.inside(
            |block| Step::Loop { variable, from, to, step, body: block },
            |builder| body(builder, now),
        );
    }

    pub fn times(&mut self, count: u64, body: impl FnOnce(&mut Self)) {
        let to = self.n(count);
        let name = format!("i{}", self.program.variables.len());
        self.range(&name, to, |builder, _| body(builder));
    }

    pub fn at(&mut self, base: Base, offset: u64) -> Place {
        Place { base, offset: self.n(offset) }
    }

    pub fn buffer(&mut self, buffer: Buffer) {
        self.step(Step::Buffer(buffer));
    }

    pub fn sync(&mut self, sync: Sync) {
        self.step(Step::Sync(sync));
    }

    pub fn sync_vectors(&mut self) {
        self.sync(Sync::All { vector: true });
    }

    pub fn hccl(&mut self, call: Hccl) {
        self.step(Step::Hccl(call));
    }

    pub fn commit(&mut self, task: TaskId) {
        self.hccl(Hccl::Commit(task));
    }

    pub fn wait(&mut self, task: TaskId) {
        self.hccl(Hccl::Wait(task));
    }

    pub fn finalize(&mut self, client: ClientId) {
        self.hccl(Hccl::Finalize(client, true));
    }

    /// Returns a client whose struct begins the tiling struct. It is initialised, and configured
    /// for these operations (each an `HcclCMDType`).
    pub fn ready(&mut self, operations: &[u32]) -> ClientId {
        let client = self.client("hccl", 0, None);
        self.hccl(Hccl::Init(client, 0));
        for at in 0..operations.len() as u32 {
            self.hccl(Hccl::Configure(client, 64 + 512 * at, format!("cc{at}")));
        }
        self.program.tiling = Some(tiling_layout(operations.len() as u32));
        client
    }

    pub fn prepare(&mut self, task: TaskId, operation: Operation, repeat: u64, commit: bool) {
        let repeat = self.n(repeat);
        self.hccl(Hccl::Prepare { task, operation, repeat, commit });
    }

    /// Returns the program. Panics if it is not valid.
    pub fn done(self) -> Program {
        if let Err(why) = self.program.validate() {
            panic!("{why}");
        }
        self.program
    }
}

/// Returns a tiling struct with `configured` `Mc2CcTiling` and then 4096 bytes.
pub fn tiling_layout(configured: u32) -> Layout {
    let part = |name: &'static str, role, size| {
        let (name, namespace) = (Cow::Borrowed(name), Cow::Borrowed(""));
        let (doc, fields) = (Cow::Borrowed(""), Cow::Borrowed(&[][..]));
        Cow::Owned(Layout { name, namespace, doc, role, size, align: 1, fields })
    };
    let mut fields = vec![Field {
        name: "init".into(),
        doc: "".into(),
        offset: 0,
        item: Item::Struct(part("Mc2InitTiling", Role::InitTiling, 64)),
        lengths: Cow::Borrowed(&[]),
    }];
    for at in 0..configured {
        fields.push(Field {
            name: format!("cc{at}").into(),
            doc: "".into(),
            offset: 64 + 512 * at,
            item: Item::Struct(part("Mc2CcTiling", Role::CcTiling, 512)),
            lengths: Cow::Borrowed(&[]),
        });
    }
    Layout {
        name: "KernelTiling".into(),
        namespace: "".into(),
        doc: "".into(),
        role: Role::User,
        size: 64 + 512 * configured + 4096,
        align: 8,
        fields: fields.into(),
    }
}

/// Returns the bytes of the struct of [`tiling_layout`], filled for these operations as
/// `Mc2CcTilingConfig` fills it.
pub fn tiling(operations: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; tiling_layout(operations.len() as u32).size as usize];
    let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    put(0, 100);
    put(4, operations.len() as u32);
    for (at, operation) in operations.iter().enumerate() {
        let offset = 64 + 512 * at;
        if at < 8 {
            put(8 + 4 * at, offset as u32);
        }
        put(offset + 272, *operation);
    }
    for at in 0..operations.len() {
        let offset = 64 + 512 * at;
        bytes[offset + 3] = 1;
        bytes[offset + 16..offset + 21].copy_from_slice(b"group");
    }
    bytes
}

/// Returns the numbers of a `TCubeTiling` for `c = a * b` of one type on the A3.
pub fn cube(number: Number, bias: Option<Number>, [m, n, k]: [usize; 3], cores: u32) -> Tiles {
    let [a, b, c] = [number; 3];
    let tiling = (0, String::new());
    let matmul = Matmul { a, b, c, bias, transposed_a: false, transposed_b: false, tiling };
    let chip = Product::A3.cube();
    Shape { m, n, k, matmul: &matmul, chip: &chip, cores }.tiles().expect("a tiling")
}

/// Returns the bytes of these numbers.
pub fn cube_bytes(tiles: &Tiles) -> Vec<u8> {
    tiles.0.iter().flat_map(|number| number.to_le_bytes()).collect()
}
