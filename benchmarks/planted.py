"""Does the search find what is there? Generated logs whose crosses are known.

    python benchmarks/planted.py --work DIR --out benchmarks/results/planted.json

Each log has 100,000 rows and 20 fields, three planted pairs of fields of 20 values and one planted
triple of fields of 6 values, all with the same strength. It is preprocessed and searched with the
default settings; log and search have the same seed. The table shows at which rank, among the
crosses of their order by falling score, the planted ones are, and the AUC on the test split beside
that of the logistic regression that the search begins with, and beside the Bayes AUC of all rows,
which no model can beat but by chance.

What is complete in the work directory is used again, so a stopped program goes on where it was.
"""

import argparse
import dataclasses
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import harness

import fives_tf
from fives_tf import storage
from fives_tf.crosses import Cross
from fives_tf.dataset import MANIFEST, Dataset
from fives_tf.errors import UserError
from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate
from fives_tf.tables import print_table

TOP = 10  # ranks that count as found
PAIRS_SHARE, TRIPLE_SHARE, AUC_SHARE = 0.9, 0.8, 1.0  # of the logs


@dataclass(frozen=True)
class Found:
    """What the search made of a log.

    Attributes:
        seed: The seed of log and search.
        pair_ranks: The ranks of the planted pairs; None for one that was not ranked.
        triple_rank: The rank of the planted triple.
        auc: The AUC of FIVES on the test split.
        lr_auc: That of the logistic regression; None if the settings did without.
        bayes_auc: That of the true probabilities, on all rows.
        seconds: The time of the search.
    """

    seed: int
    pair_ranks: tuple[int | None, ...]
    triple_rank: int | None
    auc: float
    lr_auc: float | None
    bayes_auc: float
    seconds: float


def main() -> int:
    """The command line."""
    return harness.command_line("planted", run)


def run(argv: list[str] | None = None) -> dict[str, Any]:
    """Searches the logs, prints the table and the verdicts, and returns the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=10, help="number of logs, with seeds from 0")
    parser.add_argument("--rows", type=int, default=SynthConfig.rows, help="rows of a log")
    parser.add_argument("--work", type=Path, required=True, help="where logs and runs go")
    harness.add_out_flag(parser)
    harness.add_set_flag(parser)
    args = parser.parse_args(argv)
    settings = harness.read_set_flag(args.set)
    logs, configs = [], []
    for seed in range(args.logs):
        log = SynthConfig(rows=args.rows, seed=seed)
        found, config = harness.in_own_process(search_log, log, args.work, settings)
        logs.append(found)
        configs.append(config)
    print_logs(logs)
    criteria = judge(logs)
    for criterion in criteria:
        verdict = "reached" if criterion["reached"] else "NOT reached"
        print(f"{criterion['what']}: {criterion['logs']} of {len(logs)} logs, {verdict}")
    result = {
        "log": dataclasses.asdict(SynthConfig(rows=args.rows)) | {"seed": list(range(args.logs))},
        "config": configs[0],
        "logs": [dataclasses.asdict(found) for found in logs],
        "criteria": criteria,
        "machine": harness.machine(),
        "versions": harness.versions(harness.TRAINING),
    }
    harness.write_result(result, args.out)
    return result


def search_log(
    log: SynthConfig, work: Path, settings: dict[str, Any]
) -> tuple[Found, dict[str, Any]]:
    """Generates, preprocesses and searches a log; also returns the configuration of the search."""
    from scoring import score  # loads TensorFlow, in this process only

    directory = work / f"log-{log.seed}"
    bayes_auc = write_log(log, directory / "log")
    dataset = preprocess_log(directory / "log", directory / "dataset")
    result = fives_tf.search(
        dataset, str(directory / "run"), resume=True, seed=log.seed, **settings
    )
    scores = score(result.run, dataset)
    *pairs, triple = (rank(fields, result.crosses) for fields in log.crosses())
    found = Found(
        seed=log.seed,
        pair_ranks=tuple(pairs),
        triple_rank=triple,
        auc=scores.members.auc,
        lr_auc=scores.lr.auc if scores.lr else None,
        bayes_auc=bayes_auc,
        seconds=result.run.manifest["seconds"],
    )
    return found, harness.config_values(result.config)


def write_log(log: SynthConfig, directory: Path) -> float:
    """Generates a log, unless it is there; returns its Bayes AUC."""
    truth = directory / "truth.json"
    if not truth.exists():
        return generate(log, directory).bayes_auc
    document = json.loads(truth.read_text())
    if document["config"] != json.loads(json.dumps(dataclasses.asdict(log))):
        raise UserError(f"{directory}: holds another log; choose another --work, or remove it.")
    return document["bayes_auc"]


def preprocess_log(log: Path, directory: Path) -> Dataset:
    """Makes the dataset of a log, unless it is there."""
    if storage.exists(str(directory / MANIFEST)):
        return Dataset.open(str(directory))
    # Beam is not loaded by programs whose datasets are there.
    from pipelines import runner
    from pipelines.preprocess import Options, preprocess

    # What a killed run left is not worth resuming.
    options = Options(overwrite=True, beam=runner.pipeline_options([], workers=1))
    schema = Schema.load(log / "schema.yaml")
    return preprocess([str(log / "log.csv")], schema, str(directory), options)


def rank(fields: tuple[str, ...], crosses: list[Cross]) -> int | None:
    """The rank of a cross among those of its order, from 1; None if it is not among them."""
    names = [set(cross.fields) for cross in crosses if cross.order == len(fields)]
    return names.index(set(fields)) + 1 if set(fields) in names else None


def judge(logs: list[Found]) -> list[dict[str, Any]]:
    """In how many logs each criterion holds, and whether these are enough."""

    def is_found(place: int | None) -> bool:
        return place is not None and place <= TOP

    pairs = sum(all(map(is_found, found.pair_ranks)) for found in logs)
    triple = sum(is_found(found.triple_rank) for found in logs)
    better = sum(found.lr_auc is not None and found.auc > found.lr_auc for found in logs)
    criteria = (
        (f"all planted pairs among the {TOP} best crosses of order 2", pairs, PAIRS_SHARE),
        (f"the planted triple among the {TOP} best crosses of order 3", triple, TRIPLE_SHARE),
        ("test AUC above that of logistic regression", better, AUC_SHARE),
    )
    return [
        {"what": what, "logs": count, "least_share": share, "reached": count >= share * len(logs)}
        for what, count, share in criteria
    ]


def print_logs(logs: list[Found]) -> None:
    """Prints the table, one log a line."""

    def place(number: int | None) -> str:
        return "-" if number is None else str(number)

    header = ("seed", "ranks of the pairs", "of the triple", "FIVES", "LR", "Bayes", "seconds")
    print_table(
        header,
        [
            (
                str(found.seed),
                " ".join(map(place, found.pair_ranks)),
                place(found.triple_rank),
                f"{found.auc:.4f}",
                "-" if found.lr_auc is None else f"{found.lr_auc:.4f}",
                f"{found.bayes_auc:.4f}",
                f"{found.seconds:.0f}",
            )
            for found in logs
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
