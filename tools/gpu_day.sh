#!/usr/bin/env bash
# A GPU day (docs/GPU.md), also on a machine without network to which files go in parcels (tools/GPU_DAY.md).
#
#   tools/gpu_day.sh [PARCEL] [PART...] [--tiny]
#
# PARCEL is a folder of tools/gpu_pack.py: it is unpacked first, and without a PART nothing else is done. Without both,
# all parts run. STORE: where parcels are unpacked. OUT: the folder of the results. WITHIN: the seconds until the end.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 1
export OUT=${OUT:-$root/gpu-day/out}
store=${STORE:-${TMPDIR:-/tmp}/redqueen-gpu-day}
python=${PYTHON:-python3}
failed=0

if [ -f "${1:-}/MANIFEST.json" ]; then
  # A damaged parcel is told, and the parts that need nothing of it run.
  "$python" tools/gpu_unpack.py "$1" "$store" || failed=1
  shift
  [ $# -gt 0 ] || exit $failed
fi

export PYTHONPATH=$root:$store/site${PYTHONPATH:+:$PYTHONPATH}
export HF_HUB_OFFLINE=1
export REDQUEEN_CACHE=${REDQUEEN_CACHE:-$store/cache}
"$python" -m benchmarks gpu day "$@" --within "${WITHIN:-600}" || failed=1
exit $failed
