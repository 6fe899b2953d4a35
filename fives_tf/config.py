"""The settings of a search: good defaults, some of them chosen by the data, a YAML file, flags.

Each setting is declared once; its flag, its key in `config.yaml`, its check and its line in the
help follow from the declaration.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import yaml

from fives_tf.errors import UserError
from fives_tf.mapping import Mapping

VERSION = 1
_OPTIMIZERS = ("lazy_adam", "adagrad", "adam", "sgd")


def _integer(default: int | None, text: str, minimum: int = 0) -> Any:
    return _setting(default, "integer", text, minimum=minimum)


def _number(default: float | None, text: str, minimum: float = 0.0, maximum: float = 1e9) -> Any:
    return _setting(default, "number", text, minimum=minimum, maximum=maximum)


def _flag(default: bool, text: str) -> Any:
    return _setting(default, "flag", text)


def _choice(default: str | None, text: str, choices: tuple[str, ...]) -> Any:
    return _setting(default, "choice", text, choices=choices)


def _setting(default: Any, kind: str, text: str, **limits: Any) -> Any:
    return dataclasses.field(default=default, metadata={"kind": kind, "help": text, **limits})


@dataclass(frozen=True)
class SearchConfig:
    """All that decides what a search does, apart from the data.

    None stands for what `resolve` chooses by the data.
    """

    # The network.
    order: int = _integer(3, "highest order of crosses", 2)
    dim: int = _integer(32, "dimension of the embedding", 1)
    aggregate: str = _choice("mean", "how a node joins its neighbours", ("mean", "sum"))
    first_order: bool = _flag(True, "layer 0 is a table of weights by value, apart from the graph")
    warm_start: bool = _flag(True, "start that table from a logistic regression")
    cross_weights: str = _choice(
        "auto",
        "whether the crosses that help a logistic regression most have weights in that table too, "
        "for what is learned from scratch after the search; auto: as is better on valid",
        ("auto", "always", "never"),
    )
    coarse_count: int = _integer(200, "values below this count share an embedding; 0: none do")
    coarse_buckets: int = _integer(10, "about how many buckets of a number have one; 0: all")
    joint: float = _number(
        0.5,
        "part of the loss on the sum of the layers' logits, which then is what predicts; at 0 the "
        "mean of the layers' probabilities predicts",
        maximum=1.0,
    )
    stddev: float = _number(0.3, "standard deviation of the first embeddings")
    readout_stddev: float = _number(0.3, "that of the first projections to logits")

    # The adjacency tensor.
    end_temperature: float = _number(0.02, "temperature at the end of the search", 1e-4, 1.0)
    thresholds: tuple[float, ...] = _setting(
        (), "numbers", "from which strength on an edge counts, for each layer; default: 0.5"
    )
    dependencies: bool = _flag(True, "the edges of a layer depend on those of the layer before")
    rescaling: bool = _flag(True, "the temperature falls during the search")
    straight_through: bool = _flag(False, "the network sees binary edges also in the search")
    random_adjacency: bool = _flag(
        False, "after the search, put as many edges at random in place of those found"
    )

    # Learning.
    seed: int = _integer(0, "decides everything that is drawn")
    batch: int | None = _integer(None, "rows of a batch; default: by the data", 1)
    lr_epochs: int | None = _integer(
        None, "epochs of the logistic regression; default: by the data", 1
    )
    search_epochs: int | None = _integer(None, "epochs of the search; default: by the data", 1)
    after: str = _choice(
        "from_scratch",
        "what follows the search, with its edges fixed: learn the network from scratch, finetune "
        "it, or nothing",
        ("from_scratch", "finetune", "nothing"),
    )
    epochs: int | None = _integer(None, "most epochs after the search; default: by the data", 1)
    patience: int = _integer(8, "evaluations without a better AUC on valid after which to stop", 1)
    refit: bool = _flag(True, "at last learn from train and valid together, as many epochs")
    members: int = _integer(
        1, "number of models, each with a search of its own, whose predictions are averaged", 1
    )
    embedding_optimizer: str = _choice("lazy_adam", "optimizer of the embedding", _OPTIMIZERS)
    search_embedding_rate: float = _number(3e-3, "its learning rate during the search")
    embedding_rate: float = _number(3e-3, "its learning rate after it, which falls to 0")
    search_rate: float = _number(3e-3, "learning rate of the network during the search")
    rate: float = _number(3e-3, "learning rate of the network after it, which falls to 0")
    edge_rate: float = _number(3e-2, "learning rate of the adjacency tensor")
    edge_epsilon: float = _number(
        1e-4, "gradients of an edge well below this hardly move it, as Adam else would", 1e-9
    )
    first_order_rate: float = _number(3e-4, "learning rate of the first-order table")
    search_l2: float = _number(1e-5, "L2 penalty on the embedding during the search")
    l2: float = _number(1e-4, "L2 penalty on the embedding after it")
    search_dropout: float = _number(
        0.0, "part of the embedding's values that is dropped during the search", maximum=0.9
    )
    dropout: float = _number(0.3, "part of them that is dropped after it", maximum=0.9)
    first_order_l2: float | None = _number(
        None, "L2 penalty on the first-order table; default: the best one of a logistic regression"
    )

    # The work.
    strategy: str = _choice(
        "auto",
        "how devices work together: one of them alone, those of this machine mirrored, or workers "
        "as TF_CONFIG says; default: by the environment",
        ("auto", "one", "mirrored", "workers"),
    )
    devices: str = _setting(
        "", "text", "cpu:N for N logical devices, gpu:N for the first N GPUs; default: all GPUs"
    )
    precision: str = _choice(
        "float32",
        "numbers that the network is computed in while it learns; parameters, edges, loss and "
        "predictions stay float32",
        ("float32", "bfloat16", "float16"),
    )
    scale_rates: bool = _flag(False, "multiply all learning rates by the number of replicas")
    xla: bool = _flag(True, "compile the network")
    memory: int = _integer(2 << 30, "bytes up to which all rows are held in memory")
    skip_corrupt: bool = _flag(False, "leave out shards that hold a corrupt record")
    evaluate_rows: int = _integer(20_000_000, "rows between evaluations in a long epoch", 1)
    checkpoint_seconds: float = _number(120.0, "seconds between checkpoints")

    def __post_init__(self):
        for setting in settings():
            _check(setting, getattr(self, setting.name))
        if self.thresholds and len(self.thresholds) != self.order - 1:
            raise UserError(
                f"`thresholds`: expected {self.order - 1}, one for each layer above layer 0. "
                f"Received: {list(self.thresholds)}."
            )
        if self.cross_weights == "always" and not self.may_weigh_crosses:
            raise UserError(
                "`cross_weights`: always is for a first-order table that is learned from scratch; "
                "set `first_order` to true and `after` to from_scratch, or `cross_weights` to auto."
            )
        if self.after == "nothing" and (self.random_adjacency or self.members > 1):
            name = "random_adjacency" if self.random_adjacency else "members"
            raise UserError(
                f"`{name}`: is for what is learned after the search; with `after` = nothing there "
                "is no such thing. Set `after` to from_scratch or finetune."
            )

    @classmethod
    def make(cls, paper: bool = False, **values: Any) -> "SearchConfig":
        """A configuration from some settings; the others are the defaults or the paper's."""
        return cls(**((PAPER if paper else {}) | values))

    @property
    def may_weigh_crosses(self) -> bool:
        """Whether the network that is learned in the end may have weights for single crosses."""
        return self.cross_weights != "never" and self.first_order and self.after == "from_scratch"

    def resolve(self, rows: int, replicas: int = 1) -> "SearchConfig":
        """The configuration for so many train rows, with nothing left open by their number.

        Args:
            rows: The number of train rows.
            replicas: Among how many replicas a batch is to be divided.
        """
        if self.batch and self.batch % replicas:
            raise UserError(
                f"`batch`: expected a multiple of {replicas}, the number of replicas, among which "
                f"it is divided. Received: {self.batch}."
            )
        batch = self.batch or min(max(2 ** int(math.log2(rows / 500)), 128), 1024)
        batch = min(batch, rows) // replicas * replicas
        choices = {
            # Enough steps to get there, as many epochs as small data bears. Of the regression's
            # weights many are seldom moved, and crosses of three take long to show.
            "lr_epochs": _epochs(20_000 * batch / rows, 2, 12),
            "search_epochs": _epochs(5_000 * batch / rows, 1, 8),
            "epochs": _epochs(20_000 * batch / rows, 1, 8),
        }
        chosen = {name: value for name, value in choices.items() if getattr(self, name) is None}
        return dataclasses.replace(self, **chosen | {"batch": batch})

    def to_yaml(self) -> str:
        """The configuration as YAML text, which `read_settings` reads back."""
        values = {"version": VERSION} | {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in dataclasses.asdict(self).items()
            if value is not None
        }
        return yaml.safe_dump(values, sort_keys=False)


