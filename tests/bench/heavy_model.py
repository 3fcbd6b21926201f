"""The tiny model with weights that change nothing: steps as those of a larger one.

Each layer gets more units in its MLP, and what they add is multiplied by zero. So every answer
stays what it is, and a step has to read as many weights as that of a model of this size; as there,
a second branch then costs little.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file


def write_heavy(model: Path, target: Path, units: int) -> None:
    """Write a copy of the Llama in `model` with `units` units in each MLP to `target`.

    ValueError when it has more already.
    """
    config = json.loads((model / "config.json").read_text("utf-8"))
    more = units - config["intermediate_size"]
    if more < 0:
        raise ValueError(f"the model has {config['intermediate_size']} units already")
    rng = np.random.default_rng(0)
    tensors = load_file(model / "model.safetensors")
    for name, found in tensors.items():
        if name.endswith(("gate_proj.weight", "up_proj.weight")):  # [units, hidden]
            extra = rng.normal(0.0, 0.02, (more, found.shape[1])).astype(found.dtype)
            tensors[name] = np.concatenate([found, extra])
        elif name.endswith("down_proj.weight"):  # [hidden, units]
            extra = np.zeros((found.shape[0], more), found.dtype)
            tensors[name] = np.concatenate([found, extra], axis=1)
    shutil.copytree(model, target)
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    config["intermediate_size"] = units
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model directory")
    parser.add_argument("--out", type=Path, required=True, help="directory to write")
    parser.add_argument("--units", type=int, default=8192, help="of each MLP")
    options = parser.parse_args()
    write_heavy(options.model, options.out, options.units)


if __name__ == "__main__":
    main()
