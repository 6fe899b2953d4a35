import errno
import gzip
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from fives_tf import storage
from fives_tf.errors import UserError


def names_below(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def refusal(action, *arguments):
    with pytest.raises(UserError) as caught:
        action(*arguments)
    return str(caught.value)


def find(*patterns):
    return [info.path for info in storage.find(map(str, patterns))]


def compressed(path, content, codec):
    with pa.CompressedOutputStream(str(path), codec) as stream:
        stream.write(content)
    return str(path)


def decompressed(path, size=7):
    with storage.Decompressed(str(path)) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


def test_paths_to_the_same_place_are_the_same(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    assert storage.same(str(tmp_path / "link"), f"{tmp_path}/./a.txt")
    assert not storage.same(str(tmp_path / "b.txt"), str(tmp_path / "a.txt"))


def test_a_file_takes_its_name_when_it_is_whole(tmp_path):
    path = str(tmp_path / "new" / "a.txt")
    with storage.create(path) as file:
        file.write(b"first, ")
        assert not storage.exists(path)
        file.write(b"second")
    assert storage.read(path) == b"first, second"
    assert names_below(tmp_path) == ["new", "new/a.txt"]


def test_a_file_is_replaced_at_once(tmp_path):
    path = str(tmp_path / "a.txt")
    storage.write(path, b"old")
    with storage.open_read(path) as reader, storage.create(path) as file:
        file.write(b"new")
        file.flush()
        assert storage.read(path) == b"old"
    assert storage.read(path) == b"new"
    assert reader.closed


def write_half(path, error):
    with storage.create(str(path)) as file:
        file.write(b"half")
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, UserError])
def test_an_error_leaves_nothing_and_keeps_what_was_there(tmp_path, error):
    storage.write(str(tmp_path / "old"), b"old")
    for name in ("old", "new"):
        with pytest.raises(error):
            write_half(tmp_path / name, error)
    assert names_below(tmp_path) == ["old"]
    assert storage.read(str(tmp_path / "old")) == b"old"


def test_a_file_in_the_working_directory_can_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage.write("a.txt", b"content")
    assert storage.read("a.txt") == b"content"


KILLED = """
import os, sys
from fives_tf import storage
writing = [storage.create(os.path.join(name, "killed.csv")) for name in sys.argv[1:]]
for file in [create.__enter__() for create in writing]:
    file.write(b"half")
    file.flush()
os._exit(9)
"""


@pytest.fixture
def killed(tmp_path):
    """A directory with whole files, in which a program was killed while it wrote two others."""
    deep = tmp_path / "a" / "b"
    storage.write(str(tmp_path / "whole.csv"), b"")
    storage.write(str(deep / "whole.txt"), b"")
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(deep)]
    assert subprocess.run(command, check=False).returncode == 9
    assert len(names_below(tmp_path)) == 6
    return tmp_path


def test_what_killed_programs_left_is_removed_and_nothing_else(killed):
    storage.remove_asides(str(killed))
    assert names_below(killed) == ["a", "a/b", "a/b/whole.txt", "whole.csv"]


def test_half_written_files_match_no_pattern_for_finished_ones(killed):
    assert find(killed / "*.csv") == [str(killed / "whole.csv")]


def test_files_and_directories_are_removed_and_what_is_not_there_is_no_error(tmp_path):
    storage.write(str(tmp_path / "a" / "b" / "c"), b"")
    storage.write(str(tmp_path / "d"), b"")
    for name in ("a", "d", "e"):
        storage.remove(str(tmp_path / name))
    assert names_below(tmp_path) == []


def test_patterns_find_files_in_their_order_sorted_and_each_once(tmp_path):
    for name in ("b.csv", "a.csv", "c.txt", "sub.txt"):
        storage.write(str(tmp_path / name), name.encode())
    found = find(tmp_path / "*.txt", tmp_path / "?.csv", tmp_path / "a.csv", tmp_path / "c.txt")
    assert found == [str(tmp_path / name) for name in ("c.txt", "sub.txt", "a.csv", "b.csv")]


def test_size_and_time_of_a_file_are_found(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 1_700_000_000_123_456_789))
    (info,) = storage.find([str(path)])
    assert (info.path, info.size, info.modified) == (str(path), 5, path.stat().st_mtime_ns)


