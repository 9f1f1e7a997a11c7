//! A point in the space of all inputs, block by block, and the check of every block's gradient.

use sheaf_testkit::finite_difference::GradientCheck;

/// Named blocks of numbers: the inputs of a computation, or their gradients.
#[derive(Clone, Debug, Default)]
pub struct Point(Vec<(&'static str, Vec<f64>)>);

impl Point {
    /// Adds a block.
    pub fn push(&mut self, name: &'static str, values: Vec<f64>) {
        assert!(!self.has(name), "block {name} is there already");
        self.0.push((name, values));
    }

    /// Whether there is such a block.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| *n == name)
    }

    /// A block.
    pub fn get(&self, name: &str) -> &[f64] {
        let block = self.0.iter().find(|(n, _)| *n == name);
        &block.unwrap_or_else(|| panic!("no block {name}")).1
    }

    /// The only number of a block.
    pub fn one(&self, name: &str) -> f64 {
        assert_eq!(self.get(name).len(), 1, "block {name} is one number");
        self.get(name)[0]
    }

    /// The same point with another block.
    pub fn with(&self, name: &str, values: &[f64]) -> Self {
        let mut moved = self.clone();
        let block = moved.0.iter_mut().find(|(n, _)| *n == name);
        block.unwrap_or_else(|| panic!("no block {name}")).1.copy_from_slice(values);
        moved
    }

    /// A block of gradients like `name`, filled with [`Point::OFFSET`] to check that a VJP adds.
    pub fn grad_buffer(&self, name: &str) -> Vec<f64> {
        vec![Self::OFFSET; if self.has(name) { self.get(name).len() } else { 0 }]
    }

    /// What gradient buffers hold before a VJP adds to them.
    pub const OFFSET: f64 = 0.5;

    /// Takes a block of gradients that a VJP has added to.
    pub fn push_added(&mut self, name: &'static str, added: Vec<f64>) {
        self.push(name, added.into_iter().map(|g| g - Self::OFFSET).collect());
    }

    /// Checks every block of `grad` against finite differences of `f` around this point.
    pub fn assert_gradient(&self, name: &str, grad: &Self, f: &dyn Fn(&Self) -> f64) {
        for (block, values) in &grad.0 {
            assert!(values.iter().any(|&g| g != 0.0), "{name}: the gradient of {block} is all zero");
            let check = GradientCheck { directions: 3, ..GradientCheck::default() };
            let mut along = |values: &[f64]| f(&self.with(block, values));
            check.assert(&format!("{name}, {block}"), &mut along, self.get(block), values);
        }
    }

    /// Drops a block, for instance because it is known to have no gradient.
    pub fn without(mut self, name: &str) -> Self {
        self.0.retain(|(n, _)| *n != name);
        self
    }
}

/// a·b.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
