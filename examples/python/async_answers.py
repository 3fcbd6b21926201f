"""Several answers at once: python examples/python/async_answers.py [URL]"""

import asyncio
import sys

from multiverse_client import Answer, AsyncClient

PROMPTS = ["max a:7+5,b:4+9,?", "min a:7+5,b:4+9,?", "sum a:7+5,b:4+9,?"]


async def main(url: str) -> None:
    async with AsyncClient(url) as client, asyncio.TaskGroup() as tasks:
        asked = {prompt: tasks.create_task(client.generate(prompt)) for prompt in PROMPTS}
    for prompt, task in asked.items():
        answer: Answer = task.result()
        print(f"{prompt}  ->  {answer.text(tags=False)}  ({answer.finish_reason})")


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"))
