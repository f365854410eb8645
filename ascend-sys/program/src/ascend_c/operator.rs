//! Prints the host side of an operator: its prototype, the function that fills the tiling struct,
//! and their registration.

use super::names::lower_camel;
use super::project::Project;
use super::text::Text;
use crate::declared::*;
use crate::flow::load;
use crate::layout::{Field, Item, Layout, Number, Role};
use crate::program::{Mix, Program};
use crate::step::*;

/// The largest number of blocks of a launch.
const MOST_BLOCKS: u32 = 65_535;

/// The printer of the host side.
struct Host<'a> {
    program: &'a Program,
    project: &'a Project,
    text: Text,
    /// Whether the source already has the object that fills CANN's communication structs.
    config: bool,
    problems: Vec<String>,
}

pub(super) fn source(
    program: &Program,
    project: &Project,
    operator: &str,
) -> Result<String, String> {
    let size = program.tiling.as_ref().map_or(0, |layout| layout.size as usize);
    if project.tiling.len() != size {
        let given = project.tiling.len();
        return Err(format!(
            "the size of the tiling is {given}, but that of its struct is {size}; pass the whole \
             struct"
        ));
    }
    if project.blocks == 0 || project.blocks > MOST_BLOCKS {
        return Err(format!("the number of blocks is {}; pass 1 to {MOST_BLOCKS}", project.blocks));
    }
    program.tiling.as_ref().map_or(Ok(()), inside)?;
    let mut host =
        Host { program, project, text: Text::default(), config: false, problems: Vec::new() };
    host.file(operator);
    match host.problems.into_iter().next() {
        Some(problem) => Err(problem),
        None => Ok(host.text.finish()),
    }
}

/// Checks that all fields lie within their struct.
fn inside(layout: &Layout) -> Result<(), String> {
    for field in layout.fields() {
        let end = u64::from(field.offset).saturating_add(field.size());
        if end > u64::from(layout.size) || field.item.size() == 0 {
            return Err(format!(
                "{}.{} is not inside its struct: correct its offset or the size of the struct",
                layout.name, field.name
            ));
        }
        if let Item::Struct(inner) = &field.item {
            inside(inner)?;
        }
    }
    Ok(())
}

