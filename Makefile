# make demo       run the library on the two pairs of tables in demo/, and write demo-report.html about the second
# make test       run the quick tests, a few minutes on two cores (make test PYTEST_ARGS="-k learning" to choose some)
# make test-slow  run the others: sweeps of levels, floods of malformed files, processes that are killed
# make docs       build the site into build/docs, offline, with warnings as errors, and run every example on it (minutes)
# make check      format, lint, strict types, import layers; no tests
# make bench      print how much faster than the usual ways, and what has become slower since the last time, then level
#                 and power (a quarter of an hour; make bench QUICK=1 prints a few ratios in a couple of minutes)
# make format     format the code and mend what the linter can
# make clean      remove what tools left behind, except the environment
# Each sets up .venv first, once; Python 3.11 or later is all it needs (make PYTHON=python3.12 ... to choose one).

PYTHON ?= python3
WORKERS ?= 2
PYTEST_ARGS ?=
EXAMPLES := src or examples_give or shell_lines or gives_what_it_shows

BIN := .venv/bin
INSTALLED := .venv/.installed
DATA := $(abspath ../shared/data)

ifndef TWOSAMPLE_DATA
ifneq ($(wildcard $(DATA)),)
export TWOSAMPLE_DATA := $(DATA)
endif
endif

.PHONY: demo test test-slow docs check bench format clean

demo: $(INSTALLED)
	@echo "Nine blobs against nine blobs that lean (x, y):"
	@$(BIN)/twosample test demo/blob_p.csv demo/blob_q.csv --seed 0
	@echo
	@echo "Last month's orders against this month's:"
	@$(BIN)/twosample test demo/orders_last_month.csv demo/orders_this_month.csv --seed 0 --report demo-report.html
	@echo
	@echo "What it found, as a page: open demo-report.html in a browser (xdg-open demo-report.html, on a Mac open demo-report.html)."

# One thread a worker: the workers already fill the cores.
PYTEST := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --durations=10

test: $(INSTALLED)
	$(PYTEST) $(PYTEST_ARGS)

test-slow: $(INSTALLED)
	$(PYTEST) -m slow $(PYTEST_ARGS)

docs: $(INSTALLED)
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@$(PYTEST) -m "slow or not slow" -k "$(EXAMPLES)"
	@echo "Open build/docs/index.html in a browser."

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED)
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/summary.py $(if $(QUICK),--quick)
ifndef QUICK
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/level.py 50
	@$(BIN)/python benchmarks/power.py table
endif

format: $(INSTALLED)
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

clean:
	rm -rf build dist demo-report.html .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests demo benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Two names for the constraints: older versions of pip build the package under the first, newer ones under the second.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, " + sys.executable + " is " + sys.version.split()[0] + "; choose one with make PYTHON=...") if sys.version_info < (3, 11) else None'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "Installing into .venv (once; PyTorch is large) ..." >&2
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
		$(BIN)/python -m pip install -qq --editable '.[all,dev,docs]'
	@touch $@