def test_a_file_whose_name_looks_like_a_pattern_is_found(tmp_path):
    path = tmp_path / "day[1].csv"
    path.write_bytes(b"")
    assert find(path) == [str(path)]


def test_the_same_file_by_two_paths_is_found_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    storage.write("a.csv", b"")
    assert len(find("a.csv", "./a.csv", tmp_path / "a.csv")) == 1


@pytest.mark.parametrize("name", ["no.csv", "*.csv"])
def test_a_pattern_without_a_file_is_refused(tmp_path, name):
    pattern = str(tmp_path / name)
    message = refusal(storage.find, [pattern])
    assert message == f"{pattern}: no such file; check the path or the pattern."


def test_a_directory_is_refused_with_what_to_give(tmp_path):
    (tmp_path / "logs").mkdir()
    path = str(tmp_path / "logs")
    message = f"{path}: is a directory; name its files, such as '{path}/*'."
    assert refusal(storage.find, [path]) == message
    assert refusal(storage.find, [str(tmp_path / "*")]) == message


def test_a_file_that_is_not_there_cannot_be_read(tmp_path):
    path = str(tmp_path / "no.csv")
    for action in (storage.read, storage.open_read):
        assert refusal(action, path) == f"{path}: cannot be read (No such file or directory)."


def test_a_file_cannot_be_written_below_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    path = str(tmp_path / "file" / "a.txt")
    assert refusal(storage.write, path, b"").startswith(f"{path}: cannot be written (")


def test_a_file_cannot_be_written_over_a_directory(tmp_path):
    path = tmp_path / "directory"
    path.mkdir()
    assert refusal(storage.write, str(path), b"").startswith(f"{path}: cannot be written (")
    assert names_below(tmp_path) == ["directory"]


def test_a_read_only_directory_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write everywhere")
    path = str(tmp_path / "a.txt")
    message = refusal(storage.write, path, b"")
    assert message == f"{path}: cannot be written (Permission denied)."


def test_the_ending_tells_the_compression():
    endings = ("a.csv", "a.csv.gz", "a.zst", "gz", "a.gz.csv")
    assert [storage.codec(path) for path in endings] == [None, "gzip", "zstd", None, None]


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd")])
@pytest.mark.parametrize("content", [b"", b"a", b"0123456789" * 1000], ids=len)
def test_a_compressed_file_is_read_as_a_stream(tmp_path, ending, codec, content):
    path = compressed(tmp_path / f"a.{ending}", content, codec)
    assert decompressed(path) == content
    with storage.Decompressed(path) as stream:
        while stream.read(1000):
            pass
        assert stream.position() == os.path.getsize(path)


def test_joined_gzip_files_are_read_to_the_end(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"first ") + gzip.compress(b"second"))
    assert decompressed(tmp_path / "a.gz") == b"first second"


def test_an_empty_file_decompresses_to_nothing(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"")
    assert decompressed(tmp_path / "a.gz") == b""


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd")])
def test_a_compressed_file_that_is_cut_short_is_refused(tmp_path, ending, codec):
    path = compressed(tmp_path / f"a.{ending}", os.urandom(1000), codec)
    with open(path, "rb+") as file:
        file.truncate(500)
    message = refusal(decompressed, path)
    assert message.startswith(f"{path}: cannot be decompressed (")
    assert message.endswith("); is it whole, and compressed as its ending says?")


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_file_that_is_not_compressed_is_refused(tmp_path, ending):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(b"plain text, quite long enough to be something")
    assert refusal(decompressed, path).startswith(f"{path}: cannot be decompressed (")


def test_a_compressed_file_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "no.gz"
    assert refusal(decompressed, path) == f"{path}: cannot be read (No such file or directory)."


def test_a_full_disk_is_told(tmp_path):
    path = tmp_path / "full"
    with pytest.raises(UserError, match="full: cannot be written .No space left on device."):
        with storage.create(str(path)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        with storage.lock(str(tmp_path / "file/below/lock")):
            pass


def test_only_one_process_holds_a_lock(tmp_path):
    path = str(tmp_path / "work/lock")
    with storage.lock(path):
        with pytest.raises(UserError, match="another process is at work here"):
            with storage.lock(path):
                pass
    with storage.lock(path):
        pass
