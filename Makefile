# `make help` lists what there is. Options are variables: make conformance TREES=20
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
export PYTHON
BIN := .venv/bin

MODEL ?= models/multiverse-tiny
ENGINE ?= llamacpp
CONFIG ?= exact
ARCH ?= llama
VECTORS ?= tests/data/layout_stitch.json
OFFSETS ?= tests/data/layout_offsets.json
TREES ?= 100
TREE_TOKENS ?= 3000
AT_ONCE ?= 24
TASKS ?= 500
CONCURRENCY ?= 4
ABLATIONS := build/ablations
TWIN ?= models/multiverse-tiny-twin
ARMS ?= ours=$(ABLATIONS)/ours/run/model twin=$(ABLATIONS)/twin/run/model,parallel=off $(foreach name,no-restart no-isolation no-sequential published,$(name)=$(ABLATIONS)/$(name)/run/model)
COMPARE_TASKS ?= 1000
HALF_TASKS ?= 1000
TABLE_TASKS ?= 5000
PLAIN_TASKS ?= 2000
LEVEL ?= wide
WEIGHT_TYPE ?= f16
TIMED ?= 200
OUT ?= build/eval
LEAVES ?= 100
LEAVING ?= 4
BATCH_TOKENS ?= 128
SILENCE ?= 60
BRANCHES ?= 300
TEST_PROCESSES ?= auto
SAMPLES ?= 500
IN_FLIGHT ?= 64
TEACHER_S ?= 2
MEMORY_SAMPLES ?= 20000
WIRE ?= openai
CURATED ?= 20000
CHAOS_SAMPLES ?= 300
DATABASE ?= sqlite
DOWN ?= 60
GENERATED ?= 2000
MEASURED ?= 200
LABELLED ?= 400
BENCH_TYPES ?= q8_0 f16
BENCH_ARGS ?= --threads 1
ROWS ?= 16
VOCAB ?= 49152
STEP_MS ?= 88
EXAMPLES ?= 100000
SCHEMA_EXAMPLES ?= 1000
STREAMS ?= 1 64 300
RATE ?= 10
SECONDS ?= 10
ROUNDS ?= 3
SMG ?= 1.13.0
SEED ?= 20261129
RECORDS ?= 40000
TRAIN_SEED ?= 0
ABLATION ?= ours
RECORDS_ABLATION ?= 6000
LONG_RECORDS ?= 12000
WIDE_RECORDS ?= 5000
WORK ?= build/tiny
WORK_SMOLLM2 ?= build/smollm2-trained
STEPS ?= 200
REQUESTS ?= 1000
CANCELLED ?= 300
PRESSED ?= 16
CHAOS_REQUESTS ?= 2000
CHAOS_SECONDS ?= 600
CHAOS_SCALE ?= 1
CHAOS_SEED ?= 1
CHAOS_ENGINE ?= sim
PROMPT_TOKENS ?= 8192
PATHS ?= 8
TIER_WORKERS ?= 3
TIER_PROMPTS ?= 50
TIER_BLOCKS ?= 100000
FANOUT_ARGS ?=
USERS ?= 300
LOAD_SECONDS ?= 300
WORKERS ?= 2
SIM_WORKERS ?= 16
THRESHOLDS ?= loadtest/thresholds.json
LOADS ?= 0.3 0.5 0.7 0.8 0.9 1.0 1.1 1.2 1.3
SEEDS ?= 1 2
ARRIVALS ?= poisson bursty
MIXES ?= forkheavy traces
SIM_ARGS ?=
PLACEMENT_ARGS ?=

SGLANG_BIN := .venv-sglang/bin
GPU_PYTHON ?= $(SGLANG_BIN)/python

CHART_ARGUMENTS ?=
IMAGES ?= router curator

.PHONY: help chart images lock-images secrets settings settings-check setup setup-all demo serve test test-clients test-schema lint type proto proto-check check conformance eval-tiny table2 figures compare generalisation bench-leave bench-silence bench-sampling bench-language bench-forkjoin bench-sim bench-router bench-curate bench-curator curator-chaos bench-checks curate-demo loadtest sim bench-placement soak chaos pressure long-context train-tiny train-twin train-ablation train-vectors train-smollm2 bench-attention setup-sglang test-sglang gpu-check bench-sglang bench-sglang-tier e2e-tier bench-fanout bench-tier-cap test-mooncake

help: ## show this
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

