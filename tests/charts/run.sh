#!/usr/bin/env bash
# Checks the chart and the kustomize base with the real helm and kustomize, before a
# real kube-apiserver with its controllers and its scheduler; kwok plays the nodes.
# Each check prints a line. APIFRONT_TEST_BINARY names an apifront in place of the
# one that cargo builds. modes/ has the values of each identity mode, parts/ those of
# each optional part: every combination of them is rendered.
set -euo pipefail
charts=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$charts/../.." && pwd)
chart=$root/charts/apifront
# Two answers to the question whom apifront may impersonate, without which nothing is
# installed.
named=(-f "$charts/modes/impersonate.yaml")
anybody=(--set rbac.impersonate.allowAnybody=true)
work=$(mktemp -d "${TMPDIR:-/tmp}/apifront-charts.XXXXXX")
# shellcheck source=tests/charts/cluster.sh
. "$charts/cluster.sh"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

checked() { printf '%3d s  %s\n' "$SECONDS" "$*"; }

finish() {
  local code=$?
  end_processes
  if [ "$code" = 0 ]; then
    rm -rf "$work"
  else
    echo "the logs of the servers are in $work" >&2
  fi
}
trap finish EXIT

# Fails unless both texts are equal: what they are, one, the other.
same() { [ "$2" = "$3" ] || fail "$1: $(diff <(echo "$2") <(echo "$3"))"; }

kubectl() { "$servers/kubectl" "$@"; }
helm() { "$tools/helm" "$@"; }

build_everything() {
  local program
  for program in openssl curl; do
    command -v "$program" > /dev/null || fail "$program is needed"
  done
  servers=$("$root/tests/kubernetes/build.sh" | tail -n 1)
  tools=$("$charts/build.sh" | tail -n 1)
  apifront=${APIFRONT_TEST_BINARY:-}
  if [ -z "$apifront" ]; then
    (cd "$root" && cargo build --quiet)
    apifront=${CARGO_TARGET_DIR:-$root/target}/debug/apifront
  fi
  [ -x "$apifront" ] || fail "$apifront is no program"
  export HELM_CACHE_HOME=$work/helm HELM_CONFIG_HOME=$work/helm HELM_DATA_HOME=$work/helm
  SECONDS=0
}

