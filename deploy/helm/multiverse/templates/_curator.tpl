{{/* The curator's environment without its secrets. */}}
{{- define "mv.curatorConfig" -}}
{{- if not .Values.curator.database.secret -}}
{{- fail "curator.database.secret is empty: name a Secret with the database's URL" -}}
{{- end -}}
{{- if not (include "mv.redisHost" .) -}}
{{- fail "curator needs Redis: set redis.enabled, or redis.external.host" -}}
{{- end -}}
MULTIVERSE_CURATOR_HOST: "0.0.0.0"
MULTIVERSE_CURATOR_PORT: "8080"
MULTIVERSE_CURATOR_METRICS_PORT: "9090"
MULTIVERSE_CURATOR_DATASET_FOLDER: /data/datasets
{{- if .Values.curator.apiKeys.secret }}
MULTIVERSE_CURATOR_KEYS_FILE: /etc/multiverse/keys/keys
{{- end }}
{{- if .Values.curator.teachers.secret }}
MULTIVERSE_CURATOR_TEACHERS_FILE: /etc/multiverse/teachers/teachers.toml
{{- end }}
HOME: /tmp
{{- include "mv.settings" (dict "prefix" "MULTIVERSE_CURATOR_" "settings" .Values.curator.settings) }}
{{- end -}}

{{- define "mv.curatorSecrets" -}}
{{- $curator := .Values.curator -}}
{{- include "mv.secretEnv" (dict "name" "MULTIVERSE_CURATOR_DATABASE" "of" $curator.database) }}
{{- range $name, $of := $curator.teacherKeys }}
{{ include "mv.secretEnv" (dict "name" $name "of" $of) }}
{{- end }}
{{ include "mv.redisEnv" (dict "root" . "name" "MULTIVERSE_CURATOR_REDIS") }}
{{- end -}}
