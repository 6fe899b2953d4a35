"""Reports made up by numbers of a fixed seed: of any size, and with names as bad as can be."""

from typing import Any

import numpy as np

WORDS = [
    "age",
    "sex",
    "city",
    "hour",
    "weekday",
    "device",
    "browser",
    "site",
    "app",
    "category",
    "banner",
    "position",
    "price",
    "income",
    "education",
    "work",
    "hours",
    "country",
    "occupation",
    "marital",
    "gain",
    "loss",
    "member",
    "season",
    "carrier",
]
HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><svg onload=window.hacked=1>",
    "{{constructor.constructor('window.hacked=1')()}}",
    "a\u2028b\u2029c",
    "'; window.hacked=1; //",
    "&lt;b&gt; &amp; ${window.hacked=1}",
    "\u202eright to left\u202c",
    "two\nlines\tand a tab",
    "x" * 300,
    "",
)


def make(fields: int = 12, order: int = 3, crosses: int = 40, seed: int = 0) -> dict[str, Any]:
    """A report of a run that never was.

    Args:
        fields: How many fields there are; every fourth is a second granularity of the one before.
        order: The highest order of a cross.
        crosses: How many crosses are listed at most.
        seed: What the numbers follow from.
    """
    random = np.random.default_rng(seed)
    names, columns = _fields(fields)
    adjacency = _adjacency(random, names, columns, order - 1)
    return {
        "version": 1,
        "written_by": "fives-tf 0.1.0",
        "created": "2026-11-17T12:00:00Z",
        "title": "clicks",
        "headline": _headline(random, fields, columns),
        "crosses": _crosses(random, names, columns, order, crosses),
        "adjacency": adjacency,
        "history": _history(random, adjacency),
        "curves": _curves(random, order),
        "layers": {"split": "test", "auc": _rounded(0.9 + 0.01 * np.arange(order))},
        "scatter": _scatter(random, adjacency),
        "data": {
            "fields": [
                _field(random, name, column) for name, column in zip(names, columns, strict=True)
            ],
            "rejected": 3,
        },
        "warnings": [
            {
                "kind": "drift",
                "fields": [names[0]],
                "text": f"The values of {names[0]} differ between train and test.",
                "advice": "Check whether its meaning has changed, or train on newer rows.",
            },
            {
                "kind": "twins",
                "fields": names[1:3],
                "text": f"{names[1]} and {names[2]} almost always tell the same.",
                "advice": "Leave one of them out of the schema.",
            },
        ],
        "reproduce": {
            "config": {"order": order, "seed": 0, "batch": None, "thresholds": [0.5, 0.5]},
            "changed": {"order": order},
            "versions": {"fives-tf": "0.1.0", "tensorflow": "2.16.2", "python": "3.11.7"},
            "durations": [
                {"stage": "lr", "seconds": 4.1},
                {"stage": "search", "seconds": 41.9},
                {"stage": "from_scratch-crosses", "seconds": 24.8},
            ],
            "seconds": 70.8,
            "commands": [
                "fives preprocess log.csv --schema schema.yaml --out dataset",
                "fives search dataset --run run --seed 0",
            ],
        },
    }


def with_adjacency(strength: np.ndarray, columns: list[str]) -> dict[str, Any]:
    """A report with these strengths; its fields are called F0, F1, ..."""
    report = make(fields=len(columns), order=len(strength) + 1, crosses=3)
    report["adjacency"] = {
        "fields": [f"F{index}" for index in range(len(columns))],
        "columns": columns,
        "left_out": 0,
        "thresholds": [0.5] * len(strength),
        "temperature": 0.02,
        "layers": [_layer(layer) for layer in strength],
    }
    return report


def hostile() -> dict[str, Any]:
    """A report in which every text that comes from the data or from the user tries to break out."""
    count = 0

    def spoil(value: Any, key: str = "") -> Any:
        nonlocal count
        if isinstance(value, dict):
            # The settings' names are the program's own, but what is shown of them is not trusted.
            renamed = {"config", "changed", "versions"}
            return {
                (HOSTILE[index % len(HOSTILE)] if key in renamed else name): spoil(item, name)
                for index, (name, item) in enumerate(value.items())
            }
        if isinstance(value, list):
            return [spoil(item, key) for item in value]
        if isinstance(value, str) and key not in {"key", "judged_on", "of", "created"}:
            count += 1
            return HOSTILE[count % len(HOSTILE)]
        return value

    report = spoil(make(fields=8, crosses=len(HOSTILE)))
    for cross, name in zip(report["crosses"], HOSTILE, strict=True):
        cross["name"] = name
    report["adjacency"]["columns"] = [str(index) for index in range(8)]
    return report


def empty() -> dict[str, Any]:
    """A report in which all that may be missing is."""
    report = make(fields=4, order=2)
    for model in report["headline"]["models"]:
        model.update(auc=None, auc_interval=None, log_loss=None)
    report["headline"]["calibration"] = {}
    report["headline"]["splits"] = []
    report["adjacency"].update(fields=[], columns=[], thresholds=[], temperature=None, layers=[])
    report["data"] = {"fields": [], "rejected": 0}
    report["layers"] = {"split": "valid", "auc": []}
    report["scatter"] = {"points": [], "of": 0, "correlations": []}
    report["reproduce"] = {
        "config": {},
        "changed": {},
        "versions": {},
        "durations": [],
        "seconds": None,
        "commands": [],
    }
    report.update(crosses=[], history=None, curves=[], warnings=[])
    return report


