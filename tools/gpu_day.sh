#!/usr/bin/env bash
# A GPU day on a machine that may have no network (docs/GPU.md): makes the libraries importable that were brought as
# wheels, and runs the parts in order of their value, each in a process of its own.
#
#   tools/gpu_day.sh [PART...] [--tiny]
#
# WHEELS: the folder of the wheels. OUT: the folder of the results. WITHIN: the seconds of the day.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
export OUT=${OUT:-$root/gpu-day}
python=${PYTHON:-python3}
brought=$(mktemp -d)
trap 'rm -rf "$brought"' EXIT

# What the machine has stays as it is: its libraries fit its torch.
"$python" - "${WHEELS:-$root/wheels}" "$brought" <<'END'
import sys, zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

for wheel in sorted(Path(sys.argv[1]).glob("*.whl")):
    name = wheel.name.partition("-")[0]
    try:
        print(f"{name}: {distribution(name).version} is here")
    except PackageNotFoundError:
        zipfile.ZipFile(wheel).extractall(sys.argv[2])
        print(f"{name}: unpacked from {wheel.name}")
END

export PYTHONPATH=$root:$brought${PYTHONPATH:+:$PYTHONPATH}
export HF_HUB_OFFLINE=1
export REDQUEEN_CACHE=${REDQUEEN_CACHE:-${TMPDIR:-/tmp}/redqueen-gpu-day}
failed=0
"$python" -m benchmarks gpu day "$@" --within "${WITHIN:-1800}" || failed=1

# The tests of a GPU's kernels, after a whole day and where pytest is there.
if [ $# -eq 0 ] && "$python" -c "import pytest" 2>/dev/null; then
  timeout 300 "$python" -m pytest -p no:cacheprovider -q -m gpu "$root/tests/policy" 2>&1 | tee "$OUT/pytest.log" || failed=1
fi
exit $failed
