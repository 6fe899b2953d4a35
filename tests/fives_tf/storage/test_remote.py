"""Files at a store, against a real server that speaks S3."""

import io
import json
import os
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.storage import remote


@pytest.fixture(autouse=True)
def _connect_anew():
    """Settings are read once a process, and each test has others."""
    remote._connect.cache_clear()
    yield
    remote._connect.cache_clear()


def refusal(action, *arguments):
    with pytest.raises(UserError) as error:
        action(*arguments)
    return str(error.value)


def test_files_are_written_read_and_listed(bucket):
    path = storage.join(bucket, "a", "b.txt")
    assert not storage.exists(path)
    assert storage.names(bucket) == []
    storage.write(path, b"content")
    assert storage.read(path) == b"content"
    assert storage.size(path) == 7
    assert storage.size(f"{bucket}/a") is None
    assert storage.exists(f"{bucket}/a")
    assert storage.is_directory(f"{bucket}/a/")
    assert not storage.is_directory(path)
    assert storage.names(bucket) == ["a"]
    assert storage.names(f"{bucket}/a/") == ["b.txt"]
    assert storage.sizes(bucket) == {"a/b.txt": 7}
    with storage.open_read(path) as file:
        file.seek(3)
        assert (file.read(2), file.tell()) == (b"te", 5)


def test_a_file_takes_its_name_when_it_is_whole(bucket):
    path = f"{bucket}/a.txt"
    storage.write(path, b"old")
    with storage.create(path) as file:
        file.write(b"new")
        assert storage.read(path) == b"old"
    assert storage.read(path) == b"new"
    assert list(storage.sizes(bucket)) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, UserError])
def test_an_error_leaves_nothing_and_keeps_what_was_there(bucket, error):
    storage.write(f"{bucket}/old", b"old")
    for name in ("old", "new"):
        with pytest.raises(error), storage.create(f"{bucket}/{name}") as file:
            file.write(b"half")
            raise error("stop")
    assert storage.sizes(bucket) == {"old": 3}
    assert storage.read(f"{bucket}/old") == b"old"


def test_large_files_are_written_in_parts(bucket):
    content = np.random.default_rng(0).bytes(12 << 20)
    storage.write(f"{bucket}/large", content)
    assert storage.read(f"{bucket}/large") == content


def test_what_libraries_write_and_read_works(bucket):
    table = pa.table({"a": range(1000)})
    with storage.create(f"{bucket}/a.parquet") as file:
        pq.write_table(table, file)
    with storage.open_read(f"{bucket}/a.parquet") as file:
        assert pq.read_table(file) == table
    with storage.create(f"{bucket}/a.npz") as file:
        np.savez(file, a=np.arange(5))
    with storage.open_read(f"{bucket}/a.npz") as file, np.load(io.BytesIO(file.read())) as arrays:
        np.testing.assert_array_equal(arrays["a"], np.arange(5))
    with storage.create(f"{bucket}/a.csv.gz") as file, storage.compressing(file, True) as stream:
        stream.write(b"packed")
    with storage.Decompressed(f"{bucket}/a.csv.gz") as stream:
        assert stream.read(100) == b"packed"


def test_lines_are_appended(bucket):
    for line in (b"1\n", b"2\n"):
        storage.append(f"{bucket}/run/lines", line)
    assert storage.read(f"{bucket}/run/lines") == b"1\n2\n"


def test_files_and_directories_are_moved_and_removed(bucket):
    for name in ("d/a", "d/e/b", "d2/c"):
        storage.write(f"{bucket}/{name}", name.encode())
    storage.move(f"{bucket}/d", f"{bucket}/moved/d")
    assert sorted(storage.sizes(bucket)) == ["d2/c", "moved/d/a", "moved/d/e/b"]
    assert storage.read(f"{bucket}/moved/d/e/b") == b"d/e/b"
    assert not storage.exists(f"{bucket}/d")
    storage.move(f"{bucket}/d2/c", f"{bucket}/moved/d/a")
    assert storage.read(f"{bucket}/moved/d/a") == b"d2/c"
    storage.remove(f"{bucket}/moved")
    storage.remove(f"{bucket}/moved")
    assert storage.sizes(bucket) == {}


