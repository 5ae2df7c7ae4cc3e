"""Build backend of the Python package: maturin, with the command and the libraries in the wheel.

Maturin builds the native module. This backend first builds the command `interleaf`, the library of
`interleaf extend` and the C library, and puts them where maturin takes the data of a wheel from:
`scripts` become commands, `data/lib/interleaf` is beside them, where the command looks for its
library.

Environment: INTERLEAF_TARGET is the target that cargo builds for, such as
x86_64-unknown-linux-gnu.2.28; with a version of glibc it needs cargo-zigbuild.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "target" / "wheel.data"
PACKAGES = ("interleaf", "interleaf-preload", "interleaf-capi")
FILES = {
    "interleaf": "scripts",
    "libinterleaf_preload.so": "data/lib/interleaf",
    "libinterleaf_memory.so": "data/lib/interleaf",
}


def collect() -> None:
    """Build the command and the libraries, and put them into the data of the wheel."""
    target = os.environ.get("INTERLEAF_TARGET", "")
    command = ["cargo", "zigbuild" if "." in target else "build", "--release"]
    # The workspace of a source distribution lacks the benchmarks: cargo has to change Cargo.lock.
    command += [] if (ROOT / "PKG-INFO").exists() else ["--locked"]
    command += ["--target", target] if target else []
    for package in PACKAGES:
        command += ["--package", package]
    subprocess.run(command, cwd=ROOT, check=True)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = built / target.split(".")[0] / "release"
    shutil.rmtree(DATA, ignore_errors=True)
    for name, folder in FILES.items():
        (DATA / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy2(built / name, DATA / folder / name)


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, object] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel."""
    collect()
    return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory: str, config_settings: dict[str, object] | None = None) -> str:
    """Build the source distribution, which has no data of a wheel."""
    # maturin requires the folder of the data.
    DATA.mkdir(parents=True, exist_ok=True)
    return maturin.build_sdist(sdist_directory, config_settings)


def build_editable(
    wheel_directory: str,
    config_settings: dict[str, object] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel that refers to the sources of the package."""
    collect()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
