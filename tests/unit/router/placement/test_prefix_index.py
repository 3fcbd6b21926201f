from random import Random

from hypothesis import given
from hypothesis import strategies as st

from multiverse_router.placement.prefix_index import ENOUGH, Place, PrefixIndex, prefix_keys
from multiverse_shared.tree import Text


def keys(*ids: int) -> list[Place]:
    return prefix_keys((Text(ids),), "model")


COMMON = range(1000, 1200)


def test_coverage_is_the_longest_beginning_that_a_worker_was_sent() -> None:
    index = PrefixIndex()
    index.sent("a", keys(*COMMON, 1, 2, 3))
    index.sent("b", keys(*COMMON[:70]))
    asked = keys(*COMMON, 7, 8)
    assert index.coverage(asked) == {"a": 192, "b": 64}
    assert index.coverage(keys(*COMMON, 1, 2, 3)) == {"a": 203, "b": 64}
    assert index.coverage(keys(5, *COMMON)) == {}


def test_of_a_prefix_that_many_have_those_are_told_that_have_most() -> None:
    index, workers = PrefixIndex(), [f"w{number}" for number in range(2 * ENOUGH)]
    for number, worker in enumerate(workers):
        index.sent(worker, keys(*(COMMON if number % 2 else COMMON[:70])))
    assert index.coverage(keys(*COMMON)) == dict.fromkeys(workers[1::2], 200)


def test_what_was_sent_for_a_tenant_is_found_for_no_other() -> None:
    index, context = PrefixIndex(), (Text(tuple(COMMON)),)
    index.sent("a", prefix_keys(context, "model", b"one"))
    assert index.coverage(prefix_keys(context, "model", b"one")) == {"a": 200}
    assert index.coverage(prefix_keys(context, "model", b"two")) == {}
    assert index.coverage(prefix_keys(context, "model")) == {}


def test_who_was_started_again_has_nothing() -> None:
    index = PrefixIndex()
    for worker in ("a", "b"):
        index.sent(worker, keys(*COMMON))
    index.forget("a")
    assert index.coverage(keys(*COMMON)) == {"b": 200}
    index.forget("b")
    assert len(index) == 0


def test_what_was_not_used_for_longest_is_forgotten_first() -> None:
    index = PrefixIndex(most=2)
    index.sent("a", keys(1))
    index.sent("a", keys(2))
    assert index.coverage(keys(1))
    index.sent("a", keys(3))
    assert not index.coverage(keys(2))
    assert index.coverage(keys(1))


def test_its_size_is_bounded_over_many_prefixes() -> None:
    index, rng = PrefixIndex(most=500), Random(1)
    for _ in range(2000):
        context = [Place(rng.getrandbits(64), n) for n in range(rng.randint(1, 5))]
        index.sent(f"w{rng.randrange(4)}", context)
        assert len(index) <= 500


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
        max_size=30,
    )
)
def test_the_count_of_pairs_is_right(sent: list[tuple[str, list[int]]]) -> None:
    index = PrefixIndex(most=12)
    for worker, numbers in sent:
        index.sent(worker, [Place(number, 1) for number in numbers])
        if len(numbers) == 4:
            index.forget(worker)
        holders = (index.coverage([Place(number, 1)]) for number in range(4))
        assert sum(len(workers) for workers in holders) == len(index)
