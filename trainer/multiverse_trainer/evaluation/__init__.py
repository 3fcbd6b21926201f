"""What a served model gets right, how parallel it is and what it costs (docs/evaluation.md).

Asks any OpenAI-compatible endpoint. Must not know engines, routers or workers.
"""
