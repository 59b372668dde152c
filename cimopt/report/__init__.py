"""What a run leaves for people: `result.json`, `trials.parquet`, tables, plots, one HTML page."""
