import csv
import gzip
import io
import itertools
import os
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.errors import UserError
from fives_tf.schema import Schema
from fives_tf.scored_log import Scoring
from pipelines import sources
from pipelines.pieces import plan_pieces, scan_range, text_ranges
from pipelines.sources import open_log, read_blocks

COLUMNS = ["a", "y", "b"]
BOM = b"\xef\xbb\xbf"
CODECS = {"gz": "gzip", "zst": "zstd"}


def make_schema(**changes):
    values = {"label": {"column": "y"}, "categorical": ["a", "b"]} | changes
    return Schema.parse(yaml.safe_dump(values))


SCHEMAS = {True: make_schema(), False: make_schema(header=False, columns=COLUMNS)}


class Read:
    """A log that was planned and read, piece by piece."""

    def __init__(self, paths, schema, piece_bytes=1 << 20):
        self.files = open_log([str(path) for path in paths], schema)
        scans = {
            part: scan_range(part, self.files, schema.format, piece_bytes)
            for part in text_ranges(self.files, schema.format, piece_bytes)
        }
        self.pieces, self.total = plan_pieces(self.files, schema.format, scans)
        self.blocks = [
            block for piece in self.pieces for block in read_blocks(piece, schema, piece_bytes)
        ]

    @property
    def rows(self):
        """Number, label and categories of the good rows."""
        return [
            row
            for rows in (block.rows for block in self.blocks)
            for row in zip(
                rows.number.tolist(),
                rows.label.tolist(),
                rows.batch.column("a").to_pylist(),
                rows.batch.column("b").to_pylist(),
                strict=True,
            )
        ]

    @property
    def rejects(self):
        """Line and text of the others."""
        return [(r.line, r.text) for block in self.blocks for r in block.rows.rejects]


def expected_rows(records):
    """What `Read.rows` gives for the records of a log in the order of COLUMNS."""
    return [
        (number, float(y), a.encode(), b.encode())
        for number, (a, y, b) in enumerate(records)
        if y in ("0", "1")
    ]


def csv_records(content, header=True):
    text = content.removeprefix(BOM).decode()
    return list(csv.reader(io.StringIO(text, newline="")))[header:]


@dataclass(frozen=True)
class Log:
    """The bytes of a log, and line and text of its bad records."""

    content: bytes
    header: bool
    bad: list


@st.composite
def logs(draw):
    """Text with quoted line breaks, doubled quotes and both kinds of line ends."""
    sign = st.sampled_from('aä日" ,\n\r')
    value = st.text(sign, max_size=4) | st.text(sign, min_size=20, max_size=40)
    header = draw(st.booleans())
    records = draw(st.lists(st.tuples(value, st.sampled_from("0011?"), value), max_size=7))
    texts, bad, line = [], [], 1
    for number, record in enumerate([COLUMNS, *records] if header else records):
        text = ",".join(draw(cells(value)) for value in record)
        end = draw(st.sampled_from(["\n", "\r\n"]))
        if record[1] == "?":
            bad.append((line, text))
        line += (text + end).count("\n")
        texts.append(text + (end if number + 1 < len(records) + header else ""))
    content = "".join(texts) + draw(st.sampled_from(["", "\n", "\r\n"]) if texts else st.just(""))
    return Log(draw(st.sampled_from([b"", BOM])) + content.encode(), header, bad)


def cells(value):
    quoted = '"' + value.replace('"', '""') + '"'
    return st.just(quoted) if set(value) & set('",\r\n') else st.sampled_from([value, quoted])


PIECE_BYTES = st.integers(1, 60) | st.integers(61, 1000)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("sources")


@given(log=logs(), piece_bytes=PIECE_BYTES)
@settings(deadline=None, max_examples=200)
def test_pieces_of_any_size_give_the_rows_that_the_csv_module_gives(directory, log, piece_bytes):
    path = directory / "log.csv"
    path.write_bytes(log.content)
    read = Read([path], SCHEMAS[log.header], piece_bytes)
    records = csv_records(log.content, log.header)
    assert read.rows == expected_rows(records)
    assert read.rejects == log.bad
    assert read.total == len(records)
    check_pieces(read.pieces, log.content)