def _fields(count: int) -> tuple[list[str], list[str]]:
    names, columns = [], []
    for index in range(count):
        word = WORDS[index % len(WORDS)]
        column = word if index < len(WORDS) else f"{word}_{index // len(WORDS)}"
        if index % 4 == 3:
            column = columns[-1]
            names[-1] = f"{column}@10"
        columns.append(column)
        names.append(f"{column}@100" if index % 4 == 3 else column)
    return names, columns


def _headline(random: np.random.Generator, fields: int, columns: list[str]) -> dict[str, Any]:
    def model(key: str, label: str, auc: float, log_loss: float) -> dict[str, Any]:
        interval = [round(auc - 0.0042, 4), round(auc + 0.0041, 4)]
        figures = {"auc": auc, "auc_interval": interval, "log_loss": log_loss}
        if key != "lr":
            above = auc - 0.9178
            beside = {"above_lr": above, "above_lr_interval": [above - 0.001, above + 0.001]}
            figures |= {name: np.round(value, 4).tolist() for name, value in beside.items()}
        return {"key": key, "label": label, **figures}

    return {
        "dataset": "/data/clicks",
        "run": "/data/run",
        "columns": len(set(columns)),
        "fields": fields,
        "ids": 12345,
        "splits": [
            {"name": "train", "rows": 29337, "clicks": 7020, "rate": 0.2393},
            {"name": "valid", "rows": 3224, "clicks": 776, "rate": 0.2407},
            {"name": "test", "rows": 16281, "clicks": 3846, "rate": 0.2362},
        ],
        "judged_on": "test",
        "models": [
            model("fives", "FIVES", 0.9284, 0.2731),
            model("lr_crosses", "Logistic regression with 30 crosses", 0.9261, 0.2779),
            model("lr", "Logistic regression", 0.9178, 0.2894),
        ],
        "crosses_used": 30,
        "calibration": {key: _calibration(random) for key in ("fives", "lr_crosses", "lr")},
    }


def _calibration(random: np.random.Generator) -> list[dict[str, Any]]:
    bins = []
    for predicted in (0.004, 0.012, 0.03, 0.07, 0.13, 0.22, 0.34, 0.49, 0.68, 0.91):
        clicked = float(np.clip(predicted + random.normal(0, 0.012), 0.001, 0.999))
        interval = [max(0.0, clicked - 0.02), min(1.0, clicked + 0.02)]
        bins.append(
            {
                "rows": 1628,
                "predicted": predicted,
                "clicked": round(clicked, 4),
                "interval": _rounded(interval),
            }
        )
    return bins


def _crosses(
    random: np.random.Generator, names: list[str], columns: list[str], order: int, count: int
) -> list[dict[str, Any]]:
    crosses: dict[tuple[int, ...], dict[str, Any]] = {}
    for attempt in range(20 * count):
        size = 2 + attempt % (order - 1)
        chosen = tuple(sorted(random.choice(len(names), size, replace=False).tolist()))
        if len({columns[index] for index in chosen}) < size or chosen in crosses:
            continue
        number = len(crosses)
        if number == count:
            break
        fields = [names[index] for index in chosen]
        crosses[chosen] = {
            "name": " x ".join(fields),
            "fields": fields,
            "order": size,
            "score": round(0.95 * 0.97**number, 4),
            "auc": None if number % 11 == 10 else round(float(random.uniform(0.5, 0.85)), 4),
            "mutual_information": round(float(random.uniform(-0.0002, 0.05)), 5),
            "coverage": round(float(random.uniform(0.4, 1)), 4),
            "gain": None if number % 5 == 4 else round(float(random.normal(0.0004, 0.0003)), 6),
            "lift": None if number % 7 == 6 else round(float(random.normal(0.001, 0.001)), 5),
            "used": number % 3 == 0,
            "values": [_value(random, fields, place) for place in range(6 + number % 7)],
        }
    return list(crosses.values())


def _value(random: np.random.Generator, fields: list[str], place: int) -> dict[str, Any]:
    rows = int(random.integers(30, 3000))
    rate = float(random.uniform(0.02, 0.9))
    half = 1.96 * np.sqrt(rate * (1 - rate) / rows)
    return {
        "values": [f"{field.split('@')[0]} {place + 1}" for field in fields],
        "rows": rows,
        "clicks": round(rows * rate),
        "rate": round(rate, 4),
        "interval": _rounded(np.clip([rate - half, rate + half], 0, 1)),
        "expected": round(float(np.clip(rate + random.normal(0, 0.15), 0.01, 0.99)), 4),
    }


