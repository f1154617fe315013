{{/* The tag of a program's image: (dict "root" $ "name" "operator"). */}}
{{- define "berth.tag" -}}
{{ coalesce (get .root.Values .name).tag .root.Values.image.tag .root.Chart.AppVersion }}
{{- end }}

{{/* The image of a program, by the same. */}}
{{- define "berth.image" -}}
{{ .root.Values.image.repository }}/berth-{{ .name }}:{{ include "berth.tag" . }}
{{- end }}

{{/* What both programs' objects are labelled with. */}}
{{- define "berth.labels" -}}
{{ include "berth.podLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{/* And their pods: nothing that changes with the chart alone, for that would replace them. */}}
{{- define "berth.podLabels" -}}
app.kubernetes.io/name: berth-{{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/part-of: berth
{{- end }}

{{/*
A file of manifests/, which is the same for everybody but for the namespace and the names of the scheduler. The
namespace itself is made by helm. (dict "root" $ "file" "rbac.yaml")
*/}}
{{- define "berth.file" -}}
{{- $names := printf "['%s']" (join "', '" .root.Values.schedulerNames) -}}
{{- $text := .root.Files.Get (printf "files/%s" .file) -}}
{{- $text = $text | replace "['berth-scheduler']" $names | replace "berth-system" .root.Release.Namespace -}}
{{- $text = $text | replace "value: \"berth-scheduler\"" (printf "value: %q" (first .root.Values.schedulerNames)) -}}
{{- with .root.Values.operator.webhookURL }}
{{- $service := "service: \\{namespace: [^,]+, name: berth-webhook, path: ([^}]+)\\}" }}
{{- $text = regexReplaceAll $service $text (printf "url: %s${1}" .) }}
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
