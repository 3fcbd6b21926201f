"""What Anthropic's clients speak: POST /v1/messages."""

from multiverse_router.api.anthropic.messages import routes

__all__ = ["routes"]
