{{/* What all pods have in common: a dict of root, component, model and `pod`, the values of a Pod. */}}

{{- define "mv.podMetadata" -}}
labels:
  {{- include "mv.labels" . | nindent 2 }}
  {{- with .pod.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .config .pod.podAnnotations }}
annotations:
  {{- with .config }}
  checksum/config: {{ . | sha256sum }}
  {{- end }}
  {{- with .pod.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "mv.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ .Values.userId }}
runAsGroup: {{ .Values.userId }}
fsGroup: {{ .Values.userId }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "mv.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "mv.preStop" -}}
{{- if .Values.preStopSeconds }}
lifecycle:
  preStop:
    sleep:
      seconds: {{ .Values.preStopSeconds }}
{{- end }}
{{- end -}}

{{- define "mv.graceSeconds" -}}
{{- add .Values.preStopSeconds .Values.longestGenerationSeconds 10 -}}
{{- end -}}

{{- define "mv.podBasics" -}}
serviceAccountName: {{ .serviceAccount | default (include "mv.name" (dict "root" .root "component" .component)) }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext: {{- include "mv.podSecurity" .root | nindent 2 }}
{{- with .pod.priorityClass }}
priorityClassName: {{ . }}
{{- end }}
{{- with .pod.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .pod.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $affinity := dict }}
{{- range $kind, $rule := .pod.affinity }}
{{- if $rule }}{{- $_ := set $affinity $kind $rule }}{{- end }}
{{- end }}
{{- with $affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $spread := .pod.topologySpread }}
{{- if $spread.enabled }}
topologySpreadConstraints:
  {{- range $spread.keys }}
  - topologyKey: {{ . }}
    maxSkew: {{ $spread.maxSkew }}
    whenUnsatisfiable: {{ $spread.whenUnsatisfiable }}
    labelSelector:
      matchLabels: {{- include "mv.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Requests and limits; `gpus` and `gpuResource` where there are any. */}}
{{- define "mv.resources" -}}
{{- $limits := deepCopy .pod.resources.limits -}}
{{- if .pod.gpus -}}{{- $_ := set $limits .pod.gpuResource (.pod.gpus | int | toString) -}}{{- end -}}
requests: {{- toYaml .pod.resources.requests | nindent 2 }}
limits: {{- toYaml $limits | nindent 2 }}
{{- end -}}

{{/* An environment variable from a key of a Secret: a dict of name and of, {secret, key}. */}}
{{- define "mv.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .of.secret }}
      key: {{ .of.key }}
{{- end -}}

{{/* Environment: the ConfigMap, secret settings, further variables. dict: name, prefix, pod. */}}
{{- define "mv.environment" -}}
envFrom:
  - configMapRef:
      name: {{ .name }}
{{- $secret := .pod.secretSettings }}
{{- if or .more $secret .pod.env }}
env:
  {{- with .more }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- range $key, $of := $secret }}
  {{- include "mv.secretEnv" (dict "name" (printf "%s%s" $.prefix (upper $key)) "of" $of) | nindent 2 }}
  {{- end }}
  {{- range $key, $value := .pod.env }}
  - name: {{ $key }}
    value: {{ $value | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Settings as variables: text as it is, everything else as JSON. dict: prefix, settings. */}}
{{- define "mv.settings" -}}
{{- range $key, $value := .settings }}
{{ $.prefix }}{{ upper $key }}: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end -}}

{{- define "mv.httpProbe" -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
periodSeconds: {{ .every | default 5 }}
timeoutSeconds: 5
failureThreshold: {{ .failures | default 3 }}
{{- end -}}

{{- define "mv.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "mv.metadata" . | nindent 2 }}
spec:
  maxUnavailable: {{ .pod.disruptionBudget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "mv.selector" . | nindent 6 }}
{{- end -}}
