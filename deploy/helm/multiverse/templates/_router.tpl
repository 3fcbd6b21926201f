{{/* The router's environment without its secrets. */}}
{{- define "mv.routerConfig" -}}
{{- if not .Values.models -}}
{{- fail "models is empty: name at least one, such as --set models.tiny.source.pvc.claim=models" -}}
{{- end -}}
MULTIVERSE_ROUTER_HOST: "0.0.0.0"
MULTIVERSE_ROUTER_PORT: "8000"
MULTIVERSE_ROUTER_GRPC_PORT: "8001"
MULTIVERSE_ROUTER_METRICS_PORT: "9090"
MULTIVERSE_ROUTER_DISCOVERY: {{ .Values.router.discovery }}
{{- if eq .Values.router.discovery "kubernetes" }}
MULTIVERSE_ROUTER_KUBERNETES_SERVICE: {{ include "mv.workerServices" . | quote }}
MULTIVERSE_ROUTER_KUBERNETES_PORT: grpc
{{- else }}
MULTIVERSE_ROUTER_WORKERS: {{ include "mv.workerAddresses" . | quote }}
{{- end }}
MULTIVERSE_ROUTER_SHUTDOWN_GRACE_S: {{ .Values.longestGenerationSeconds | quote }}
{{- if .Values.router.apiKeys.secret }}
MULTIVERSE_ROUTER_KEYS_FILE: /etc/multiverse/keys/keys
{{- end }}
{{- if .Values.mtls.enabled }}
MULTIVERSE_ROUTER_WORKER_TLS_CERT_FILE: /etc/multiverse/tls/tls.crt
MULTIVERSE_ROUTER_WORKER_TLS_KEY_FILE: /etc/multiverse/tls/tls.key
MULTIVERSE_ROUTER_WORKER_TLS_CA_FILE: /etc/multiverse/tls/ca.crt
MULTIVERSE_ROUTER_WORKER_TLS_NAME: {{ include "mv.tlsName" . }}
{{- end }}
{{- include "mv.settings" (dict "prefix" "MULTIVERSE_ROUTER_" "settings" .Values.router.settings) }}
{{- end -}}
