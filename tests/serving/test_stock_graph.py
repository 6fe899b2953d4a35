"""An export needs TensorFlow and nothing else: stock operations, and programs that know only it."""

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from packaging.requirements import Requirement
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import kernels, op_def_registry

from tests.serving import odd, quick

HERE = Path(__file__).parent
ROWS = 50
TOLERANCE = 1e-6


@pytest.fixture
def path(log, model):
    return quick.TrainingPath(log.run, model, light=model.parent.name == "light")


def test_the_ids_of_crosses_are_held_once(model):
    """By whoever asks for them, the network or the signature that tells them."""
    held = tf.train.list_variables(str(model / "variables/variables"))
    vectors = [name for name, shape in held if len(shape) == 1]
    integers = [
        name
        for name in vectors
        if tf.train.load_variable(str(model / "variables/variables"), name).dtype == np.int64
    ]
    assert len(integers) == 2, "keys and ids"


class TestOperations:
    def test_all_of_them_are_stock_and_run_on_a_cpu(self, model):
        operations = {node.op for node in nodes(model)}
        assert len(operations) > 20
        assert {name for name in operations if op_def_registry.get(name) is None} == set()
        assert {name for name in operations if not is_plain(name)} == set()
        without = {name for name in operations if not devices(name) & {"CPU", "DEFAULT"}}
        assert without == set()

    def test_nothing_is_compiled_or_bound_to_another_device(self, model):
        assert not is_compiled(model)
        # What reads the variables from their files is bound to a CPU.
        assert {node.device for node in nodes(model)} <= {"", "/device:CPU:0", "/device:CPU:*"}

    def test_these_checks_see_what_they_look_for(self, tmp_path):
        class Custom(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
            def served(self, values):
                doubled = tf.function(lambda x: x * 2, jit_compile=True)(values)
                return {"probability": tf.py_function(lambda x: x, [doubled], tf.float32)}

        custom = Custom()
        tf.saved_model.save(custom, str(tmp_path), signatures=custom.served)
        assert not all(is_plain(node.op) for node in nodes(tmp_path))
        assert is_compiled(tmp_path)

    def test_the_graph_does_not_know_where_it_was_made(self, log, model):
        content = (model / "saved_model.pb").read_bytes()
        assert b"vocabulary.txt" in content
        assert str(Path(log.run.directory).parent).encode() not in content


class TestWithoutThisPackage:
    @pytest.fixture
    def requests(self, log, tmp_path):
        """Rows for both models, in a file."""
        columns = log.rows(ROWS)
        texts = {
            name: [one.decode() for one in values] if values.dtype == object else values.tolist()
            for name, values in columns.items()
        }
        document = []
        for kind, exports in log.exports.items():
            path = quick.TrainingPath(log.run, exports / "1", light=kind == "light")
            ids = path.encode(columns).tolist()
            document.append({"model": str(exports / "1"), "columns": texts, "ids": ids})
        file = tmp_path / "requests.json"
        file.write_text(json.dumps(document))
        return file

    def test_tensorflow_loads_it_where_the_package_cannot_be_imported(self, log, requests):
        found = load(sys.executable, requests)
        assert "fives_tf" in found["there"], "the test must refuse what is there"
        check(found, log)

    def test_tensorflow_loads_it_in_an_environment_of_its_own(self, log, requests, tensorflow_only):
        found = load(tensorflow_only, requests)
        assert found["there"] == []
        check(found, log)

    def test_it_can_be_moved(self, log, model, path, tmp_path):
        moved = tmp_path / "elsewhere" / "7"
        shutil.copytree(model, moved)
        columns = log.rows(ROWS)
        found = quick.Loaded(moved).probability("serving_default", columns)
        np.testing.assert_allclose(found, path.probability(columns), rtol=0, atol=TOLERANCE)


class TestInC:
    @pytest.fixture
    def feeds(self, log, model, tmp_path):
        signature = quick.Loaded(model).signatures["serving_default"]
        lines = [signature.outputs["probability"].name]
        for name, values in log.rows(ROWS).items():
            text = values.dtype == object
            lines.append(f"{signature.inputs[name].name} {'string' if text else 'float'} {ROWS}")
            lines += [one.decode() if text else repr(float(one)) for one in values]
        file = tmp_path / "feeds.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return file

    def test_the_scores_are_the_same(self, log, model, path, score, feeds):
        done = run([score, model, feeds])
        assert done.returncode == 0, done.stderr
        found = [float(line) for line in done.stdout.splitlines()]
        expected = path.probability(log.rows(ROWS))
        np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)

    def test_it_tells_the_latency_of_each_run(self, model, score, feeds):
        done = run([score, model, feeds, "--repeat", "20"])
        assert done.returncode == 0, done.stderr
        latencies = [int(line) for line in done.stdout.splitlines()]
        assert len(latencies) == 20
        assert min(latencies) > 1000, "no run takes less than a microsecond"

    def test_mistakes_are_told(self, model, score, feeds, tmp_path):
        wrong = tmp_path / "wrong.txt"
        for content, message in {
            "": "is empty",
            "nothing:0\n": "no such operation",
            feeds.read_text().replace("float", "double"): "expected string or float",
            feeds.read_text()[:-10]: "ends before its last value",
            "\n".join(feeds.read_text().split("\n")[: ROWS + 2]) + "\n": "must feed a value",
        }.items():
            wrong.write_text(content)
            done = run([score, model, wrong])
            assert done.returncode == 1
            assert message in done.stderr
        assert run([score, tmp_path / "none", feeds]).returncode == 1
        assert run([score, model, tmp_path / "none"]).returncode == 1
        for arguments in ([], [model], [model, feeds, "--repeat", "0"], [model, feeds, "--repeat"]):
            done = run([score, *arguments])
            assert done.returncode == 2
            assert "usage: score MODEL FEEDS" in done.stderr


