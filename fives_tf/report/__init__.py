"""The report of a run: what it found, as data and as one HTML page that needs nothing else."""
