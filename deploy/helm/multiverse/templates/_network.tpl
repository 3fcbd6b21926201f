{{- define "mv.peer" -}}
- podSelector:
    matchLabels: {{- include "mv.selector" . | nindent 6 }}
{{- end -}}

{{- define "mv.scraped" -}}
{{- include "mv.scrapedAt" (dict "root" . "port" "metrics") }}
{{- end -}}

{{- define "mv.scrapedAt" -}}
- from:
    - namespaceSelector:
        matchLabels: {{- toYaml .root.Values.networkPolicies.monitoringNamespace | nindent 10 }}
  ports:
    - {protocol: TCP, port: {{ .port }}}
{{- end -}}

{{/* Addresses outside: an Egress. */}}
{{- define "mv.outside" -}}
{{- if .cidrs }}
- to:
    {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
{{- end }}
{{- end -}}

{{- define "mv.toRedis" -}}
{{- if .Values.redis.external.host }}
{{- include "mv.outside" .Values.networkPolicies.redis }}
{{- else if .Values.redis.enabled }}
- to:
    {{- include "mv.peer" (dict "root" . "component" "redis") | nindent 4 }}
  ports:
    - {protocol: TCP, port: 6379}
{{- end }}
{{- end -}}