def check_pieces(pieces, content):
    """Pieces follow one another up to the end of the file and know where they begin."""
    assert [piece.index for piece in pieces] == list(range(len(pieces)))
    assert all(piece.first_line == 1 + content[: piece.start].count(b"\n") for piece in pieces)
    assert all(left.end == right.start for left, right in itertools.pairwise(pieces))
    assert all(left.first_row < right.first_row for left, right in itertools.pairwise(pieces))
    if pieces:
        assert pieces[0].first_row == 0
        assert pieces[-1].end == len(content)


@pytest.mark.parametrize("ending", CODECS)
@given(log=logs(), block_bytes=PIECE_BYTES)
@settings(deadline=None, max_examples=60)
def test_a_compressed_file_gives_the_same_rows_in_blocks_of_any_size(
    directory, ending, log, block_bytes
):
    path = directory / f"log.csv.{ending}"
    with pa.CompressedOutputStream(str(path), CODECS[ending]) as stream:
        stream.write(log.content)
    read = Read([path], SCHEMAS[log.header], block_bytes)
    records = csv_records(log.content, log.header)
    assert read.rows == expected_rows(records)
    assert read.rejects == log.bad
    assert read.total == len(records)
    assert len(read.pieces) == bool(records)
    assert [block.index for block in read.blocks] == list(range(len(read.blocks)))
    if records:
        assert sum(block.size for block in read.blocks) == os.path.getsize(path)


def write(path, content):
    path.write_bytes(content)
    return path


def plain_log(rows, header=b"a,y,b\n"):
    return header + b"".join(b"%d,1,x\n" % row for row in range(rows))


def test_a_large_file_is_cut_into_pieces_of_about_the_size_asked_for(tmp_path):
    path = write(tmp_path / "a.csv", plain_log(2000))
    read = Read([path], SCHEMAS[True], 1000)
    assert len(read.pieces) == pytest.approx(path.stat().st_size / 1000, abs=1)
    assert max(piece.end - piece.start for piece in read.pieces) < 1020
    assert sum(piece.size for piece in read.pieces) == pytest.approx(path.stat().st_size, abs=10)
    assert [row[:3] for row in read.rows] == [(n, 1.0, b"%d" % n) for n in range(2000)]


def test_a_compressed_file_is_read_in_blocks_of_about_the_size_asked_for(tmp_path):
    path = write(tmp_path / "a.csv.gz", gzip.compress(plain_log(2000)))
    read = Read([path], SCHEMAS[True], 1000)
    assert len(read.pieces) == 1
    assert max(len(block.rows.label) for block in read.blocks) < 200
    assert [row[0] for row in read.rows] == list(range(2000))


def test_rows_are_numbered_over_all_files_and_lines_within_each(tmp_path):
    first = write(tmp_path / "1.csv", b"a,y,b\np,1,q\nr,?,s\n")
    second = write(tmp_path / "2.csv", b'b,a,y\n"q\n",p,0\ns,r,?')
    third = write(tmp_path / "3.csv.gz", gzip.compress(b"y,a,b\n1,p,q\n"))
    for piece_bytes in (1, 10, 1000):
        read = Read([first, second, third], SCHEMAS[True], piece_bytes)
        assert read.rows == [(0, 1.0, b"p", b"q"), (2, 0.0, b"p", b"q\n"), (4, 1.0, b"p", b"q")]
        assert read.rejects == [(3, "r,?,s"), (4, "s,r,?")]
        assert read.total == 5


def test_files_belong_to_the_split_that_the_schema_says(tmp_path):
    paths = [write(tmp_path / name, plain_log(1)) for name in ("a.csv", "b.csv")]
    split = {"by": "files", "files": {"train": "a.*", "test": "b.*"}}
    files = open_log([str(path) for path in paths], make_schema(split=split))
    assert [file.split for file in files] == ["train", "test"]


