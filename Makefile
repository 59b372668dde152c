# Two commands do everything: `make demo` and `make test`. Both set up .venv from the locked
# dependencies first, and do nothing twice.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PLUGINS := $(sort $(filter-out plugins/_template,$(patsubst %/pyproject.toml,%,$(wildcard plugins/*/pyproject.toml)))) plugins/_template
EXTRAS := ray mlflow postgres launchers onnx peers test
# Ray's token authentication and MLflow's chatter: quiet and local by default.
export MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT := true
export GIT_PYTHON_REFRESH := quiet

.PHONY: demo test soak lint lock clean help
help:
	@echo "make demo   set up and search the paper's RRAM space on Ray"
	@echo "make test   set up and run every test"
	@echo "make soak   break runs at random moments, 5 times per kind of fault, and damage files for the importers (about 20 minutes)"
	@echo "make lint   style checks;  make lock   pin dependencies anew;  make clean   remove .venv"

demo: $(VENV)/.ready
	$(BIN)/cimopt search runner=ray

test: $(VENV)/.ready
	$(BIN)/python -m pytest -q

soak: $(VENV)/.ready
	$(BIN)/python scripts/soak_faults.py --times 5
	CIMOPT_SOAK=1 $(BIN)/python -m pytest -q plugins/raylauncher
	$(BIN)/python scripts/soak_importers.py --minutes 10

lint: $(VENV)/.ready
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

# The interpreter: PYTHON when it exists, else python3 (which must be 3.11 or newer).
$(BIN)/python:
	@py=$$(command -v $(PYTHON) || command -v python3) && \
	"$$py" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	{ echo "cimopt needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }; \
	"$$py" -m venv $(VENV)

$(VENV)/.deps: locks/build.txt locks/all.txt | $(BIN)/python
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r locks/build.txt
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-build-isolation -r locks/all.txt
	@touch $@

$(VENV)/.ready: $(VENV)/.deps pyproject.toml $(PLUGINS:%=%/pyproject.toml)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . $(PLUGINS:%=-e %)
	$(BIN)/cimopt plugins --prepare
	@touch $@

# --extra-index-url and friends are left out on purpose: a lock names no index or host.
lock:
	uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.11 locks/build.in -o locks/build.txt
	uv pip compile -q --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
	  $(EXTRAS:%=--extra %) pyproject.toml locks/all.in -c locks/build.txt -o locks/all.txt

clean:
	rm -rf $(VENV)
