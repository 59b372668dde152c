"""Config choices of the group evaluator."""
