//! The rounds against a plain simulation of the same events, with a queue of messages.

use super::*;
use crate::sheaf::{AgentGraph, Maps, Sheaf};
use std::collections::HashMap;

const STEPS: usize = 3;
const EDGES: [(usize, usize); 4] = [(0, 1), (1, 2), (2, 3), (0, 2)];
/// Map of the first and of the second end of every edge.
const MAPS: [(f64, f64); 4] = [(0.8, 0.5), (-0.4, 0.9), (1.1, 0.7), (0.3, -0.6)];

/// A message on its way.
struct Event {
    arrives: usize,
    link: usize,
    sent: usize,
    value: f64,
}

/// The states of four agents with one number each, after iterations towards `targets`.
fn simulate(of: &Asynchronous<f64>, draw: Draw, gamma: f64, rho: f64, targets: &[[f64; 4]]) -> Vec<[f64; 4]> {
    let streams = Streams::new(of.lag, draw);
    let (mut queue, mut mailboxes) = (Vec::<Event>::new(), HashMap::<usize, (usize, f64)>::new());
    let (mut z, mut all) = ([0.2, -0.1, 0.4, 0.3], Vec::new());
    for (k, w) in targets.iter().enumerate() {
        let awake = [0, 1, 2, 3].map(|i| streams.awake(k, i));
        let mut x = [0, 1, 2, 3].map(|i| if of.warm || !awake[i] { z[i] } else { w[i] });
        let mut momentum = [0.0; 4];
        for t in 0..STEPS {
            let round = k * STEPS + t;
            for (e, (&(u, v), &(map_u, map_v))) in EDGES.iter().zip(&MAPS).enumerate() {
                // Towards u, then towards v.
                for (link, from, value) in [(2 * e, v, map_v * x[v]), (2 * e + 1, u, map_u * x[u])] {
                    if let (true, Some(delay)) = (awake[from], streams.delay(round, link)) {
                        queue.push(Event { arrives: round + delay, link, sent: round, value });
                    }
                }
            }
            for event in queue.extract_if(.., |event| event.arrives <= round) {
                let newest = mailboxes.entry(event.link).or_insert((event.sent, event.value));
                if event.sent >= newest.0 {
                    *newest = (event.sent, event.value);
                }
            }
            let mut slope = [0.0; 4];
            for (e, (&(u, v), &(map_u, map_v))) in EDGES.iter().zip(&MAPS).enumerate() {
                if let Some(&(_, message)) = mailboxes.get(&(2 * e)) {
                    slope[u] += map_u * (map_u * x[u] - message);
                }
                if let Some(&(_, message)) = mailboxes.get(&(2 * e + 1)) {
                    slope[v] += map_v * (map_v * x[v] - message);
                }
            }
            for i in (0..4).filter(|&i| awake[i]) {
                let g = gamma * slope[i] + rho * (x[i] - w[i]);
                momentum[i] = of.descent.momentum * momentum[i] + g;
                x[i] -= of.descent.eta * (of.descent.momentum * momentum[i] + g);
            }
        }
        z = x;
        all.push(z);
    }
    all
}

#[test]
fn rounds_are_those_of_a_queue_of_messages() {
    let graph = AgentGraph::from_edges(4, &EDGES).unwrap();
    let sheaf = Sheaf::heterogeneous(&graph, &[1; 4], &[1; 4]).unwrap();
    let mut stacks = vec![0.0; sheaf.stack_len()];
    let mut slots = [0; 4];
    for (&(u, v), &(map_u, map_v)) in EDGES.iter().zip(&MAPS) {
        for (agent, map) in [(u, map_u), (v, map_v)] {
            stacks[sheaf.stack_offsets()[agent] + slots[agent]] = map;
            slots[agent] += 1;
        }
    }
    let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
    let (gamma, rho) = (1.3, Penalty::Scalar(0.8));
    let targets: Vec<[f64; 4]> = (0..12).map(|k| [0, 1, 2, 3].map(|i| f64::from(k * 4 + i).sin())).collect();
    let draw = Draw { step: 3, sample: 8 };
    for (delay, loss, activity) in [(0, 0.0, 1.0), (2, 0.0, 1.0), (7, 0.4, 1.0), (0, 0.9, 1.0), (5, 0.3, 0.5)]
    {
        for (warm, seed) in [(false, 1), (true, 2)] {
            let descent = Descent::nesterov(Agreement::Soft { gamma }, 0.15, STEPS);
            let of = Asynchronous { descent, warm, lag: OutOfStep { delay, loss, activity, seed } };
            of.validate(&op).unwrap();
            let mut z = vec![0.2, -0.1, 0.4, 0.3];
            let mut carry = vec![0.0; of.carry_len(&op)];
            let mut scratch = vec![f64::NAN; of.forward_scratch_len(&op)];
            for (k, expected) in simulate(&of, draw, gamma, 0.8, &targets).iter().enumerate() {
                let (when, z_prev) = (When { iteration: k, draw }, z.clone());
                of.forward(when, &op, &rho, &targets[k], &z_prev, &mut carry, &mut z, &mut scratch);
                for (got, want) in z.iter().zip(expected) {
                    assert!((got - want).abs() < 1e-12, "{:?}, iteration {k}: {z:?}, {expected:?}", of.lag);
                }
            }
        }
    }
}

#[test]
fn lags_are_read_from_text_and_nonsense_is_refused() {
    let lag: OutOfStep = "delay=4, loss=0.25,activity=0.5,seed=7".parse().unwrap();
    assert_eq!(lag, OutOfStep { delay: 4, loss: 0.25, activity: 0.5, seed: 7 });
    assert_eq!(lag.to_string().parse::<OutOfStep>().unwrap(), lag);
    assert!("delay=0".parse::<OutOfStep>().unwrap().is_in_step());
    for text in
        ["", "delay", "delay=-1", "delay=1.5", "late=3", "delay=1,delay=2", "loss=1", "loss=x", "loss=NaN"]
    {
        assert!(text.parse::<OutOfStep>().is_err(), "{text:?}");
    }
    for text in ["delay=1025", "activity=0", "activity=1.1", "activity=NaN", "loss=-0.1", "seed=-1"] {
        assert!(text.parse::<OutOfStep>().is_err(), "{text:?}");
    }
}
