"""The Celery application of a worker: one task, which takes one sample one stage further.

A message is acknowledged when its stage is stored. If it is lost, or comes twice, the claim on the
sample sees to it that the stage is done once.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_ready, worker_shutdown, worker_shutting_down
from kombu.exceptions import OperationalError
from prometheus_client import start_http_server

from multiverse_curator.service.settings import CuratorSettings
from multiverse_curator.service.worker.rounds import HandingOut, Rounds, Watch
from multiverse_curator.service.worker.work import REDIS_S, Work
from multiverse_curator.store.claims import Due

ADVANCE = "multiverse_curator.advance"
STEPS = [0, 3, 6, 9]  # of priority in Redis; 0 goes first

log = logging.getLogger(__name__)


def create_worker(settings: CuratorSettings) -> Celery:
    """Ready to be run by `worker_main`. Raises as `Work` does."""
    app = Celery("multiverse_curator")
    app.conf.update(
        broker_url=settings.redis.get_secret_value(),
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "visibility_timeout": settings.visibility_timeout_s,
            "priority_steps": STEPS,
            "queue_order_strategy": "priority",
            "socket_timeout": 4 * REDIS_S,
            "socket_connect_timeout": REDIS_S,
            "socket_keepalive": True,
        },
        task_default_queue=settings.queue,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        task_publish_retry=False,  # the database knows; it is handed out again
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
    )
    work = Work(settings)

    @app.task(name=ADVANCE)  # type: ignore[untyped-decorator]
    def advance(sample: int) -> None:
        work.advance(sample, hand_on)

    def send(due: Due) -> None:
        advance.apply_async(
            (due.sample,),
            priority=STEPS[-1] - 3 * due.priority,
            expires=settings.lease_s,  # by then it has been handed out again
        )

    def hand_on(due: Due) -> None:
        try:
            send(due)
        except OperationalError as error:
            log.warning("sample %d waits for its next turn: %s", due.sample, error)

    _beside(
        work,
        [
            Rounds("watch", settings.tick_s, Watch(work).go),
            Rounds("hand out", settings.tick_s, HandingOut(work, send).go),
        ],
    )
    return app


def _beside(work: Work, rounds: list[Rounds]) -> None:
    """What runs while the worker does."""
    settings = work.settings

    def begin(**_: Any) -> None:
        if settings.metrics_port is not None:
            start_http_server(settings.metrics_port, settings.host, registry=work.metrics.registry)

    def ready(**_: Any) -> None:
        for each in rounds:
            each.start()
        log.info("a worker with %d threads, teachers %s", settings.threads, list(work.teachers))

    def ending(**_: Any) -> None:
        rounds[-1].stop()  # nothing new

    def end(**_: Any) -> None:
        for each in rounds:
            each.stop()
        work.close()

    worker_init.connect(begin, weak=False)
    worker_ready.connect(ready, weak=False)
    worker_shutting_down.connect(ending, weak=False)
    worker_shutdown.connect(end, weak=False)


def run_worker(settings: CuratorSettings) -> None:
    """Until SIGTERM: running stages end first."""
    create_worker(settings).worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={settings.threads}",
            f"--loglevel={settings.log_level}",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
        ]
    )
