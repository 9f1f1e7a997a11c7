//! What a task fixes about its model in addition to the networks.

/// How the LoRA update starts at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraStart {
    /// A starts at zero, B LeCun-normal.
    ZeroA,
    /// B starts at zero, A LeCun-normal.
    ZeroB,
}

/// The normalisation of the features that the LoRA factors are made of.
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
    /// All views of a batch are encoded together, each distinct one once: best if few are distinct.
    Batch,
    /// This many samples are encoded at a time: best if most views differ, because no buffer has the size of the batch
    /// and the encoded values stay in the cache.
    Samples(usize),
}

/// What a task fixes about its model in addition to the networks.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Slots per agent.
    pub slots: usize,
    /// Names of the slots, if each base map is a parameter of its own; empty for one parameter `maps`.
    pub slot_names: &'static [&'static str],
    /// How base maps start.
    pub map_start: MapStart,
    /// How the LoRA update starts.
    pub lora_start: LoraStart,
    /// The normalisation of the features of the LoRA factors.
    pub lora_norm: LoraNorm,
    /// Number of samples that a worker solves together, if the consensus solver benefits.
    pub tile: usize,
    /// Which views share one encoding.
    pub scope: Scope,
    /// Name of the random stream of the initial parameters.
    pub stream: &'static str,
}

impl Spec {
    /// Suits most tasks: one parameter for all base maps, which start orthonormal; a LoRA update that starts at B = 0,
    /// on features after a LayerNorm; samples one at a time; every chunk of a batch encodes its own views.
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
