"""The file that crates/predict reads (crates/predict/src/file.rs)."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from .data import Floats
from .model import LossNetwork


def rounded(numbers: Floats) -> list[float]:
    """Six significant digits, in one dimension."""
    return [float(f"{number:.6g}") for number in numbers.astype(np.float64).ravel()]


def layers(network: LossNetwork) -> list[dict[str, Any]]:
    """Each layer with its weights by output, input and place."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name, layer in network.convolutions.named_children():
        assert isinstance(layer, nn.Conv1d)
        sizes = {"inputs": layer.in_channels, "outputs": layer.out_channels}
        found.append(
            (f"convolutions.{name}", {"kind": "conv", **sizes, "kernel": 3, "stride": layer.stride[0]})
        )
    for name, layer in network.dense.named_children():
        assert isinstance(layer, nn.Linear)
        sizes = {"inputs": layer.in_features, "outputs": layer.out_features}
        found.append((f"dense.{name}", {"kind": "dense", **sizes, "kernel": 1, "stride": 1}))
    numbers = {name: rounded(value.detach().numpy()) for name, value in network.named_parameters()}
    return [
        {**head, "weights": numbers[f"{name}.weight"], "biases": numbers[f"{name}.bias"]}
        for name, head in found
    ]


def export(network: LossNetwork, about: dict[str, Any], path: Path) -> None:
    """Write the weights, with what is known about them in front."""
    mean, deviation = rounded(network.mean.numpy()), rounded(network.deviation.numpy())
    written = layers(network)
    numbers = (
        mean + deviation + [number for layer in written for number in layer["weights"] + layer["biases"]]
    )
    checksum = f"{zlib.crc32(struct.pack(f'<{len(numbers)}f', *numbers)):08x}"
    head = {
        "format": "framewire-loss-network",
        "version": 1,
        **about,
        "mean": mean,
        "deviation": deviation,
        "checksum": checksum,
    }
    text = json.dumps(head, indent=2).removesuffix("\n}")
    body = ",\n".join("    " + json.dumps(layer) for layer in written)
    path.write_text(f'{text},\n  "layers": [\n{body}\n  ]\n}}\n')


def export_check(network: LossNetwork, inputs: Floats, path: Path) -> None:
    """Inputs and what PyTorch says of them, for the test of the Rust inference."""
    listed = [[[float(f"{figure:.5g}") for figure in row] for row in window] for window in inputs]
    said = network.probabilities(np.array(listed, dtype=np.float32))
    lines = ",\n".join("    " + json.dumps(window) for window in listed)
    path.write_text(f'{{\n  "inputs": [\n{lines}\n  ],\n  "outputs": {json.dumps(said.tolist())}\n}}\n')
