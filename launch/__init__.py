"""Starts training as a job: on this machine, on Kubernetes, or under Slurm."""
