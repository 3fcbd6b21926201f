"""`multiverse eval`: what a model gets right, how parallel it is and what it costs.

The evaluation itself is `multiverse_trainer.evaluation`, an extra (`multiverse-cli[eval]`), so
it is imported when a command runs. Here models are served for it.
"""

from multiverse_cli.evaluation.commands import eval_app

__all__ = ["eval_app"]
