"""`cimopt cluster local`: a Ray cluster of several nodes on this machine, for trying what a real one does."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from cimopt.errors import CimoptError
from cimopt.runners.ray_setup import import_ray, keep_token_private


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="cimopt cluster",
        description="A Ray cluster on this machine: separate raylets with their own ports, until Ctrl-C. "
        "The first line is JSON with its address; then: cimopt search runner=ray runner.address=<address>",
    )
    parser.add_argument("action", choices=["local"])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--cpus", type=int, default=1, help="CPUs each node offers (default: 1)")
    options = parser.parse_args(arguments)
    if options.nodes < 1 or options.cpus < 1:
        parser.error("--nodes and --cpus must be at least 1")
    # Ray asks for a token by itself only where it starts a cluster for one driver.
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        keep_token_private()
        import_ray()
    except CimoptError as error:
        sys.stderr.write(f"cimopt: {error}\n")
        return error.exit_code
    return _serve(options.nodes, options.cpus)


def _serve(nodes: int, cpus: int) -> int:
    from ray.cluster_utils import Cluster

    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    cluster = Cluster()
    try:
        started = [_add_node(cluster, cpus, number) for number in range(1, nodes + 1)]
        line = {"address": cluster.address, "nodes": nodes, "raylets": [_raylet(node) for node in started]}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        over.wait()
    finally:
        cluster.shutdown()
    return 0


def _add_node(cluster: Any, cpus: int, number: int) -> Any:
    """Each node has a loopback address of its own, as machines would; Ray's token authentication stays on.

    From 127.0.0.2 on, since Ray replaces 127.0.0.1 by the machine's own address.
    """
    return cluster.add_node(
        num_cpus=cpus, num_gpus=0, include_dashboard=False, node_ip_address=f"127.0.0.{number + 1}", object_store_memory=100 * 1024**2
    )  # fmt: skip


def _raylet(node: Any) -> int:
    return node.all_processes["raylet"][0].process.pid
