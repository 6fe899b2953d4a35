# make demo   the main job, end to end, on a generated log
# make test   all tests but those of the next two lines
# make test-cluster   preprocessing on a Flink cluster on this machine; needs Java and Maven
# make test-browser   reports in Chromium, that of the demo too; as root on Debian it installs Chromium
# make docs   the site of the docs, in build/docs
# make picture   the picture in the README, of the report of the demo
# make lint   style
# make lock   pins the dependencies anew

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
LOCK ?= requirements.lock
BIN := $(VENV)/bin
DEMO ?= demo
UV ?= uv

.PHONY: demo docs picture test test-cluster test-browser test-newest lint format lock clean

demo: $(VENV)/ready
	$(BIN)/fives synth --rows 100000 --out $(DEMO)/log --overwrite
	$(BIN)/fives preprocess $(DEMO)/log/log.csv --schema $(DEMO)/log/schema.yaml \
		--out $(DEMO)/dataset --overwrite
	$(BIN)/fives describe $(DEMO)/dataset
	$(BIN)/fives search $(DEMO)/dataset --run $(DEMO)/run --overwrite
	$(BIN)/fives evaluate $(DEMO)/run --split test
	$(BIN)/fives crosses $(DEMO)/run --top 10 --truth $(DEMO)/log/truth.json
	$(BIN)/fives export $(DEMO)/run --to $(DEMO)/exports
	$(BIN)/fives predict $(DEMO)/exports --input $(DEMO)/log/log.csv \
		--output $(DEMO)/scores.parquet --overwrite
	$(BIN)/fives report $(DEMO)/run --title "A generated log"

# Without --quiet, under which warnings do not count. The notice that is turned off is one of the
# theme, about its successor.
docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The README's picture of a report; needs Chromium, as test-browser does.
picture: $(VENV)/ready $(DEMO)/run/report.html
	$(BIN)/python docs/screenshot.py $(DEMO)/run/report.html docs/images/report.png

test: $(VENV)/ready
	$(BIN)/python -m pytest -n 2 $(ARGS)

test-cluster: $(VENV)/ready
	$(BIN)/python -m pytest -m cluster tests/cluster $(ARGS)

test-browser: $(VENV)/ready $(DEMO)/run/report.html
	@command -v chromium || command -v chromium-browser || command -v google-chrome || { \
		if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
			apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; \
		else \
			echo "Chromium is not on the PATH: install it, such as by: sudo apt-get install chromium"; \
			exit 1; \
		fi; \
	}
	FIVES_DEMO=$(DEMO) $(BIN)/python -m pytest -n 2 --dist loadfile -m browser tests/browser $(ARGS)

$(DEMO)/run/report.html:
	$(MAKE) demo

# The same tests on the newest TensorFlow, which tensorflow-io does not support.
test-newest:
	$(MAKE) test VENV=.venv-newest LOCK=requirements-newest.lock ARGS="$(ARGS)"

lint: $(VENV)/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Needs uv. The image is built with requirements-runtime.lock, which has no tools of development and
# otherwise the same versions. The newest TensorFlow is what the package asks for on Python 3.13; its
# lock file is for the Python at hand, and requirements-newest.in says what differs there.
lock:
	$(UV) pip compile -q --python-version 3.11 --extra dev setup.py -o requirements.lock --no-header
	$(UV) pip compile -q --python-version 3.11 --extra serving -c requirements.lock setup.py \
		-o requirements-runtime.lock --no-header
	$(UV) pip compile -q --python-version 3.11 --extra dev --override requirements-newest.in setup.py \
		-o requirements-newest.lock --no-header

$(VENV)/packages: $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r $(LOCK)
	touch $@

$(VENV)/ready: setup.py $(VENV)/packages
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

clean:
	rm -rf .venv .venv-newest $(DEMO) build *.egg-info
