"""FIVES-TF: finds the useful feature crosses in click logs and serves them."""

__version__ = "0.1.0"