def test_only_what_was_left_half_written_is_removed(bucket):
    aside = f"b.csv.0123{storage.ASIDE}"
    for name in ("a.csv", aside, f"c/{aside}", f"d{storage.ASIDE}/e", "c/whole"):
        storage.append(f"{bucket}/run/{name}", b"")
    storage.remove_asides(f"{bucket}/run")
    assert sorted(storage.sizes(f"{bucket}/run")) == ["a.csv", "c/whole"]


def test_patterns_find_files_as_on_a_disk(bucket, tmp_path):
    names = ["b.csv", "a.csv", "a.txt", ".hidden.csv", "x/c.csv", "y/c.csv", "y/z/d.csv", "[1].csv"]
    for name in names:
        for root in (bucket, tmp_path):
            storage.write(f"{root}/{name}", name.encode())
    for pattern in ("*.csv", "a.*", "*/c.csv", "[xy]/*.csv", "?/z/*", "a.csv", "[1].csv", ".*"):
        found = [
            [info.path.removeprefix(f"{root}/") for info in storage.find([f"{root}/{pattern}"])]
            for root in (bucket, tmp_path)
        ]
        assert found[0] == found[1], pattern
    [info] = storage.find([f"{bucket}/a.csv"])
    assert info.size == 5
    assert abs(info.modified / 1e9 - time.time()) < 600
    message = refusal(storage.find, [f"{bucket}/*.tsv"])
    assert message == f"{bucket}/*.tsv: no such file; check the path or the pattern."
    assert "is a directory; name its files" in refusal(storage.find, [f"{bucket}/x"])


def test_a_directory_is_filled_from_the_disk_with_the_file_that_counts_last(bucket, monkeypatch):
    order = []
    upload = remote.Remote._upload
    monkeypatch.setattr(
        remote.Remote, "_upload", lambda self, *a: (order.append(a[1]), upload(self, *a))
    )
    with storage.create_directory(f"{bucket}/exports/1", last="model") as directory:
        for name in ("model", "variables", "x/y"):
            storage.write(storage.join(directory, name), name.encode())
    assert sorted(storage.sizes(f"{bucket}/exports/1")) == ["model", "variables", "x/y"]
    assert order[-1] == f"{bucket}/exports/1/model"
    assert not os.path.exists(directory)
    with storage.fetched(f"{bucket}/exports/1") as directory:
        assert storage.sizes(directory) == storage.sizes(f"{bucket}/exports/1")
        assert storage.read(f"{directory}/x/y") == b"x/y"
    assert not os.path.exists(directory)
    with (
        pytest.raises(RuntimeError),
        storage.create_directory(f"{bucket}/2", last="a") as directory,
    ):
        raise RuntimeError
    assert not storage.exists(f"{bucket}/2")


def test_paths_are_compared(bucket):
    assert storage.same(f"{bucket}/a", f"{bucket}//a/")
    assert not storage.same(f"{bucket}/a", "a")
    assert storage.holds(bucket, f"{bucket}/a")
    assert not storage.holds(f"{bucket}/a", f"{bucket}/ab")
    assert not storage.holds(".", f"{bucket}/a")
    assert storage.absolute(f"{bucket}/a") == f"{bucket}/a"


def test_a_lock_keeps_other_processes_away(bucket, monkeypatch):
    monkeypatch.setattr("fives_tf.storage.lease.BEAT_SECONDS", 0.2)
    path = f"{bucket}/run/lock"
    with storage.lock(path):
        assert "another process is at work here" in refusal(storage.lock(path).__enter__)
    with storage.lock(path):
        assert storage.exists(path)
    assert not storage.exists(path)


