"""Pictures of the comparison view in the MLflow UI: studies as a table, their curves as charts. For docs/mlflow.md.

    python scripts/mlflow_pictures.py URI FOLDER

Drives a headless Chromium through its debugging pipe: no port is opened, no driver is needed.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

WIDTH, HEIGHT = 1500, 720
LONGEST_WAIT_S = 90.0


class Browser:
    """A context manager: one page of a headless Chromium."""

    def __enter__(self) -> Browser:
        self._folder = tempfile.mkdtemp(prefix="cimopt-chromium-")
        there, self._to = os.pipe()
        self._from, back = os.pipe()
        # Chromium reads commands from descriptor 3 and answers on 4.
        command = [
            "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
            f"--user-data-dir={self._folder}", f"--window-size={WIDTH},{HEIGHT}",
        ]  # fmt: skip
        shell = f'exec "$@" 3<&{there} 4>&{back}'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "bash", *command], pass_fds=(there, back), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(there)
        os.close(back)
        self._number, self._rest = 0, b""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", **size)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if hasattr(self, "_session"):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            if not more:
                raise RuntimeError("chromium ended")
            self._rest += more
        one, self._rest = self._rest.split(b"\0", 1)
        return json.loads(one)

    def before_pages(self, script: str) -> None:
        """JavaScript that runs first in every page."""
        self._ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, address: str) -> None:
        self._ask("Page.navigate", url="about:blank")  # a change of the part after # alone loads nothing
        self._ask("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        return self._ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Until the expression is true."""
        until = time.monotonic() + LONGEST_WAIT_S
        while not self.run(script):
            if time.monotonic() > until:
                raise RuntimeError(f"the page never came to: {script}; it shows: {self.run('document.body.innerText')}")
            time.sleep(0.2)

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"]))


# Buttons that clear the page of what the picture is not about.
AWAY = ("mlflow.assistant.chat_panel.close", "mlflow_header.toggle_sidebar_button")
CLICK = "document.querySelectorAll('[data-component-id=\"{0}\"]').forEach(b => b.click())"
NO_TOOLBARS = "document.head.appendChild(document.createElement('style')).textContent = '.modebar {display: none}'"


def pictures(uri: str, experiment: str, folder: Path) -> list[Path]:
    """mlflow_runs.png and mlflow_compare.png of the experiment's comparison view."""
    view = f"{uri}/#/experiments/{experiment}/runs?viewStateShareKey=cimopt"
    pages = {"mlflow_runs": (view, "true"), "mlflow_compare": (f"{view}&compareRunsMode=CHART", CHARTS_THERE)}
    made = []
    with Browser() as browser:
        for name, (address, there) in pages.items():
            browser.open(address)
            browser.wait_for("document.body.innerText.includes('matching runs')")
            for button in AWAY:
                browser.run(CLICK.format(button))
            browser.run(NO_TOOLBARS)
            browser.wait_for(there)
            time.sleep(2)  # charts fit themselves to the room
            made.append(folder / f"{name}.png")
            browser.picture(made[-1])
    return made


CHARTS_THERE = "document.querySelectorAll('.js-plotly-plot .scatterlayer .trace').length >= 16"


def main() -> int:
    from mlflow import MlflowClient

    uri, folder = sys.argv[1:3]
    experiment = MlflowClient(uri).get_experiment_by_name("cimopt").experiment_id
    for path in pictures(uri, experiment, Path(folder)):
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
