"""Safetensors files by hand: eight bytes of header length, a JSON header, then the numbers, little-endian."""

import json
import struct

import numpy as np

CODES = {"F64": "<f8", "I32": "<i4"}


def write(path, arrays, metadata):
    """Writes named arrays (floats as f64, integers as i32) and a dictionary of strings."""
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    # The format wants wide numbers first so that every array starts aligned.
    for name in sorted(arrays, key=lambda n: (np.asarray(arrays[n]).dtype.kind == "i", n)):
        array = np.asarray(arrays[name])
        code = "I32" if array.dtype.kind == "i" else "F64"
        blob = np.ascontiguousarray(array, CODES[code]).tobytes()
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def read(path):
    """Reads what `write` wrote: named arrays and the metadata."""
    with open(path, "rb") as file:
        data = file.read()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    metadata = header.pop("__metadata__", {})
    arrays = {}
    for name, info in header.items():
        first, last = info["data_offsets"]
        numbers = np.frombuffer(data[start + first : start + last], CODES[info["dtype"]])
        arrays[name] = numbers.reshape(info["shape"])
    return arrays, metadata
