"""Workers: Celery tasks around the stages, and what hands samples to them."""
