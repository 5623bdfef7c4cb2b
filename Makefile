# The commands of the course. `make book` and `make test` are the two that matter.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
GRADER := .venv-grader
BIN := $(VENV)/bin
SITE := _build/html
export LMCOURSE_STRICT := 1

.NOTPARALLEL:
.PHONY: help setup data grader book serve lab assignments test check nightly bench doctor gpu clean

help:
	@echo "make setup   make .venv and install everything into it (about 2 GB, some minutes)"
	@echo "make data    fetch the language model and the texts of chapter 8 (127 MB, once)"
	@echo "make book    set up, execute the chapters, build the site"
	@echo "make grader  make .venv-grader: the grader, apart from the course (about 600 MB)"
	@echo "make assignments  the zips for students, instructors and the grader; scans for leaks"
	@echo "make test    prove that everything holds (five to ten minutes)"
	@echo "make check   lint, types, architecture and quick unit tests (under a minute)"
	@echo "make lab     open the chapters in JupyterLab"
	@echo "make serve   serve the built site on this machine"
	@echo "make nightly the chapters with five seeds that nobody looked at (an hour)"
	@echo "make bench   time the package against others, side by side"
	@echo "make gpu     the experiment of chapter 13 at the paper's sizes, on one large GPU; resumable"
	@echo "make doctor  whether this machine can run the course, and advice"
	@echo "make clean   remove what was built; keep the environment"

setup: $(VENV)/ready

$(VENV)/ready: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "The course needs Python 3.11 or later: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@echo "Installing about 2 GB into $(VENV): a few minutes, and only when the requirements change."
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

data: setup
	$(BIN)/lmcourse data fetch

grader: $(GRADER)/ready

$(GRADER)/ready: assignments/grader/requirements.txt assignments/grader/pyproject.toml
	@$(GRADER)/bin/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(GRADER)
	$(GRADER)/bin/python -m pip install --quiet --requirement assignments/grader/requirements.txt
	$(GRADER)/bin/python -m pip install --quiet --no-deps --editable assignments/grader
	@touch $@

assignments: grader
	$(GRADER)/bin/lmcourse-grade release a1 --out _build/assignments
	@test ! -d $(SITE) || $(GRADER)/bin/lmcourse-grade leaks a1 $(SITE) --known lmcourse

book: data
	$(BIN)/jupyter-book build . --toc book/_toc.yml -W -n --keep-going
	@echo "The book is at $(CURDIR)/$(SITE)/index.html"

serve: book
	$(BIN)/python -m http.server --directory $(SITE) --bind 127.0.0.1 8000

lab: setup
	LMCOURSE_STRICT= $(BIN)/jupyter lab --notebook-dir=chapters $(LABFLAGS)

test: data grader
	$(BIN)/python tests/suite.py

check: setup
	$(BIN)/python tests/suite.py check

doctor: setup
	$(BIN)/lmcourse doctor

nightly: data
	$(BIN)/python tests/nightly.py

gpu: setup
	LMCOURSE_STRICT= LMCOURSE_PROFILE=gpu $(BIN)/lmcourse sweep paper-size $(GPUFLAGS)

bench: $(VENV)-bench/ready grader
	$(VENV)-bench/bin/python -m pytest bench
	$(GRADER)/bin/python bench/grading.py

$(VENV)-bench/ready: pyproject.toml
	@test -x $(VENV)-bench/bin/python || $(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --editable '.[bench]'
	@touch $@

clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
