"""The HTTP API of the curator, and its page. Knows the database; must not know Redis or Celery."""