# Copies the definitions of the custom resources that the chart makes.
fetch_crds() {
  local modules definition
  mkdir "$work/crds"
  mapfile -t modules < <(cd "$charts/crds" && go mod download -json \
    github.com/cert-manager/cert-manager github.com/prometheus-operator/prometheus-operator |
    sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
  for definition in "${modules[0]}/deploy/crds/cert-manager.io_certificates.yaml" \
    "${modules[1]}"/example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml; do
    cp "$definition" "$work/crds"
  done
}

# --- Without a cluster

check_lint() {
  helm lint --strict --quiet "$chart" "${named[@]}" > "$work/lint" || fail "helm lint: $(cat "$work/lint")"
  checked "helm lint --strict finds nothing"
}

check_versions() {
  local cargo app
  cargo=$(sed -nE '/^\[package\]/,/^\[/s/^version = "(.*)"/\1/p' "$root/Cargo.toml")
  [ -n "$cargo" ] || cargo=$(sed -nE '/^\[workspace.package\]/,/^\[/s/^version = "(.*)"/\1/p' "$root/Cargo.toml")
  app=$(sed -nE 's/^appVersion: *"?([^"]*)"?/\1/p' "$chart/Chart.yaml")
  same "appVersion of the chart and version of the crate" "$cargo" "$app"
  checked "the chart's appVersion is the crate's version, $app"
}

# The fields whose change rolls the pods are those that a process does not take up.
check_restart_fields() {
  local template source
  template=$(sed -n '/define "apifront.restartFields"/,/end -/p' "$chart/templates/_configuration.tpl" | grep -E '^[a-z]' | sort)
  source=$(grep -oE '"(serving|observability|logging|cache)\.[A-Za-z0-9.]+"' "$root/src/config/restart.rs" | tr -d '"' | sort -u)
  same "fields of apifront.restartFields and of src/config/restart.rs" "$source" "$template"
  checked "the $(wc -l <<< "$template") fields that need a restart are those of src/config/restart.rs"
}

# A wrong value is refused with a text that names it: the value, the text. Whom apifront
# may impersonate is said, unless the value says otherwise.
refuses() {
  if helm template apifront "$chart" --set rbac.impersonate.allowAnybody=true,"$1" > "$work/refused" 2>&1; then
    fail "helm took --set $1"
  fi
  grep -qF -- "$2" "$work/refused" || fail "--set $1 did not name $2: $(cat "$work/refused")"
  refused=$((refused + 1))
}

check_refusals() {
  refused=0
  refuses image.tga=1 "at '/image': additional properties 'tga' not allowed"
  refuses replicas=3 "additional properties 'replicas' not allowed"
  refuses replicaCount=many "at '/replicaCount'"
  refuses identity.mode=FrontProxy "at '/identity/mode'"
  refuses config.cach.consistency=Fresh "at '/config': additional properties 'cach' not allowed"
  refuses shutdownGracePeriod=60 "at '/shutdownGracePeriod'"
  refuses service.port=0 "at '/service/port'"
  refuses 'metrics.readers[0].name=prometheus' "at '/metrics/readers/0': missing property 'namespace'"
  refuses image.digest=latest "at '/image/digest'"
  refuses 'rbac.impersonateRules[0].verbs[0]=impersonate' "at '/rbac': additional properties 'impersonateRules' not allowed"
  refuses 'rbac.impersonate.serviceAccounts[0].name=reader' "at '/rbac/impersonate/serviceAccounts/0': missing property 'namespace'"
  refuses readinessProbe.httpGet.path=/ "at '/readinessProbe'"
  refuses startupProbe.httpGet.path=/ "at '/startupProbe'"
  refuses identity.mode=RequestHeader "identity.proxyClientSecret: needed"
  refuses config.identity.mode=PassThrough "config.identity.mode: set identity.mode"
  refuses clientCA.configMap=a,clientCA.secret=b "clientCA.secret: not together"
  refuses identity.mode=PassThrough,clientCA.secret=b "clientCA: not with identity.mode PassThrough"
  refuses tls.certManager.enabled=true "tls.certManager.issuerRef.name: needed"
  refuses config.serving.securePort=0 "config.serving.securePort: must not be 0"
  refuses autoscaling.enabled=true,autoscaling.maxReplicas=1 "autoscaling.maxReplicas: must not be less"
  refuses rbac.impersonate.allowAnybody=false "rbac.impersonate: needed with identity.mode Impersonate. Name in rbac.impersonate.users, .groups and .serviceAccounts as whom apifront may act, or set rbac.impersonate.allowAnybody=true"
  refuses rbac.impersonate.allowAnybody=false,rbac.impersonate.groups={developers} "rbac.impersonate.groups: name users or serviceAccounts too"
  refuses rbac.impersonate.allowAnybody=false,rbac.impersonate.users={*} 'rbac.impersonate: "*" is nobody'
  refuses rbac.impersonate.allowAnybody=false,rbac.impersonate.users={system:serviceaccount:a:b} "rbac.impersonate.users: name system:serviceaccount:a:b in rbac.impersonate.serviceAccounts"
  refuses rbac.impersonate.users={dora} "rbac.impersonate.allowAnybody: not together with users"
  checked "$refused wrong values are refused, each with its field"
}

# Somebody says whom apifront may impersonate, where it may: nothing is meant by silence.
check_silence() {
  local values file
  if helm template apifront "$chart" > "$work/refused" 2>&1; then
    fail "helm takes the default values, which do not say whom apifront may impersonate"
  fi
  grep -qF 'rbac.impersonate: needed with identity.mode Impersonate' "$work/refused" || fail "$(cat "$work/refused")"
  for values in identity.mode=PassThrough identity.mode=RequestHeader,identity.proxyClientSecret=front-proxy rbac.create=false; do
    helm template apifront "$chart" --set "$values" > "$work/silent.yaml"
    ! grep -n 'impersonate' "$work/silent.yaml" || fail "--set $values makes rights to impersonate"
  done
  for file in base overlays/monitoring; do
    "$tools/kustomize" build "$root/deploy/kustomize/$file" > "$work/silent.yaml"
    ! grep -n 'impersonate' "$work/silent.yaml" || fail "deploy/kustomize/$file may impersonate somebody"
  done
  checked "helm refuses to install unless somebody says whom apifront may impersonate; no other mode may, nor the kustomize base"
}

# system:masters is in no list that does not name it.
check_masters() {
  local rendered=(--show-only templates/rbac-impersonate.yaml)
  helm template apifront "$chart" "${named[@]}" "${rendered[@]}" > "$work/named.yaml"
  ! grep -n 'system:masters' "$work/named.yaml" || fail "system:masters is in the rights, and nobody named it"
  grep '^  resourceNames: ' "$work/named.yaml" > "$work/names"
  same "the names in the rights" '  resourceNames: ["dora"]
  resourceNames: ["developers","system:serviceaccounts","system:serviceaccounts:default","system:serviceaccounts:monitoring"]
  resourceNames: ["reader"]' "$(cat "$work/names")"
  helm template apifront "$chart" "${named[@]}" "${rendered[@]}" --set rbac.impersonate.groups={system:masters} > "$work/masters.yaml"
  grep -q '^  resourceNames: \["system:masters",' "$work/masters.yaml" || fail "system:masters is named, and not in the rights"
  checked "the rights to impersonate name whom the values name; system:masters too, if they do, and only then"
}

# The probes have limits of their own, and the NetworkPolicy is there by default.
check_defaults() {
  local probe
  helm template apifront "$chart" "${named[@]}" --show-only templates/deployment.yaml > "$work/deployment.yaml"
  for probe in startupProbe livenessProbe readinessProbe; do
    kubectl create --dry-run=client -o "jsonpath={.spec.template.spec.containers[0].$probe.timeoutSeconds} {.spec.template.spec.containers[0].$probe.failureThreshold}" \
      -f "$work/deployment.yaml" > "$work/probe"
    grep -qE '^[0-9]+ [0-9]+$' "$work/probe" || fail "$probe has no timeoutSeconds or no failureThreshold: $(cat "$work/probe")"
  done
  helm template apifront "$chart" "${named[@]}" --show-only templates/networkpolicy.yaml > "$work/policy.yaml"
  same "the NetworkPolicy" '["Ingress"] [{"ports":[{"port":"https","protocol":"TCP"}]}]' \
    "$(kubectl create --dry-run=client -o 'jsonpath={.spec.policyTypes} {.spec.ingress}{.spec.egress}' -f "$work/policy.yaml")"
  ! helm template apifront "$chart" "${named[@]}" --set networkPolicy.enabled=false | grep -n 'kind: NetworkPolicy' ||
    fail "networkPolicy.enabled=false leaves a NetworkPolicy"
  checked "all probes have timeoutSeconds and failureThreshold; a NetworkPolicy opens the HTTPS port alone"
}

check_grace_period() {
  local seconds
  seconds=$(helm template apifront "$chart" "${named[@]}" --set shutdownGracePeriod=1m30.5s,config.serving.shutdownDelayDuration=5s |
    sed -nE 's/^ +terminationGracePeriodSeconds: //p')
  same "terminationGracePeriodSeconds of 1m30.5s and 5s" 106 "$seconds"
  checked "terminationGracePeriodSeconds is the sum of both durations and 10 s"
}

# Writes one line for each combination: a name, and helm's arguments.
combinations() {
  local parts=("$charts"/parts/*.yaml) mode part set number name files
  for mode in "$charts"/modes/*.yaml; do
    for ((set = 0; set < 1 << ${#parts[@]}; set++)); do
      name=${mode##*/}
      name=${name%.yaml}
      files="-f $mode"
      for ((number = 0; number < ${#parts[@]}; number++)); do
        ((set >> number & 1)) || continue
        part=${parts[number]##*/}
        # Callers with certificates have no token that could be passed on.
        [ "$name/$part" != pass-through/client-ca.yaml ] || continue 2
        files+=" -f ${parts[number]}"
      done
      echo "$name-$set $files"
    done
  done
}

# Renders all combinations, and keeps each different object of them once.
render_combinations() {
  mkdir "$work/rendered" "$work/objects"
  helm template apifront "$chart" --namespace apifront "${anybody[@]}" > "$work/rendered/anybody.yaml"
  combinations > "$work/combinations"
  # Garbage collection would be half of the work.
  # shellcheck disable=SC2016 # The inner shell expands these.
  GOGC=off HELM=$tools/helm CHART=$chart OUT=$work/rendered xargs -P "$(nproc)" -L 1 bash -c \
    '"$HELM" template apifront "$CHART" --namespace apifront "${@:2}" > "$OUT/$1.yaml"' render < "$work/combinations"
  awk -v out="$work/objects" '
    function keep() {
      if (text ~ /\nkind: / && !(text in seen)) {
        seen[text] = 1
        file = sprintf("%s/%04d.yaml", out, ++number)
        printf "%s", text > file
        close(file)
      }
      text = ""
    }
    FNR == 1 || /^---$/ { keep() }
    !/^---$/ { text = text $0 "\n" }
    END { keep() }' "$work"/rendered/*.yaml
  local count
  count=$(wc -l < "$work/combinations")
  same "the number of rendered combinations" "$((count + 1))" "$(find "$work/rendered" -name '*.yaml' -size +0 | wc -l)"
  checked "helm renders all $count combinations of $(find "$charts/modes" -name '*.yaml' | wc -l) identity modes and $(find "$charts/parts" -name '*.yaml' | wc -l) optional parts: $(find "$work/objects" -name '*.yaml' | wc -l) different objects"
}

# Puts the files of this test in the place of those in a pod.
localize() {
  sed -e "s|https://kubernetes.default.svc|$api_server|" \
    -e "s|^\( *\)tokenFile: .*|\1tokenFile: $work/own.token\n\1caFile: $work/cluster-ca.crt|" \
    -e "s|/etc/apifront/tls/tls|$work/serving|; s|/etc/apifront/proxy/tls|$work/proxy|" \
    -e "s|/etc/apifront/client-ca/ca.crt|$work/cluster-ca.crt|; s|/var/lib/apifront|$work|"
  # Ports are not fixed here.
  echo 'observability: {port: 0}'
}

check_configurations() {
  local file number=0
  echo none > "$work/own.token"
  while read -r file; do
    kubectl create --dry-run=client -o 'jsonpath={.data.front\.yaml}' -f "$file" | localize > "$work/front.yaml"
    "$apifront" --config "$work/front.yaml" --validate-only > "$work/validate" 2>&1 ||
      fail "apifront refuses the configuration of $file: $(cat "$work/validate")"
    number=$((number + 1))
  done < <(grep -l '^  front.yaml: |' "$work"/objects/*.yaml)
  [ "$number" -gt 1 ] || fail "only $number configurations were rendered"
  helm template apifront "$chart" "${named[@]}" --show-only templates/configmap.yaml --set config.cache.consistency=Loose |
    kubectl create --dry-run=client -o 'jsonpath={.data.front\.yaml}' -f - | localize > "$work/front.yaml"
  if "$apifront" --config "$work/front.yaml" --validate-only > "$work/validate" 2>&1; then
    fail "apifront takes cache.consistency: Loose"
  fi
  grep -q 'cache.consistency: "Loose"' "$work/validate" || fail "apifront names another mistake: $(cat "$work/validate")"
  checked "apifront itself accepts all $number configurations, and refuses a wrong one"
}

# --- Before a real API server

make_namespace() {
  kubectl create namespace "$1" > /dev/null
  kubectl label namespace "$1" pod-security.kubernetes.io/enforce=restricted \
    pod-security.kubernetes.io/warn=restricted > /dev/null
  kubectl -n "$1" create secret tls apifront-tls --cert "$work/serving.crt" --key "$work/serving.key" > /dev/null
  kubectl -n "$1" create secret tls front-proxy --cert "$work/proxy.crt" --key "$work/proxy.key" > /dev/null
  kubectl -n "$1" create configmap client-ca --from-file "ca.crt=$work/cluster-ca.crt" > /dev/null
}

start_cluster() {
  make_certificates
  start_api_server
  start_controllers
  kubectl apply --server-side -f "$work/crds" > /dev/null
  kubectl wait --for condition=Established --timeout 30s -f "$work/crds" > /dev/null
  make_namespace apifront
  make_namespace front
  kubectl create namespace monitoring > /dev/null
  kubectl -n monitoring create serviceaccount prometheus > /dev/null
  kubectl -n default create serviceaccount reader > /dev/null
  kubectl -n default create serviceaccount stranger > /dev/null
  kubectl -n default create role reader --verb get,list --resource configmaps > /dev/null
  kubectl -n default create rolebinding reader --role reader --serviceaccount default:reader \
    --serviceaccount default:stranger --user dora > /dev/null
  checked "a cluster of $(kubectl get --raw /version | sed -nE 's/.*"gitVersion": "(.*)".*/\1/p') is there"
}

check_objects() {
  local count
  kubectl apply --server-side --dry-run=server --validate=strict --warnings-as-errors \
    -f "$work/objects" > "$work/applied" || fail "kube-apiserver refuses an object"
  count=$(find "$work/objects" -name '*.yaml' | wc -l)
  same "the number of objects that kube-apiserver took" "$count" "$(wc -l < "$work/applied")"
  checked "kube-apiserver takes all $count objects, those of cert-manager and of Prometheus' operator too, in a namespace with restricted pods, without a warning"
}

# The rules of a ClusterRole in a file, as one line of JSON.
rules() { kubectl create --dry-run=client -o jsonpath='{.rules}' -f "$1"; }

check_rights() {
  local example
  for example in rbac rbac-impersonate; do
    helm template apifront "$chart" "${anybody[@]}" --show-only "templates/$example.yaml" > "$work/ours.yaml"
    same "rights of the chart and of examples/cluster/$example.yaml" \
      "$(rules "$root/examples/cluster/$example.yaml")" "$(rules "$work/ours.yaml")"
  done
  checked "the chart's rights are those of examples/cluster"
}

# Waits until a Deployment has so many ready pods, and its Service as many
# endpoints: namespace, name, pods.
ready() {
  kubectl -n "$1" rollout status "deployment/$2" --timeout 60s > "$work/rollout" ||
    fail "pods of $1/$2 are not ready: $(kubectl -n "$1" describe pods | tail -n 20)"
  eventually "$3 endpoints of $1/$2" 30 endpoints_are "$@"
}

endpoints_are() {
  local addresses
  addresses=$(kubectl -n "$1" get endpointslices -l "kubernetes.io/service-name=$2" \
    -o 'jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}')
  [ "$(wc -w <<< "$addresses")" = "$3" ]
}

# The installed objects have the chart's files as they are.
check_files() {
  same "the dashboard that is installed" "$(cat "$chart/files/apifront.dashboard.json")" \
    "$(kubectl -n apifront get configmap apifront-dashboard -o 'jsonpath={.data.apifront\.json}')"
  # A PrometheusRule is the file under `spec`.
  { sed -n '1,/^spec:/p' "$work/rule.yaml"; sed 's/^/  /' "$chart/files/apifront.rules.yaml"; } > "$work/expected.yaml"
  same "the rules that are installed" \
    "$(kubectl create --dry-run=client -o 'jsonpath={.spec}' -f "$work/expected.yaml")" \
    "$(kubectl -n apifront get prometheusrule apifront -o 'jsonpath={.spec}')"
  checked "the dashboard and the rules that are installed are the files of the chart"
}

# Asks apifront at $front: token, path, more of curl's arguments.
ask() { curl -s --cacert "$work/cluster-ca.crt" -H "Authorization: Bearer $1" "${@:3}" "$front$2"; }
answers_from_memory() {
  ask "$1" /api/v1/namespaces/default/configmaps -o /dev/null -D - -H 'X-Apifront-Debug: cache' |
    grep -qi '^x-apifront-cache: hit'
}
who_am_i() { kubectl --kubeconfig "$1" auth whoami -o 'jsonpath={.status.userInfo.username}'; }

# Asks the API server itself whether it takes the word of apifront's service account for
# a user: kubectl's arguments.
impersonates() {
  kubectl --kubeconfig "$work/own.kubeconfig" create --raw /apis/authentication.k8s.io/v1/selfsubjectreviews \
    -f - "$@" > "$work/impersonated" 2>&1 <<< '{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
}

# The installed rights let apifront act as whom the values name, and as nobody else:
# namespace, name.
check_impersonation() {
  local refused
  kubeconfig "$work/own.kubeconfig" "$api_server" "token: $(kubectl -n "$1" create token "$2")"
  impersonates --as dora --as-group developers || fail "may not act as dora: $(cat "$work/impersonated")"
  grep -q '"username":"dora"' "$work/impersonated" || fail "acts as $(cat "$work/impersonated")"
  impersonates --as system:serviceaccount:default:reader || fail "may not act as reader: $(cat "$work/impersonated")"
  # Without a name, all of a namespace.
  impersonates --as system:serviceaccount:monitoring:default || fail "may not act as monitoring/default: $(cat "$work/impersonated")"
  for refused in "dora --as-group system:masters" "dora --as-group admins" admin kubernetes-admin "admin --as-group system:masters" \
    system:serviceaccount:default:stranger system:serviceaccount:monitoring-2:default system:serviceaccount:kube-system:reader; do
    # shellcheck disable=SC2086 # These are several arguments.
    ! impersonates --as $refused || fail "may act as $refused"
    grep -q 'cannot impersonate' "$work/impersonated" || fail "$refused: $(cat "$work/impersonated")"
  done
  checked "upstream takes apifront's word for the users that the values name, and for nobody else, system:masters among them"
}

# A caller whom apifront may not impersonate reads from memory, and is refused by the API
# server where apifront forwards. This one has all the rights that it needs.
check_stranger() {
  local token
  token=$(kubectl -n default create token stranger)
  eventually "an answer from memory to a stranger" 20 answers_from_memory "$token"
  same "the code of what is forwarded for a stranger" 403 \
    "$(ask "$token" "/api/v1/namespaces/default/configmaps/kube-root-ca.crt?pretty=maybe&unknown=yes" -o "$work/denied" -w '%{http_code}')"
  grep -q 'cannot impersonate' "$work/denied" || fail "a stranger is refused for another reason: $(cat "$work/denied")"
  checked "a caller whom nobody named reads from memory, and gets the API server's 403 where apifront forwards"
}

# Runs the real apifront as one of the pods would run: with the installed
# configuration and the service account's token. So its rights must be enough:
# namespace, name, whether certificates are accepted, whether metrics are readable, and
# whether there are callers whom it may not impersonate.
check_serving() {
  local namespace=$1 name=$2 certificates=$3 metrics=$4 strangers=$5 mode token
  kubectl -n "$namespace" get configmap "$name" -o 'jsonpath={.data.front\.yaml}' | localize > "$work/front.yaml"
  mode=$(sed -nE 's/^  mode: //p' "$work/front.yaml")
  kubectl -n "$namespace" create token "$name" > "$work/own.token"
  free_port
  front=https://localhost:$port
  start "apifront-$mode" "$apifront" --config "$work/front.yaml" --bind-address 127.0.0.1 --secure-port "$port"
  eventually "apifront is ready ($mode)" 30 curl -fsS --cacert "$work/cluster-ca.crt" "$front/readyz"

  token=$(kubectl -n default create token reader)
  kubeconfig "$work/reader.kubeconfig" "$front" "token: $token"
  eventually "an answer from memory ($mode)" 20 answers_from_memory "$token"
  same "the user of a token, $mode" system:serviceaccount:default:reader "$(who_am_i "$work/reader.kubeconfig")"
  if kubectl --kubeconfig "$work/reader.kubeconfig" delete configmap kube-root-ca.crt > "$work/denied" 2>&1; then
    fail "$mode: a reader may delete"
  fi
  grep -q 'User "system:serviceaccount:default:reader" cannot delete' "$work/denied" ||
    fail "$mode: not the API server's 403: $(cat "$work/denied")"
  if "$certificates"; then
    kubeconfig "$work/dora.kubeconfig" "$front" "client-certificate: $work/dora.crt, client-key: $work/dora.key"
    same "the user of a certificate, $mode" dora "$(who_am_i "$work/dora.kubeconfig")"
  fi
  if "$metrics"; then
    same "the code of /metrics for Prometheus" 200 \
      "$(ask "$(kubectl -n monitoring create token prometheus)" /metrics -o /dev/null -w '%{http_code}')"
    same "the code of /metrics for others" 403 "$(ask "$token" /metrics -o /dev/null -w '%{http_code}')"
  fi
  if "$strangers"; then check_stranger; fi
  end_last
  checked "apifront itself serves with what is installed ($mode): from memory, and as the caller upstream"
}

generation() { kubectl -n apifront get deployment apifront -o 'jsonpath={.metadata.generation}'; }
objects_of_release() {
  kubectl get all,configmaps,serviceaccounts,poddisruptionbudgets,horizontalpodautoscalers,networkpolicies,servicemonitors,prometheusrules,certificates,clusterroles,clusterrolebindings,roles,rolebindings \
    -A -l app.kubernetes.io/instance=apifront -o name
}
gone() {
  local objects
  objects=$(objects_of_release) && [ -z "$objects" ]
}

# Nobody here gives a load balancer an address, for which helm would wait.
full_values() {
  local part
  printf '%s\n' -f "$charts/modes/request-header.yaml"
  printf '%s\n' --set service.type=NodePort,service.loadBalancerClass= --set-json service.loadBalancerSourceRanges=[]
  for part in "$charts"/parts/*.yaml; do
    case ${part##*/} in own-account.yaml | no-budget.yaml) ;; *) printf '%s\n' -f "$part" ;; esac
  done
}

# The namespace admits restricted pods alone, and warns of Deployments that would make
# others. The warnings of an installation are in a file.
check_pod_security() {
  local made
  [ ! -s "$1" ] || fail "helm install warns: $(cat "$1")"
  made=$(kubectl -n apifront get pods -l app.kubernetes.io/instance=apifront -o name | wc -l)
  same "the pods that were admitted" 2 "$made"
  # That others are refused, and warned of, shows that the namespace does so at all.
  helm template apifront "$chart" -n apifront "${named[@]}" --show-only templates/deployment.yaml \
    --set securityContext.allowPrivilegeEscalation=true > "$work/escalates.yaml"
  kubectl apply --dry-run=server -f "$work/escalates.yaml" > "$work/warned" 2>&1
  grep -q 'would violate PodSecurity "restricted:latest"' "$work/warned" || fail "nobody warns: $(cat "$work/warned")"
  ! kubectl -n apifront run --image any any > "$work/refused" 2>&1 || fail "any pod is admitted"
  grep -q 'violates PodSecurity "restricted:latest"' "$work/refused" || fail "$(cat "$work/refused")"
  checked "the Pod Security Standard restricted admits the pods, without a warning"
}

check_life() {
  local before full
  helm install apifront "$chart" -n apifront --wait --timeout 60s "${named[@]}" > "$work/notes" 2> "$work/warnings"
  ready apifront apifront 2
  grep -q 'create secret tls apifront-tls' "$work/notes" || fail "the notes do not name the Secret"
  grep -q 'may act as whom rbac.impersonate names' "$work/notes" || fail "the notes do not tell as whom it may act"
  checked "helm install: 2 pods are ready with the default values"
  check_pod_security "$work/warnings"
  check_impersonation apifront apifront
  check_serving apifront apifront false false true

  before=$(generation)
  helm upgrade apifront "$chart" -n apifront --wait --timeout 60s "${named[@]}" --set config.cache.consistency=Fresh > /dev/null
  same "the generation after a change that pods read by themselves" "$before" "$(generation)"
  helm upgrade apifront "$chart" -n apifront --wait --timeout 60s "${named[@]}" --set config.logging.format=json > /dev/null
  same "the generation after a change of a field marked [restart]" $((before + 1)) "$(generation)"
  checked "helm upgrade rolls the pods for fields marked [restart], and for no others"

  helm upgrade apifront "$chart" -n apifront --wait --timeout 60s --set identity.mode=PassThrough > /dev/null
  ready apifront apifront 2
  kubectl get clusterrole apifront-impersonate > /dev/null 2>&1 && fail "PassThrough may impersonate"
  check_serving apifront apifront false false false

  mapfile -t full < <(full_values)
  helm upgrade apifront "$chart" -n apifront --wait --timeout 60s "${full[@]}" > /dev/null
  ready apifront apifront 3
  checked "helm upgrade: 3 pods are ready with every part, as the autoscaler's minimum says"
  check_serving apifront apifront true true false
  helm template apifront "$chart" "${full[@]}" --show-only templates/prometheusrule.yaml > "$work/rule.yaml"
  check_files

  helm rollback apifront 1 -n apifront --wait --timeout 60s > /dev/null
  # helm sets the number of pods before it deletes the autoscaler, which may set its
  # own once more.
  kubectl -n apifront scale deployment apifront --replicas 2 > /dev/null
  ready apifront apifront 2
  kubectl -n apifront get horizontalpodautoscalers,servicemonitors,prometheusrules,certificates -o name > "$work/left"
  [ ! -s "$work/left" ] || fail "rollback left $(cat "$work/left")"
  checked "helm rollback: 2 pods are ready with the default values, without the other parts"

  helm uninstall apifront -n apifront --wait --timeout 60s > /dev/null
  eventually "nothing is left of the release" 30 gone
  checked "helm uninstall leaves nothing"
}

check_full_install() {
  local full
  mapfile -t full < <(full_values)
  helm install apifront "$chart" -n apifront --wait --timeout 60s "${full[@]}" > /dev/null
  helm install apifront "$chart" -n front --wait --timeout 60s "${named[@]}" > /dev/null
  ready apifront apifront 3
  ready front apifront 2
  checked "helm install: every part at once, and a second release of the same name in another namespace"
  helm uninstall apifront -n front --wait --timeout 60s > /dev/null
  helm uninstall apifront -n apifront --wait --timeout 60s > /dev/null
  eventually "nothing is left of the releases" 30 gone
}

check_kustomize() {
  local overlay namespace pods built=$work/built.yaml
  "$root/tools/kustomize.sh" --check
  checked "deploy/kustomize is what the chart says"
  # As deploy/kustomize/overlays/example says. kustomize cannot make these.
  kubectl -n default create role apifront-impersonate --verb impersonate \
    --resource serviceaccounts --resource-name reader > /dev/null
  kubectl -n default create rolebinding apifront-impersonate \
    --role apifront-impersonate --serviceaccount front:apifront > /dev/null
  while read -r overlay namespace pods serves; do
    "$tools/kustomize" build "$root/$overlay" > "$built"
    kubectl apply --server-side --validate=strict --warnings-as-errors -f "$built" > /dev/null
    ready "$namespace" apifront "$pods"
    checked "kustomize build of $overlay, applied: $pods pods are ready"
    # shellcheck disable=SC2086 # These are several arguments.
    [ -z "$serves" ] || check_serving "$namespace" apifront $serves
    kubectl delete -f "$built" --wait > /dev/null
    eventually "nothing is left of $overlay" 30 gone
  done <<TEXT
deploy/kustomize/base apifront 2
tests/charts/overlays/anybody apifront 2 false false false
deploy/kustomize/overlays/example front 3 true false true
TEXT
  kubectl -n default delete role,rolebinding apifront-impersonate > /dev/null
}

# Runs the commands of docs/helm.md as they are written: its indented lines, but for
# transcripts, which need containers that run.
check_documents() {
  local lines
  mkdir "$work/pki" "$work/docs" "$work/docs/bin"
  ln -s "$work/cluster-ca.crt" "$work/pki/ca.crt"
  ln -s "$work/cluster-ca.key" "$work/pki/ca.key"
  ln -s "$work/front-proxy-ca.crt" "$work/front-proxy-ca.key" "$work/pki"
  ln -s "$root/charts" "$root/deploy" "$root/examples" "$work/docs"
  ln -s "$servers/kubectl" "$tools/helm" "$work/docs/bin"
  awk '/^    / && !/^    \$ / && !transcript { print substr($0, 5) }
    /^    \$ / { transcript = 1 }
    /^$/ { transcript = 0 }' "$root/docs/helm.md" > "$work/docs/commands"
  lines=$(grep -cE '^(kubectl|helm|examples/)' "$work/docs/commands")
  [ "$lines" -gt 10 ] || fail "docs/helm.md has only $lines commands"
  kubectl delete namespace apifront --wait > /dev/null
  printf '#!/bin/sh\necho "left out, since no image can be built here: docker $*"\n' > "$work/docs/bin/docker"
  chmod +x "$work/docs/bin/docker"
  (cd "$work/docs" && PKI=$work/pki PATH=$work/docs/bin:$PATH bash -euo pipefail commands) > "$work/docs/output" 2>&1 ||
    fail "a command of docs/helm.md: $(tail -n 5 "$work/docs/output")"
  grep '^left out' "$work/docs/output" || fail "docs/helm.md builds no image"
  checked "the $lines commands of docs/helm.md run as they are written"
}

build_everything
fetch_crds
check_lint
check_versions
check_restart_fields
check_refusals
check_silence
check_masters
check_grace_period
render_combinations
start_cluster
check_defaults
check_configurations
check_objects
check_rights
check_life
check_full_install
check_kustomize
check_documents
checked "all is well"
