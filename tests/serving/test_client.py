"""The client, over real sockets."""

import json
import math
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from launch.serving import client
from tests.serving import tiny

PROGRAM = Path(__file__).parents[2] / "launch/serving/client.py"
ROWS = [
    {"age": 30, "city": "Rome", "user id": "u1"},
    {"age": None, "city": "", "user id": "zoë"},
    {"age": "5.5", "user id": 42},
    {},
]
ANSWERS = [
    tiny.probability(row)
    for row in (ROWS[0], {"user id": "zoë!"}, {"age": 5.5, "user id": "42"}, {})  # ë has two bytes
]


@pytest.fixture(params=["grpc", "rest"])
def protocol(request) -> str:
    return request.param


@pytest.fixture
def connect(tiny_server, protocol):
    """A client of the protocol for the tiny server."""

    def make(**options):
        if protocol == "grpc":
            return client.GrpcClient(tiny_server.grpc_address, **options)
        return client.RestClient(tiny_server.rest_address, **options)

    return make


@pytest.fixture
def run(tiny_server, protocol, capsys):
    """Runs the program in this process."""

    def start(*arguments: object) -> tuple[int, str, str]:
        addresses = ["--server", tiny_server.grpc_address, "--rest", tiny_server.rest_address]
        code = client.main([*addresses, "--protocol", protocol, *map(str, arguments)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return start


@pytest.fixture
def rows_file(tmp_path) -> Path:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(ROWS))
    return path


@pytest.mark.parametrize("signature", ["serving_default", "explain", "examples"])
def test_every_signature_of_rows_says_the_same(connect, signature):
    with connect() as one:
        found = client.predict(one, ROWS, signature)
    assert found["probability"] == pytest.approx(ANSWERS)


def test_the_server_tells_the_signatures(connect):
    with connect() as one:
        found = one.signatures()
    types = {"age": "DT_FLOAT", "city": "DT_STRING", "user id": "DT_STRING"}
    assert found["serving_default"] == client.Signature(types, ("probability",))
    assert found["ids"].inputs == {"ids": "DT_INT64"}
    assert set(found["explain"].outputs) == {"probability", "logits", "crosses"}


def test_rows_of_ids(connect):
    with connect() as one:
        found = client.predict(one, [{"ids": [0, 0]}, {"ids": [1, 1]}], "ids")
    assert found == {"probability": pytest.approx([0.5, 0.880797])}


def test_rows_are_sent_in_batches_and_keep_their_order(connect, monkeypatch):
    rows = [{"age": float(age)} for age in range(7)]
    with connect() as one:
        sizes, send = [], one.run
        monkeypatch.setattr(
            one, "run", lambda *call: sizes.append(len(call[2]["age"])) or send(*call)
        )
        found = client.predict(one, rows, batch=3)
    assert sizes == [3, 3, 1]
    assert found["probability"] == pytest.approx([tiny.probability(row) for row in rows])


def test_a_version_can_be_named(connect):
    with connect(version=3) as one:
        assert client.predict(one, [{}])["probability"] == [0.5]
    with (
        connect(version=4) as one,
        pytest.raises(client.ServerError, match=r"Specific\(fives, 4\)"),
    ):
        client.predict(one, [{}])


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8")),
        st.one_of(st.text(st.characters(codec="utf-8")), st.floats(width=32)),
    )
)
def test_an_example_is_what_tensorflow_reads(row):
    example = tf.train.Example.FromString(client._example(row))
    found = {
        name: (list(feature.bytes_list.value) or list(feature.float_list.value))[0]
        for name, feature in example.features.feature.items()
    }
    there = {name: value for name, value in row.items() if value != "" and value == value}
    assert found == {
        name: value.encode() if isinstance(value, str) else value for name, value in there.items()
    }


def test_a_number_beyond_float32_is_infinite(connect):
    rows = [{"age": value} for value in (1e300, "-1e39", 10**400, 3.4e38)]
    with connect() as one:
        assert client.predict(one, rows)["probability"] == [1.0, 0.0, 1.0, 1.0]


def test_long_texts_have_lengths_of_several_bytes():
    for size in (127, 128, 16_383, 16_384):
        example = tf.train.Example.FromString(client._example({"x": "a" * size}))
        assert example.features.feature["x"].bytes_list.value[0] == b"a" * size


def test_the_program_prints_a_probability_a_line(run, rows_file):
    code, out, err = run("--rows", rows_file)
    assert (code, err) == (0, "")
    assert [float(line) for line in out.splitlines()] == pytest.approx(ANSWERS, rel=1e-6)


def test_the_program_prints_all_outputs_as_json(run, rows_file):
    code, out, _ = run("--rows", rows_file, "--signature", "explain", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, len(rows)) == (0, len(ROWS))
    assert rows[0]["crosses"] == [7, 9]
    assert rows[0]["probability"] == pytest.approx(ANSWERS[0])
    assert rows[0]["logits"] == pytest.approx([math.log(ANSWERS[0] / (1 - ANSWERS[0]))], rel=1e-4)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_csv_is_read_as_json_is(run, tmp_path, encoding):
    path = tmp_path / "rows.csv"
    path.write_text('user id,age\nu1,30\n"a,b",\n', encoding)
    code, out, _ = run("--rows", path)
    expected = [{"user id": "u1", "age": 30}, {"user id": "a,b"}]
    assert code == 0
    assert [float(line) for line in out.splitlines()] == pytest.approx(
        [tiny.probability(row) for row in expected], rel=1e-6
    )


