"""Training, metrics, and interventions on trained models."""

from __future__ import annotations

import io
import json
import os
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

import numpy as np

from . import _native
from ._errors import mistake

PathLike = Union[str, "os.PathLike[str]"]


def train(
    experiment: PathLike,
    out: PathLike,
    *,
    set: Union[Mapping[str, Any], Iterable[str]] = (),
    callback: Optional[Callable[[dict], Any]] = None,
    resume: bool = False,
    init: Optional[PathLike] = None,
    threads: Optional[int] = None,
) -> dict:
    """Trains as an experiment says, exactly as `sheaf train` does: same bits, same files, and `resume` continues.

    `experiment` is a file of `experiments/`, or the text of one. `set` overrides keys: `{"train.steps": 100}`. `callback`
    is called after every update with a dictionary (`event` is `"step"`: `step`, `steps`, `loss`, `grad_norm`,
    `samples_per_s`, `seconds_left`; or `"evaluated"`: `step`, `best` and the metrics); if it returns `False`, the run is saved
    and ends. Ctrl-C does the same and raises `KeyboardInterrupt`. `init` starts from weights.

    Returns `{"finished": True, "weights": path}` or `{"finished": False, "step": …, "checkpoint": path}`.
    """
    keys = [f"{key}={_toml(value)}" for key, value in set.items()] if isinstance(set, Mapping) else list(set)
    init = None if init is None else os.fspath(init)
    return _native.train(os.fspath(experiment), os.fspath(out), keys, callback, resume, init, threads)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, (int, float)) else json.dumps(value)


def read_metrics(run: PathLike):
    """The metrics of a run, a folder or its `metrics.jsonl`, as a `pandas.DataFrame` with one row per line.

    Lines that a kill left unfinished are left out, as `resume` does.
    """
    try:
        import pandas
    except ImportError:
        hint = "pip install pandas, or read the file line by line as JSON"
        raise mistake("Unsupported", "read_metrics", "pandas", "none", hint) from None
    path = os.fspath(run)
    path = os.path.join(path, "metrics.jsonl") if os.path.isdir(path) else path
    rows = []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                rows.append(json.loads(line))
    return pandas.DataFrame(rows)


def plain(value: Any) -> Any:
    """What `json` cannot write: numpy arrays and numbers, agents."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "__index__"):
        return value.__index__()
    raise mistake("Unsupported", "interventions", "numbers, lists and dictionaries", type(value).__name__)


def _script_input(task: str, sample: Any) -> dict:
    """A sample in the form of a script; a dictionary is in it already."""
    if isinstance(sample, Mapping):
        return dict(sample)
    sample = np.asarray(sample)
    if sample.ndim != 2:
        raise mistake("Shape", "input", "one sample [height, width]", list(sample.shape))
    if task == "maze":
        names = {1: "#", 2: ".", 3: "S", 4: "G", 5: "."}
        if not np.isin(sample, list(names)).all():
            raise mistake("OutOfRange", "input", "cells from 1 to 5", "others")
        return {"text": "\n".join("".join(names[int(cell)] for cell in row) for row in sample)}
    if task == "sudoku":
        return {"text": "".join(str(int(cell)) if cell else "." for cell in sample.ravel())}
    pixels = sample if sample.dtype == np.uint8 else np.rint(255 * np.clip(sample, 0, 1))
    return {"pixels": pixels.astype(int).ravel().tolist(), "width": int(sample.shape[1])}


def play(
    model: "_native.Model", input: Any, interventions: Any, iterations: int = 100, inputs: Optional[Sequence[Any]] = None
) -> dict:
    """Runs one sample with and without interventions that act while the agents coordinate; see `Model.intervene`."""
    given = interventions if isinstance(interventions, Mapping) else {"interventions": list(interventions)}
    script = {
        "task": model.task,
        "input": _script_input(model.task, input),
        "inputs": [_script_input(model.task, sample) for sample in inputs or ()],
        "iterations": iterations,
        **given,
    }
    npz, comparison = model._play(json.dumps(script, default=plain))
    with np.load(io.BytesIO(npz)) as found:
        arrays = {name: found[name] for name in found.files}
    side = {"maze": np.shape(input) or None, "sudoku": (9, 9)}.get(model.task)
    for name in ("classes", "base_classes"):
        if name in arrays and side:
            arrays[name] = arrays[name].reshape(-1, *side)
    arrays["predicted"] = arrays["votes"].argmax(axis=-1) if "votes" in arrays else arrays["classes"]
    arrays["comparison"] = json.loads(comparison)
    return arrays


def intervene(
    model: "_native.Model",
    input: np.ndarray,
    edit: Callable[[dict], Optional[dict]],
    iterations: int = 100,
    window: int = 1,
) -> dict:
    """Changes the local problems of the agents before they coordinate, and returns what comes of it.

    `edit` gets the arrays of the agents' problems (`Model.problem`) and changes them in place, or returns others. Returns
    `x` `[agents, d_v]` after the last iteration, the answer (`predicted`) and the arrays (`problem`); with `window` > 1 also
    `iterates`, the last so many x.
    """
    arrays, options = model.problem(input)
    graph, d_v, d_e = options.pop("graph"), options.pop("d_v"), options.pop("d_e")
    changed = edit(arrays)
    arrays = arrays if changed is None else changed
    layer = _native.Layer(graph, d_v, d_e, iterations, window=window, **options)
    iterates = layer.forward(arrays)[:, 0]
    found = {"x": iterates[-1], "predicted": model.decode(input, iterates[-1]), "problem": arrays}
    if window > 1:
        found["iterates"] = iterates
    return found
