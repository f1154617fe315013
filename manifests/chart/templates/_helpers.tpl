{{/* The tag of a program's image: (dict "root" $ "name" "operator"). */}}
{{- define "berth.tag" -}}
{{ coalesce (get .root.Values .name).tag .root.Values.image.tag .root.Chart.AppVersion }}
{{- end }}

{{/* The image of a program, by the same. */}}
{{- define "berth.image" -}}
{{ printf "%s/berth-%s:%s" .root.Values.image.repository .name (include "berth.tag" .) | quote }}
{{- end }}

{{/* What both programs' objects are labelled with. */}}
{{- define "berth.labels" -}}
{{ include "berth.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service | quote }}
{{- end }}

{{/* And their pods: nothing that changes with the chart alone, for that would replace them. */}}
{{- define "berth.podLabels" -}}
app.kubernetes.io/name: berth-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/part-of: berth
{{- end }}

{{/*
A file of manifests/, which is the same for everybody but for the namespace and the names of the scheduler. The
namespace itself is made by helm. Where the namespace is all of a value it is quoted: `y` and `123` are namespaces, too.
(dict "root" $ "file" "rbac.yaml")
*/}}
{{- define "berth.file" -}}
{{- $names := printf "['%s']" (join "', '" .root.Values.schedulerNames) -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) -}}
{{- $text = regexReplaceAll "(: |\\[)berth-system\\b" $text "${1}\"berth-system\"" -}}
{{- $text = $text | replace "berth-system" .root.Release.Namespace | replace "['berth-scheduler']" $names -}}
{{- $text = $text | replace "value: \"berth-scheduler\"" (printf "value: %q" (first .root.Values.schedulerNames)) -}}
{{- with .root.Values.operator.webhookURL }}
{{- $service := "service: \\{namespace: [^,]+, name: berth-webhook, path: ([^}]+)\\}" }}
{{- $text = regexReplaceAll $service $text (printf "url: '%s${1}'" .) }}
{{- end }}
{{- $text = $text | replace "targetPort: 9443" (printf "targetPort: %v" .root.Values.operator.ports.webhook) -}}
{{- range $document := regexSplit "(?m)^---$" $text -1 }}
{{- $object := fromYaml $document }}
{{- if not (and (eq $object.kind "Namespace") (eq $object.metadata.name $.root.Release.Namespace)) }}
---
{{ trim $document }}
{{- end }}
{{- end }}
{{- end }}

{{/* Whether new pods are fed by the operator's webhook. */}}
{{- define "berth.webhook" -}}
{{- $policies := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- if or (eq .Values.envDelivery "webhook") (and (eq .Values.envDelivery "auto") (not $policies)) }}true{{ end }}
{{- end }}

{{/* Variables by which a program finds the API server where no Service answers. */}}
{{- define "berth.server" -}}
{{- with .Values.apiServer }}
{{- if .host }}
- {name: KUBERNETES_SERVICE_HOST, value: {{ .host | quote }}}
- {name: KUBERNETES_SERVICE_PORT, value: {{ .port | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/* Where operators may run: as its values say, and unless they say otherwise, rather not two on one node. */}}
{{- define "berth.operatorAffinity" -}}
{{- $affinity := deepCopy .Values.operator.affinity }}
{{- if not (hasKey $affinity "podAntiAffinity") }}
{{- $labels := dict "app.kubernetes.io/name" "berth-operator" "app.kubernetes.io/instance" .Release.Name }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $labels) }}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $term) }}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{/* Whether agents run on the nodes that have one of the labels of agent.nodeLabels. */}}
{{- define "berth.byNodeLabels" -}}
{{- if not (or .Values.agent.nodeSelector (hasKey .Values.agent.affinity "nodeAffinity")) }}true{{ end }}
{{- end }}

{{/* Where agents may run, beside agent.nodeSelector. */}}
{{- define "berth.agentAffinity" -}}
{{- $affinity := deepCopy .Values.agent.affinity }}
{{- if include "berth.byNodeLabels" . }}
{{- $terms := list }}
{{- range $key, $value := .Values.agent.nodeLabels }}
{{- $expression := dict "key" $key "operator" "In" "values" (list $value) }}
{{- $terms = append $terms (dict "matchExpressions" (list $expression)) }}
{{- end }}
{{- $required := dict "nodeSelectorTerms" $terms }}
{{- $_ := set $affinity "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) }}
{{- end }}
{{- with $affinity }}{{ toYaml . }}{{ end }}
{{- end }}