@pytest.fixture(scope="module")
def score(tmp_path_factory) -> Path:
    """The program of score.c."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc to compile score.c with")
    program = tmp_path_factory.mktemp("score") / "score"
    library = Path(tf.sysconfig.get_lib())
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]
    command += ["-isystem", tf.sysconfig.get_include(), HERE / "score.c", "-o", program]
    command += [*sorted(library.glob("libtensorflow*.so.2")), f"-Wl,-rpath,{library}"]
    done = run(command)
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def tensorflow_only(tmp_path_factory) -> Path:
    """The interpreter of an environment that has TensorFlow and what TensorFlow needs, no more."""
    directory = tmp_path_factory.mktemp("environment")
    done = run([sys.executable, "-m", "venv", "--without-pip", directory])
    assert done.returncode == 0, done.stderr
    [packages] = directory.glob("lib/python*/site-packages")
    for distribution in needed_by("tensorflow"):
        for place in {top_level(file) for file in distribution.files} - {None}:
            link = packages / place
            link.parent.mkdir(exist_ok=True)
            if not link.exists():
                link.symlink_to(distribution.locate_file(place))
    return directory / "bin" / "python"


def needed_by(name: str) -> list[importlib.metadata.Distribution]:
    """A distribution and all that it needs here."""
    found, todo = {}, [name]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # TensorFlow lists some that it does without
        for text in found[name].requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)
    return list(found.values())


def top_level(file: importlib.metadata.PackagePath) -> Path | None:
    """What to link so that a file is there; the package `google` is shared by many."""
    if file.parts[0] in ("..", "__pycache__"):
        return None
    return Path(*file.parts[: 2 if file.parts[0] == "google" else 1])


def load(python: Path | str, requests: Path) -> dict:
    """What plain_load.py says, run where the package is not."""
    done = run([python, "-I", HERE / "plain_load.py", requests], cwd=requests.parent)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(found: dict, log: odd.Odd) -> None:
    assert found["imported"] == []
    for (kind, exports), answers in zip(log.exports.items(), found["answers"], strict=True):
        path = quick.TrainingPath(log.run, exports / "1", light=kind == "light")
        expected = path.probability(log.rows(ROWS))
        assert answers.keys() == {"session", "serving_default", "ids"}
        for way, probability in answers.items():
            np.testing.assert_allclose(probability, expected, rtol=0, atol=TOLERANCE, err_msg=way)


def run(command: list, **options: object) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


def graph(model: Path) -> graph_pb2.GraphDef:
    content = (model / "saved_model.pb").read_bytes()
    return saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def


def nodes(model: Path) -> Iterator[node_def_pb2.NodeDef]:
    """The nodes of the graph and of all its functions."""
    yield from graph(model).node
    for function in graph(model).library.function:
        yield from function.node_def


def devices(operation: str) -> set[str]:
    """The kinds of devices that have a kernel of an operation."""
    return {one.device_type for one in kernels.get_registered_kernels_for_op(operation).kernel}


def is_plain(operation: str) -> bool:
    """Whether an operation calls neither Python nor a compiler."""
    return not re.search("Py[Ff]unc|Xla|CustomCall", operation)


def is_compiled(model: Path) -> bool:
    every = [*nodes(model), *graph(model).library.function]
    return any(one.attr[name].b for one in every for name in one.attr if name == "_XlaMustCompile")
