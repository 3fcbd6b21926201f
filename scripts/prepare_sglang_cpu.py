"""Lets SGLang start in this virtual environment without CUDA; run once by setup_sglang.sh.

Two changes outside SGLang itself: a stand-in for its kernel package, and two operators that the
CUDA build of torchvision expects to find when it is imported beside a CPU build of torch.
"""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

PACKAGES = Path(sysconfig.get_paths()["purelib"])
KERNELS = Path(__file__).parents[1] / "tests" / "sglang_cpu" / "sgl_kernel.py"
REGISTRATIONS = PACKAGES / "torchvision" / "_meta_registrations.py"
BEFORE = '@torch.library.register_fake("torchvision::nms")'
DECLARED = """\
if not torchvision.extension._has_ops():
    for _name in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{_name}",
            "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        )


"""


def main() -> None:
    shutil.copy(KERNELS, PACKAGES / "sgl_kernel.py")
    source = REGISTRATIONS.read_text()
    if DECLARED not in source:
        REGISTRATIONS.write_text(source.replace(BEFORE, DECLARED + BEFORE, 1))


if __name__ == "__main__":
    main()