impl Host<'_> {
    fn file(&mut self, operator: &str) {
        self.text.line("namespace optiling {");
        self.tiling_function();
        self.text.line("} // namespace optiling");
        self.text.blank();
        self.text.line("namespace ops {");
        self.prototype(operator);
        self.text.blank();
        self.text.line(&format!("OP_ADD({operator});"));
        self.text.line("} // namespace ops");
        let body = std::mem::take(&mut self.text);

        self.text.comment(&format!(
            "{operator} on the host: what fills the tiling struct, the prototype, and the registration."
        ));
        if body.mentions("std::mem") {
            self.text.line("#include <cstring>");
            self.text.blank();
        }
        self.text.line("#include \"register/op_def_registry.h\"");
        self.text.line("#include \"tiling/platform/platform_ascendc.h\"");
        if ["AscendC::Mc2", "matmul_tiling::"].into_iter().any(|name| body.mentions(name)) {
            self.text.line("#include \"tiling/tiling_api.h\"");
        }
        if self.program.tiling.is_some() {
            self.text.blank();
            let file = super::names::tiling_file(self.program);
            self.text.line(&format!("#include \"../op_kernel/{file}\""));
        }
        self.text.blank();
        self.text.append(body);
    }

    fn open(&mut self, head: &str) {
        self.text.line(head);
        self.text.line("{");
        self.text.indent(1);
    }

    fn close(&mut self, tail: &str) {
        self.text.indent(-1);
        self.text.line(&format!("}}{tail}"));
    }

    fn tiling_function(&mut self) {
        let program = self.program;
        self.open("static ge::graphStatus Tiling(gert::TilingContext* context)");
        self.text.line(
            "const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());",
        );
        if let Some(layout) = &program.tiling {
            let name = super::names::tiling_name(layout);
            self.text.line(&format!("auto* tiling = context->GetTilingData<{name}>();"));
            self.fail_if("tiling == nullptr");
            self.fields(layout, "tiling->", 0);
        }
        self.text.blank();
        self.text.line(&format!("context->SetBlockDim({});", self.project.blocks));
        if self.synchronises() {
            self.text.comment("Its cores wait for each other, so they have to start together.");
            self.text.line("context->SetScheduleMode(1);");
        }
        let workspace = match program.mix {
            // A kernel of this mix does not start without a workspace.
            Mix::MixAiv10 | Mix::MixAic10 => self.project.workspace.max(16),
            _ => self.project.workspace,
        };
        self.text.line(&format!(
            "context->GetWorkspaceSizes(1)[0] = {workspace} + platform.GetLibApiWorkSpaceSize();"
        ));
        self.text.line("return ge::GRAPH_SUCCESS;");
        self.close("");
    }

    /// Prints the fields of a struct, with the given bytes as their values.
    fn fields(&mut self, layout: &Layout, path: &str, at: u32) {
        // CANN's communication structs come first, because the object that fills them requires this
        // order.
        let order = |field: &&Field| match &field.item {
            Item::Struct(inner) => match inner.role {
                Role::InitTiling => 0,
                Role::CcTiling => 1,
                Role::CubeTiling | Role::User => 2,
            },
            Item::Number(_) => 2,
        };
        let mut fields: Vec<&Field> = layout.fields().iter().collect();
        fields.sort_by_key(order);
        for field in fields {
            let name = format!("{path}{}", field.name);
            let at = at.saturating_add(field.offset);
            match &field.item {
                Item::Number(number) => self.numbers(&name, *number, field, at),
                Item::Struct(inner) => {
                    let count = u32::try_from(field.count()).unwrap_or(u32::MAX);
                    for element in 0..count {
                        let name = match field.lengths() {
                            [] => name.clone(),
                            [_] => format!("{name}[{element}]"),
                            lengths => format!("{name}{}", index(lengths, element)),
                        };
                        let at = at.saturating_add(element.saturating_mul(inner.size));
                        self.structure(inner, &name, at);
                    }
                }
            }
        }
    }

    fn structure(&mut self, layout: &Layout, name: &str, at: u32) {
        match layout.role {
            Role::User => self.fields(layout, &format!("{name}."), at),
            Role::InitTiling => self.init_tiling(layout, name, at),
            Role::CcTiling => self.cc_tiling(layout, name, at),
            Role::CubeTiling => self.cube_tiling(layout, name, at),
        }
    }

    /// Returns some bytes of the tiling, with zeros after its end.
    fn bytes(&self, at: u32, count: u32) -> Vec<u8> {
        let byte = |at: u32| self.project.tiling.get(at as usize).copied().unwrap_or(0);
        (0..count).map(|i| byte(at.saturating_add(i))).collect()
    }

    fn number(&self, at: u32, number: Number) -> u64 {
        load(number, &self.bytes(at, number.size()))
    }

    fn numbers(&mut self, name: &str, number: Number, field: &Field, at: u32) {
        let text = |host: &Self, at: u32| match number {
            // The host has no such type, so the source has the bits.
            Number::F16 | Number::Bf16 => format!("0x{:04x}", host.number(at, Number::U16)),
            _ => super::literal::literal_text(number, host.number(at, number)),
        };
        if field.lengths().is_empty() {
            let text = text(self, at);
            self.text.line(&format!("{name} = {text};"));
            return;
        }
        let size = u32::try_from(field.size()).unwrap_or(u32::MAX);
        if self.bytes(at, size.min(self.project.tiling.len() as u32)).iter().all(|byte| *byte == 0)
        {
            self.text.line(&format!("std::memset({name}, 0, sizeof({name}));"));
            return;
        }
        let ty = match number {
            Number::F16 | Number::Bf16 => "uint16_t",
            _ => number.ascend_c(),
        };
        let count = u32::try_from(field.count()).unwrap_or(u32::MAX);
        let list: Vec<_> =
            (0..count).map(|i| text(self, at.saturating_add(i * number.size()))).collect();
        let array = lower_camel(&name.replace(|c: char| !c.is_ascii_alphanumeric(), "_"));
        self.text.line(&format!("const {ty} {array}[] = {{{}}};", list.join(", ")));
        self.text.line(&format!("std::memcpy({name}, {array}, sizeof({name}));"));
    }

    fn fail_if(&mut self, condition: &str) {
        self.text.open(&format!("if ({condition})"));
        self.text.line("return ge::GRAPH_FAILED;");
        self.text.close("");
    }

    fn init_tiling(&mut self, layout: &Layout, name: &str, at: u32) {
        self.text.blank();
        self.text.comment("What the kernel and the communication server know of each other.");
        if layout.size != 64 || self.config {
            return self.problems.push(format!(
                "{name} must be the only Mc2InitTiling, of 64 bytes: leave out the others"
            ));
        }
        self.config = true;
        for group in 0..self.program.groups {
            let variable = lower_camel(&attribute(self.program, group));
            self.text.line(&format!(
                "const char* {variable} = context->GetAttrs()->GetAttrPointer<char>({group});"
            ));
            self.fail_if(&format!("{variable} == nullptr"));
        }
        let first = self.first_cc();
        let (group, rest) = match first {
            Some(cc) => (self.group_of(cc), self.settings(cc)),
            None => (0, "0, \"\"".to_owned()),
        };
        let group = lower_camel(&attribute(self.program, group));
        first.into_iter().for_each(|cc| self.say_operation(cc));
        self.text.line(&format!("AscendC::Mc2CcTilingConfig config({group}, {rest});"));
        for (setter, offset, number) in [
            ("SetDebugMode", 40, Number::U8),
            ("SetQueueNum", 42, Number::U16),
            ("SetCommBlockNum", 44, Number::U16),
        ] {
            match self.number(at.saturating_add(offset), number) {
                0 => {}
                value => self.text.line(&format!("config.{setter}({value});")),
            }
        }
        self.fail_if(&format!("config.GetTiling({name}) != 0"));
    }

    fn cc_tiling(&mut self, layout: &Layout, name: &str, at: u32) {
        if layout.size < 280 || !self.config {
            return self.problems.push(format!(
                "{name} needs an Mc2InitTiling before it, and 280 or 512 bytes: add that field, \
                 or use the struct of `hccl`"
            ));
        }
        if self.first_cc() != Some(at) {
            let group = lower_camel(&attribute(self.program, self.group_of(at)));
            self.say_operation(at);
            self.text.line(&format!("config.SetGroupName({group});"));
            self.text.line(&format!("config.SetOpType({});", self.number(at + 272, Number::U32)));
            self.text.line(&format!("config.SetAlgConfig({});", self.algorithm(at)));
            let [to, from] = [15, 14].map(|offset| self.number(at + offset, Number::U8));
            let reduce = self.number(at + 276, Number::U32);
            self.text.line(&format!("config.SetReduceType({reduce}, {to}, {from});"));
        }
        for (setter, offset) in [
            ("SetStepSize", 2),
            ("SetSkipLocalRankCopy", 0),
            ("SetSkipBufferWindowCopy", 1),
            ("SetCommEngine", 13),
        ] {
            match self.number(at + offset, Number::U8) {
                0 if self.first_cc() == Some(at) => {}
                // The object still has the settings of the struct before this one, so even a zero
                // is set.
                value => self.text.line(&format!("config.{setter}({value});")),
            }
        }
        self.fail_if(&format!("config.GetTiling({name}) != 0"));
    }

    /// Returns the arguments of the object that fills the structs, after the group.
    fn settings(&self, at: u32) -> String {
        let operation = self.number(at + 272, Number::U32);
        let mut arguments = vec![operation.to_string(), self.algorithm(at)];
        let reduce = self.number(at + 276, Number::U32);
        let [to, from] = [15, 14].map(|offset| self.number(at + offset, Number::U8));
        if reduce != 0 || to != 0 || from != 0 {
            arguments.push(reduce.to_string());
        }
        if to != 0 || from != 0 {
            arguments.extend([to.to_string(), from.to_string()]);
        }
        arguments.join(", ")
    }

    /// Adds a comment with the name of the operation, because its number means nothing to a reader.
    fn say_operation(&mut self, at: u32) {
        let number = self.number(at + 272, Number::U32);
        let name = match number {
            2 => "AllReduce",
            6 => "AllGather",
            7 => "ReduceScatter",
            8 => "AlltoAllV",
            10 => "AlltoAll",
            18 => "BatchWrite",
            20 => "AlltoAllvWrite",
            _ => return,
        };
        self.text.comment(&format!("Operation {number} is {name}."));
    }

    fn algorithm(&self, at: u32) -> String {
        let bytes = self.bytes(at + 144, 128);
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let good = |c: &char| c.is_ascii_graphic() && !matches!(c, '"' | '\\');
        let text: String = bytes[..end].iter().map(|byte| *byte as char).filter(good).collect();
        format!("\"{text}\"")
    }

    /// Returns the offset of the first `Mc2CcTiling`.
    fn first_cc(&self) -> Option<u32> {
        let layout = self.program.tiling.as_ref()?;
        let offsets = crate::layout::Communication::of(layout);
        offsets.cc_tilings().first().and_then(|at| u32::try_from(*at).ok())
    }

    /// Returns the group of the client that is configured with the struct at this offset.
    fn group_of(&self, at: u32) -> u32 {
        let steps = self.program.blocks.iter().flatten().map(|node| &node.step);
        let client = steps.clone().find_map(|step| match step {
            Step::Hccl(Hccl::Configure(client, offset, _)) if *offset == at => Some(*client),
            _ => None,
        });
        client.map_or(0, |client| self.program.clients[client.0 as usize].what.group)
    }

    fn cube_tiling(&mut self, layout: &Layout, name: &str, at: u32) {
        let numbers = [0, 4, 8, 12, 32, 36].map(|offset| self.number(at + offset, Number::I32));
        let [cores, m, n, k, base_m, base_n] = numbers;
        let Some(matmul) = self.program.matmuls.iter().find(|matmul| matmul.what.tiling.0 == at)
        else {
            return self
                .problems
                .push(format!("{name} is a tiling that no product uses: leave it out"));
        };
        if layout.size != 200 || m == 0 || n == 0 || k == 0 || base_m == 0 || base_n == 0 {
            return self.problems.push(format!(
                "{name} has no M, N, Ka, baseM or baseN, so there is nothing to make a tiling \
                 from: pass the tiling of a launch that works"
            ));
        }
        let Matmul { a, b, c, bias, transposed_a, transposed_b, .. } = &matmul.what;
        let object = lower_camel(&matmul.name);
        self.text.blank();
        self.text.line(&format!("matmul_tiling::MultiCoreMatmulTiling {object}(platform);"));
        let cores = if cores == 0 { u64::from(self.project.blocks) } else { cores };
        self.text.line(&format!("{object}.SetDim({cores});"));
        let mut side = |setter: &str, number: Number, more: String| {
            let Some(ty) = matmul_type(number) else {
                return self.problems.push(format!(
                    "{name} is for {number:?}, which cube cores do not multiply: use another type"
                ));
            };
            let gm = "matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND";
            self.text
                .line(&format!("{object}.{setter}({gm}, matmul_tiling::DataType::{ty}{more});"));
        };
        side("SetAType", *a, format!(", {transposed_a}"));
        side("SetBType", *b, format!(", {transposed_b}"));
        side("SetCType", *c, String::new());
        if let Some(bias) = bias {
            side("SetBiasType", *bias, String::new());
        }
        self.text.line(&format!("{object}.SetShape({m}, {n}, {k});"));
        self.text.line(&format!("{object}.SetOrgShape({m}, {n}, {k});"));
        self.text.line(&format!("{object}.EnableBias({});", bias.is_some()));
        self.text.line(&format!("{object}.SetFixSplit({base_m}, {base_n}, -1);"));
        self.text.line(&format!("{object}.SetMatmulConfigParams(1);"));
        self.text.line(&format!("{object}.SetBufferSpace(-1, -1, -1);"));
        self.fail_if(&format!("{object}.GetTiling({name}) == -1"));
    }

    /// Returns whether cores wait for each other.
    fn synchronises(&self) -> bool {
        self.program.blocks.iter().flatten().any(|node| {
            matches!(node.step, Step::Sync(Sync::All { .. } | Sync::Raise { mode: Mode::Kind, .. }))
        })
    }

    fn prototype(&mut self, operator: &str) {
        let program = self.program;
        self.text.line(&format!("class {operator} : public OpDef {{"));
        self.text.line("public:");
        self.text.indent(1);
        self.open(&format!("explicit {operator}(const char* name) : OpDef(name)"));
        for parameter in &program.parameters {
            let call = if parameter.output { "Output" } else { "Input" };
            let ty = graph_type(parameter.number);
            let name = &parameter.name;
            self.text.line(&format!("this->{call}(\"{name}\")"));
            self.text.indent(1);
            self.text.line(".ParamType(REQUIRED)");
            self.text.line(&format!(".DataType({{ge::{ty}}})"));
            let end = if parameter.output { ";" } else { "" };
            self.text.line(&format!(".Format({{ge::FORMAT_ND}}){end}"));
            if !parameter.output {
                self.text.line(".AutoContiguous();");
            }
            self.text.indent(-1);
        }
        let groups: Vec<_> = (0..program.groups).map(|group| attribute(program, group)).collect();
        for group in &groups {
            self.text.line(&format!("this->Attr(\"{group}\").AttrType(REQUIRED).String();"));
        }
        self.text.blank();
        self.text.line("this->AICore().SetTiling(optiling::Tiling);");
        for product in &self.project.products {
            self.text.line(&format!("this->AICore().AddConfig(\"{product}\");"));
        }
        let quoted: Vec<_> = groups.iter().map(|group| format!("\"{group}\"")).collect();
        match quoted.as_slice() {
            [] => {}
            [one] => self.text.line(&format!("this->MC2().HcclGroup({one});")),
            more => self.text.line(&format!("this->MC2().HcclGroup({{{}}});", more.join(", "))),
        }
        self.close("");
        self.text.indent(-1);
        self.text.line("};");
    }
}

