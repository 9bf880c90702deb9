"""What the bits of a floating-point result may depend on beside the program: versions, the device, the processor."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import jax


def machine() -> dict[str, str]:
    """Return what would have to be the same for a program to give the same bits again, by name."""
    device = jax.devices()[0]
    return {
        "dpmcmc": version("dpmcmc"),
        "jax": version("jax"),
        "jaxlib": version("jaxlib"),
        "backend": f"{device.platform} {device.client.platform_version}",
        "device": device.device_kind,
        "processor": f"{platform.machine()} {_processor()}",
        "processors": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def _processor() -> str:
    """Return the processor's name and abilities, by which XLA chooses its instructions."""
    described = Path("/proc/cpuinfo")
    if not described.is_file():
        return platform.processor()
    lines = described.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0].splitlines()
    return "; ".join(line.partition(":")[2].strip() for line in lines if line.startswith(("model name", "flags")))
