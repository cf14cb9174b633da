{{/* The name of all objects: the release's, with the chart's behind it unless it has that already. */}}
{{- define "bertscope.name" -}}
{{- if .Values.nameOverride -}}{{ .Values.nameOverride }}
{{- else if contains "bertscope" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}{{ printf "%s-bertscope" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of this release; rules and dashboards know the server by the first. */}}
{{- define "bertscope.selector" -}}
app.kubernetes.io/name: bertscope
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bertscope.labels" -}}
{{ include "bertscope.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{/* The server's settings, with those of the parts that are enabled; the values' own win. */}}
{{- define "bertscope.settings" -}}
{{- $settings := dict -}}
{{- if .Values.gpu.enabled -}}
  {{- /* Named, so that a pod without a working GPU fails, instead of serving slowly from its CPU. */ -}}
  {{- $_ := set $settings "BERTSCOPE_DEVICE" "cuda:0" -}}
{{- end -}}
{{- if .Values.tls.enabled -}}
  {{- $usual := printf "%s.%s.svc" (include "bertscope.name" .) .Release.Namespace -}}
  {{- $_ := set $settings "BERTSCOPE_TLS_CERTIFICATE" "/etc/bertscope/tls/tls.crt" -}}
  {{- $_ := set $settings "BERTSCOPE_TLS_KEY" "/etc/bertscope/tls/tls.key" -}}
  {{- $_ := set $settings "BERTSCOPE_TOKENS_FILE" "/etc/bertscope/tokens/tokens" -}}
  {{- $_ := set $settings "BERTSCOPE_CA" "/etc/bertscope/tls/ca.crt" -}}
  {{- $_ := set $settings "BERTSCOPE_SERVER_NAME" (.Values.tls.serverName | default $usual) -}}
{{- end -}}
{{- range $name, $value := merge (deepCopy .Values.settings) $settings }}
{{ $name }}: {{ if kindIs "string" $value }}{{ $value | quote }}{{ else }}{{ $value | toJson | quote }}{{ end }}
{{- end -}}
{{- end -}}

{{/* What a probe asks. Kubernetes' own gRPC probe knows no certificates; a command takes a second of a CPU. */}}
{{- define "bertscope.probe" -}}
{{- if .Values.tls.enabled -}}
exec: {command: [bertscope-server, health]}
{{- else -}}
grpc: {port: 50051}
{{- end -}}
{{- end -}}
