import dataclasses
import json
import subprocess
import sys

import pytest
import tensorflow as tf

from fives_tf.config import SearchConfig
from fives_tf.errors import UserError
from fives_tf.training.strategy import (
    Devices,
    Place,
    agree,
    choose,
    losing_workers,
    on_chief,
    tell,
)

from ...test_many_devices import end, workers


class TestDevices:
    @pytest.mark.parametrize(
        ("text", "kind", "count"),
        [("cpu:4", "cpu", 4), ("gpu:2", "gpu", 2), ("cpu:1", "cpu", 1), ("cpu:12", "cpu", 12)],
    )
    def test_a_kind_and_a_number_are_read(self, text, kind, count):
        assert Devices.parse(text) == Devices(kind, count)

    def test_a_kind_alone_is_one_of_it(self):
        assert Devices.parse("cpu") == Devices("cpu", 1)

    @pytest.mark.parametrize(
        "text",
        ["", "4", "cpu:0", "cpu:00", "cpu:-1", "cpu:two", "cpu:1.5", "cpu:2:2", "tpu:2", "CPU:2"],
    )
    def test_anything_else_is_refused(self, text):
        with pytest.raises(UserError, match="^`devices`: expected cpu:N or gpu:N") as error:
            Devices.parse(text)
        assert f"Received: {text!r}." in str(error.value)


@pytest.fixture
def refused(cli, small_dataset, tmp_path):
    """Searches with flags that get one message, and nothing is begun; the message."""

    def search(*flags):
        choose.cache_clear()  # another test may have chosen the same in this process
        done = cli("search", small_dataset, "--run", tmp_path / "run", *flags)
        assert done.returncode == 2, done.stderr
        [line] = done.stderr.splitlines()
        assert line.startswith("fives search: ")
        assert not (tmp_path / "run").exists()
        return line

    yield search
    choose.cache_clear()


