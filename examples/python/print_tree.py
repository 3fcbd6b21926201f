"""An answer as a tree, and a second turn that goes on from it exactly:

python examples/python/print_tree.py [URL]
"""

import sys

from multiverse_client import Answer, Client, Text

PROMPT = "sum A max(a:7+5-3,b:4+9-2,) B min(c:8-3+6,d:3+3+3,)?"


def show(answer: Answer, path: str = "0") -> None:
    """Texts of a path, and below each fork its paths, further in."""
    indent = "    " * path.count(".")
    said = ""
    for part in answer.paths[path].parts:
        if isinstance(part, Text):
            said += part.delta
            continue
        print(f"{indent}{path}  {said}")
        said = ""
        for child, outline in zip(part.paths, part.outlines, strict=True):
            print(f"{indent}    -- {outline}")
            show(answer, child)
    print(f"{indent}{path}  {said}")


with Client(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000") as client:
    first = client.generate(PROMPT, return_context=True)
    show(first)
    asked = {"role": "user", "content": PROMPT}
    again = {"role": "user", "content": "max a:1+2,b:3+4,?"}
    second = client.generate([asked, first.message(), again])
    show(second)
    if second.usage:
        print(f"{second.usage.cached_tokens} of {second.usage.prompt_tokens} prompt tokens cached")