# What the paper says of its experiments, and no more (section 3 and appendix C).
PAPER: dict[str, Any] = {
    "dim": 16,
    "first_order": False,
    "warm_start": False,
    "cross_weights": "never",
    "coarse_count": 0,
    "coarse_buckets": 0,
    "joint": 0.0,
    "search_dropout": 0.3,
    "stddev": 0.1,
    "readout_stddev": 0.1,
    "after": "nothing",
    "embedding_optimizer": "lazy_adam",
    "search_embedding_rate": 5e-3,
    "search_rate": 5e-3,
    "edge_rate": 5e-3,
    "edge_epsilon": 1e-7,
    "search_l2": 1e-4,
}


# The first setting of each group.
_GROUPS = {
    "order": "the network",
    "end_temperature": "the adjacency tensor",
    "seed": "learning",
    "strategy": "the work",
}


def settings() -> tuple[dataclasses.Field, ...]:
    """The settings, in the order of their declaration."""
    return dataclasses.fields(SearchConfig)


def groups() -> dict[str, list[dataclasses.Field]]:
    """The settings by what they are about."""
    found: dict[str, list[dataclasses.Field]] = {}
    for setting in settings():
        title = _GROUPS.get(setting.name) or list(found)[-1]
        found.setdefault(title, []).append(setting)
    return found


