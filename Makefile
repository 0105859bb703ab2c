# `make demo` and `make test` do all the set-up on a machine with Python 3.11 (or later), pip and make.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python
READY = $(VENV)/.ready

.PHONY: demo test browser compiler lint bench tables docs dist clean

demo: $(READY)
	$(RUN) -m tikhonet reproduce mnist --quick --output demo

test: $(READY) lint browser compiler
	$(RUN) -m pytest -n 2

# The report is tested in Debian's Chromium; where it cannot be installed, those tests are skipped and say so.
browser:
	@if ! { command -v chromium && command -v chromedriver; } >/dev/null \
		&& command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium chromium-driver >/dev/null; \
	fi

# Exported C is tested with gcc; where it cannot be installed, those tests are skipped and say so.
compiler:
	@if ! command -v gcc >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -qq -y --no-install-recommends gcc libc6-dev >/dev/null; \
	fi

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

bench: $(READY)
	$(RUN) benchmarks/nonnegative_qp.py
	$(RUN) benchmarks/full_batch.py
	$(RUN) benchmarks/hamming_search.py
	$(RUN) benchmarks/image_epoch.py

# The tables of README and docs from the records in results/.
tables: $(READY)
	$(RUN) docs/tables.py

# The site, in build/site/index.html: all examples are run, and tables and pictures are made from the records.
docs: $(READY)
	rm -rf docs/api/generated
	OMP_NUM_THREADS=1 $(RUN) -m sphinx -W --keep-going -q docs build/site

# Wheel and source package, and a smoke test of the wheel in an environment that holds nothing else.
dist: $(READY)
	rm -rf dist
	$(RUN) -m build --outdir dist
	$(PYTHON) -m venv dist/smoke
	dist/smoke/bin/python -m pip install --quiet -c constraints.txt dist/*.whl
	cd dist && smoke/bin/python ../tests/release/smoke.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet -c constraints.txt -e ".[dev]"
	touch $(READY)

clean:
	rm -rf $(VENV) demo dist .pytest_cache .mypy_cache .ruff_cache
