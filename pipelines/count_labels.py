"""Counts rows and clicks of the combinations of crosses in the train rows, and scores the crosses.

Each shard is counted by one worker; the counts of each cross are added up and scored by one.
Crosses are counted in groups, so that no worker holds more combinations than a group may have.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
from apache_beam.options.pipeline_options import PipelineOptions

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.generators.cmi import Scores
from fives_tf.generators.information import information_beyond_parts
from fives_tf.generators.label_counts import MOST_CELLS, LabelCounter, LabelCounts
from fives_tf.generators.places import Places
from pipelines import progress, runner
from pipelines.count_crosses import AddCounts, CountShards, scratch

SPLIT = "train"
_GROUP_CELLS = 4 * MOST_CELLS


@dataclass(frozen=True)
class LabelJob:
    """What the workers must know.

    Attributes:
        directory: The dataset.
        crosses: The places of the fields of each cross.
        results: The directory for the scores.
        progress_path: The progress file, if the workers run on this machine.
        most: See `LabelCounter`.
    """

    directory: str
    crosses: tuple[Places, ...]
    results: str
    progress_path: str | None = None
    most: int = MOST_CELLS

    def counter(self) -> LabelCounter:
        """What counts."""
        dataset = Dataset.open(self.directory)
        return LabelCounter(self.crosses, dataset.encoding, dataset.split(SPLIT).rows, self.most)

    def result(self, index: int) -> str:
        """The file with the score of a cross."""
        return storage.join(self.results, f"{index:05}.score")


def scores_by_beam(
    dataset: Dataset,
    beam_options: PipelineOptions,
    beside: str,
    most: int = MOST_CELLS,
    group_cells: int = _GROUP_CELLS,
) -> Scores:
    """Gives the scores of crosses, counted by the workers of Beam.

    Args:
        dataset: The dataset.
        beam_options: Options for Beam.
        beside: A path that the workers can write next to.
        most: How many combinations a cross may have; see `LabelCounter`.
        group_cells: How many combinations may be counted at once, unless one cross alone has more.
    """

    def score(crosses: Sequence[Places]) -> list[float]:
        counter = LabelCounter(crosses, dataset.encoding, dataset.split(SPLIT).rows, most)
        cells = [counter.cells(index) for index in range(len(crosses))]
        groups, scores = list(_groups(cells, group_cells)), []
        for number, group in enumerate(groups, start=1):
            label = f"count crosses, {number} of {len(groups)}"
            with scratch(beside, beam_options) as (results, shown):
                chosen = tuple(crosses[group])
                job = LabelJob(dataset.directory, chosen, results, shown, most)
                scores += _score(dataset, job, label, beam_options)
        return scores

    return score


class CountLabels(CountShards):
    """Counts rows and clicks of the combinations of all crosses in a shard."""

    def count(self, ids: np.ndarray, label: np.ndarray) -> Iterable[LabelCounts]:
        """See `CountShards.count`."""
        return self._counter.count(ids, label)


def _score(
    dataset: Dataset, job: LabelJob, label: str, beam_options: PipelineOptions
) -> list[float]:
    shards = list(dataset.split(SPLIT).shards)
    shapes = job.counter().shapes

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | "CreateShards" >> beam.Create(shards)
            | "SpreadShards" >> beam.Reshuffle()
            | "CountShards" >> beam.ParDo(CountLabels(job))
            | "AddCounts" >> beam.CombinePerKey(AddCounts())
            | "WriteScores" >> beam.Map(_write, job, shapes)
        )

    with progress.show(job.progress_path, label, sum(shard.bytes for shard in shards)):
        runner.run(beam_options, build)
    return [float(storage.read(job.result(index))) for index in range(len(job.crosses))]


def _write(
    counted: tuple[int, LabelCounts], job: LabelJob, shapes: Sequence[tuple[int, ...]]
) -> None:
    index, counts = counted
    score = information_beyond_parts(counts, shapes[index])
    storage.write(job.result(index), repr(score).encode())


def _groups(cells: Sequence[int], most: int) -> Iterator[slice]:
    """Divides numbers into ranges whose sums are not above `most`, unless one alone is."""
    first, held = 0, 0
    for index, one in enumerate(cells):
        if index > first and held + one > most:
            yield slice(first, index)
            first, held = index, 0
        held += one
    if len(cells):
        yield slice(first, len(cells))
