"""A slow model's results are the same whether they were just evaluated, or come from the study or the cache."""

import json
import shutil


def test_limits_come_back_from_the_study_and_from_the_cache(soak_script, tmp_path):
    plugin = soak_script.soak_model.install(tmp_path / "plugin")
    run = soak_script.Run(tmp_path, plugin, soak_script.SHORT, *soak_script.ALONE, "++evaluator.slow_tiled.sleep_s=0")
    results = []
    for kept in ("nothing", "study", "cache"):
        if kept == "cache":
            shutil.rmtree(run.folder / "run")
        assert run.start().wait(120) == 0, run.output()
        results.append(json.loads((run.folder / "run" / "result.json").read_text()))
    first = results[0]["best"]["constraints"]
    assert first["cells"]["unit"] == "cell"
    assert first["cells"]["value"] <= first["cells"]["limit"]
    for again in results[1:]:
        assert again["best"] == results[0]["best"]
        assert again["top"] == results[0]["top"]
    assert len(run.calls()) == soak_script.SHORT.designs, "nothing was evaluated twice"
