"""Where torch can compute on this machine."""

from __future__ import annotations

import torch

from tikhonet.network.errors import ArgumentError


def devices() -> list[str]:
    cuda = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return ["cpu", *cuda, *(["mps"] if torch.backends.mps.is_available() else [])]


def check_device(name: str) -> str:
    """The name of a device, as it is; raises unless this machine has that device."""
    try:
        if torch.empty(0, device=name).is_meta:
            raise NotImplementedError("tensors without numbers")
    except (RuntimeError, AssertionError, NotImplementedError):
        allowed = ", ".join(devices())
        message = f"device must be a device of this machine ({allowed}), got {name!r}"
        raise ArgumentError("device", message) from None
    return name
