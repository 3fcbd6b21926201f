"""Chat templates that do with client text what templates of well-known models do."""

# Markers around each turn, nothing else.
_MARKERS = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

# Trims every text, takes a leading system message apart and slices the list of messages.
_TRIMMING = (
    "{{ bos_token }}{% if messages[0].role == 'system' %}"
    "{% set rules = messages[0].content | trim %}{% set messages = messages[1:] %}"
    "{% else %}{% set rules = '' %}{% endif %}"
    "<|start_header_id|>system\n{{ rules }}<|im_end|>"
    "{% for message in messages %}<|start_header_id|>{{ message.role }}\n"
    "{{ message.content | trim + '<|im_end|>' }}{% endfor %}"
)

# Looks for marks in texts, walks backwards, splits thoughts from an answer, and strips.
_THINKING = (
    "{% set ns = namespace(last=0, open=true) %}"
    "{% for message in messages[::-1] %}{% set at = messages | length - 1 - loop.index0 %}"
    "{% if ns.open and message.role == 'user' and message.content is string and not "
    "(message.content.startswith('<eos>') and message.content.endswith('<bos>')) %}"
    "{% set ns.open = false %}{% set ns.last = at %}{% endif %}{% endfor %}"
    "{% for message in messages %}{% set text = message.content %}"
    "{% set thought = '' %}{% if message.role == 'assistant' and '<think>' in text %}"
    "{% set thought = text.split('<think>')[0].rstrip('\\n').split('>')[-1].lstrip('\\n') %}"
    "{% set text = text.split('<think>')[-1].lstrip('\\n') %}{% endif %}"
    "<|im_start|>{{ message.role }}\n"
    "{% if loop.index0 > ns.last and thought %}<think>{{ thought.strip('\\n') }}<think>{% endif %}"
    "{{ text }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
)

# Joins texts by other means than output: a list, a filter, a macro, a namespace.
_JOINING = (
    "{% macro turn(text) %}<|im_start|>{{ text }}<|im_end|>{% endmacro %}"
    "{% set ns = namespace(all='') %}{{ bos_token }}"
    "{% for message in messages %}{% set ns.all = ns.all ~ turn(message.content) %}{% endfor %}"
    "{{ [ns.all, eos_token] | join }}"
)

TEMPLATES = {
    "markers": _MARKERS,
    "trimming": _TRIMMING,
    "thinking": _THINKING,
    "joining": _JOINING,
}