setup: ## install what serving needs into .venv (no torch)
	@scripts/setup.sh serve

setup-all: ## also what tests and training need
	@scripts/setup.sh all

setup-sglang: ## SGLang on a CPU, for its tests, into .venv-sglang: about 4 minutes, 3.3 GB
	@scripts/setup_sglang.sh

demo: setup ## watch the tiny model plan, fork, nest and join: in the terminal, then over HTTP
	@$(BIN)/python scripts/demo.py --model $(MODEL)

serve: setup ## serve MODEL on port 8000
	@$(BIN)/multiverse serve --model $(MODEL)

test: setup-all ## all tests; those of units in parallel (TEST_PROCESSES)
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) tests/unit
	$(BIN)/python -m pytest --ignore tests/unit

test-clients: ## OpenAI-compatible clients of others against the tiny model: also LangChain, LiteLLM, lm-eval (900 MB)
	@scripts/setup.sh clients
	.venv-clients/bin/python -m pytest tests/e2e/clients

test-schema: setup-all ## requests made from our OpenAPI schema, good and bad: none may fail with 500 (SCHEMA_EXAMPLES)
	SCHEMA_EXAMPLES=$(SCHEMA_EXAMPLES) $(BIN)/python -m pytest --timeout 3600 tests/e2e/test_schema.py

test-sglang: setup-sglang ## tests of the SGLang engine, on a CPU: one engine, a second for the tier, one with HiCache
	$(SGLANG_BIN)/python -m pytest tests/sglang

gpu-check: setup-sglang ## is the SGLang engine exact on this GPU, and how fast (GPU_PYTHON, GPU_ARGUMENTS); in small on a CPU
	@PYTHONPATH=. $(GPU_PYTHON) scripts/gpu_check.py $(GPU_ARGUMENTS)

check: lint type proto-check settings-check ## everything that reads the code without running it

lint: setup-all ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

type: setup-all ## strict mypy
	$(BIN)/mypy

settings: setup-all ## remake defaults, schema and documentation from the settings classes
	@$(BIN)/python -m deploy.generator

settings-check: setup-all ## fail when they are not what the settings classes make
	@$(BIN)/python -m deploy.generator --check

secrets: ## keys and certificates for docker-compose.yml, into secrets/
	@scripts/make_secrets.sh

chart: setup-all ## chart, compose file and Dockerfiles through the real tools (CHART_ARGUMENTS=--no-mutations is quicker)
	@$(BIN)/python scripts/deploy_tools.py all
	@$(BIN)/python -m tests.deploy $(CHART_ARGUMENTS)

lock-images: ## remake deploy/docker/locks: versions and hashes of what images install (needs the package index)
	@scripts/lock_images.sh

images: ## build images of IMAGES for real with buildah, start router and curator in them (root, Debian)
	@scripts/images.sh $(IMAGES)

proto: ## lint the .proto files and remake the stubs
	@scripts/proto.sh

proto-check: proto ## fail when the committed stubs are not what the .proto files make
	@git diff --exit-code -- protos

conformance: $(if $(filter sglang,$(ENGINE)),setup-sglang,setup-all) ## every logit of an engine against the oracle (ENGINE, CONFIG=exact|served, ARCH=llama|qwen2|qwen3, VECTORS, OFFSETS, TREES, TREE_TOKENS, AT_ONCE, CONFORMANCE_MODEL)
	@$(if $(filter sglang,$(ENGINE)),$(SGLANG_BIN)/python -m tests.conformance.sglang_matrix,$(BIN)/python -m tests.conformance --engine $(ENGINE)) $(if $(CONFORMANCE_MODEL),--model $(CONFORMANCE_MODEL)) --config $(CONFIG) --arch $(ARCH) --vectors $(VECTORS) --offsets $(OFFSETS) --trees $(TREES) --max-tokens $(TREE_TOKENS) --at-once $(AT_ONCE)

eval-tiny: setup-all ## held-out tasks through the served API, with the suffix, without, path by path (MODEL, TASKS, CONCURRENCY, SEED, OUT)
	@$(BIN)/multiverse eval run generated --model $(MODEL) --parallel auto --parallel off --parallel serial --tasks $(TASKS) --task-seed $(SEED) --concurrency $(CONCURRENCY) --out $(OUT)/tiny

