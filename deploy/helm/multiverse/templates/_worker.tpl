{{/* A worker's environment without its secrets. */}}
{{- define "mv.workerConfig" -}}
{{- $path := include "mv.modelPath" .pod -}}
MULTIVERSE_WORKER_MODEL: {{ $path | quote }}
MULTIVERSE_WORKER_ENGINE: {{ .pod.engine }}
{{- with .pod.weights }}
MULTIVERSE_WORKER_WEIGHTS: {{ printf "%s/%s" $path . | quote }}
{{- end }}
MULTIVERSE_WORKER_HOST: "0.0.0.0"
MULTIVERSE_WORKER_PORT: "7071"
MULTIVERSE_WORKER_METRICS_PORT: "9090"
MULTIVERSE_WORKER_SHUTDOWN_GRACE_S: {{ .root.Values.longestGenerationSeconds | quote }}
{{- if gt (int .pod.tensorParallel) 1 }}
MULTIVERSE_WORKER_TENSOR_PARALLEL: {{ .pod.tensorParallel | quote }}
{{- end }}
{{- if .root.Values.mtls.enabled }}
MULTIVERSE_WORKER_TLS_CERT_FILE: /etc/multiverse/tls/tls.crt
MULTIVERSE_WORKER_TLS_KEY_FILE: /etc/multiverse/tls/tls.key
MULTIVERSE_WORKER_TLS_CA_FILE: /etc/multiverse/tls/ca.crt
{{- end }}
XDG_CACHE_HOME: /scratch/cache
HOME: /scratch
{{- include "mv.settings" (dict "prefix" "MULTIVERSE_WORKER_" "settings" .pod.settings) }}
{{- end -}}

{{/* Command and environment of the init container that brings the model in. */}}
{{- define "mv.fetch" -}}
{{- $hub := .source.hub -}}
{{- $store := .source.objectStore -}}
command: [python, -m, multiverse_worker.models.fetch]
{{- if eq .kind "hub" }}
args: [hub, {{ $hub.repo | quote }}, --revision, {{ $hub.revision | quote }}, --to, /scratch/model]
{{- else }}
args: [s3, {{ $store.uri | quote }}, --to, /scratch/model]
{{- end }}
env:
  - {name: HOME, value: /scratch}
  {{- if eq .kind "hub" }}
  {{- with $hub.endpoint }}
  - {name: HF_ENDPOINT, value: {{ . | quote }}}
  {{- end }}
  {{- if $hub.token.secret }}
  {{- include "mv.secretEnv" (dict "name" "HF_TOKEN" "of" $hub.token) | nindent 2 }}
  {{- end }}
  {{- else }}
  {{- with $store.endpoint }}
  - {name: AWS_ENDPOINT_URL_S3, value: {{ . | quote }}}
  {{- end }}
  {{- with $store.region }}
  - {name: AWS_REGION, value: {{ . | quote }}}
  {{- end }}
  {{- with $store.credentialsSecret }}
  {{- range list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" }}
  {{- include "mv.secretEnv" (dict "name" . "of" (dict "secret" $store.credentialsSecret "key" .)) | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}
