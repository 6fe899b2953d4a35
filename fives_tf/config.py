"""The settings of a search and of a fit: good defaults, some by the data, a YAML file, flags.

Each setting is declared once; its flag, its key in `config.yaml`, its check and its line in the
help follow from the declaration.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from fives_tf.declared import (
    again,
    check,
    choice,
    flag,
    integer,
    integers,
    number,
    read,
    setting,
    to_yaml,
)
from fives_tf.errors import UserError
from fives_tf.mapping import Mapping

# That can be fitted; `models/build.py` has the builder of each.
MODELS = ("lr", "dnn", "fm", "wide_deep", "autoint", "fignn", "autofis")
# Of the network that is learned after a search.
FORMS = ("crosses", "table", "graph")
FTRL_RATE = 0.1
_OPTIMIZERS = ("lazy_adam", "adagrad", "adam", "sgd")


@dataclass(frozen=True)
class Regression:
    """How logistic regressions are learned.

    Attributes:
        optimizer: The optimizer.
        rate: Its learning rate.
        l1: The penalty l1 * sum of absolute weights, beside the mean loss.
        l2: The penalty l2 / 2 * sum of their squares; None for the best of several on valid.
    """

    optimizer: str = "lazy_adam"
    rate: float = 3e-2
    l1: float = 0.0
    l2: float | None = None


@dataclass(frozen=True)
class SearchConfig:
    """All that decides what a search does, apart from the data.

    None stands for what `resolve` chooses by the data.
    """

    rank: ClassVar[str] = "gain"  # as `FitConfig` has it

    # The network.
    order: int = integer(3, "highest order of crosses", 2)
    dim: int = integer(32, "dimension of the embedding", 1)
    aggregate: str = choice("mean", "how a node joins its neighbours", ("mean", "sum"))
    first_order: bool = flag(True, "layer 0 is a table of weights by value, apart from the graph")
    warm_start: bool = flag(True, "start that table from a logistic regression")
    form: str = choice(
        "auto",
        "what is learned from scratch after the search: the network with weights in that table "
        "for the crosses that help a logistic regression most (crosses), without them (table), or "
        "the graph alone with an embedding for each value (graph); auto: the one, or the mean of "
        "several, that is best on valid",
        ("auto", *FORMS),
    )
    coarse_count: int = integer(200, "values below this count share an embedding; 0: none do")
    coarse_buckets: int = integer(10, "about how many buckets of a number have one; 0: all")
    joint: float = number(
        0.5,
        "part of the loss on the sum of the layers' logits, which then is what predicts; at 0 the "
        "mean of the layers' probabilities predicts",
        maximum=1.0,
    )
    stddev: float = number(0.3, "standard deviation of the first embeddings")
    readout_stddev: float = number(0.3, "that of the first projections to logits")

    # The adjacency tensor.
    end_temperature: float = number(0.02, "temperature at the end of the search", 1e-4, 1.0)
    thresholds: tuple[float, ...] = setting(
        (), "numbers", "from which strength on an edge counts, for each layer; default: 0.5"
    )
    dependencies: bool = flag(True, "the edges of a layer depend on those of the layer before")
    rescaling: bool = flag(True, "the temperature falls during the search")
    straight_through: bool = flag(False, "the network sees binary edges also in the search")
    random_adjacency: bool = flag(
        False, "after the search, put as many edges at random in place of those found"
    )

    # Learning.
    seed: int = integer(0, "decides everything that is drawn")
    batch: int | None = integer(None, "rows of a batch; default: by the data", 1)
    lr_epochs: int | None = integer(
        None, "epochs of the logistic regression; default: by the data", 1
    )
    search_epochs: int | None = integer(None, "epochs of the search; default: by the data", 1)
    after: str = choice(
        "from_scratch",
        "what follows the search, with its edges fixed: learn the network from scratch, finetune "
        "it, or nothing",
        ("from_scratch", "finetune", "nothing"),
    )
    epochs: int | None = integer(None, "most epochs after the search; default: by the data", 1)
    patience: int = integer(8, "evaluations without a better AUC on valid after which to stop", 1)
    refit: bool = flag(True, "at last learn from train and valid together, as many epochs")
    members: int = integer(
        1,
        "number of models, each with a search of its own, whose predictions are averaged; never "
        "fewer than the forms that are kept",
        1,
    )
    embedding_optimizer: str = choice("lazy_adam", "optimizer of the embedding", _OPTIMIZERS)
    search_embedding_rate: float = number(3e-3, "its learning rate during the search")
    embedding_rate: float = number(3e-3, "its learning rate after it, which falls to 0")
    search_rate: float = number(3e-3, "learning rate of the network during the search")
    rate: float = number(3e-3, "learning rate of the network after it, which falls to 0")
    edge_rate: float = number(3e-2, "learning rate of the adjacency tensor")
    edge_epsilon: float = number(
        1e-4, "gradients of an edge well below this hardly move it, as Adam else would", 1e-9
    )
    first_order_rate: float = number(3e-4, "learning rate of the first-order table")
    search_l2: float = number(1e-5, "L2 penalty on the embedding during the search")
    l2: float = number(1e-4, "L2 penalty on the embedding after it")
    search_dropout: float = number(
        0.0, "part of the embedding's values that is dropped during the search", maximum=0.9
    )
    dropout: float = number(0.3, "part of them that is dropped after it", maximum=0.9)
    first_order_l2: float | None = number(
        None, "L2 penalty on the first-order table; default: the best one of a logistic regression"
    )

    # The work.
    strategy: str = choice(
        "auto",
        "how devices work together: one of them alone, those of this machine mirrored, or workers "
        "as TF_CONFIG says; default: by the environment",
        ("auto", "one", "mirrored", "workers"),
    )
    devices: str = setting(
        "", "text", "cpu:N for N logical devices, gpu:N for the first N GPUs; default: all GPUs"
    )
    precision: str = choice(
        "float32",
        "numbers that the network is computed in while it learns; parameters, edges, loss and "
        "predictions stay float32",
        ("float32", "bfloat16", "float16"),
    )
    scale_rates: bool = flag(False, "multiply all learning rates by the number of replicas")
    xla: bool = flag(True, "compile the network")
    memory: int = integer(2 << 30, "bytes up to which all rows are held in memory")
    skip_corrupt: bool = flag(False, "leave out shards that hold a corrupt record")
    evaluate_rows: int = integer(20_000_000, "rows between evaluations in a long epoch", 1)
    checkpoint_seconds: float = number(120.0, "seconds between checkpoints")

    def __post_init__(self):
        check(self)
        if self.thresholds and len(self.thresholds) != self.order - 1:
            raise UserError(
                f"`thresholds`: expected {self.order - 1}, one for each layer above layer 0. "
                f"Received: {list(self.thresholds)}."
            )
        if self.form != "auto" and not self.forms:
            raise UserError(
                "`form`: is for what is learned from scratch where the search has a first-order "
                "table; set `first_order` to true and `after` to from_scratch, or `form` to auto. "
                f"Received: {self.form}."
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
    def forms(self) -> tuple[str, ...]:
        """The forms that may be learned in the end; none if it is what was searched in any case."""
        if not self.first_order or self.after != "from_scratch":
            return ()
        return FORMS if self.form == "auto" else (self.form,)

    def of_form(self, form: str) -> "SearchConfig":
        """The settings of a form, of its search too.

        The graph alone is the paper's network: by default with all that `PAPER` says but the
        dimension of its embedding.
        """
        if form != "graph":
            return self
        return dataclasses.replace(
            self,
            form="auto",
            first_order=False,
            coarse_count=0,
            coarse_buckets=0,
            joint=0.0,
            stddev=self.stddev / 3,
            readout_stddev=self.readout_stddev / 3,
            search_embedding_rate=self.search_embedding_rate * 5 / 3,
            embedding_rate=self.embedding_rate * 5 / 3,
            search_rate=self.search_rate * 5 / 3,
            rate=self.rate * 5 / 3,
            edge_rate=self.edge_rate / 6,
            edge_epsilon=self.edge_epsilon / 1000,
            search_l2=self.l2,
            search_dropout=self.dropout,
        )

    @property
    def regression(self) -> Regression:
        """How the logistic regressions of a search are learned."""
        return Regression()

    def resolve(self, rows: int, replicas: int = 1) -> "SearchConfig":
        """The configuration for so many train rows, with nothing left open by their number.

        Args:
            rows: The number of train rows.
            replicas: Among how many replicas a batch is to be divided.
        """
        return _resolve(self, rows, replicas)

    def to_yaml(self) -> str:
        """The configuration as YAML text, which `read_settings` reads back."""
        return to_yaml(self)


@dataclass(frozen=True)
class FitConfig:
    """All that decides what `fives fit` does, apart from the data and the crosses.

    None stands for what `resolve` chooses by the data, or for the default of the model.
    """

    # What a search decides otherwise: every value has an embedding of its own, and crosses have
    # weights if that is better on valid.
    coarse_count: ClassVar[int] = 0
    coarse_buckets: ClassVar[int] = 0
    form: ClassVar[str] = "auto"

    # The model.
    model: str = choice(
        "lr",
        "lr: a logistic regression on fields and crosses; dnn: embeddings and hidden layers; fm: a "
        "factorization machine; wide_deep: a regression and a dnn together; autoint: blocks of "
        "self-attention; fignn: a graph network over all pairs of fields; autofis: a search for "
        "useful pairs of fields, then a factorization machine with these and a dnn",
        MODELS,
    )
    rank: str = choice(
        "gain",
        "which of --crosses come first: those that add most to a logistic regression, or those "
        "that stand first in what is given",
        ("gain", "given"),
    )
    top: int | None = integer(
        None,
        "how many of --crosses to use, the first by `rank`; default: as many as are best",
        1,
    )
    dim: int = integer(16, "dimension of the embedding; not for lr", 1)
    hidden: tuple[int, ...] = integers(
        (512, 256), "units of the hidden layers; for dnn, wide_deep and autofis", 1
    )
    layers: int = integer(3, "blocks of autoint, steps of fignn", 1)
    heads: int = integer(2, "heads of the attention of autoint and fignn", 1)
    head_dim: int = integer(32, "width of a head of autoint", 1)
    dropout: float = number(
        0.0, "part of what each layer is given that is dropped; not for lr", maximum=0.9
    )

    # Learning.
    seed: int = integer(0, "decides everything that is drawn")
    batch: int | None = integer(None, "rows of a batch; default: by the data", 1)
    lr_epochs: int | None = integer(None, "epochs of logistic regressions; default: by the data", 1)
    epochs: int | None = integer(None, "most epochs of other models; default: by the data", 1)
    patience: int = integer(
        3, "evaluations without a better AUC on valid after which to stop; not for lr", 1
    )
    refit: bool = flag(True, "at last learn from train and valid together, as many epochs")
    optimizer: str = choice(
        "lazy_adam",
        "optimizer of a logistic regression: lazy Adam, whose rate falls to 0, or FTRL-Proximal, "
        "whose rates fall by themselves",
        ("lazy_adam", "ftrl"),
    )
    rate: float | None = number(
        None, "learning rate; default: 0.03 for lazy_adam, 0.1 for ftrl, 0.001 but for lr", 1e-9
    )
    l1: float = number(
        0.0, "penalty l1 * sum of absolute weights beside the mean loss; for lr with ftrl"
    )
    l2: float | None = number(
        None,
        "penalty l2 / 2 * sum of squares beside the mean loss, on weights or the embedding; "
        "default: the best of several on valid for lr, else 1e-5",
    )
    first_order_l2: float | None = number(
        None,
        "such a penalty on the weights of fm, wide_deep and autofis; default: that of a logistic "
        "regression with C = 0.2",
    )
    scale_rates: bool = flag(False, "multiply all learning rates by the number of replicas")

    # The work.
    strategy: str = again(SearchConfig, "strategy")
    devices: str = again(SearchConfig, "devices")
    xla: bool = again(SearchConfig, "xla")
    memory: int = again(SearchConfig, "memory")
    skip_corrupt: bool = again(SearchConfig, "skip_corrupt")
    evaluate_rows: int = again(SearchConfig, "evaluate_rows")
    checkpoint_seconds: float = again(SearchConfig, "checkpoint_seconds")

    def __post_init__(self):
        check(self)
        if self.l1 and (self.model, self.optimizer) != ("lr", "ftrl"):
            raise UserError(
                "`l1`: is for a logistic regression that FTRL learns; set `model` to lr and "
                f"`optimizer` to ftrl, or leave it out. Received: {self.l1:g}."
            )
        if self.model == "fignn" and self.dim % self.heads:
            raise UserError(
                f"`heads`: expected a divisor of `dim`, which is {self.dim}, as each head has its "
                f"part of it. Received: {self.heads}."
            )

    @property
    def regression(self) -> Regression:
        """How logistic regressions are learned, also those that only tell which crosses help."""
        rate = FTRL_RATE if self.optimizer == "ftrl" else Regression.rate
        if self.model != "lr":
            return Regression(self.optimizer, rate)
        return Regression(
            self.optimizer, rate if self.rate is None else self.rate, self.l1, self.l2
        )

    def resolve(self, rows: int, replicas: int = 1) -> "FitConfig":
        """See `SearchConfig.resolve`."""
        return _resolve(self, rows, replicas)

    def to_yaml(self) -> str:
        """The configuration as YAML text, which `read_settings` reads back."""
        return to_yaml(self)


Config = SearchConfig | FitConfig


# What the paper says of its experiments, and no more (section 3 and appendix C).
PAPER: dict[str, Any] = {
    "dim": 16,
    "first_order": False,
    "warm_start": False,
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
    "model": "the model",
    "end_temperature": "the adjacency tensor",
    "seed": "learning",
    "strategy": "the work",
}


def settings(kind: type[Config] = SearchConfig) -> tuple[dataclasses.Field, ...]:
    """The settings, in the order of their declaration."""
    return dataclasses.fields(kind)


def groups(kind: type[Config] = SearchConfig) -> dict[str, list[dataclasses.Field]]:
    """The settings by what they are about."""
    found: dict[str, list[dataclasses.Field]] = {}
    for one in settings(kind):
        title = _GROUPS.get(one.name) or list(found)[-1]
        found.setdefault(title, []).append(one)
    return found


def load_settings(path: str, kind: type[Config] = SearchConfig) -> dict[str, Any]:
    """Reads the settings in a YAML file."""
    return read(Mapping.load(path), kind)


def read_settings(text: str, place: str, kind: type[Config] = SearchConfig) -> dict[str, Any]:
    """Reads the settings in YAML text; an unknown key is an error that names the nearest."""
    return read(Mapping.parse(text, place), kind)


def _resolve(config: Config, rows: int, replicas: int) -> Any:
    if config.batch and config.batch % replicas:
        raise UserError(
            f"`batch`: expected a multiple of {replicas}, the number of replicas, among which "
            f"it is divided. Received: {config.batch}."
        )
    batch = config.batch or min(max(2 ** int(math.log2(rows / 500)), 128), 1024)
    batch = min(batch, rows) // replicas * replicas
    choices = {
        # Enough steps to get there, as many epochs as small data bears. Of the regression's
        # weights many are seldom moved, and crosses of three take long to show.
        "lr_epochs": _epochs(20_000 * batch / rows, 2, 12),
        "search_epochs": _epochs(5_000 * batch / rows, 1, 8),
        "epochs": _epochs(20_000 * batch / rows, 1, 8),
    }
    left_open = [name for name, value in vars(config).items() if value is None]
    chosen = {name: value for name, value in choices.items() if name in left_open}
    return dataclasses.replace(config, **chosen | {"batch": batch})


def _epochs(wanted: float, least: int, most: int) -> int:
    return min(max(round(wanted), least), most)