table2: setup-all ## the paper's table 2 in small: a model beside its sequential twin (MODEL, TWIN, TABLE_TASKS, PLAIN_TASKS, LEVEL=full|long|wide, WEIGHT_TYPE=f32|f16|q8_0, TIMED, CONCURRENCY, SEED, OUT, EVAL_ARGS)
	@MULTIVERSE_WORKER_WEIGHT_TYPE=$(WEIGHT_TYPE) $(BIN)/multiverse eval table2 --model $(MODEL) --twin $(TWIN) --tasks $(TABLE_TASKS) --plain $(PLAIN_TASKS) --level $(LEVEL) --timed $(TIMED) --concurrency $(CONCURRENCY) --task-seed $(SEED) --out $(OUT)/table2 $(EVAL_ARGS)

figures: setup-all ## the paper's figures 7, 8a and 8b for a small model, JSON and PNG (MODEL, TWIN, LEVEL, WEIGHT_TYPE, SEED, OUT, EVAL_ARGS)
	@MULTIVERSE_WORKER_WEIGHT_TYPE=$(WEIGHT_TYPE) $(BIN)/multiverse eval figures --model $(MODEL) --twin $(TWIN) --level $(LEVEL) --task-seed $(SEED) --out $(OUT)/figures $(EVAL_ARGS)

compare: setup-all ## ablations, served, on the same held-out tasks (ARMS, COMPARE_TASKS, FAMILY, SEED, OUT, EVAL_ARGS)
	@$(BIN)/multiverse eval compare $(foreach arm,$(ARMS),--arm $(arm)) $(if $(FAMILY),--family $(FAMILY)) --tasks $(COMPARE_TASKS) --concurrency $(CONCURRENCY) --task-seed $(SEED) --out $(OUT)/compare $(EVAL_ARGS)

generalisation: ## models of half of the task families on the family that they have not seen: do they fork, are they right? (HALF_TASKS, SEED, OUT)
	@$(MAKE) --no-print-directory compare FAMILY=nested COMPARE_TASKS=$(HALF_TASKS) OUT=$(OUT)/generalisation ARMS="half-twin=$(ABLATIONS)/half-twin/run/model,parallel=off half=$(ABLATIONS)/half/run/model half-plain=$(ABLATIONS)/half/run/model,parallel=off"

bench-leave: setup-all ## how fast decoding ends when clients leave (MODEL, ENGINE=llamacpp|sim, LEAVES, LEAVING at once, BATCH_TOKENS, SEED)
	@$(BIN)/python -m tests.bench.client_leaves --model $(MODEL) --engine $(ENGINE) --leaves $(LEAVES) --at-once $(LEAVING) --batch-tokens $(BATCH_TOKENS) --seed $(SEED)

bench-silence: setup-all ## whether streams survive an engine that says nothing (MODEL, SILENCE seconds)
	@$(BIN)/python -m tests.bench.silence --model $(MODEL) --seconds $(SILENCE)

bench-sampling: setup-all ## what drawing tokens costs beside a step (ROWS, VOCAB, STEP_MS, SEED)
	@$(BIN)/python -m tests.bench.sampling --rows $(ROWS) --vocab $(VOCAB) --step-ms $(STEP_MS) --seed $(SEED)

bench-language: setup-all ## random tokens of every dialect through reader and interpreter (EXAMPLES, SEED)
	@$(BIN)/python -m tests.bench.language --examples $(EXAMPLES) --seed $(SEED)

bench-forkjoin: setup-all ## fork and join against serial runs, the bound of step(k), and a client's own fork-join (MODEL, BENCH_TYPES, BENCH_ARGS; SmolLM2 is fetched)
	@[ -d build/smollm2 ] || $(BIN)/python scripts/smollm2.py --out build/smollm2
	@$(BIN)/python -m tests.bench.forkjoin --model $(MODEL) build/smollm2 --type $(BENCH_TYPES) $(BENCH_ARGS)

bench-sglang-tier: setup-sglang ## KV out of SGLang's pool, into it and through a Redis, and page size 1 against 64, on a CPU (SGLANG_TIER_ARGS)
	@$(SGLANG_BIN)/python -m tests.bench.sglang_tier $(SGLANG_TIER_ARGS)

bench-sglang: setup-sglang ## fork and join in SGLang against its own n > 1 sampling, on a CPU (MODEL, SGLANG_BENCH_ARGS)
	@$(SGLANG_BIN)/python -m tests.bench.sglang_forkjoin --model $(MODEL) $(SGLANG_BENCH_ARGS)

