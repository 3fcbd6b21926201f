"""The database: claims, money, migrations. SQLite and PostgreSQL alike."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import func, select, text, update

from multiverse_curator.faults import Stage
from multiverse_curator.source import Broken, Source
from multiverse_curator.store import BudgetSpent, CallState, Database, State, Store, local_store
from multiverse_curator.store.claims import Claims
from multiverse_curator.store.jobs import Jobs, JobState, NewJob
from multiverse_curator.store.tables import calls, jobs, metadata, samples
from multiverse_curator.store.views import Views
from multiverse_shared.errors import Conflict, InvalidRequest, NotFound

LEASE_S = 1000.0
pytestmark = pytest.mark.timeout(600)  # a loaded machine starts PostgreSQL slowly


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


def sources(count: int) -> list[Source]:
    return [Source(id=f"s{n}", prompt=f"question {n}", reasoning="a. b.") for n in range(count)]


def submit(database: Database, count: int = 5, **more: object) -> str:
    given = {"name": "n", "tenant": "", "options": {}, "priority": 1, "in_flight": 64, **more}
    return Jobs(database).submit(NewJob(**given), sources(count))[0].id  # type: ignore[arg-type]


def ids(database: Database, job: str) -> list[int]:
    return list(Store(database, job).ids(State.PENDING))


def expire_now(database: Database) -> None:
    with database.write() as db:
        db.execute(update(samples).where(samples.c.due > 0).values(due=1.0))


def test_migrated_tables_are_the_tables_of_the_code(database: Database) -> None:
    with database.read() as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []


def test_migrations_go_up_and_down_on_data(database_url: str) -> None:
    database = Database(database_url)
    job = submit(database, 3)
    other = submit(database, 4)  # the same keys
    store = Store(database, job)
    first = ids(database, job)[0]
    store.save(first, Stage.SUMMARY, {"steps": []})
    call = store.ledger.start_call("k", first, Stage.SUMMARY, 0.5)
    store.ledger.end_call(call, "k", CallState.ANSWERED, spent=(10, 20), cost=0.25, text="{}")
    store.add_broken_row("f", 7, "bad")
    database.close()

    old = Database(database_url, to="0001")
    with old.read() as db:
        assert db.scalar(text("SELECT count(*) FROM samples")) == 7
        assert db.scalar(text("SELECT count(DISTINCT key) FROM samples")) == 7
        assert db.scalar(text("SELECT count(*) FROM answers")) == 1
        assert db.scalar(text("SELECT count(*) FROM broken_rows")) == 1
    old.close()

    again = local_store(database_url)  # all are one job now
    assert again.counts() == {
        "samples": {"pending": 7},
        "broken_rows": 1,
        "dead_at": {},
        "calls": {"answered": 1},
        "input_tokens": 10,
        "output_tokens": 20,
        "cost": 0.25,
    }
    assert again.ledger.stored_answer("k") == "{}"
    found = again.sample(first)
    assert found.next_stage is Stage.GROUPS
    assert found.source.prompt == "question 0"
    again.close()
    opened = Database(database_url)
    rows = Views(opened).page("local")
    assert rows[0].title == "question 0"
    assert [row.stage for row in rows] == [Stage.GROUPS] + [Stage.SUMMARY] * 6
    assert other[:4] in "".join(row.key for row in rows)
    opened.close()


def test_calls_are_counted_when_a_database_comes_to_have_their_counters(database_url: str) -> None:
    database = Database(database_url)
    job, other = submit(database, 1), submit(database, 1)
    call_in_each_state(database, job)
    database.close()
    Database(database_url, to="0002").close()
    again = Database(database_url)
    assert Views(again).calls(job) == {"started": 1, "answered": 1, "failed": 1, "lost": 1}
    assert Views(again).calls(other) == {}
    assert_calls_are_counted(again)
    again.close()


def test_a_database_from_before_there_were_versions_is_taken_over(database_url: str) -> None:
    database = Database(database_url, to="0001")
    with database.write() as db:
        db.execute(text("DROP TABLE alembic_version"))
    database.close()
    opened = Database(database_url)
    assert opened.version == "0003"
    opened.close()


def test_a_database_of_a_newer_version_is_refused(database_url: str) -> None:
    database = Database(database_url)
    with database.write() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(InvalidRequest, match="has version 9999"):
        Database(database_url)


def test_many_open_a_new_database_at_once(database_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Database(database_url), range(4)))
    assert {one.version for one in opened} == {"0003"}
    for one in opened:
        one.close()


def test_each_sample_is_handed_out_once_and_claimed_once(database: Database) -> None:
    job = submit(database, 40)
    claims = Claims(database, LEASE_S)
    with ThreadPoolExecutor(4) as pool:
        taken = [due.sample for part in pool.map(claims.take_due, [100] * 4) for due in part]
        assert sorted(taken) == ids(database, job)
        won = list(pool.map(lambda n: claims.claim(taken[0], f"owner{n}"), range(8)))
    assert [one for one in won if one] == [job]


def test_no_more_samples_are_handed_out_than_a_job_wants_in_flight(database: Database) -> None:
    submit(database, 10, in_flight=3)
    claims = Claims(database, LEASE_S)
    assert len(claims.take_due(100)) == 3
    assert claims.take_due(100) == []


def test_samples_of_high_priority_go_first(database: Database) -> None:
    low = submit(database, 3, priority=0)
    high = submit(database, 3, priority=2)
    taken = Claims(database, LEASE_S).take_due(4)
    assert [due.job for due in taken] == [high] * 3 + [low]


def test_a_claim_that_nobody_renewed_ends_and_its_calls_are_lost(database: Database) -> None:
    job = submit(database, 1)
    [sample] = ids(database, job)
    claims = Claims(database, LEASE_S)
    assert claims.claim(sample, "first")
    store = Store(database, job, "first")
    call = store.ledger.start_call("k", sample, Stage.SUMMARY, 2.0, budget=3.0)
    with pytest.raises(BudgetSpent) as caught:
        store.ledger.start_call("l", sample, Stage.SUMMARY, 2.0, budget=3.0)
    assert caught.value.for_now
    with pytest.raises(BudgetSpent) as caught:
        store.ledger.start_call("l", sample, Stage.SUMMARY, 3.5, budget=3.0)
    assert not caught.value.for_now
    assert claims.expire() == 0
    expire_now(database)
    assert claims.expire() == 1
    assert store.counts()["calls"] == {"lost": 1}
    assert claims.lost(["first"]) == {"first"}
    assert claims.claim(sample, "second") == job
    # What the first one still does counts for nothing, but its money does.
    store.save(sample, Stage.SUMMARY, {"steps": []})
    store.send_back(sample, Stage.SUMMARY, "", "bad")
    store.finish(sample, State.DEAD, reason="late")
    found = store.sample(sample)
    assert (found.state, found.outputs, found.tries) == (State.PENDING, {}, {})
    store.ledger.end_call(call, "k", CallState.ANSWERED, spent=(1, 1), cost=0.5, text="late")
    assert store.counts()["calls"] == {"answered": 1}
    assert store.ledger.spent() == 0.5
    with database.read() as db:
        assert db.scalar(select(jobs.c.reserved)) == 0.0


def test_the_first_answer_to_a_question_stays(database: Database) -> None:
    job = submit(database, 1)
    [sample] = ids(database, job)
    ledger = Store(database, job).ledger
    for answer in ("first", "second"):
        call = ledger.start_call("k", sample, Stage.SUMMARY)
        ledger.end_call(call, "k", CallState.ANSWERED, spent=(5, 5), cost=1.0, text=answer)
    assert ledger.stored_answer("k") == "first"
    assert ledger.spent() == 2.0


def test_a_budget_holds_for_many_who_spend_at_once(database: Database) -> None:
    job = submit(database, 1)
    [sample] = ids(database, job)
    ledger = Store(database, job).ledger

    def call(number: int) -> bool:
        try:
            ledger.start_call(f"k{number}", sample, Stage.SUMMARY, 1.0, budget=5.0)
        except BudgetSpent:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(call, range(20))) == 5
    with database.read() as db:
        assert len(db.execute(select(calls.c.id)).all()) == 5


def test_counters_are_what_they_count(database: Database) -> None:
    job = submit(database, 4)
    store = Store(database, job)
    one, two, three, four = ids(database, job)
    store.finish(one, State.CONVERTED, result={})
    store.finish(one, State.DEAD)  # final is final
    store.finish(two, State.SEQUENTIAL)
    store.finish(three, State.DEAD, reason="r", stage=Stage.REFILL, question="")
    found = Jobs(database).get(job)
    assert (found.pending, found.converted, found.sequential, found.dead) == (1, 1, 1, 1)
    assert found.state is JobState.RUNNING
    store.finish(four, State.CONVERTED, result={})
    found = Jobs(database).get(job)
    assert (found.state, found.progress, found.yields) == (JobState.DONE, 1.0, 0.5)
    assert found.ended


def call_in_each_state(database: Database, job: str) -> None:
    store, [sample] = Store(database, job), ids(database, job)[:1]
    store.ledger.start_call("lost", sample, Stage.SUMMARY, 1.0)
    assert store.ledger.book_lost() == 1
    for state in (CallState.FAILED, CallState.ANSWERED):
        call = store.ledger.start_call(state.value, sample, Stage.SUMMARY)
        store.ledger.end_call(call, state.value, state)
    store.ledger.start_call("started", sample, Stage.SUMMARY)


def assert_calls_are_counted(database: Database) -> None:
    """The counters of every job against its rows."""
    grouped = select(calls.c.job, calls.c.state, func.count()).group_by(calls.c.job, calls.c.state)
    with database.read() as db:
        truth: dict[str, dict[str, int]] = {job: {} for job in db.scalars(select(jobs.c.id))}
        for job, state, count in db.execute(grouped):
            truth[job][state] = count
    assert {job: Views(database).calls(job) for job in truth} == truth


def test_calls_are_counted_through_retries_losses_and_cancelling(database: Database) -> None:
    job, other = submit(database, 3), submit(database, 1)
    call_in_each_state(database, other)
    claims, all_jobs = Claims(database, LEASE_S), Jobs(database)
    one, two, _ = ids(database, job)
    assert claims.claim(one, "first")
    ledger = Store(database, job, "first").ledger
    late = ledger.start_call("a", one, Stage.SUMMARY, 2.0, budget=3.0)
    with pytest.raises(BudgetSpent):  # and not a call
        ledger.start_call("b", one, Stage.SUMMARY, 2.0, budget=3.0)
    assert_calls_are_counted(database)
    expire_now(database)
    assert claims.expire() == 1
    assert Views(database).calls(job) == {"lost": 1}
    ledger.end_call(late, "a", CallState.ANSWERED, text="late")
    assert Views(database).calls(job) == {"answered": 1}
    ledger.end_call(late, "a", CallState.ANSWERED, text="late")  # again
    assert_calls_are_counted(database)
    failed = ledger.start_call("c", two, Stage.GROUPS)
    ledger.end_call(failed, "c", CallState.FAILED, note="500")
    Store(database, job).finish(two, State.DEAD, reason="500", stage=Stage.GROUPS)
    assert all_jobs.retry(job, "", None) == 1
    ledger.start_call("c", two, Stage.GROUPS)
    assert Views(database).calls(job) == {"started": 1, "answered": 1, "failed": 1}
    all_jobs.cancel(job, "")
    assert ledger.book_lost() == 1
    assert Store(database, job).counts()["calls"] == {"answered": 1, "failed": 1, "lost": 1}
    assert_calls_are_counted(database)


def test_calls_are_counted_when_many_end_as_they_are_taken_for_lost(database: Database) -> None:
    job = submit(database, 1)
    [sample] = ids(database, job)
    ledger = Store(database, job).ledger
    begun = [ledger.start_call(f"k{n}", sample, Stage.SUMMARY, 1.0) for n in range(40)]

    def end(call: int) -> None:
        if call % 8 == 0:
            ledger.book_lost()
        ledger.end_call(call, f"k{call}", CallState.ANSWERED, cost=1.0, text="")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, begun))
    assert Views(database).calls(job) == {"answered": 40}
    assert_calls_are_counted(database)
    with database.read() as db:
        assert db.scalar(select(jobs.c.reserved)) == 0.0


def test_a_dead_sample_begins_again_where_it_failed_with_the_complaint(database: Database) -> None:
    job = submit(database, 2)
    store, one = Store(database, job), ids(database, job)[0]
    for stage in (Stage.SUMMARY, Stage.GROUPS):
        store.save(one, stage, {})
    store.send_back(one, Stage.GROUPS, "", "not adjacent")
    store.finish(one, State.DEAD, reason="overlap", stage=Stage.GROUPS, question="")
    assert Jobs(database).retry(job, "", [one]) == 1
    assert Jobs(database).retry(job, "", None) == 0
    found = store.sample(one)
    assert found.state is State.PENDING
    assert list(found.outputs) == [Stage.SUMMARY]
    assert found.tries == {}
    assert (found.complaints["groups/"].text, found.complaints["groups/"].number) == ("overlap", 2)
    assert Jobs(database).get(job).pending == 2


def test_states_of_a_job(database: Database) -> None:
    job, all_jobs = submit(database, 1), Jobs(database)
    assert all_jobs.pause(job, "").state is JobState.PAUSED
    assert all_jobs.pause(job, "").state is JobState.PAUSED
    assert Claims(database, LEASE_S).take_due(10) == []
    assert all_jobs.resume(job, "", 7.0).options["budget"] == 7.0
    assert all_jobs.cancel(job, "").state is JobState.CANCELLED
    with pytest.raises(Conflict, match="is cancelled: only a job that is paused"):
        all_jobs.resume(job, "")
    with pytest.raises(NotFound):
        all_jobs.pause(job, "someone else")


def test_the_same_submission_is_the_same_job(database: Database) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: submit(database, 3, submission="mine"), range(4)))
    assert len(set(made)) == 1
    assert submit(database, 3, submission="mine", tenant="other") != made[0]


def test_a_file_without_a_sample_is_no_job(database: Database) -> None:
    new = NewJob("n", "", {}, 1, 1)
    with pytest.raises(InvalidRequest, match="f:3: broken"):
        Jobs(database).submit(new, [Broken("f", 3, "broken")])
    assert Jobs(database).page("", 10) == []


def test_odd_characters_are_taken(database: Database) -> None:
    odd = "a\0b \u2028 \U0001f600 中"
    new = NewJob("n", "", {}, 1, 1)
    job, _ = Jobs(database).submit(new, [Source(prompt=odd, reasoning=odd)])
    store = Store(database, job.id)
    [sample] = store.ids(State.PENDING)
    store.finish(sample, State.DEAD, reason=odd, stage=Stage.SUMMARY)
    assert store.sample(sample).source.reasoning == odd
    assert Views(database).page(job.id)[0].title == odd.replace("\0", "\ufffd")
