# "make help" says what there is. Without make, as on Windows or in a conda environment (which make
# would not use, since it sets up .venv):  python -m dre.paper --profile public
define HELP
make paper                 set up .venv, run the notebooks on the embedded corpus
make paper PROFILE=public  the same on public data (64 MB, fetched once) with recorded scores of the small models
make paper PROFILE=full    the same in the paper's own size; needs a GPU (docs/run_the_paper.md)
make paper PROFILE=full ARGS=--estimate  say what that would take: calls, dollars, hours; nothing is asked
make book                  build README, notebooks and docs as a website, in build/book; runs no notebook
make install               only set up .venv, with every package at the version in requirements.lock
make test                  set up .venv, run the tests; those of the public data are skipped where these are absent
make lab                   open the notebooks in JupyterLab
make bench                 measure what scoring and asking a judge cost in time
make lock                  write the versions that are installed in .venv to requirements.lock
make clean                 delete .venv and everything that can be made again

RETRAIN=1 make paper PROFILE=public trains the small models again, which takes hours on two cores.
ARGS="..." is passed on to the command behind a target: make paper ARGS="--only 03" runs notebook 03, after those that
it needs, and make paper ARGS="--jobs 1" runs one notebook at a time.
endef
PROFILE ?= mini
ARGS ?=
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
BOOK := $(VENV)/.installed-book

# The first interpreter on the path that is new enough; PYTHON=/path/to/python overrides.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; exit; }; done)

.PHONY: help paper book test lab bench lock clean install
.DEFAULT_GOAL := paper
.DELETE_ON_ERROR:

export HELP
help:
	@echo "$$HELP"

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: no Python >= 3.11 found; install one, or say PYTHON=/path/to/python" >&2; exit 2; }
	@test -w . || { echo "error: this folder cannot be written to; clone the project into one of yours" >&2; exit 2; }
	@echo "setting up $(VENV) with pinned versions (once; some minutes, and 2.6 to 6.3 GB: docs/setup.md)"
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-input -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-input --no-deps --no-build-isolation -e .
	@touch $@

paper: $(STAMP)
	@$(PY) -m dre.paper --profile $(PROFILE) $(ARGS)

$(BOOK): requirements-book.lock $(STAMP)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-input -r requirements-book.lock -c requirements.lock
	@touch $@

book: $(BOOK)
	@$(PY) -m dre.paper --book $(ARGS)

test: $(STAMP)
	@# In two processes, each with whole files, so that what a file shares is made once; ARGS="-n 0" means one.
	HF_HUB_OFFLINE=1 $(PY) -m pytest -n 2 --dist loadfile $(ARGS)

lab: $(STAMP)
	@# Importing dre makes a relative DRE_DATA_HOME absolute: kernels start in notebooks/.
	$(PY) -c 'import dre, sys; from jupyterlab.labapp import main; sys.exit(main())' \
		--notebook-dir=notebooks $(ARGS)

bench: $(STAMP)
	@$(PY) benchmarks/bench.py $(ARGS)

# Takes the versions installed in .venv: install what you want to try there first, run the tests, then lock.
lock: $(STAMP)
	$(PY) -m pip freeze --all --exclude-editable | grep -vE '^(pip|nvidia-|triton|cuda-|intel-)' | sed 's/+cpu$$//' > requirements.lock

# Everything that can be rebuilt; results/ and figures/ of the committed profile stay.
clean:
	rm -rf $(VENV) build dist results/mini results/full figures/mini figures/full .pytest_cache .ruff_cache *.egg-info
