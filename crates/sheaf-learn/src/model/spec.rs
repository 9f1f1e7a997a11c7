//! What a task fixes about its model beside the networks.

/// How the LoRA update starts at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraStart {
    /// A starts at zero, B LeCun-normal.
    ZeroA,
    /// B starts at zero, A LeCun-normal.
    ZeroB,
}

/// What normalises the features that the factors are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraNorm {
    /// LayerNorm.
    Layer,
    /// RMSNorm.
    Rms,
}

/// How trained base maps start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MapStart {
    /// Orthonormal rows.
    Orthonormal,
    /// Map k is the identity on block k of the stalk plus normal noise of this deviation.
    SoftSlice(f64),
}

/// Which views share one encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All views of a batch are encoded together, each distinct one once: best where few are distinct.
    Batch,
    /// So many samples are encoded at a time: best where most views differ, because nothing of the size of the batch is
    /// kept and what was encoded stays in the cache.
    Samples(usize),
}

/// What a task fixes about its model beside the networks.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Slots of an agent.
    pub slots: usize,
    /// Names of the slots, where each base map is a parameter of its own; empty for one parameter `maps`.
    pub slot_names: &'static [&'static str],
    /// How base maps start.
    pub map_start: MapStart,
    /// How the LoRA update starts.
    pub lora_start: LoraStart,
    /// What normalises the features of the LoRA factors.
    pub lora_norm: LoraNorm,
    /// Samples that a worker solves together, where the consensus solver gains from it.
    pub tile: usize,
    /// Which views share one encoding.
    pub scope: Scope,
    /// Name of the random stream of the initial parameters.
    pub stream: &'static str,
}

impl Spec {
    /// What suits most tasks: one parameter for all base maps, which start orthonormal; a LoRA update that starts at
    /// B = 0, on features after a LayerNorm; samples one at a time; every chunk of a batch encodes its own views.
    pub fn new(slots: usize, stream: &'static str) -> Self {
        Self {
            slots,
            slot_names: &[],
            map_start: MapStart::Orthonormal,
            lora_start: LoraStart::ZeroB,
            lora_norm: LoraNorm::Layer,
            tile: 1,
            scope: Scope::Samples(8),
            stream,
        }
    }
}
