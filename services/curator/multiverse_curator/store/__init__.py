"""The one database of curation: jobs, samples, what each stage made, every call and answer."""

from multiverse_curator.store.database import Database
from multiverse_curator.store.ledger import BudgetSpent, CallState, Ledger
from multiverse_curator.store.samples import LOCAL, Complaint, Sample, State, Store

__all__ = [
    "LOCAL",
    "BudgetSpent",
    "CallState",
    "Complaint",
    "Database",
    "Ledger",
    "Sample",
    "State",
    "Store",
    "local_store",
]


def local_store(url: str) -> Store:
    """The samples of a run without a service; `url` as SQLAlchemy reads it.

    InvalidRequest when the database is of a newer version.
    """
    store = Store(Database(url), LOCAL)
    store.begin_job()
    return store
