// The native API from JavaScript, without packages: node examples/javascript/answer.mjs [URL]
const url = process.argv[2] ?? "http://127.0.0.1:8000";

// The events of one answer. Leaving the loop early ends the answer on the server, too.
async function* generate(body) {
  const response = await fetch(`${url}/v1/generate`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!response.ok) {
    const { error } = await response.json();
    throw new Error(`${error.type}: ${error.message}`);
  }
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue; // names of events, heartbeats
      const event = JSON.parse(line.slice("data: ".length));
      if (event.type === "error") throw new Error(`${event.kind}: ${event.message}`);
      yield event;
    }
  }
}

// Each path's own text, and the paths of its forks in their places.
const paths = { 0: [] };
let finished = false;
for await (const event of generate({ prompt: "sum a:7+5-3+2,b:4+9-2+5,?" })) {
  if (event.type === "text") {
    paths[event.path].push(event.delta);
  } else if (event.type === "fork") {
    paths[event.path].push(...event.paths.map((path) => ({ path })));
    for (const path of event.paths) paths[path] = [];
    console.log(`${event.path} forks into ${event.paths.join(", ")}`);
  } else if (event.type === "usage") {
    console.log(`${event.completion_tokens} tokens, parallelism ${event.parallelism}`);
  } else if (event.type === "finish") {
    finished = true;
  }
}
if (!finished) throw new Error("the answer broke off");

const text = (path) =>
  paths[path].map((part) => (typeof part === "string" ? part : text(part.path))).join("");
console.log(text("0"));
