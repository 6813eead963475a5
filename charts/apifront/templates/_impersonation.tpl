{{- /* The groups that may be impersonated: those that are named, and those that every
service account has. */ -}}
{{- define "apifront.impersonatedGroups" -}}
{{- $groups := .Values.rbac.impersonate.groups -}}
{{- range .Values.rbac.impersonate.serviceAccounts -}}
{{- $groups = concat $groups (list "system:serviceaccounts" (printf "system:serviceaccounts:%s" .namespace)) -}}
{{- end -}}
{{- $groups | uniq | toJson -}}
{{- end -}}

{{- /* The service accounts that may be impersonated: namespaces with names, of which
an empty one means all. */ -}}
{{- define "apifront.impersonatedAccounts" -}}
{{- $accounts := dict -}}
{{- if not .Values.rbac.impersonate.allowAnybody -}}
{{- range .Values.rbac.impersonate.serviceAccounts -}}
{{- $_ := set $accounts .namespace (append (get $accounts .namespace | default list) (.name | default "") | uniq) -}}
{{- end -}}
{{- end -}}
{{- toYaml $accounts -}}
{{- end -}}

{{- /* The keys of extra values that kube-apiserver itself gives to users: those of
certificates and of service accounts' tokens. */ -}}
{{- define "apifront.extraKeys" -}}
- authentication.kubernetes.io/credential-id
- authentication.kubernetes.io/node-name
- authentication.kubernetes.io/node-uid
- authentication.kubernetes.io/pod-name
- authentication.kubernetes.io/pod-uid
{{- end -}}

{{- /* Fails unless somebody said whom apifront may impersonate. */ -}}
{{- define "apifront.checkImpersonation" -}}
{{- $values := .Values.rbac.impersonate -}}
{{- $named := or $values.users $values.serviceAccounts -}}
{{- if and .Values.rbac.create (eq .Values.identity.mode "Impersonate") -}}
{{- if and $values.allowAnybody (or $named $values.groups $values.extraKeys) -}}
{{- fail "rbac.impersonate.allowAnybody: not together with users, groups, serviceAccounts or extraKeys, which would change nothing" -}}
{{- end -}}
{{- if not (or $named $values.groups $values.allowAnybody) -}}
{{- fail "rbac.impersonate: needed with identity.mode Impersonate. Name in rbac.impersonate.users, .groups and .serviceAccounts as whom apifront may act, or set rbac.impersonate.allowAnybody=true, which includes administrators (system:masters). See docs/helm.md, \"Who may be impersonated\"" -}}
{{- end -}}
{{- range concat $values.users $values.groups -}}
{{- if eq . "*" -}}
{{- fail "rbac.impersonate: \"*\" is nobody's name, since RBAC knows no patterns. Set rbac.impersonate.allowAnybody=true for anybody" -}}
{{- end -}}
{{- end -}}
{{- range $values.users -}}
{{- if hasPrefix "system:serviceaccount:" . -}}
{{- fail (printf "rbac.impersonate.users: name %s in rbac.impersonate.serviceAccounts" .) -}}
{{- end -}}
{{- end -}}
{{- if and $values.groups (not $named) -}}
{{- fail "rbac.impersonate.groups: name users or serviceAccounts too, since groups alone are nobody" -}}
{{- end -}}
{{- end -}}
{{- end -}}
