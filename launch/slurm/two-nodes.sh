#!/bin/bash
# fives launch slurm --nodes 2 --gpus 4 --partition gpu --time 12:00:00 --container
#     /shared/fives-tf.sif --bind /shared --dry_run -- --dataset /shared/dataset --run
#     /shared/run
#SBATCH --job-name=fives
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --partition=gpu
#SBATCH --time=12:00:00
#SBATCH --signal=TERM@120
#SBATCH --output=%x-%j.log
#SBATCH --requeue

set -euo pipefail
# One task a node. If one fails, the others would wait for it: they end too.
srun --kill-on-bad-exit=1 apptainer exec --nv --bind /shared /shared/fives-tf.sif python -m launch.cluster slurm -- python -m launch.train_job --gpus 4 --dataset /shared/dataset --run /shared/run
