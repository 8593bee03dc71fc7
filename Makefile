# make demo    a sweep on this machine, predicted beside measured, from nothing
# make test    everything CI runs (make check included); installs what it needs
# make check   format, lint, types, import contracts
# make jobs    render jobs/*.sbatch again
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup system demo test check jobs clean

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt tests/setup/venv.sh
	sh tests/setup/venv.sh $(VENV)

# What the browser, real-Slurm and Prometheus tests need, where apt-get and root are there; else those tests say so.
system:
	sh tests/setup/system.sh

demo: setup
	RANKS=4 bash jobs/allreduce_sweep.sbatch -b 1K -e 4M -f 4 --name demo

check: setup
	$(BIN)/ruff format --check clusterlab tests
	$(BIN)/ruff check clusterlab tests
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check system
	$(BIN)/python tests/setup/suite.py

jobs: setup
	$(BIN)/clusterlab jobs render

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
