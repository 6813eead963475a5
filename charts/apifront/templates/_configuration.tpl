{{- /* The FrontConfiguration: what the chart writes, and over it `config`. */ -}}
{{- define "apifront.configuration" -}}
{{- $given := deepCopy .Values.config -}}
{{- $serving := dict
      "tlsCertFile" "/etc/apifront/tls/tls.crt"
      "tlsPrivateKeyFile" "/etc/apifront/tls/tls.key"
      "shutdownDelayDuration" .Values.shutdownDelayDuration
      "shutdownGracePeriod" .Values.shutdownGracePeriod -}}
{{- $upstream := dict -}}
{{- if not (dig "upstream" "kubeconfig" "" $given) -}}
{{- $upstream = dict
      "servers" (list "https://kubernetes.default.svc")
      "tokenFile" "/var/run/secrets/kubernetes.io/serviceaccount/token" -}}
{{- end -}}
{{- $identity := dict "mode" .Values.identity.mode -}}
{{- if .Values.identity.proxyClientSecret -}}
{{- $_ := set $identity "proxyClientCertFile" "/etc/apifront/proxy/tls.crt" -}}
{{- $_ := set $identity "proxyClientKeyFile" "/etc/apifront/proxy/tls.key" -}}
{{- end -}}
{{- $configuration := dict
      "apiVersion" "apifront.dev/v1alpha1"
      "kind" "FrontConfiguration"
      "serving" $serving
      "upstream" $upstream
      "identity" $identity -}}
{{- if or .Values.clientCA.configMap .Values.clientCA.secret -}}
{{- $_ := set $configuration "authentication" (dict "clientCAFile" (printf "/etc/apifront/client-ca/%s" .Values.clientCA.key)) -}}
{{- end -}}
{{- mergeOverwrite $configuration $given | toYaml -}}
{{- end -}}

{{- /* The port of the container. */ -}}
{{- define "apifront.securePort" -}}
{{- dig "serving" "securePort" 6443 .Values.config | int -}}
{{- end -}}

{{- /* The part of the configuration that a running process does not take up: the
fields that config/front-configuration.yaml marks with [restart]. */ -}}
{{- define "apifront.restartFields" -}}
serving.securePort
serving.insecurePort
serving.requestHeaderTimeout
serving.idleTimeout
serving.maxRequestHeaderBytes
serving.maxConnections
serving.maxConnectionsPerClient
serving.http2MaxStreamsPerConnection
serving.goawayChance
observability.port
logging.format
cache.directory
cache.persistence.encryptionKeyFile
{{- end -}}

{{- define "apifront.restartChecksum" -}}
{{- $configuration := include "apifront.configuration" . | fromYaml -}}
{{- $values := list -}}
{{- range $field := include "apifront.restartFields" . | splitList "\n" -}}
{{- $value := $configuration -}}
{{- range $name := splitList "." $field -}}
{{- $value = kindIs "map" $value | ternary (index ($value | default dict) $name) nil -}}
{{- end -}}
{{- $values = append $values (printf "%s=%v" $field $value) -}}
{{- end -}}
{{- join "\n" $values | sha256sum -}}
{{- end -}}

{{- /* A duration as Go writes it, in whole seconds, rounded up: from how far it
moves a date. */ -}}
{{- define "apifront.seconds" -}}
{{- $start := toDate "2006-01-02" "2000-01-01" -}}
{{- $end := mustDateModify . $start | mustDateModify "999999999ns" -}}
{{- sub (unixEpoch $end | int64) (unixEpoch $start | int64) -}}
{{- end -}}

{{- define "apifront.terminationGracePeriodSeconds" -}}
{{- $delay := dig "serving" "shutdownDelayDuration" .Values.shutdownDelayDuration .Values.config -}}
{{- $grace := dig "serving" "shutdownGracePeriod" .Values.shutdownGracePeriod .Values.config -}}
{{- add (include "apifront.seconds" $delay | int64) (include "apifront.seconds" $grace | int64) 10 -}}
{{- end -}}

{{- /* Values that contradict each other, which a schema cannot say. */ -}}
{{- define "apifront.check" -}}
{{- $values := .Values -}}
{{- include "apifront.checkImpersonation" . -}}
{{- $mode := dig "identity" "mode" $values.identity.mode $values.config -}}
{{- if ne $mode $values.identity.mode -}}
{{- fail "config.identity.mode: set identity.mode instead, which also decides about rights" -}}
{{- end -}}
{{- if and (eq $mode "RequestHeader") (not $values.identity.proxyClientSecret) (not (dig "identity" "proxyClientCertFile" "" $values.config)) -}}
{{- fail "identity.proxyClientSecret: needed with identity.mode RequestHeader" -}}
{{- end -}}
{{- if and $values.clientCA.configMap $values.clientCA.secret -}}
{{- fail "clientCA.secret: not together with clientCA.configMap" -}}
{{- end -}}
{{- if and (eq $mode "PassThrough") (or $values.clientCA.configMap $values.clientCA.secret) -}}
{{- fail "clientCA: not with identity.mode PassThrough, which forwards bearer tokens alone" -}}
{{- end -}}
{{- if and $values.tls.certManager.enabled (not $values.tls.certManager.issuerRef.name) -}}
{{- fail "tls.certManager.issuerRef.name: needed with tls.certManager.enabled" -}}
{{- end -}}
{{- if le (include "apifront.securePort" . | int) 0 -}}
{{- fail "config.serving.securePort: must not be 0, since the Service and the probes use it" -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (not $values.autoscaling.targetCPUUtilizationPercentage) (not $values.autoscaling.metrics) -}}
{{- fail "autoscaling.metrics: needed when autoscaling.targetCPUUtilizationPercentage is 0" -}}
{{- end -}}
{{- if and $values.autoscaling.enabled (gt (int $values.autoscaling.minReplicas) (int $values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.maxReplicas: must not be less than autoscaling.minReplicas" -}}
{{- end -}}
{{- end -}}
