"""A prompt may be a tree: what earlier answers left in it is neither changed nor counted."""

from __future__ import annotations

from multiverse_shared.interpreter import Interpreter
from multiverse_shared.limits import Limits
from multiverse_shared.tree import Block, Text
from multiverse_shared.usage import usage
from tests.unit.shared.fake_engine import run
from tests.unit.shared.stage import Script, Stage


def test_every_branch_goes_on_from_the_whole_prompt(stage: Stage) -> None:
    earlier = Block(
        ((Text(stage.ids("<Path>1:x</Path>")),), (Text(stage.ids("<Path>2:y</Path>")),))
    )
    prompt = (Text(stage.ids("Q?")), earlier, Text(stage.ids("<Conclusion>so")))
    root = "<Parallel><Goal><Outline>1:a</Outline><Outline>2:b</Outline></Goal>"
    script = {"0": root + "z", "0.1": "A</Path>", "0.2": "B</Path>"}
    model = Script({path: stage.ids(text) for path, text in script.items()}, stage.eos)
    alone, behind = (
        run(Interpreter(stage.grammar, Limits(), before, [stage.eos]), model)
        for before in (prompt[:1], prompt)
    )
    assert behind.context[:3] == prompt
    assert behind.context[3:] == alone.context[1:]
    assert all(start.context[:3] == prompt for start in behind.starts.values())
    assert usage(behind.context, from_item=3) == usage(alone.context, from_item=1)