@pytest.mark.parametrize("content", [b"a,y,b", b"a,y,b\n", b"a,y,b\r\n", BOM + b'"a","y",b\n'])
@pytest.mark.parametrize("compress", [False, True])
def test_a_file_with_only_a_header_has_no_rows(tmp_path, content, compress):
    path = tmp_path / ("a.csv.gz" if compress else "a.csv")
    write(path, gzip.compress(content) if compress else content)
    read = Read([path], SCHEMAS[True], 3)
    assert (read.files[0].columns, read.pieces, read.total) == (("a", "y", "b"), [], 0)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_an_empty_file_without_a_header_has_no_rows(tmp_path, name):
    read = Read([write(tmp_path / name, b"")], SCHEMAS[False])
    assert (read.pieces, read.total) == ([], 0)


def refusal(path, schema=SCHEMAS[True]):
    with pytest.raises(UserError) as caught:
        open_log([str(path)], schema)
    return str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", BOM, BOM + b"\r\n\n"])
def test_an_empty_file_that_should_have_a_header_is_refused(tmp_path, content):
    path = write(tmp_path / "a.csv", content)
    assert refusal(path) == f"{path}: is empty, expected a header line with column names."


def test_missing_and_extra_columns_are_refused_with_the_file(tmp_path):
    path = write(tmp_path / "a.csv", b"a,y,bb\n")
    assert refusal(path).startswith(f"{path}: has no column `b`, which the schema names; did you")
    write(path, b"a,y,b,c\n")
    assert refusal(path).startswith(f"{path}: the schema says nothing about the column `c`;")
    write(path, b"a,y,b,a\n")
    assert refusal(path).startswith(f"{path}: the column `a` occurs twice;")


def test_a_header_that_is_not_utf8_is_refused(tmp_path):
    path = write(tmp_path / "a.csv", b"a,y,gr\xf6\xdfe\n")
    assert refusal(path).startswith(f"{path}: the header is not UTF-8")


