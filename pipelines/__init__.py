"""Beam pipelines that turn a raw click log into a dataset directory."""
