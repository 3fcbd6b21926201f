"""Curation as a service: an API with a page, and Celery workers, on one database and Redis.

    client --> api --> database <-- worker: hands out, claims, asks --> teacher
                                      `--> Redis: messages, shared rates

The API needs no Redis and holds no state: any number of replicas may run. The database says what
is to be done and what was done; messages are hints, and may be lost or come twice.
"""
