"""Chains of thought made up for tests: tiny tasks in their own notation, and told in words.

In words they are case by case, term by term or way by way, in English and Chinese, some nested,
and some of them a chain in which each step needs the one before: nothing there is parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from multiverse_curator.source import Source
from multiverse_trainer.tiny.tasks import make_task, sequential


def generated(count: int, seed: int) -> Iterator[Source]:
    """Half tiny tasks as they are, half told in words."""
    rng = Random(seed)
    for number in range(count):
        if number % 2 == 0:
            task = make_task(rng)
            yield Source(
                id=f"tiny-{seed}-{number}",
                prompt=task.prompt,
                reasoning=sequential(task),
                answer=task.answer,
            )
        else:
            maker = rng.choice((cases, chinese_cases, terms, values, nested, methods, chain))
            prompt, reasoning, answer = maker(rng)
            yield Source(
                id=f"{maker.__name__}-{seed}-{number}",
                prompt=prompt,
                reasoning=reasoning,
                answer=answer,
            )


def cases(rng: Random) -> tuple[str, str, str]:
    a, b = rng.randint(11, 60), rng.randint(11, 60)
    k = rng.randint(3, 9)
    prompt = f"Find the sum of |x - {a}| where |x - {a}| = {k} * {b} or x = {a + b}."
    first = k * b
    text = (
        f"I need to look at where |x - {a}| takes its values.\n"
        f"Case 1: x is at least {a}. Then x - {a} is not negative. The distance is {k} * {b} = "
        f"{first}. This satisfies the condition.\n"
        f"Case 2: x is below {a}. Then {a} - x is positive. The distance is {k} * {b} = {first} "
        "here too, on the left side.\n"
        f"Case 3: x = {a + b}. The distance is {a + b} - {a} = {b}.\n\n"
        f"So the sum is {first} + {first} + {b} = {2 * first + b}.\n"
        f"The final answer is \\boxed{{{2 * first + b}}}."
    )
    return prompt, text, str(2 * first + b)


def chinese_cases(rng: Random) -> tuple[str, str, str]:
    a, b = rng.randint(12, 90), rng.randint(12, 90)
    c, d = rng.randint(3, 9), rng.randint(3, 9)
    text = (
        "我们分情况讨论。\n"
        f"情况一：当n为偶数时，结果为{a}×{c}={a * c}。这时条件成立。\n"
        f"情况二：当n为奇数时，结果为{b}×{d}={b * d}。这时条件也成立。\n\n"
        f"综上，两种情况的和为{a * c}+{b * d}={a * c + b * d}。\n"
        f"答案是\\boxed{{{a * c + b * d}}}。"
    )
    prompt = f"n为偶数时取{a}×{c}，n为奇数时取{b}×{d}，求两者之和。"
    return prompt, text, str(a * c + b * d)


def terms(rng: Random) -> tuple[str, str, str]:
    pairs = [(rng.randint(11, 40), rng.randint(3, 9)) for _ in range(rng.randint(2, 3))]
    names = ("First", "Second", "Third")
    lines = [f"{n} term: {a} * {b} = {a * b}\n" for n, (a, b) in zip(names, pairs, strict=False)]
    total = sum(a * b for a, b in pairs)
    added = " + ".join(str(a * b) for a, b in pairs)
    prompt = "Compute " + " + ".join(f"{a} * {b}" for a, b in pairs) + "."
    text = "Let me compute term by term.\n" + "".join(lines) + f"Adding them: {added} = {total}.\n"
    return prompt, text + f"Answer: {total}", str(total)


def values(rng: Random) -> tuple[str, str, str]:
    a, b = rng.randint(3, 9), rng.randint(11, 30)
    points = rng.sample(range(12, 40), rng.randint(2, 4))
    lines = [f"For x = {x}, the value is {a} * {x} + {b} = {a * x + b}.\n" for x in points]
    best = max(a * x + b for x in points)
    prompt = f"For which of x in {points} is {a}x + {b} the largest, and what is it?"
    text = "I evaluate each.\n" + "".join(lines) + f"So the largest is {best}.\n"
    return prompt, text + f"\\boxed{{{best}}}", str(best)


def nested(rng: Random) -> tuple[str, str, str]:
    groups = [[(rng.randint(11, 40), rng.randint(3, 9)) for _ in range(2)] for _ in range(2)]
    text, sums = "There are two cases.\n", []
    for number, group in enumerate(groups, 1):
        text += f"Case {number}: the {'left' if number == 1 else 'right'} side counts.\n"
        for name, (a, b) in zip(("First", "Second"), group, strict=True):
            text += f"{name} term: {a} * {b} = {a * b}\n"
        sums.append(sum(a * b for a, b in group))
        text += f"Its value is {sums[-1]}.\n"
    asked = " or ".join(" + ".join(f"{a} * {b}" for a, b in group) for group in groups)
    best = max(sums)
    return f"Which is larger: {asked}?", text + f"\nSo we take \\boxed{{{best}}}.", str(best)


def methods(rng: Random) -> tuple[str, str, str]:
    a, b = rng.randint(21, 90), rng.randint(21, 90)
    text = (
        f"Method 1: multiply {a} by {b} directly, digit by digit. This gives {a} * {b} = {a * b}.\n"
        f"Method 2: write {a} * {b} as a sum of {b} equal terms of {a} each. "
        f"The total is again {a} * {b} = {a * b}.\n\n"
        f"Therefore the product is \\boxed{{{a * b}}}."
    )
    return f"What is {a} * {b}?", text, str(a * b)


def chain(rng: Random) -> tuple[str, str, str]:
    value = rng.randint(11, 30)
    prompt = f"Start with {value}; apply the steps."
    text = f"We start with {value}.\n"
    for number in range(1, rng.randint(3, 5)):
        step = rng.randint(11, 50)
        name = "first" if number == 1 else "next"
        text += f"The {name} step adds {step}: {value} + {step} = {value + step}.\n"
        prompt += f" Add {step}."
        value += step
    return prompt, text + f"The final answer is \\boxed{{{value}}}.", str(value)