bench-sim: setup-all ## tokens a second that a simulator tells over one stream (MODEL, BRANCHES, SEED)
	@$(BIN)/python -m tests.bench.sim_relay --model $(MODEL) --branches $(BRANCHES) --seed $(SEED)

sim: setup-all ## placement policies in a simulated fleet: goodput, latency, decision time; table and plots in build/sim (SIM_WORKERS='16 128 1024', LOADS, MIXES, ARRIVALS, SEEDS, SIM_ARGS)
	@$(BIN)/python -m tests.bench.sim_fleet --workers $(SIM_WORKERS) --loads $(LOADS) --mixes $(MIXES) --arrivals $(ARRIVALS) --seeds $(SEEDS) $(SIM_ARGS)

bench-placement: setup-all ## auto against eager and serial forks on three real workers (MODEL, SEED, PLACEMENT_ARGS)
	@$(BIN)/python -m tests.bench.placement_fleet --model $(MODEL) --seed $(SEED) $(PLACEMENT_ARGS)

bench-router: setup-all ## what the router adds to streams and costs, beside a Rust gateway (MODEL, STREAMS, RATE tokens/s each, SECONDS, ROUNDS)
	@[ -x build/gateway/bin/smg ] || { $(PYTHON) -m venv build/gateway && build/gateway/bin/pip install --quiet --disable-pip-version-check --only-binary :all: smg==$(SMG); } || echo "no gateway: measured without one" >&2
	@$(BIN)/python -m tests.bench.router --model $(MODEL) --streams $(STREAMS) --rate $(RATE) --seconds $(SECONDS) --rounds $(ROUNDS)

reference: setup-all ## the API reference, from OpenAPI and the .proto files, into build/reference
	@$(BIN)/python scripts/reference.py

loadtest: setup-all ## users of all kinds against a router and simulator workers (USERS, LOAD_SECONDS, WORKERS, LOAD_ARGS such as --url; THRESHOLDS): build/loadtest.html
	@mkdir -p build
	@$(BIN)/python -m loadtest --model $(MODEL) --users $(USERS) --seconds $(LOAD_SECONDS) --workers $(WORKERS) --thresholds $(THRESHOLDS) --report build/loadtest.html --json build/loadtest.json $(LOAD_ARGS)

soak: setup-all ## many requests, a part given up at random moments: nothing may leak (REQUESTS, CANCELLED, SEED)
	@$(BIN)/python -m tests.reliability.soak --model $(MODEL) --requests $(REQUESTS) --cancelled $(CANCELLED) --seed $(SEED)

chaos: setup-all ## kill workers, routers, Redis and links under load: nothing lost, doubled or hung (CHAOS_REQUESTS, CHAOS_SECONDS, CHAOS_SCALE of the times between faults, CHAOS_ENGINE=sim|llamacpp, CHAOS_SEED)
	@$(BIN)/python -m tests.reliability.chaos.run --model $(MODEL) --requests $(CHAOS_REQUESTS) --seconds $(CHAOS_SECONDS) --scale $(CHAOS_SCALE) --engine $(CHAOS_ENGINE) --seed $(CHAOS_SEED)

pressure: setup-all ## forking requests in a pool of 1.2 times the largest: same tokens, no stall (PRESSED, SEED)
	@$(BIN)/python -m tests.reliability.pressure --model $(MODEL) --requests $(PRESSED) --seed $(SEED)

long-context: setup-all ## a long prompt with many paths: seconds and peak memory (PROMPT_TOKENS, PATHS)
	@$(BIN)/python -m tests.reliability.long_context --prompt-tokens $(PROMPT_TOKENS) --paths $(PATHS)

bench-curate: setup-all ## samples in flight against one, teachers that misbehave, memory (SAMPLES, IN_FLIGHT, TEACHER_S, WIRE, MEMORY_SAMPLES)
	@$(BIN)/python -m tests.bench.curate --samples $(SAMPLES) --in-flight $(IN_FLIGHT) --latency $(TEACHER_S) --wire $(WIRE) --memory-samples $(MEMORY_SAMPLES)

bench-curator: setup-all ## how long the curator's lists and pages take over many samples (CURATED, DATABASE=sqlite|postgresql)
	@$(BIN)/python -m tests.bench.curator_pages --samples $(CURATED) --database $(DATABASE)

