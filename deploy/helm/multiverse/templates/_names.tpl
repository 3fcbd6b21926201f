{{/* Names and labels. `parts` take a dict of root, component and, for workers, model. */}}

{{- define "mv.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 30 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 30 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mv.name" -}}
{{- $name := printf "%s-%s" (include "mv.fullname" .root) .component -}}
{{- if .model -}}{{ printf "%s-%s" $name .model }}{{- else -}}{{ $name }}{{- end -}}
{{- end -}}

{{- define "mv.release" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "mv.selector" -}}
{{ include "mv.release" .root }}
app.kubernetes.io/component: {{ .component }}
{{- if .model }}
multiverse-model: {{ .model }}
{{- end }}
{{- end -}}

{{- define "mv.labels" -}}
{{ include "mv.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "mv.metadata" -}}
name: {{ include "mv.name" . }}{{ .suffix }}
labels: {{- include "mv.labels" . | nindent 2 }}
{{- end -}}

{{/* image: dict of root, image, and the repository if it names none */}}
{{- define "mv.image" -}}
{{- $repository := default .repository .image.repository -}}
{{- with .root.Values.images.registry -}}{{ . }}/{{- end -}}
{{- $repository -}}
{{- if .image.digest -}}@{{ .image.digest }}{{- else -}}:{{ default .root.Chart.AppVersion .image.tag }}{{- end -}}
{{- end -}}
