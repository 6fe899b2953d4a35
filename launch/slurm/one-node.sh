#!/bin/bash
# fives launch slurm --gpus 4 --time 12:00:00 --venv /shared/fives/venv --dry_run -- --dataset
#     /shared/dataset --run /shared/run
#SBATCH --job-name=fives
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --output=%x-%j.log
#SBATCH --requeue

set -euo pipefail
# One task a node. If one fails, the others would wait for it: they end too.
srun --kill-on-bad-exit=1 /shared/fives/venv/bin/python -m launch.train_job --gpus 4 --dataset /shared/dataset --run /shared/run