curator-chaos: setup-all ## workers, Redis, the API and the teacher die: every sample ends once, no stored answer is paid twice (CHAOS_SAMPLES, DATABASE=sqlite|postgresql, DOWN seconds, SEED)
	@$(BIN)/python -m tests.reliability.curator_chaos --samples $(CHAOS_SAMPLES) --database $(DATABASE) --down $(DOWN) --seed $(SEED)

bench-checks: setup-all ## precision and recall of the curator's checks on planted faults (LABELLED, SEED)
	@$(BIN)/python -m tests.bench.curate_checks --samples $(LABELLED) --seed $(SEED)

curate-demo: setup-all ## recorded and generated reasoning through all stages, without a model (GENERATED, MEASURED, SEED; SmolLM2 is fetched)
	@[ -d build/smollm2 ] || $(BIN)/python scripts/smollm2.py --out build/smollm2
	@$(BIN)/python -m tests.bench.curate_demo --generated $(GENERATED) --measured $(MEASURED) --seed $(SEED)

train-tiny: setup-all ## train models/multiverse-tiny from random weights; goes on where it was stopped (RECORDS, LONG_RECORDS, WIDE_RECORDS, TRAIN_SEED, WORK folder, MODEL)
	@$(BIN)/python -m multiverse_trainer.tiny.ablation ours --records $(RECORDS) --long-records $(LONG_RECORDS) --wide-records $(WIDE_RECORDS) --seed $(TRAIN_SEED) --out $(WORK) --export $(MODEL) --tasks 500

train-twin: setup-all ## its sequential twin, from the same weights and tasks (RECORDS, LONG_RECORDS, WIDE_RECORDS, TRAIN_SEED, WORK folder, TWIN)
	@$(BIN)/python -m multiverse_trainer.tiny.ablation twin --records $(RECORDS) --long-records $(LONG_RECORDS) --wide-records $(WIDE_RECORDS) --seed $(TRAIN_SEED) --out $(WORK) --export $(TWIN) --tasks 500

train-ablation: setup-all ## a small training that leaves one thing out, checked (ABLATION=ours|twin|no-restart|no-isolation|no-sequential|published|half|half-twin, RECORDS_ABLATION, TRAIN_SEED)
	@$(BIN)/python -m multiverse_trainer.tiny.ablation $(ABLATION) --records $(RECORDS_ABLATION) --seed $(TRAIN_SEED)

train-vectors: setup-all ## logits, loss and gradients of Multiverse Attention against brute force (SEED)
	@$(BIN)/python -m tests.bench.train_vectors --seed $(SEED)

bench-attention: setup-all ## mask and positions against a dense float mask, and a step against causal attention (SEED)
	@$(BIN)/python -m tests.bench.attention_bench --seed $(SEED)

train-smollm2: setup-all ## train SmolLM2-135M in parallel and as a twin, on the CPU: losses, and tags of the served model (STEPS, WORK_SMOLLM2; SmolLM2 is fetched)
	@[ -d build/smollm2 ] || $(BIN)/python scripts/smollm2.py --out build/smollm2
	@$(BIN)/python -m tests.bench.train_smollm2 --out $(WORK_SMOLLM2) --steps $(STEPS)

e2e-tier: setup-all ## paths spread over workers and joined through Redis, whatever happens to it: same tokens (TIER_WORKERS, TIER_PROMPTS, SEED)
	@$(BIN)/python -m tests.e2e.tier.run --model $(MODEL) --workers $(TIER_WORKERS) --prompts $(TIER_PROMPTS) --seed $(SEED)

bench-fanout: setup-all ## long paths on two workers of one thread against one, and when fetching beats computing (FANOUT_ARGS; SmolLM2 is fetched)
	@[ -d build/smollm2 ] || $(BIN)/python scripts/smollm2.py --out build/smollm2
	@$(BIN)/python -m tests.bench.fanout --model build/smollm2 $(FANOUT_ARGS)

bench-tier-cap: setup-all ## memory of Redis while TIER_BLOCKS blocks go through the tier (SEED)
	@$(BIN)/python -m tests.bench.tier_cap --blocks $(TIER_BLOCKS) --seed $(SEED)

test-mooncake: setup-all ## the Mooncake backend against a real master (needs libibverbs1 and libnuma1; 46 MB are fetched)
	@scripts/setup.sh mooncake
	.venv-mooncake/bin/python -m pytest tests/mooncake