def _adjacency(
    random: np.random.Generator, names: list[str], columns: list[str], layers: int
) -> dict[str, Any]:
    may = np.array(columns)[:, None] != np.array(columns)[None, :]
    strength = np.clip(random.beta(0.8, 2.2, (layers, *may.shape)), 0.001, 0.999) * may
    return {
        "fields": names,
        "columns": columns,
        "left_out": 0,
        "thresholds": [0.5] * layers,
        "temperature": 0.02,
        "layers": [_layer(np.round(layer, 4)) for layer in strength],
    }


def _layer(strength: np.ndarray) -> dict[str, Any]:
    with np.errstate(divide="ignore", over="ignore"):
        soft = 1 / (1 + (1 / np.clip(strength, 1e-6, 1 - 1e-6) - 1) ** 50)
    soft = np.where(strength > 0, soft, 0)
    return {
        "strength": strength.tolist(),
        "totals": strength.sum(axis=1).tolist(),
        "soft": np.round(soft, 4).tolist(),
        "edges": (soft >= 0.5).astype(int).tolist(),
    }


def _history(random: np.random.Generator, adjacency: dict[str, Any]) -> dict[str, Any]:
    snapshots = 12
    progress = np.linspace(0, 1, snapshots)
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    layers, courses = [], []
    for number, layer in enumerate(adjacency["layers"], start=1):
        quantiles = 0.5 + progress[:, None] * 0.98 * (levels - 0.5)
        edges = np.round(np.linspace(120, np.sum(layer["edges"]), snapshots)).astype(int)
        layers.append({"quantiles": [_rounded(row) for row in quantiles], "edges": edges.tolist()})
        soft = np.array(layer["soft"])
        for start, end in np.argwhere(np.array(layer["strength"]) > 0)[:8]:
            course = 0.5 + (soft[start, end] - 0.5) * progress + random.normal(0, 0.02, snapshots)
            courses.append(
                {
                    "layer": number,
                    "start": adjacency["fields"][start],
                    "end": adjacency["fields"][end],
                    "soft": _rounded(np.clip(course, 0, 1)),
                }
            )
    return {
        "steps": [229 * (index + 1) for index in range(snapshots)],
        "epochs": [index + 1.0 for index in range(snapshots)],
        "temperature": _rounded(np.linspace(1, 0.02, snapshots)),
        "layers": layers,
        "courses": courses,
    }


def _curves(random: np.random.Generator, order: int) -> list[dict[str, Any]]:
    curves = []
    for stage, epochs, outputs in (("lr", 6, 10), ("search", 12, order), ("refit-lr", 1, 0)):
        points = []
        for epoch in range(1, epochs + 1):
            fall = float(np.exp(-epoch / 3))
            auc = 0.93 - 0.05 * fall + random.normal(0, 0.0005, max(outputs, 1))
            point = {"step": 229 * epoch, "epoch": float(epoch), "loss": round(0.27 + fall / 9, 5)}
            if outputs:
                point.update(
                    auc=round(float(auc[-1]), 5),
                    log_loss=round(0.275 + fall / 12, 5),
                    edge_loss=round(0.28 + fall / 10, 5) if stage == "search" else None,
                    output_auc=_rounded(auc - 0.002 * np.arange(outputs)[::-1]),
                )
            points.append(point)
        curves.append({"stage": stage, "points": points})
    return curves


def _scatter(random: np.random.Generator, adjacency: dict[str, Any]) -> dict[str, Any]:
    points, correlations = [], []
    fields = adjacency["fields"]
    for number, layer in enumerate(adjacency["layers"], start=1):
        for start, end in np.argwhere(np.array(layer["strength"]) > 0)[:600]:
            strength = layer["strength"][start][end]
            points.append(
                {
                    "layer": number,
                    "start": fields[start],
                    "end": fields[end],
                    "cross": f"{fields[start]} x {fields[end]}",
                    "soft": layer["soft"][start][end],
                    "strength": strength,
                    "auc": round(0.55 + 0.2 * strength + float(random.normal(0, 0.04)), 4),
                }
            )
        for of in ("soft", "strength"):
            correlations.append({"layer": number, "of": of, "pearson": 0.41, "spearman": 0.52})
    return {"points": points, "of": len(points), "correlations": correlations}


def _field(random: np.random.Generator, name: str, column: str) -> dict[str, Any]:
    buckets = "@" in name
    shares = np.sort(random.dirichlet(np.ones(12)))[::-1][:8]
    return {
        "name": name,
        "column": column,
        "kind": "buckets" if buckets else "vocabulary",
        "ids": int(random.integers(3, 2000)),
        "missing": round(float(random.uniform(0, 0.1)), 4),
        "rare": round(float(random.uniform(0, 0.05)), 4),
        "auc": round(float(random.uniform(0.5, 0.75)), 4),
        "values": [
            {"value": f"{column} {place}", "share": round(float(share), 4)}
            for place, share in enumerate(shares, start=1)
        ],
        "bucket_edges": [float(17 + 4 * place) for place in range(11)] if buckets else None,
        "drift": round(float(random.uniform(0, 0.05)), 4),
    }


def _rounded(values: Any) -> list[float]:
    return np.round(np.asarray(values, float), 4).tolist()