/// Returns the index of an element in an array of arrays, such as `[1][2]`.
fn index(lengths: &[u32], element: u32) -> String {
    let (mut rest, mut text) = (element, String::new());
    for length in lengths.iter().rev() {
        let length = (*length).max(1);
        text = format!("[{}]{text}", rest % length);
        rest /= length;
    }
    text
}

/// Returns the attribute that names the communicator of a group.
fn attribute(program: &Program, group: u32) -> String {
    match program.groups {
        1 => "group".to_owned(),
        _ => format!("group_{group}"),
    }
}

/// Returns the name of an element type in the library that makes tilings of products.
fn matmul_type(number: Number) -> Option<&'static str> {
    Some(match number {
        Number::F32 => "DT_FLOAT",
        Number::F16 => "DT_FLOAT16",
        Number::I8 => "DT_INT8",
        Number::I32 => "DT_INT32",
        Number::Bf16 => "DT_BF16",
        _ => return None,
    })
}

/// Returns the name of an element type in a prototype.
fn graph_type(number: Number) -> &'static str {
    match number {
        Number::I8 => "DT_INT8",
        Number::I16 => "DT_INT16",
        Number::I32 => "DT_INT32",
        Number::I64 => "DT_INT64",
        Number::U8 => "DT_UINT8",
        Number::U16 => "DT_UINT16",
        Number::U32 => "DT_UINT32",
        Number::U64 => "DT_UINT64",
        Number::F16 => "DT_FLOAT16",
        Number::Bf16 => "DT_BF16",
        Number::F32 => "DT_FLOAT",
        Number::F64 => "DT_DOUBLE",
        Number::Bool => "DT_BOOL",
    }
}