def _epochs(wanted: float, least: int, most: int) -> int:
    return min(max(round(wanted), least), most)


def load_settings(path: str) -> dict[str, Any]:
    """Reads the settings in a YAML file."""
    return _read_all(Mapping.load(path))


def read_settings(text: str, place: str) -> dict[str, Any]:
    """Reads the settings in YAML text; an unknown key is an error that names the nearest."""
    return _read_all(Mapping.parse(text, place))


def _read_all(mapping: Mapping) -> dict[str, Any]:
    version = mapping.integer("version", VERSION)
    if version != VERSION:
        raise UserError(
            f"{mapping.place}: version {version} is not known to this program, which reads "
            f"version {VERSION}."
        )
    values = {setting.name: _read(setting, mapping) for setting in settings()}
    mapping.finish()
    return {name: value for name, value in values.items() if value is not None}


def _read(setting: dataclasses.Field, mapping: Mapping) -> Any:
    readers = {
        "integer": mapping.integer,
        "number": mapping.number,
        "numbers": mapping.numbers,
        "flag": mapping.flag,
        "choice": mapping.text,
        "text": mapping.text,
    }
    return readers[setting.metadata["kind"]](setting.name, None)


def _check(setting: dataclasses.Field, value: Any) -> None:
    limits = setting.metadata
    if value is None and setting.default is None:
        return
    if limits["kind"] == "choice" and value not in limits["choices"]:
        raise _error(setting, f"one of {', '.join(limits['choices'])}", value)
    if limits["kind"] == "integer" and not (
        isinstance(value, int) and not isinstance(value, bool) and value >= limits["minimum"]
    ):
        raise _error(setting, f"a whole number from {limits['minimum']}", value)
    if limits["kind"] == "number" and not (
        isinstance(value, int | float) and limits["minimum"] <= value <= limits["maximum"]
    ):
        raise _error(setting, f"from {limits['minimum']:g} to {limits['maximum']:g}", value)
    if limits["kind"] == "flag" and not isinstance(value, bool):
        raise _error(setting, "true or false", value)
    if limits["kind"] == "numbers" and not all(math.isfinite(one) for one in value):
        raise _error(setting, "finite numbers", value)


def _error(setting: dataclasses.Field, expected: str, received: Any) -> UserError:
    return UserError(f"`{setting.name}`: expected {expected}. Received: {received!r}.")
