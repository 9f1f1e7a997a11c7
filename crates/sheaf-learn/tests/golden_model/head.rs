//! A linear layer followed by an output transform.

use sheaf_admm::Real;
use sheaf_learn::nn::activation::{sigmoid, sigmoid_vjp, softplus, softplus_vjp, tanh, tanh_vjp};
use sheaf_learn::nn::{LayerNorm, Linear};

/// What follows the linear layer.
pub enum Shape {
    Plain,
    /// softplus, plus a floor.
    Softplus(f64),
    Sigmoid,
    Tanh,
    LayerNorm(LayerNorm),
}

pub struct Head {
    pub name: &'static str,
    pub linear: Linear,
    pub shape: Shape,
}

impl Head {
    /// (before the transform, after it).
    pub fn forward<T: Real>(&self, params: &[T], f: &[T]) -> (Vec<T>, Vec<T>) {
        let mut pre = vec![T::ZERO; f.len() / self.linear.input() * self.linear.output()];
        self.linear.forward(params, f, &mut pre);
        let mut out = pre.clone();
        match &self.shape {
            Shape::Plain => {}
            Shape::Softplus(floor) => {
                softplus(&pre, &mut out);
                out.iter_mut().for_each(|o| *o += T::from_f64(*floor));
            }
            Shape::Sigmoid => sigmoid(&pre, &mut out),
            Shape::Tanh => tanh(&pre, &mut out),
            Shape::LayerNorm(norm) => norm.forward(params, &pre, &mut out),
        }
        (pre, out)
    }

    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        f: &[T],
        (pre, out): &(Vec<T>, Vec<T>),
        d_out: &[T],
        d_f: &mut [T],
        d_params: &mut [T],
    ) {
        let mut d_pre = vec![T::ZERO; pre.len()];
        match &self.shape {
            Shape::Plain => d_pre.copy_from_slice(d_out),
            Shape::Softplus(_) => softplus_vjp(pre, d_out, &mut d_pre),
            Shape::Sigmoid => sigmoid_vjp(out, d_out, &mut d_pre),
            Shape::Tanh => tanh_vjp(out, d_out, &mut d_pre),
            Shape::LayerNorm(norm) => norm.vjp(params, pre, d_out, Some(&mut d_pre), d_params),
        }
        self.linear.vjp(params, f, &d_pre, Some(d_f), d_params);
    }
}
