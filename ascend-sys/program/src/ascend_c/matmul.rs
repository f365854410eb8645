//! Prints products of matrices in the form that CANN's own fused operators use: `MatmulImpl` on the
//! cube cores, whose result is fetched block by block.

use super::names::{Thing, upper_camel};
use super::printer::Printer;
use super::text::Text;
use super::uses::Home;
use crate::declared::*;
use crate::layout::Number;
use crate::step::Multiply;

impl Printer<'_> {
    /// Prints the types of products, such as `using AType = MatmulType<...>;`, once for all
    /// products of the same types.
    pub(super) fn matmul_types(&self, file: &mut Text) {
        for (at, matmul) in self.program.matmuls.iter().enumerate() {
            if self.first_of_its_types(at) != at {
                continue;
            }
            let prefix = self.matmul_prefix(at);
            let Matmul { a, b, c, bias, transposed_a, transposed_b, .. } = &matmul.what;
            let mut alias = |side: &str, number: &Number, transposed: bool| {
                let more = if transposed { ", true" } else { "" };
                let ty = number.ascend_c();
                file.line(&format!(
                    "using {prefix}{side}Type = MatmulType<TPosition::GM, CubeFormat::ND, {ty}{more}>;"
                ));
            };
            alias("A", a, *transposed_a);
            alias("B", b, *transposed_b);
            alias("C", c, false);
            if let Some(bias) = bias {
                alias("Bias", bias, false);
            }
            let bias = if bias.is_some() { "Bias" } else { "C" };
            file.line(&format!(
                "using {prefix}MatmulOp = MatmulImpl<{prefix}AType, {prefix}BType, {prefix}CType, {prefix}{bias}Type, CFG_MDL>;"
            ));
            file.blank();
        }
    }

    /// Returns the first product with the same types.
    fn first_of_its_types(&self, at: usize) -> usize {
        let types = |at: usize| Matmul {
            tiling: (0, String::new()),
            ..self.program.matmuls[at].what.clone()
        };
        (0..at).find(|earlier| types(*earlier) == types(at)).unwrap_or(at)
    }

    /// Returns the prefix of type names. It is empty if all products have the same types. Prefixes
    /// are numbered if the names of products are equal in camel case.
    fn matmul_prefix(&self, at: usize) -> String {
        let count = self.program.matmuls.len();
        if (0..count).all(|other| self.first_of_its_types(other) == 0) {
            return String::new();
        }
        let name = |at: usize| upper_camel(&self.program.matmuls[at].name);
        let own = name(at);
        match (0..at).filter(|earlier| name(*earlier) == own).count() {
            0 => own,
            earlier => format!("{own}{}", earlier + 1),
        }
    }

    pub(super) fn matmul_type(&self, matmul: MatmulId) -> String {
        format!("{}MatmulOp", self.matmul_prefix(self.first_of_its_types(matmul.0 as usize)))
    }

    pub(super) fn declare_matmul(&mut self, matmul: MatmulId) {
        self.pipe = true;
        let ty = self.matmul_type(matmul);
        let name =
            self.names.give(Thing::Matmul(matmul), &self.program.matmuls[matmul.0 as usize].name);
        self.text.line(&format!("{ty} {name};"));
        if !self.shares_time(matmul) {
            self.init_matmul(matmul);
        }
    }

    pub(super) fn end_matmul(&mut self, matmul: MatmulId) {
        if !self.shares_time(matmul) {
            let name = self.name(Thing::Matmul(matmul));
            self.text.line(&format!("{name}.End();"));
        }
    }

    fn init_matmul(&mut self, matmul: MatmulId) {
        let tiling = self.path(&self.program.matmuls[matmul.0 as usize].what.tiling.1);
        let name = self.name(Thing::Matmul(matmul));
        self.text.line(&format!("{name}.SetSubBlockIdx(0);"));
        self.text.line(&format!("{name}.Init(&{tiling}, &pipe);"));
    }

    /// Returns whether another product is used before this product is finished. The cube unit can
    /// work on only one product at a time.
    fn shares_time(&self, matmul: MatmulId) -> bool {
        let home = |at: usize| self.uses.home(Thing::Matmul(MatmulId(at as u32)));
        let Some(own) = home(matmul.0 as usize) else { return false };
        let others = (0..self.program.matmuls.len()).filter(|at| *at != matmul.0 as usize);
        others.filter_map(home).any(|other| self.meet(own, other))
    }

    fn meet(&self, a: Home, b: Home) -> bool {
        if a.block == b.block {
            return a.step <= b.last && b.step <= a.last;
        }
        // The uses of one product may lie inside the range of the other.
        let inside = |outer: Home, inner: Home| {
            (self.uses.step_around(inner.block, outer.block))
                .is_some_and(|step| (outer.step..=outer.last).contains(&step))
        };
        inside(a, b) || inside(b, a)
    }

    pub(super) fn multiply(&mut self, multiply: &Multiply) {
        let Multiply { matmul, a, b, c, bias, rows, columns, depth, pitches } = multiply;
        let what = self.program.matmuls[matmul.0 as usize].what.clone();
        let shared = self.shares_time(*matmul);
        if shared {
            self.init_matmul(*matmul);
        }
        let name = self.name(Thing::Matmul(*matmul));
        // The distance between rows is the width of the matrix in memory, plain or transposed.
        let (m, k_of_a) =
            if what.transposed_a { (pitches[0], *depth) } else { (*rows, pitches[0]) };
        let (n, k_of_b) =
            if what.transposed_b { (*columns, pitches[1]) } else { (pitches[1], *depth) };
        let mut shape = vec![self.argument(m), self.argument(n), self.argument(k_of_a)];
        let (k_of_b, width) = (self.argument(k_of_b), self.argument(pitches[2]));
        if k_of_b != shape[2] || width != shape[1] {
            shape.push(k_of_b);
        }
        if width != shape[1] {
            shape.push(width);
        }
        self.text.line(&format!("{name}.SetOrgShape({});", shape.join(", ")));
        let (rows, columns, depth) =
            (self.argument(*rows), self.argument(*columns), self.argument(*depth));
        self.text.line(&format!("{name}.SetSingleShape({rows}, {columns}, {depth});"));
        let flag = |transposed: bool| if transposed { ", true" } else { "" };
        let left = self.global(a, what.a);
        self.text.line(&format!("{name}.SetTensorA({left}{});", flag(what.transposed_a)));
        let right = self.global(b, what.b);
        self.text.line(&format!("{name}.SetTensorB({right}{});", flag(what.transposed_b)));
        if let (Some(bias), Some(number)) = (bias, what.bias) {
            let bias = self.global(bias, number);
            self.text.line(&format!("{name}.SetBias({bias});"));
        }
        let result = self.global(c, what.c);
        self.text.open(&format!("while ({name}.Iterate())"));
        self.text.line(&format!("{name}.GetTensorC({result});"));
        let wait = self.wait_for("FIX_M");
        self.text.noted(&wait, "the next block overwrites what FIX reads");
        self.text.close("");
        if shared {
            self.text.line(&format!("{name}.End();"));
        }
    }
}