@pytest.mark.parametrize(
    ("name", "text", "flags", "message"),
    [
        ("rows.json", "[{}, {'a'", (), "rows.json: cannot be read (Expecting"),
        ("rows.json", "{}", (), "rows.json: expected a list of at least one row."),
        ("rows.json", "[]", (), "rows.json: expected a list of at least one row."),
        ("rows.json", "[{}, 3]", (), "rows.json: row 2: expected an object. Received: 3."),
        ("rows.csv", "age\n1,2\n", (), "row 1: has more values than the header has names."),
        ("rows.json", '[{}, {"aeg": 1}]', (), "row 2: unknown column 'aeg'. The model has: age, "),
        ("rows.csv", "age\nold\n", (), "row 1: column 'age': expected a number. Received: 'old'."),
        ("rows.json", '[{"age": true}]', (), "column 'age': expected a number. Received: True."),
        ("rows.json", '[{"city": 1.5}]', (), "column 'city': expected a text. Received: 1.5."),
        ("rows.json", '[{"city": "\\ud800"}]', (), "column 'city': expected a text."),
        ("rows.json", '[{"city": 3}]', ("--signature=no",), "--signature: expected one of cl"),
        ("rows.json", '[{"ids": "1"}]', ("--signature=ids",), "expected a list of whole numbers."),
        (
            "rows.json", '[{"ids": [1, 2]}, {"ids": [1]}]', ("--signature=ids",),
            "row 2: 'ids' has another length than in row 1.",
        ),
        ("rows.json", '[{"text": ""}]', ("--signature=text",), "no probability but echo"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_rows_gets_one_line(run, tmp_path, name, text, flags, message):
    (tmp_path / name).write_text(text)
    code, out, err = run("--rows", tmp_path / name, *flags)
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("client.py: ")
    assert message in err


def test_a_mistake_in_a_later_batch_is_told_with_its_row(run, tmp_path):
    path = tmp_path / "rows.json"
    path.write_text('[{}, {}, {"age": "x"}]')
    assert "row 3: column 'age'" in run("--rows", path, "--batch=2")[2]


def test_a_file_that_is_not_there_gets_one_line(run, tmp_path):
    code, _, err = run("--rows", tmp_path / "no.json")
    assert (code, "no.json: cannot be read" in err) == (2, True)


@pytest.mark.parametrize(
    "flags", [("--timeout=0",), ("--batch=0",), ("--protocol=udp",), ("--version=x",), ("--row=a",)]
)
def test_a_mistake_in_the_flags_ends_with_2(run, rows_file, flags):
    with pytest.raises(SystemExit) as end:
        run("--rows", rows_file, *flags)
    assert end.value.code == 2


def test_an_address_that_is_no_url_is_told(rows_file, capsys):
    flags = ["--rows", str(rows_file), "--protocol=rest", "--rest=localhost:8501"]
    assert client.main(flags) == 2
    assert "--rest: expected http://HOST:PORT" in capsys.readouterr().err


def test_an_error_of_the_server_is_told_with_its_status(run, rows_file, protocol):
    code, out, err = run("--rows", rows_file, "--model=no")
    status = {"grpc": "NOT_FOUND", "rest": "404 Not Found"}[protocol]
    assert (code, out) == (1, "")
    assert err == f"client.py: {status}: Servable not found for request: Latest(no)\n"


def test_a_server_that_is_not_there_or_silent_is_given_up(rows_file, protocol, capsys):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = "{}:{}".format(*silent.getsockname())
        flags = ["--rows", str(rows_file), "--protocol", protocol, "--timeout=0.3"]
        flags += ["--server", address, "--rest", f"http://{address}"]
        for listen in (False, True):
            if listen:
                silent.listen()
            assert client.main(flags) == 1
            err = capsys.readouterr().err
            assert err.startswith("client.py: ")
            assert err.count("\n") == 1


def test_another_server_than_tensorflow_serving_is_told(tiny_server):
    other = client.RestClient(tiny_server.rest_address)
    other._call = lambda path: ["something else"]
    with pytest.raises(client.ServerError, match="none of TensorFlow Serving"):
        other.signatures()


@pytest.mark.parametrize("answer", [b"{}", b"[]", b'{"outputs": 3}'])
def test_an_answer_without_outputs_is_told(tiny_server, rows_file, monkeypatch, capsys, answer):
    load = json.load

    def load_other(file):
        is_answer = getattr(file, "url", "").endswith(":predict")
        return json.loads(answer) if is_answer else load(file)

    monkeypatch.setattr(client.json, "load", load_other)
    flags = ["--rows", str(rows_file), "--protocol=rest", "--rest", tiny_server.rest_address]
    assert client.main(flags) == 1
    told = capsys.readouterr().err
    assert told.startswith("client.py: http://")
    assert told.endswith(": its answer is none of TensorFlow Serving\n")


@pytest.mark.parametrize("isolated", [True, False], ids=["rest", "grpc"])
def test_it_runs_as_a_program_of_its_own(tiny_server, rows_file, tmp_path, isolated):
    """Over REST without any package, TensorFlow among them."""
    command = [sys.executable, *(["-I", "-S"] if isolated else []), str(PROGRAM)]
    where = {"--rest": tiny_server.rest_address, "--server": tiny_server.grpc_address}
    flags = [text for pair in where.items() for text in pair]
    flags += ["--protocol", "rest" if isolated else "grpc", "--rows", str(rows_file)]
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [float(line) for line in done.stdout.splitlines()] == pytest.approx(ANSWERS, rel=1e-6)


def test_without_the_packages_of_grpc_the_way_out_is_told(rows_file, tmp_path):
    command = [sys.executable, "-I", "-S", str(PROGRAM), "--rows", str(rows_file)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert "Install tensorflow-serving-api or use --protocol rest." in done.stderr
    assert done.stderr.count("\n") == 1
