{{- define "apifront.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* Names of objects leave room for the longest suffix, "-read-metrics". */ -}}
{{- define "apifront.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "apifront.serviceAccountName" -}}
{{- default (ternary (include "apifront.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "apifront.tlsSecret" -}}
{{- default (printf "%s-tls" (include "apifront.fullname" .)) .Values.tls.secretName -}}
{{- end -}}

{{- /* The name of the Service inside the cluster, which certificates are for. */ -}}
{{- define "apifront.host" -}}
{{- printf "%s.%s.svc" (include "apifront.fullname" .) .Release.Namespace -}}
{{- end -}}

{{- /* Cluster-wide objects are named for the namespace too: two releases of one
name may live in two namespaces. */ -}}
{{- define "apifront.clusterName" -}}
{{- $full := include "apifront.fullname" . -}}
{{- ternary $full (printf "%s-%s" $full .Release.Namespace) (eq $full .Release.Namespace) -}}
{{- end -}}

{{- define "apifront.selectorLabels" -}}
app.kubernetes.io/name: {{ include "apifront.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "apifront.labels" -}}
{{ include "apifront.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "apifront.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag -}}
{{- if .Values.image.digest -}}
{{- ternary (printf "%s:%s@%s" .Values.image.repository $tag .Values.image.digest) (printf "%s@%s" .Values.image.repository .Values.image.digest) (ne .Values.image.tag "") -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag -}}
{{- end -}}
{{- end -}}
