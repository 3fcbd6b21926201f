{{/* What is cached has a time to live and goes first; queues and counters stay. */}}
{{- define "mv.redisConfig" -}}
dir /data
maxmemory {{ .Values.redis.maxMemory }}
maxmemory-policy volatile-lru
save ""
appendonly {{ .Values.redis.persistence.enabled | ternary "yes" "no" }}
protected-mode no
{{- end -}}

{{- define "mv.redisProbe" -}}
exec:
  command: [redis-cli, -t, "3", ping]
periodSeconds: 5
timeoutSeconds: 5
failureThreshold: {{ . }}
{{- end -}}

{{/* Empty without any Redis. */}}
{{- define "mv.redisHost" -}}
{{- if .Values.redis.external.host -}}{{ .Values.redis.external.host }}
{{- else if .Values.redis.enabled -}}{{ include "mv.name" (dict "root" . "component" "redis") }}
{{- end -}}
{{- end -}}

{{/* Variables with the URL of Redis, without its password in it: a dict of root and name. */}}
{{- define "mv.redisEnv" -}}
{{- $redis := .root.Values.redis -}}
{{- $host := include "mv.redisHost" .root -}}
{{- if $host -}}
{{- $user := "" -}}
{{- if $redis.password.secret -}}
{{- $user = ":$(REDIS_PASSWORD)@" -}}
{{- include "mv.secretEnv" (dict "name" "REDIS_PASSWORD" "of" $redis.password) }}
{{ end -}}
{{- $scheme := and $redis.external.host $redis.external.tls | empty | ternary "redis" "rediss" -}}
{{- $database := empty $redis.external.host | ternary 0 $redis.external.database -}}
- name: {{ .name }}
  value: {{ printf "%s://%s%s:%s/%d" $scheme $user $host (include "mv.redisPort" .root) (int $database) | quote }}
{{- end -}}
{{- end -}}

{{- define "mv.redisPort" -}}
{{- empty .Values.redis.external.host | ternary 6379 .Values.redis.external.port -}}
{{- end -}}