def test_a_compressed_file_that_is_cut_short_is_refused(tmp_path):
    content = gzip.compress(os.urandom(3000).hex().encode())
    path = write(tmp_path / "a.csv.gz", content[: len(content) // 2])
    assert refusal(path).startswith(f"{path}: cannot be decompressed")


@pytest.mark.parametrize("content", [b"", b"a,y,b\n1,1,1\n", b"PAR1 but no more than that PAR1"])
def test_a_file_that_is_not_parquet_is_refused(tmp_path, content):
    path = write(tmp_path / "a.parquet", content)
    assert refusal(path, make_schema(format="parquet")).startswith(f"{path}: is not a Parquet file")


def test_a_header_may_be_quoted_with_line_breaks_and_longer_than_a_piece(tmp_path):
    name = 'a\n"' + 3000 * "long "
    schema = make_schema(categorical=["a", "b", name])
    quoted = '"' + name.replace('"', '""') + '"'
    path = write(tmp_path / "a.csv", f"a,y,{quoted},b\np,1,x,q\nr,?,x,s\n".encode())
    for piece_bytes in (1, 100, 1 << 20):
        read = Read([path], schema, piece_bytes)
        assert read.rows == [(0, 1.0, b"p", b"q")]
        assert read.rejects == [(4, "r,?,x,s")]


def test_a_header_may_be_longer_than_a_block_of_the_parser(tmp_path):
    name = "long" * 300_000
    path = write(tmp_path / "a.csv", f"a,y,b,{name}\np,1,q,x\n".encode())
    assert Read([path], make_schema(drop=[name])).rows == [(0, 1.0, b"p", b"q")]


LABELLED, UNLABELLED = ("a", "y", "b"), ("a", "b")


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        (b"", LABELLED),
        (b"\n\n", LABELLED),
        (b"p,1,q\n", LABELLED),
        (b"p,q\n", UNLABELLED),
        (b"p", LABELLED),
        (b"p,1,q,r\n" * 9, LABELLED),
        (b"p,q\n" + b"p,1,q\n" * 2, LABELLED),
        (b"p,1,q\n" + b"p,q\n" * 2, UNLABELLED),
        (b"p,q\np,1,q\n", LABELLED),
        (b"#\n" * 200 + b"p,q\n# p,1,q\n# p,1,q\n\n", UNLABELLED),
        (b'"p,1,q\n",q\n', UNLABELLED),
        (b"\xff,\xff\n", UNLABELLED),
        (b"p" * 3_000_000 + b",q\np,q", UNLABELLED),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_without_a_header_has_no_label_if_its_first_records_lack_it(
    tmp_path, content, columns
):
    schema = make_schema(header=False, columns=COLUMNS, comment="#").for_scoring(Scoring())
    path = write(tmp_path / "a.csv", content)
    assert Read([path], schema).files[0].columns == columns


def test_a_header_is_trimmed_if_values_are(tmp_path):
    path = write(tmp_path / "a.csv", b" a ,y\t, b\n p , 1,q \n")
    assert Read([path], make_schema(trim=True)).rows == [(0, 1.0, b"p", b"q")]


def test_empty_lines_and_comments_before_the_header_are_passed_over(tmp_path):
    path = write(tmp_path / "a.csv", b"\n# made by hand, 1\n\r\na,y,b\n# more\np,?,q\nr,1,s\n")
    for piece_bytes in (1, 10, 1000):
        read = Read([path], make_schema(comment="#"), piece_bytes)
        assert [row[1:] for row in read.rows] == [(1.0, b"r", b"s")]
        assert read.rejects == [(6, "p,?,q")]


@given(
    lines=st.lists(st.sampled_from(["p,1,q", 'p,1,"\n\n"', "", "?,?,?"]), max_size=12),
    piece_bytes=PIECE_BYTES,
)
@settings(deadline=None, max_examples=50)
def test_with_empty_lines_row_numbers_still_rise_and_lines_are_right(directory, lines, piece_bytes):
    path = write(directory / "log.csv", "\n".join(["a,y,b", *lines]).encode())
    read = Read([path], SCHEMAS[True], piece_bytes)
    numbers = [row[0] for row in read.rows]
    assert len(numbers) == sum(",1," in line for line in lines)
    assert numbers == sorted(set(numbers))
    ends = itertools.accumulate([line.count("\n") + 1 for line in lines], initial=2)
    bad = [end for end, line in zip(ends, lines, strict=False) if line == "?,?,?"]
    assert [line for line, _ in read.rejects] == bad


@pytest.mark.parametrize("piece_bytes", [1, 8, 1000])
def test_a_record_of_empty_values_counts_as_a_row(tmp_path, piece_bytes):
    path = write(tmp_path / "a.tsv", b"a\ty\tb\np\t1\tq\n\t\t\nr\t0\ts\n")
    read = Read([path], make_schema(format="tsv"), piece_bytes)
    assert read.rows == [(0, 1.0, b"p", b"q"), (2, 0.0, b"r", b"s")]
    assert read.rejects == [(3, "\t\t")]


@pytest.mark.parametrize("piece_bytes", [1, 8, 1000])
def test_a_byte_order_mark_within_the_log_belongs_to_its_value(tmp_path, piece_bytes):
    path = write(tmp_path / "a.csv", b"a,y,b\np,1,q\n" + BOM + b"p,1,q\n" + BOM + b"p,1,q\n")
    read = Read([path], SCHEMAS[True], piece_bytes)
    assert [row[2] for row in read.rows] == [b"p", BOM + b"p", BOM + b"p"]


AWKWARD = {
    "two quotes within values": b'p,1,5"\nr,0,s\nt,1,6"\n',
    "one quote within a value": b'p,1,5"\nr,0,s\nt,1,u\n',
    "quotes within one record": b'p,1,5" or 6"\n"r""",0,s\nt,1,u"x"\n',
    "carriage returns alone": b"p,1,q\rr,0,s\rt,1,u\n",
    "a quote in a comment": b'p,1,q\n# 5"\nr,0,s\nt,1,"u\n"\n',
}


@pytest.mark.parametrize("content", AWKWARD.values(), ids=AWKWARD)
@pytest.mark.parametrize("piece_bytes", [1, 8, 30, 1000])
def test_awkward_records_are_read_as_the_csv_module_does_or_refused(tmp_path, content, piece_bytes):
    content = b"a,y,b\n" + content + b"v,1,w\n" * 9
    path = write(tmp_path / "a.csv", content)
    try:
        read = Read([path], make_schema(comment="#"), piece_bytes)
        rows = read.rows
    except UserError:
        return
    records = csv_records(content.replace(b'# 5"\n', b""))
    assert [row[1:] for row in rows] == [row[1:] for row in expected_rows(records)]
    numbers = [row[0] for row in rows]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] < read.total == len(records) + content.count(b"#")


def test_a_quote_in_a_comment_before_the_header_does_no_harm(tmp_path):
    path = write(tmp_path / "a.csv", b'# 5" and more\na,y,b\np,1,q\n')
    assert Read([path], make_schema(comment="#")).rows == [(0, 1.0, b"p", b"q")]


def parquet(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_row_groups_of_a_parquet_file_are_pieces(tmp_path):
    labels = [1, 0, 1, 7, 0, 1, 1, None]
    columns = {"b": range(8), "y": labels, "a": list("stuvwxyz")}
    first = parquet(tmp_path / "1.parquet", columns, row_group_size=3)
    second = parquet(tmp_path / "2.parquet", columns, row_group_size=100)
    read = Read([first, second], make_schema(format="parquet"))
    assert [piece.first_row for piece in read.pieces] == [0, 3, 6, 8]
    assert [piece.first_line for piece in read.pieces] == [1, 4, 7, 1]
    assert [piece.index for piece in read.pieces] == [0, 1, 2, 3]
    good = [row for row, label in enumerate(labels) if label in (0, 1)]
    assert read.rows == [
        (8 * file + row, float(labels[row]), b"stuvwxyz"[row : row + 1], b"%d" % row)
        for file in (0, 1)
        for row in good
    ]
    assert [line for line, _ in read.rejects] == [4, 8, 4, 8]
    assert read.total == 16


def test_a_large_row_group_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "PARQUET_ROWS", 4)
    columns = {"a": range(10), "y": [1, 0] * 4 + [7, 0], "b": range(10)}
    read = Read([parquet(tmp_path / "a.parquet", columns)], make_schema(format="parquet"))
    assert [block.index for block in read.blocks] == [0, 1, 2]
    assert [row[0] for row in read.rows] == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert [line for line, _ in read.rejects] == [9]
    size = sum(block.size for block in read.blocks)
    assert size == pytest.approx((tmp_path / "a.parquet").stat().st_size, abs=3)


def test_a_parquet_file_without_rows_has_none(tmp_path):
    columns = {name: pa.array([], pa.string()) for name in COLUMNS}
    read = Read([parquet(tmp_path / "a.parquet", columns)], make_schema(format="parquet"))
    assert (read.rows, read.total) == ([], 0)


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.binary())],
    ids=str,
)
def test_nulls_of_a_parquet_file_are_empty_categories(tmp_path, kind):
    values = pa.array([b"x", None, b"x"])
    values = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    columns = {"a": values, "y": [1, 1, 1], "b": [1, None, 3]}
    read = Read([parquet(tmp_path / "a.parquet", columns)], make_schema(format="parquet"))
    assert [row[2:] for row in read.rows] == [(b"x", b"1"), (b"", b""), (b"x", b"3")]


def test_columns_of_a_parquet_file_may_have_dots_and_unused_ones_are_not_read(tmp_path):
    columns = {"a": [1], "a.x": [[1, 2]], "y": [1], "b": [2], "b.c": ["p"]}
    schema = make_schema(format="parquet", categorical=["a", "b", "b.c"], drop=["a.x"])
    read = Read([parquet(tmp_path / "a.parquet", columns)], schema)
    assert read.blocks[0].rows.batch.to_pydict() == {"a": [b"1"], "b": [b"2"], "b.c": [b"p"]}