def test_a_store_that_fails_for_a_while_is_asked_again(bucket, object_store):
    before = object_store.refused
    object_store.fail(0.3, requests=60)
    content = {f"{bucket}/{number}": os.urandom(1000) for number in range(10)}
    for path, one in content.items():
        storage.write(path, one)
    assert {path: storage.read(path) for path in content} == content
    assert object_store.refused > before + 5
    assert len(storage.sizes(bucket)) == 10


def test_a_store_that_is_busy_at_first_is_asked_again(bucket, object_store):
    object_store.fail(1.0, requests=6)  # more than a mistake is given
    assert not storage.exists(f"{bucket}/a")


def within_30_seconds(action):
    start = time.monotonic()
    message = refusal(action)
    assert time.monotonic() - start < 30
    return message


def test_a_wrong_endpoint_is_told(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    message = within_30_seconds(lambda: storage.read(f"{bucket}/a"))
    assert message.startswith(f"{bucket}: http://127.0.0.1:1 cannot be reached; check AWS_ENDPOINT")


def test_a_missing_bucket_is_told(bucket):
    message = within_30_seconds(lambda: storage.exists("s3://no-such-bucket/a"))
    assert message == "s3://no-such-bucket: there is no such bucket; check its name, or create it."


@pytest.fixture
def stranger(object_store, bucket):
    """A user who may do nothing, and whom the server knows."""
    client = object_store.client("iam")
    client.create_user(UserName="stranger")
    key = client.create_access_key(UserName="stranger")["AccessKey"]
    object_store.check_permissions(0)
    yield key
    object_store.check_permissions(float("inf"))
    client.delete_access_key(UserName="stranger", AccessKeyId=key["AccessKeyId"])
    client.delete_user(UserName="stranger")


def test_wrong_credentials_are_told(bucket, stranger, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA0000000000000000")
    message = within_30_seconds(lambda: storage.read(f"{bucket}/a"))
    assert "the credentials are not those of" in message
    assert "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in message


def test_a_wrong_secret_is_told(bucket, stranger, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", stranger["AccessKeyId"])
    message = within_30_seconds(lambda: storage.read(f"{bucket}/a"))
    assert "the credentials are not those of" in message
    assert "secret" not in message.lower().replace("aws_secret_access_key", "")


def test_a_lack_of_permission_is_told(bucket, stranger, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", stranger["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", stranger["SecretAccessKey"])
    message = within_30_seconds(lambda: storage.read(f"{bucket}/a"))
    assert "no permission at" in message


def test_a_file_that_is_not_there_is_told(bucket):
    message = refusal(storage.read, f"{bucket}/a")
    assert message == f"{bucket}/a: cannot be read (there is no such file)."


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ftp://a/b", "ftp:// is not known; give a path of this machine, or one at s3://"),
        ("s3:///b", "expected a bucket, as in s3://bucket/directory"),
    ],
)
def test_a_path_that_means_nothing_is_refused(path, message):
    assert message in refusal(storage.exists, path)


def test_hdfs_says_what_it_needs():
    if "HADOOP_HOME" in os.environ:
        pytest.skip("there is a Hadoop")
    assert "HDFS needs Java and Hadoop" in refusal(storage.exists, "hdfs://nowhere:8020/a")


SCRIPT = """
import sys
import tensorflow as tf
from fives_tf import storage
path = storage.for_tensorflow(sys.argv[1])
checkpoint = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0]))
print(tf.train.CheckpointManager(checkpoint, path, 1).save())
print(tf.io.gfile.exists(path))
sys.exit(7)
"""


def test_a_program_ends_with_its_own_exit_code(bucket):
    pytest.importorskip("tensorflow_io", reason="tensorflow-io does not go with this TensorFlow")
    command = [sys.executable, "-c", SCRIPT, f"{bucket}/run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines() == [f"{bucket}/run/ckpt-1", "True"]
    assert "pure virtual" not in done.stderr
    assert "run/ckpt-1.index" in storage.sizes(bucket)


def test_nothing_tells_credentials(bucket, monkeypatch):
    seen = json.dumps([repr(remote.remote(bucket)), vars(remote.remote(bucket)._store)])
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in seen
