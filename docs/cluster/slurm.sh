#!/usr/bin/env bash
# One search on a Ray cluster inside a SLURM job: sbatch slurm.sh space=sram objective=energy
# Run with stand-ins for SLURM's commands and one node only: there is no SLURM on this project's machines.
#SBATCH --job-name=cimopt
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=16
#SBATCH --time=12:00:00
# SLURM tells the batch step before the end: Ctrl-C for cimopt, whose study continues when run again.
#SBATCH --signal=B:INT@120
set -euo pipefail
# Job control: without it the shell starts background commands deaf to Ctrl-C.
set -m
source "${CIMOPT_VENV:?set CIMOPT_VENV to the environment that every node sees}/bin/activate"
export RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token
# The home folder is shared, so all nodes read one token. It must exist before the first node starts.
python - <<'PY'
import os, pathlib, secrets
token = pathlib.Path.home() / ".ray" / "auth_token"
token.parent.mkdir(mode=0o700, exist_ok=True)
if not token.exists():
    with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
PY

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head=${nodes[0]}
address=$(srun --nodes=1 --ntasks=1 --nodelist="$head" hostname --ip-address | awk '{print $1}')
port=$((20000 + SLURM_JOB_ID % 20000))

srun --nodes=1 --ntasks=1 --nodelist="$head" \
  ray start --head --node-ip-address="$address" --port="$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
for _ in $(seq 120); do
  (exec 3<>"/dev/tcp/$address/$port") 2>/dev/null && break
  sleep 1
done
# Nodes that join later than the search starts are used as well.
if [ "${#nodes[@]}" -gt 1 ]; then
  srun --nodes=$((${#nodes[@]} - 1)) --ntasks=$((${#nodes[@]} - 1)) --exclude="$head" \
    ray start --address="$address:$port" --num-cpus="$SLURM_CPUS_PER_TASK" --block &
fi

# Name the folder (hydra.run.dir=runs/mine): a job that ran out of time is then simply sent again.
cimopt search runner=ray "runner.address=$address:$port" "$@" &
search=$!
trap 'kill -INT "$search"' INT TERM
code=0
wait "$search" || code=$?
if [ "$code" -gt 128 ]; then  # perhaps our own signal, while the search is still ending
  code=0
  wait "$search" || code=$?
fi
exit "$code"
