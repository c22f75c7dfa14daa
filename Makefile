# make paper                 set up .venv and rebuild the paper on the embedded corpus (profile mini)
# make paper PROFILE=public  the same on public data with recorded SLM scores (RETRAIN=1 trains them anew)
# make paper PROFILE=full    as in the paper
# make test | lab | bench | lock | clean
# ARGS="..." is passed on to the command behind the target, such as ARGS="--jobs 1": one notebook at a time, not two.
# Without make, as on Windows or in a conda environment (which make would not use: it sets up .venv):
#   python -m dre.paper --profile public
PROFILE ?= mini
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# The first interpreter on the path that is new enough; PYTHON=/path/to/python overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done)

.PHONY: paper test lab bench lock clean install
.DEFAULT_GOAL := paper
.DELETE_ON_ERROR:

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python >= 3.11 found; install one, or say PYTHON=/path/to/python" >&2; exit 2; }
	@echo "setting up $(VENV) with pinned versions (once; a few minutes)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-input -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
	@touch $@

paper: $(STAMP)
	@$(PY) -m dre.paper --profile $(PROFILE) $(ARGS)

test: $(STAMP)
	HF_HUB_OFFLINE=1 $(PY) -m pytest $(ARGS)

lab: $(STAMP)
	@# Importing dre makes a relative DRE_DATA_HOME absolute: kernels start in notebooks/.
	$(PY) -c 'import dre, sys; from jupyterlab.labapp import main; sys.exit(main())' \
		--notebook-dir=notebooks $(ARGS)

bench: $(STAMP)
	@set -e; for file in benchmarks/*.py; do echo "$$file"; $(PY) "$$file" $(ARGS); done

# Takes the versions installed in .venv: install what you want to try there first, run the tests, then lock.
lock: $(STAMP)
	$(PY) -m pip freeze --all --exclude-editable | grep -vE '^(pip|nvidia-|triton|cuda-|intel-)' | sed 's/+cpu$$//' > requirements.lock

# Everything that can be rebuilt; results/ and figures/ of the committed profile stay.
clean:
	rm -rf $(VENV) build results/mini results/full figures/mini figures/full .pytest_cache .ruff_cache *.egg-info
