import subprocess
import sys

import pytest

from fives_tf import __version__
from fives_tf.cli import VERBS


@pytest.mark.parametrize("verb", [None, *VERBS])
def test_help_helps_without_heavy_imports(verb):
    arguments = ["fives", *([verb] if verb else []), "--help"]
    program = (
        f"import sys; sys.argv = {arguments!r}\n"
        "from fives_tf.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'tensorflow', 'apache_beam', 'pyarrow', 'numpy', 'rich'} & set(sys.modules)\n"
        "    print('heavy:', sorted(heavy))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "heavy: []" in run.stdout
    assert "usage: fives" in run.stdout
    if verb is None:
        assert all(name in run.stdout for name in VERBS)


def test_the_version_is_printed(fives):
    assert fives("--version").stdout.strip() == f"fives-tf {__version__}"


def test_the_way_from_a_generated_log_to_its_description(fives, tmp_path):
    made = fives("synth", "--rows", 3000, "--out", tmp_path / "log")
    assert made.returncode == 0, made.stderr
    assert "Bayes AUC" in made.stdout
    done = fives(
        "preprocess",
        tmp_path / "log/log.csv",
        "--schema",
        tmp_path / "log/schema.yaml",
        "--out",
        tmp_path / "dataset",
        "--shards=train=3,valid=2,test=1",
    )
    assert done.returncode == 0, done.stderr
    assert "pass 1: fit: 100%, 3,000 rows" in done.stderr
    assert "pass 2: encode: 100%, 3,000 rows" in done.stderr
    assert "WARNING" not in done.stderr
    shown = fives("describe", tmp_path / "dataset")
    assert shown.returncode == 0, shown.stderr
    table = [line.split("\t") for line in shown.stdout.splitlines()]
    assert table[0] == ["split", "rows", "clicks", "click rate", "shards"]
    assert sum(int(row[1].replace(",", "")) for row in table[1:4]) == 3000
    assert any(row[0] == "I1@10" for row in table)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["preprocess", "no-such-log", "--schema", "no-such-schema", "--out", "d"],
            "no-such-schema",
        ),
        (["describe", "no-such-dataset"], "no such directory; make it with `fives preprocess`"),
        (["describe", "--jsn", "d"], "unknown flag --jsn"),
        (["preprocess", "l", "--schema", "s", "--out", "d", "--shards=a"], "--shards: expected"),
        (["preprocess", "l", "--schema", "s", "--out", "d", "--runnr=x"], "unknown flag --runnr"),
        (["preprocess", "l", "--schema", "s", "--out", "d", "--piece_bytes=0"], "at least 1"),
        (["preprocess", "l", "--schema", "s", "--out", "d", "--max_bad_fraction=2"], "between"),
        (["synth", "--rows=9", "--out=s3://bucket/log"], "--out: s3://bucket/log is at a store"),
        (["no-such-verb"], "invalid choice"),
        ([], "VERB"),
    ],
)
def test_a_mistake_gets_one_message_and_exit_code_2(arguments, message, fives, tmp_path):
    run = fives(*arguments, cwd=tmp_path)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [["--workers=1"], ["--workers=2"], ["--worker_kind=processes"]])
def test_a_mistake_that_workers_find_gets_one_message_too(workers, fives, tmp_path):
    fives("synth", "--rows", 500, "--out", tmp_path / "log", "--compression=gz")
    log = tmp_path / "log/log.csv.gz"
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])
    schema = tmp_path / "log/schema.yaml"
    run = fives("preprocess", log, "--schema", schema, "--out", tmp_path / "d", *workers)
    assert run.returncode == 2
    assert "cannot be decompressed" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path):
    program = f"{sys.executable} -m fives_tf.cli synth --rows 100 --out {tmp_path / 'log'} | true"
    run = subprocess.run(["bash", "-c", f"set -o pipefail; {program}"], capture_output=True)
    assert run.returncode == 0, run.stderr
