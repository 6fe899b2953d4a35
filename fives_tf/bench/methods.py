"""The methods that are compared: the settings that each starts from, and what is tuned.

The settings that all baselines share, and the grids, are those of the paper's appendix C.
"""

from dataclasses import dataclass, field
from typing import Any

from fives_tf.bench.cells import Cell
from fives_tf.bench.data import Data
from fives_tf.bench.facts import config_values
from fives_tf.bench.learn import fit, search
from fives_tf.config import PAPER, Config, FitConfig, SearchConfig, settings
from fives_tf.tuning import GRID, PAPER_GRID, Grid, combinations

Settings = dict[str, Any]
Trial = tuple[Settings, Cell | None]
"""Settings that are tried, and the cell that does so if that is possible."""

# Other data has a batch by its size.
BATCHES = {"employee": 128, "bank": 128, "adult": 128, "credit": 128, "criteo": 1024}
COMMON: Settings = {"rate": 5e-3, "l2": 1e-4, "dropout": 0.3}
HIDDEN = ((512, 256), (256, 128), (128, 64))
DIMS = (8, 16)
# A trial is judged on valid, so its last fit must not learn from there.
_TRIAL: Settings = {"refit": False}


@dataclass(frozen=True)
class Method:
    """A method.

    Attributes:
        label: Its name in tables.
        kind: What its settings are.
        settings: Those that differ from the defaults.
        grid: What is tuned.
        batch: Whether its batch is the paper's, or by the size of the data.
    """

    label: str
    kind: type[Config]
    settings: Settings = field(default_factory=dict)
    grid: Grid = field(default_factory=dict)
    batch: bool = True

    def config(self, chosen: Settings) -> Config:
        """Its configuration with settings that differ; what another kind of method has is left out.

        Args:
            chosen: The settings.
        """
        known = {setting.name for setting in settings(self.kind)}
        own = {name: value for name, value in chosen.items() if name in known}
        return self.kind(**self.settings | own)


def _network(label: str, model: str, grid: Grid, **differs: Any) -> Method:
    return Method(label, FitConfig, {"model": model, **COMMON, **differs}, grid)


METHODS = {
    "fives": Method("FIVES", SearchConfig, {}, GRID, batch=False),
    "fives_paper": Method("FIVES, paper's form", SearchConfig, PAPER, PAPER_GRID),
    "lr": Method("LR", FitConfig, {"model": "lr"}, batch=False),
    "dnn": _network("DNN", "dnn", {"hidden": HIDDEN, "dim": DIMS}),
    # The paper's penalties are those of another program. Here 1e-2 holds all but the most frequent
    # values near 0, so that weaker ones are tried too.
    "fm": _network("FM", "fm", {"rate": (5e-3, 1e-2), "l2": (1e-5, 1e-4, 1e-3, 1e-2)}, dropout=0.0),
    "wide_deep": _network("Wide&Deep", "wide_deep", {"hidden": HIDDEN, "dim": DIMS}),
    "autoint": _network(
        "AutoInt", "autoint", {"layers": (2, 3, 4), "heads": (2, 4), "dim": DIMS}, head_dim=32
    ),
    "fignn": _network("Fi-GNN", "fignn", {"layers": (2, 3, 4), "dim": DIMS}),
    "autofis": _network("AutoFIS", "autofis", {"dim": DIMS}),
}


def trials(method: str, data: Data, given: Settings) -> list[Trial]:
    """The combinations of settings that are tried for a method; one, if nothing is tuned.

    Args:
        method: The method.
        data: The data; no order is higher than its number of columns.
        given: Settings that are not tuned.
    """
    tuned = combinations(METHODS[method].grid, data.columns, given)
    # Judged on valid, never on test.
    return [(one, learning_cell(method, data, one | given | _TRIAL, test=False)) for one in tuned]


def learning_cell(
    method: str,
    data: Data,
    chosen: Settings,
    test: bool = True,
    crosses: Cell | None = None,
    given: list[Settings] | None = None,
) -> Cell:
    """A run of a method.

    Args:
        method: The method.
        data: The data.
        chosen: The settings that differ from those that the method starts from.
        test: Whether it is judged on test.
        crosses: Where the crosses come from, if it has any.
        given: The crosses.
    """
    own = METHODS[method]
    values: Settings = {}
    if own.kind is SearchConfig:
        values["order"] = min(SearchConfig().order, data.columns)
    if own.batch and data.public:
        values["batch"] = BATCHES[data.name]
    config = config_values(own.config(values | chosen).resolve(data.rows))
    arguments = {"config": config, "test": test}
    if own.kind is SearchConfig:
        return Cell(data, method, search, arguments)
    if crosses is None:
        return Cell(data, method, fit, arguments)
    what = f"{method}-{crosses.what}-{config['rank']}"
    return Cell(data, what, fit, arguments | {"crosses": crosses.name}, given)
