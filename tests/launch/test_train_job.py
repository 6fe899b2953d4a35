"""The job from a log to a finished run, stopped and started again, and its status file."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fives_tf.errors import UserError
from fives_tf.exported import Export
from fives_tf.run import Run
from launch import train_job
from launch.cluster import config_of
from launch.status import Status, last_metrics

SETTINGS = [
    "--search_epochs=1",
    "--epochs=1",
    "--lr_epochs=1",
    "--dim=2",
    "--no_xla",
    "--batch=512",
]
KEYS = ["state", "stage", "step", "metrics", "error", "started", "updated"]


def start(*arguments: object, **environ: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "launch.train_job", *map(str, arguments)]
    pipe = subprocess.PIPE
    env = {**os.environ, **environ}
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=env)


def finish(process: subprocess.Popen) -> subprocess.CompletedProcess:
    told, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, told, errors)


def status_of(path: Path) -> dict:
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def log(fives, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("job") / "log"
    done = fives("synth", "--rows", 2000, "--out", directory)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="module")
def source(log) -> list[str]:
    return ["--log", str(log / "log.csv"), "--schema", str(log / "schema.yaml")]


@pytest.fixture(scope="module")
def finished(source, tmp_path_factory):
    """A job that went through, and what it told."""
    directory = tmp_path_factory.mktemp("finished")
    done = finish(start(*source, *places(directory), "--", *SETTINGS))
    assert done.returncode == 0, done.stderr
    return directory, done


def places(directory: Path) -> list[object]:
    """Where a job writes."""
    exports = ["--export", directory / "exports", "--export_light", directory / "light"]
    return ["--run", directory / "run", *exports]


class TestWholeJob:
    def test_it_preprocesses_and_searches(self, finished):
        directory, done = finished
        run = Run.open(str(directory / "run"))
        assert run.config.dim == 2
        assert run.dataset().directory == str(directory / "run-dataset")
        assert "valid: AUC" in done.stdout

    def test_the_status_tells_the_end(self, finished):
        directory, _ = finished
        status = status_of(directory / "run.status.json")
        assert list(status) == KEYS
        lines = (directory / "run/metrics.jsonl").read_text().splitlines()
        assert status["state"] == "done"
        assert status["error"] is None
        assert status["metrics"] == json.loads(lines[-1])
        assert (status["stage"], status["step"]) == ("refit-0", status["metrics"]["step"])
        assert status["started"] < status["updated"]
        assert not list(directory.glob("*.aside"))

    def test_it_exports_both_models_once(self, finished):
        directory, done = finished
        paths = [str(directory / "exports/1"), str(directory / "light/1")]
        assert done.stdout.splitlines()[-2:] == paths
        for path, kind in zip(paths, ("fives", "light"), strict=True):
            Export.open(path)
            card = json.loads(Path(path, "assets.extra/model_card.json").read_text())
            assert card["model"] == kind

    def test_a_finished_job_that_is_started_again_is_done_at_once(self, finished, source):
        directory, done = finished
        before = (directory / "run/run.json").read_bytes()
        again = finish(start(*source, *places(directory), *SETTINGS))
        assert again.returncode == 0, again.stderr
        assert again.stdout == done.stdout
        assert (directory / "run/run.json").read_bytes() == before
        assert status_of(directory / "run.status.json")["state"] == "done"
        assert not (directory / "exports/2").exists(), "a run is exported once"


def test_a_job_that_sigterm_stopped_goes_on_and_finishes(finished, tmp_path):
    dataset = finished[0] / "run-dataset"
    flags = ["--dataset", dataset, "--run", tmp_path / "run", "--status", tmp_path / "status.json"]
    settings = [*SETTINGS, "--batch=16", "--checkpoint_seconds=0", "--evaluate_rows=320"]
    process = start(*flags, *settings)
    metrics = tmp_path / "run/metrics.jsonl"
    while not metrics.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    done = finish(process)
    assert done.returncode == 128 + signal.SIGTERM
    assert "train_job: interrupted; the same command goes on from here" in done.stderr
    assert "Traceback" not in done.stderr
    status = status_of(tmp_path / "status.json")
    assert (status["state"], status["error"]) == ("interrupted", None)
    assert status["stage"] is not None

    done = finish(start(*flags, *settings))
    assert done.returncode == 0, done.stderr
    assert status_of(tmp_path / "status.json")["state"] == "done"
    assert Run.open(str(tmp_path / "run")).is_complete


class TestMistakes:
    def refused(self, directory: Path, *arguments: object, **environ: str) -> dict:
        """Asserts that a job is refused in one message, before it writes more than its status."""
        flags = ["--run", directory / "run", "--status", directory / "status.json"]
        done = finish(start(*flags, *arguments, **environ))
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("train_job: ") == 1
        assert "Traceback" not in done.stderr
        assert [path.name for path in directory.iterdir()] == ["status.json"]
        status = status_of(directory / "status.json")
        assert status["state"] == "failed"
        assert status["error"] in done.stderr
        return status

    def test_two_models_at_one_place(self, finished, tmp_path):
        dataset = finished[0] / "run-dataset"
        flags = ["--dataset", dataset, "--export", tmp_path / "e", "--export_light", tmp_path / "e"]
        done = finish(start("--run", tmp_path / "run", *flags))
        assert done.returncode == 2, done.stderr
        assert "--export_light: expected another directory than that of --export" in done.stderr

    def test_an_export_into_a_file(self, finished, tmp_path):
        file = finished[0] / "run/run.json"
        status = self.refused(tmp_path, "--dataset", finished[0] / "run-dataset", "--export", file)
        assert "run.json: is a file; choose a directory for the versions." in status["error"]

    def test_a_bad_schema(self, log, tmp_path_factory):
        schema = tmp_path_factory.mktemp("bad") / "schema.yaml"
        schema.write_text("labl: click\n")
        directory = tmp_path_factory.mktemp("refused")
        status = self.refused(directory, "--log", log / "log.csv", "--schema", schema)
        assert str(schema) in status["error"]

    def test_a_log_that_is_not_there(self, log, tmp_path):
        status = self.refused(tmp_path, "--log", "nowhere", "--schema", log / "schema.yaml")
        assert "nowhere: no such file" in status["error"]

    def test_a_dataset_that_is_not_there(self, tmp_path):
        assert "nowhere" in self.refused(tmp_path, "--dataset", "nowhere")["error"]

    def test_a_bad_setting_is_found_before_the_log_is_read(self, source, tmp_path):
        status = self.refused(tmp_path, *source, "--order=1")
        assert "`order`: expected a whole number from 2. Received: 1." in status["error"]

    def test_an_unknown_setting(self, source, tmp_path):
        status = self.refused(tmp_path, *source, "--", "--ordre=2")
        assert "unrecognized arguments: --ordre=2; see `fives search --help`" in status["error"]

    def test_missing_gpus(self, source, tmp_path):
        status = self.refused(tmp_path, *source, "--gpus=4", CUDA_VISIBLE_DEVICES="")
        assert "--gpus: expected 4 GPUs. Received: 0" in status["error"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([], "--dataset: give a dataset, or --log and --schema to make one"),
            (["--log", "l"], "--schema: is needed beside --log"),
            (["--schema", "s"], "--log: is needed beside --schema"),
            (["--dataset", "d", "--wait_seconds=-1"], "--wait_seconds: expected from 0"),
            (["--dataset", "d", "--gpus=-1"], "--gpus: expected from 0"),
            (["--dataset", "d", "--status=run/status.json"], "--status: expected a file outside"),
            (["--dataset", "d", "--status=d/status.json"], "--status: expected a file outside"),
            (["--dataset", "d", "--overwrite"], "not allowed with argument --resume"),
            (["--dataset", "d", "--dim=two"], "argument --dim: expected a whole number"),
        ],
    )
    def test_flags_that_do_not_fit_are_found_before_a_job_is_submitted(self, arguments, message):
        with pytest.raises(UserError) as error:
            train_job.check_arguments(["--run", "run", *arguments])
        assert message in str(error.value)


class TestSeveralWorkers:
    def config(self, index: int) -> str:
        return json.dumps(config_of(["127.0.0.1:1", "127.0.0.1:2"], index))

    def test_the_second_waits_for_the_dataset_and_writes_no_status(
        self, finished, source, tmp_path, monkeypatch
    ):
        """It must find the dataset when that is complete, so the search sees it; no earlier."""
        seen = []
        naps = []

        def nap(seconds):
            naps.append(seconds)
            if len(naps) == 2:
                shutil.copytree(finished[0] / "run-dataset", tmp_path / "run-dataset")

        monkeypatch.setattr(train_job.time, "sleep", nap)
        monkeypatch.setattr(train_job.search_command, "run", seen.append)
        monkeypatch.setenv("TF_CONFIG", self.config(1))
        args = train_job.parse_flags(["train_job", *source, "--run", str(tmp_path / "run")])
        assert train_job.run(args) == 0
        assert len(naps) == 2
        assert (seen[0].dataset, seen[0].resume) == (str(tmp_path / "run-dataset"), True)
        assert [path.name for path in tmp_path.iterdir()] == ["run-dataset"]

    def test_the_second_does_not_wait_for_ever(self, source, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("TF_CONFIG", self.config(1))
        flags = [*source, "--run", str(tmp_path / "run"), "--wait_seconds=0"]
        assert train_job.run(train_job.parse_flags(["train_job", *flags])) == 2
        told = capsys.readouterr().err
        assert "run-dataset: is not complete after 0 seconds" in told
        assert list(tmp_path.iterdir()) == []

    def test_the_first_preprocesses_and_writes_the_status(self, source, tmp_path, monkeypatch):
        states = []

        def search(args):
            states.append(status_of(tmp_path / "run.status.json")["state"])

        monkeypatch.setattr(train_job.search_command, "run", search)
        monkeypatch.setenv("TF_CONFIG", self.config(0))
        args = train_job.parse_flags(["train_job", *source, "--run", str(tmp_path / "run")])
        assert train_job.run(args) == 0
        assert states == ["searching"]
        assert (tmp_path / "run-dataset/dataset.json").exists()

    def test_a_bad_config_is_refused(self, source, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("TF_CONFIG", "{")
        args = train_job.parse_flags(["train_job", *source, "--run", str(tmp_path / "run")])
        assert train_job.run(args) == 2
        assert "train_job: TF_CONFIG: expected" in capsys.readouterr().err


class TestStatus:
    def test_what_failed_unforeseen_is_told_and_raised(self, finished, tmp_path, monkeypatch):
        def fail(args):
            raise RuntimeError("out of luck")

        monkeypatch.setattr(train_job.search_command, "run", fail)
        monkeypatch.delenv("TF_CONFIG", raising=False)
        flags = ["--dataset", str(finished[0] / "run-dataset"), "--run", str(tmp_path / "run")]
        args = train_job.parse_flags(["train_job", *flags])
        with pytest.raises(RuntimeError, match="out of luck"):
            train_job.run(args)
        status = status_of(tmp_path / "run.status.json")
        assert (status["state"], status["error"]) == ("failed", "RuntimeError: out of luck")

    def test_it_is_written_now_and_then_with_the_last_metrics(self, tmp_path, monkeypatch):
        monkeypatch.setattr("launch.status._SECONDS", 0.01)
        path = tmp_path / "status.json"
        status = Status(str(path), str(tmp_path))
        with status.watched():
            status.enter("searching")
            assert status_of(path)["metrics"] is None
            (tmp_path / "metrics.jsonl").write_text('{"stage": "lr", "step": 7}\n{"stage": "se')
            deadline = time.monotonic() + 30
            while status_of(path)["metrics"] is None:
                assert time.monotonic() < deadline
        shown = status_of(path)
        assert (shown["stage"], shown["step"]) == ("lr", 7)

    def test_the_last_metrics_are_those_of_the_run_or_of_its_last_trial(self, tmp_path):
        assert last_metrics(str(tmp_path)) is None
        (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
        os.utime(tmp_path / "metrics.jsonl", (1, 1))
        (tmp_path / "tune/a").mkdir(parents=True)
        (tmp_path / "tune/a/metrics.jsonl").write_text('{"step": 2}\n{"step": 3}\n')
        assert last_metrics(str(tmp_path)) == {"step": 3}

    def test_a_status_that_cannot_be_written_is_refused_at_the_start(self, finished, tmp_path):
        (tmp_path / "file").write_text("")
        flags = ["--dataset", finished[0] / "run-dataset", "--run", tmp_path / "run"]
        done = finish(start(*flags, "--status", tmp_path / "file/status.json"))
        assert done.returncode == 2
        assert "file/status.json: cannot be written" in done.stderr
        assert "Traceback" not in done.stderr


def test_help_helps_without_heavy_imports():
    program = (
        "import sys; sys.argv = ['train_job', '--help']\n"
        "from launch.train_job import main\n"
        "try:\n    main()\nfinally:\n"
        "    print(sorted({'tensorflow', 'apache_beam', 'pyarrow', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("[]\n")
    assert "Exit codes: 0 done; 2 a mistake" in " ".join(done.stdout.split())
