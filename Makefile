# make demo    run two OpenCL programs on 1, 2 and 4 devices that look like one
# make test    run the tests, in as many processes as there are cores    (ARGS="tests/cli -k env": some; WORKERS=0: in one process; ALL_IMAGES=1: all programs on all images; ALL_LENGTHS=1: all replies cut at all bytes; ALL_SEEDS=1: more random cases; DRIVERS=folder of .icd files: with these drivers)
# make bench   measure what sdi costs   (ARGS=--quick for a short run)
# make figures run the paper's applications, write tables and pictures to bench/results   (ARGS="-n 1,2" ...)
# make cts     run the Khronos conformance tests that CTS=<folder of built binaries> NAMES=<folder of lists> name
# make soak    run all programs on all images and all seeds of the tests that try some, compare 10,000 random sequences of API calls with the plain driver, all of it with the player and without  (ARGS="20000 500": other sequences only)
# make soak-memory    run 20,000 generated programs, also where memory is short  (ARGS="20000 500": others)
# make soak-wire      damage 1,000,000 records of real programs, then feed live services for two hours (ARGS="20000 60 7": others)
# make soak-player    play 1,000,000 streams of records under sanitizers, 10,000 in threads  (ARGS="7 1000 100": from seed 7, others)
# make soak-macros    compare 10,000 programs of conditions and macros with the plain driver  (ARGS="0 500": others)
# make soak-nodes     compare programs on several ranks with the plain driver, over loopback and MPI, and kill ranks  (ARGS="programs --shapes 3": some; --help: what there is)
# make applications   install well-known applications from their packages, compare them on plain driver and image   (ARGS="--only OpenMM": some)
# make test-gpu    run the tests on NVIDIA GPUs, without network, with the Python packages in WHEELS=.wheels
# make bench-gpu   measure there: GPUs against the vendor's OpenCL and against programs split by hand
# make lint    ruff, mypy and the C compiler's warnings
# make clean   remove everything that make made
#
# Each target first prepares .venv here, once.  PYTHON=/path/to/python3 picks another Python (3.11 or newer).

SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
LIBRARY := $(VENV)/lib/sdi/libsdi_icd.so
LIBRARY_SOURCES := $(wildcard sdi/errors.py sdi/cells.py sdi/dataclass.py sdi/wire/*.py sdi/client/* sdi/client/*/* sdi/player/*)
CACHES := $(CURDIR)/build/test-cache
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Empty: not set.  Tests start many Pythons.
export PYTHONDONTWRITEBYTECODE :=
ARGS ?=
WORKERS ?= $(shell nproc)

.PHONY: help demo test bench figures applications test-gpu bench-gpu cts soak soak-memory soak-wire soak-player soak-macros soak-nodes lint clean install prepare

help:
	@sed -n 's/^# \(make [a-z-]* \)/\1/p' Makefile

prepare:
	@PYTHON=$(PYTHON) tools/prepare.sh

# Anew when the package's metadata change; the sources are used in place.
$(VENV)/.installed: pyproject.toml setup.py | prepare
	@echo "Installing sdi and what it needs into $(VENV) (a minute or so the first time)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install -qq --editable '.[dev]'
	@touch $@

$(LIBRARY): $(LIBRARY_SOURCES) | $(VENV)/.installed
	@echo "Compiling libsdi_icd.so and libsdi_player.so"
	@$(PY) tools/library.py $@

install: prepare $(VENV)/.installed $(LIBRARY)

demo: install
	@$(PY) demo/run.py $(ARGS)

# Drivers and sdi keep compiled kernels in caches: the tests use a folder of their own.
test: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg $(PY) -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

bench: install
	@$(PY) bench/overhead.py $(ARGS)

figures: install
	@$(PY) -m bench figures --out bench/results $(ARGS)

applications: install
	@$(PY) -m bench.gallery $(ARGS)

# Not in .venv: on a GPU host without network, Python packages come from a folder (see bench/gpu_setup.sh).
test-gpu:
	@WHEELS=$${WHEELS:-.wheels} PYTHON=$(PYTHON) bash bench/gpu_tests.sh $${OUT:-build/gpu/results} $(ARGS)

bench-gpu:
	@WHEELS=$${WHEELS:-.wheels} PYTHON=$(PYTHON) bash bench/gpu_bench.sh $${OUT:-build/gpu/results}

cts: install
	@$(PY) tools/cts.py $(CTS) $(NAMES) $(ARGS)

soak: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@export POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg SDI_PLAYER; \
	for SDI_PLAYER in on off; do \
		echo "SDI_PLAYER=$$SDI_PLAYER"; \
		test -n "$(ARGS)" || ALL_SEEDS=1 ALL_IMAGES=1 $(PY) -m pytest -q tests/test_programs.py \
			tests/test_large_programs.py $$(grep -rl num_seeds tests --include='test_*.py') || exit 1; \
		$(PY) -m tests.sequences.compare $(or $(ARGS),10000 10000) || exit 1; \
	done

soak-memory: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg \
		$(PY) -m tests.generated.compare $(or $(ARGS),0 20000)

soak-wire: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg \
		$(PY) -m tests.service.soak $(ARGS)

soak-player: install
	@$(PY) -m tests.player.soak $(ARGS)

soak-macros: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg \
		$(PY) -m tests.macros.compare $(or $(ARGS),0 10000)

soak-nodes: install
	@mkdir -p $(CACHES)/pocl $(CACHES)/xdg
	@POCL_CACHE_DIR=$(CACHES)/pocl XDG_CACHE_HOME=$(CACHES)/xdg \
		$(PY) -m tests.cluster.soak $(ARGS)

lint: install
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy --strict sdi
	@$(PY) -m mypy --explicit-package-bases bench
	@$(PY) tools/library.py --check

clean:
	@rm -rf $(VENV) build dist demo/out *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find sdi tests bench demo tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