class TestMistakes:
    def test_devices_of_an_unknown_kind(self, refused):
        assert "`devices`: expected cpu:N or gpu:N" in refused("--devices=tpu:2")

    def test_more_gpus_than_there_are(self, refused):
        there = len(tf.config.list_physical_devices("GPU"))
        message = refused("--devices=gpu:99")
        assert f"`devices`: gpu:99 asked for, and TensorFlow sees {there} of them" in message

    def test_workers_without_a_cluster(self, refused, monkeypatch):
        monkeypatch.delenv("TF_CONFIG", raising=False)
        message = refused("--strategy=workers")
        assert "`strategy`: workers need a cluster" in message
        assert "TF_CONFIG" in message

    @pytest.mark.parametrize("strategy", ["auto", "workers", "one"])
    def test_a_cluster_that_cannot_be_read(self, strategy, refused, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", '{"cluster": {"worker": ["a:1"]}, "task": {}}')
        message = refused(f"--strategy={strategy}")
        assert "TF_CONFIG: expected " in message
        assert "Received: " in message

    def test_an_unknown_strategy(self):
        with pytest.raises(UserError, match="^`strategy`: expected one of auto, one, mirrored, wo"):
            SearchConfig(strategy="parameter_server")

    @pytest.mark.parametrize("replicas", [3, 64])
    def test_a_batch_that_cannot_be_divided_among_the_replicas(self, replicas):
        config = SearchConfig(batch=100)
        with pytest.raises(UserError, match=f"`batch`: expected a multiple of {replicas}.* 100"):
            config.resolve(rows=2000, replicas=replicas)
        assert config.resolve(rows=2000, replicas=4).batch == 100

    @pytest.mark.parametrize("replicas", [1, 2, 3, 7])
    def test_a_batch_that_is_chosen_by_the_data_can_be_divided(self, replicas):
        batch = SearchConfig().resolve(rows=100_000, replicas=replicas).batch
        assert batch % replicas == 0
        assert 128 - replicas < batch <= 128


# What a process with two logical devices can tell.
CHOOSE = """
import json, sys
import tensorflow as tf
import fives_tf
from fives_tf.errors import UserError
from fives_tf.training.strategy import Place, choose

def attempt(work):
    try:
        work()
    except UserError as error:
        return str(error)

found = {}
for kind in ("auto", "mirrored", "one"):
    strategy, told = choose(kind, "cpu:2")
    with strategy.scope():
        place = Place.here()
    found[kind] = [told, strategy.num_replicas_in_sync, place.worker, place.workers, place.replicas]
found["again"] = choose("auto", "cpu:2")[0] is choose("auto", "cpu:2")[0]
dataset, run = sys.argv[1:]
found["batch"] = attempt(lambda: fives_tf.search(dataset, run, devices="cpu:2", batch=97))
found["other devices"] = attempt(lambda: choose("auto", "cpu:3"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def chosen(small_dataset, tmp_path_factory):
    run = tmp_path_factory.mktemp("chosen") / "run"
    done = subprocess.run(
        [sys.executable, "-c", CHOOSE, str(small_dataset), str(run)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not (run / "run.json").exists(), "no run is begun by a mistake"
    return json.loads(done.stdout)


class TestChoose:
    def test_several_devices_are_mirrored(self, chosen):
        told, replicas, *place = chosen["auto"]
        assert told == "MirroredStrategy on 2 devices, CPU:0 to CPU:1: as asked for"
        assert replicas == 2
        assert place == [0, 1, 2]
        assert chosen["mirrored"] == chosen["auto"]

    def test_one_device_may_be_asked_for(self, chosen):
        assert chosen["one"] == ["one device, CPU:0: as asked for", 1, 0, 1, 1]

    def test_the_same_choice_is_the_same_strategy(self, chosen):
        assert chosen["again"]

    def test_a_search_refuses_a_batch_that_cannot_be_divided(self, chosen):
        assert chosen["batch"].startswith("`batch`: expected a multiple of 2, the number of repli")
        assert chosen["batch"].endswith("Received: 97.")

    def test_other_devices_need_another_process(self, chosen):
        assert "`devices`: cpu:3 cannot be had any more" in chosen["other devices"]
        assert "use a process of its own" in chosen["other devices"]


class TestAlone:
    """A process without others agrees with itself."""

    def test_its_place(self):
        assert Place.here() == Place(worker=0, workers=1, replicas=1)
        assert Place.here().is_chief

    def test_places_among_workers(self):
        place = Place(worker=1, workers=3, replicas=6)
        assert place.local == 2
        assert not place.is_chief
        assert dataclasses.replace(place, worker=0).is_chief

    def test_it_agrees_with_itself(self):
        assert agree(7) == 7
        assert on_chief(lambda: "done") == "done"

    def test_what_fails_on_the_chief_is_raised_there(self):
        def fail():
            raise ValueError("on purpose")

        with pytest.raises(ValueError, match="on purpose"):
            on_chief(fail)

    def test_it_tells(self, capsys):
        tell("one line")
        assert capsys.readouterr().err == "one line\n"

    def test_an_error_of_tensorflow_is_its_own(self, monkeypatch):
        monkeypatch.delenv("TF_CONFIG", raising=False)
        with pytest.raises(tf.errors.UnavailableError, match="on purpose"), losing_workers():
            raise tf.errors.UnavailableError(None, None, "on purpose")


# What each of two workers writes to a file of its own.
AGREE = """
import json, sys
from fives_tf.training.strategy import Place, agree, choose, on_chief, tell

strategy, told = choose("workers")
with strategy.scope():
    place = Place.here()
    found = {"place": [place.worker, place.workers, place.replicas, place.local]}
    found["agreed"] = [agree([5, 7][place.worker]), agree([8, 0][place.worker])]
    found["on chief"] = on_chief(lambda: "done")
    tell(f"told: {told}")
    def fail():
        raise ValueError("on purpose")
    try:
        on_chief(fail)
    except Exception as error:
        found["error"] = [type(error).__name__, str(error)]
    found["after"] = agree(3)
with open(f"{sys.argv[1]}/{place.worker}.json", "w") as file:
    json.dump(found, file)
"""


def test_two_workers_agree_and_leave_to_the_chief_what_is_the_chiefs(tmp_path):
    with workers(2, [sys.executable, "-c", AGREE, str(tmp_path)]) as both:
        ends = [end(worker) for worker in both]
    assert [code for code, _ in ends] == [0, 0], ends
    chief, other = (json.loads((tmp_path / f"{index}.json").read_text()) for index in (0, 1))
    assert (chief["place"], other["place"]) == ([0, 2, 2, 1], [1, 2, 2, 1])
    assert chief["agreed"] == other["agreed"] == [7, 8], "the largest of both"
    assert (chief["on chief"], other["on chief"]) == ("done", None)
    assert chief["error"] == ["ValueError", "on purpose"]
    assert other["error"][0] == "WorkerLostError"
    assert "worker 0 has stopped; its output says why" in other["error"][1]
    assert chief["after"] == other["after"] == 3, "they go on to agree after that"
    line = "told: MultiWorkerMirroredStrategy on 2 workers, 2 replicas: as TF_CONFIG tells"
    assert [told.count(line) for _, told in ends] == [1, 0]
