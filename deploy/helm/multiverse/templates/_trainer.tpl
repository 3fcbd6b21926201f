{{/* The trainer's environment; Jobs put their own settings above it. */}}
{{- define "mv.trainerConfig" -}}
MULTIVERSE_TRAIN_MODEL: {{ .Values.trainer.model | quote }}
MULTIVERSE_TRAIN_DATA: {{ .Values.trainer.data | toJson | quote }}
MULTIVERSE_TRAIN_OUTPUT: {{ .Values.trainer.output | quote }}
HOME: /tmp
{{- include "mv.settings" (dict "prefix" "MULTIVERSE_TRAIN_" "settings" .Values.trainer.settings) }}
{{- end -}}
