# Two commands do everything: `make demo` and `make test`. Both set up .venv first, once.
PYTHON ?= python3
UV ?= uv
VENV := .venv
COMPILE := $(UV) pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --quiet \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_USER := 0
unexport PYTHONPATH PYTHONHOME

.PHONY: demo test bench mutants faults lock
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	$(VENV)/bin/covey demo

test: $(VENV)/installed-dev
	PYTHON=$(VENV)/bin/python tools/check

bench: $(VENV)/installed-dev
	$(VENV)/bin/python -m tools.bench

# Minutes each, so not part of `make test`: does a test notice when a promise is broken; what a kill at each point leaves.
mutants: $(VENV)/installed-dev
	$(VENV)/bin/python -m tools.mutants

faults: $(VENV)/installed-dev
	$(VENV)/bin/python -m tools.fault_runner

# The stamps remember which lock was installed; hashes are checked, and the project itself is built without a download.
$(VENV)/installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Covey needs Python 3.11 or later: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "setting up $(VENV) (once; it takes about a minute)"
	$(VENV)/bin/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements.lock
	$(VENV)/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

$(VENV)/installed-dev: requirements-dev.lock $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	touch $@

lock:
	$(COMPILE) --extra build -o requirements.lock
	$(COMPILE) --extra dev -c requirements.lock -o requirements-dev.lock
