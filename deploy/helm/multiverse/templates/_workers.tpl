{{/* A model's block over the defaults, as YAML: a dict of root and model. */}}
{{- define "mv.worker" -}}
{{- $block := mergeOverwrite (deepCopy .root.Values.worker) (deepCopy (index .root.Values.models .model)) -}}
{{- $given := list -}}
{{- if $block.source.image.path -}}{{- $given = append $given "image" -}}{{- end -}}
{{- if $block.source.pvc.claim -}}{{- $given = append $given "pvc" -}}{{- end -}}
{{- if $block.source.hub.repo -}}{{- $given = append $given "hub" -}}{{- end -}}
{{- if $block.source.objectStore.uri -}}{{- $given = append $given "objectStore" -}}{{- end -}}
{{- if ne (len $given) 1 -}}
{{- fail (printf "models.%s.source names %d sources (%s): set exactly one of image.path, pvc.claim, hub.repo, objectStore.uri" .model (len $given) (join ", " $given)) -}}
{{- end -}}
{{- if and (eq $block.engine "sglang") (not $block.gpus) -}}
{{- fail (printf "models.%s.gpus is 0: engine sglang needs a GPU; set it to 1 or more" .model) -}}
{{- end -}}
{{- if and (gt (int $block.tensorParallel) 1) (ne (int $block.tensorParallel) (int $block.gpus)) -}}
{{- fail (printf "models.%s.tensorParallel is %d but gpus is %d: set both to the same number" .model (int $block.tensorParallel) (int $block.gpus)) -}}
{{- end -}}
{{- $_ := set $block "kind" (first $given) -}}
{{- toYaml $block -}}
{{- end -}}

{{- define "mv.modelPath" -}}
{{- if eq .kind "image" -}}{{ .source.image.path }}
{{- else if eq .kind "pvc" -}}{{ trimSuffix "/" (printf "/models/%s" .source.pvc.path) }}
{{- else -}}/scratch/model
{{- end -}}
{{- end -}}

{{- define "mv.tlsName" -}}
{{- default (printf "workers.%s" (include "mv.fullname" .)) .Values.mtls.serverName -}}
{{- end -}}

{{- define "mv.tlsSecret" -}}
{{- $given := eq .side "router" | ternary .root.Values.mtls.routerSecret .root.Values.mtls.workerSecret -}}
{{- default (printf "%s-%s-tls" (include "mv.fullname" .root) .side) $given -}}
{{- end -}}

{{- define "mv.workerServices" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range $model := keys .Values.models | sortAlpha -}}
{{- $found = append $found (printf "%s/%s" $root.Release.Namespace (include "mv.name" (dict "root" $root "component" "worker" "model" $model))) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}

{{- define "mv.workerAddresses" -}}
{{- $root := . -}}
{{- $found := list -}}
{{- range $model := keys .Values.models | sortAlpha -}}
{{- $found = append $found (printf "%s:7071" (include "mv.name" (dict "root" $root "component" "worker" "model" $model))) -}}
{{- end -}}
{{- join "," $found -}}
{{- end -}}
