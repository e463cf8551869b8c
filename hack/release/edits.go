package main

import (
	"fmt"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

const (
	scheduler = "sigma-scheduler"
	config    = "sigma-scheduler-config"
	mpa       = "sigma-mpa"
	pilot     = "sigma-pilot"
)

// edit puts an expression of the chart into an object of the manifests.
type edit struct {
	kind, name string
	path       []string // of an existing field; "[name=x]" is the list's item x
	as         how
	old        string // with within: the text that the expression replaces
	expression string
}

type how int

const (
	value   how = iota // the expression is the field's value
	field              // the expression is lines of further fields of the mapping
	item               // the expression is lines of further items of the list
	within             // the expression replaces a part of the text
	rewrite            // the expression is the whole text, in lines
)

var (
	pod       = []string{"spec", "template", "spec"}
	container = append(pod[:3:3], "containers", "[name=scheduler]")
	agent     = append(pod[:3:3], "containers", "[name=mpa]")
	leader    = append(pod[:3:3], "containers", "[name=pilot]")
	job       = []string{"spec", "jobTemplate", "spec", "template", "spec"}
	trainer   = append(job[:5:5], "containers", "[name=trainer]")
)

const placement = `{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}`

// edits are all that a value of the chart changes.
var edits = []edit{
	{"Deployment", scheduler, []string{"spec", "replicas"}, value, "", "{{ if .Values.pilot.enabled }}1{{ else }}{{ .Values.scheduler.replicas }}{{ end }}"},
	{"Deployment", scheduler, []string{"spec"}, field, "", `{{- if .Values.pilot.enabled }}
strategy: {type: Recreate}
{{- end }}`},
	{"Deployment", scheduler, []string{"spec", "template", "metadata", "labels"}, field, "", `{{- if .Values.pilot.enabled }}
sigma-scheduler.io/volume: history
{{- end }}`},
	{"Deployment", scheduler, append(pod[:3:3], "affinity"), field, "", `{{- if .Values.pilot.enabled }}
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector:
      matchLabels: {sigma-scheduler.io/volume: history}
{{- end }}`},
	{"Deployment", scheduler, append(container[:5:5], "image"), value, "", `{{ include "sigma.image" (list . "sigma-scheduler") }}`},
	{"Deployment", scheduler, append(container[:5:5], "resources"), value, "", `{{- toYaml .Values.scheduler.resources | nindent 12 }}`},
	{"Deployment", scheduler, pod, field, "", placement},
	// A changed configuration causes a rollout, as the digest in its name does under kustomize.
	{"Deployment", scheduler, []string{"spec", "template", "metadata"}, field, "", `annotations:
  checksum/config: {{ include (print $.Template.BasePath "/configmap-` + config + `.yaml") . | sha256sum }}`},
	{"Deployment", scheduler, append(pod[:3:3], "volumes", "[name=config]", "configMap", "name"), value, "", config},
	{"Deployment", scheduler, append(pod[:3:3], "securityContext"), field, "", `{{- if or .Values.decisionLog.enabled .Values.pilot.enabled }}
fsGroup: 65532
{{- end }}`},
	{"Deployment", scheduler, container, field, "", `{{- if and .Values.decisionLog.enabled (not .Values.pilot.enabled) }}
env:
- {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
{{- end }}`},
	{"Deployment", scheduler, append(container[:5:5], "volumeMounts"), item, "", `{{- if .Values.pilot.enabled }}
- {name: history, mountPath: /var/lib/sigma, subPath: record}
{{- else if .Values.decisionLog.enabled }}
- {name: decisions, mountPath: /var/lib/sigma, subPathExpr: $(POD_NAME)}
{{- end }}`},
	{"Deployment", scheduler, append(pod[:3:3], "volumes"), item, "", `{{- if .Values.pilot.enabled }}
- {name: history, persistentVolumeClaim: {claimName: sigma-history}}
{{- else if .Values.decisionLog.enabled }}
- {{ toJson (merge (dict "name" "decisions") (.Values.decisionLog.volume | default (dict "emptyDir" (dict "sizeLimit" "4Gi")))) }}
{{- end }}`},
	{"ConfigMap", config, []string{"metadata", "name"}, value, "", config},
	{"ConfigMap", config, []string{"data", "config.yaml"}, within, "resourceNamespace: sigma-system", "resourceNamespace: {{ .Release.Namespace }}"},
	{"ConfigMap", config, []string{"data", "config.yaml"}, within, "policyName: general", `policyName: {{ .Values.policy.name }}
{{- if .Values.pilot.enabled }}
# A pilot writes it; until then there is none.
canaryPolicyName: {{ .Values.policy.name }}-candidate
decisionLog: /var/lib/sigma/decisions.jsonl
decisionLogFiles: 30
{{- else if .Values.decisionLog.enabled }}
decisionLog: /var/lib/sigma/decisions.jsonl
{{- end }}
{{- if .Values.prices }}
prices: /etc/sigma/prices.csv
{{- end }}`},
	{"ConfigMap", config, []string{"data"}, field, "", `{{- with .Values.prices }}
prices.csv: {{ toJson . }}
{{- end }}`},
	{"PlacementPolicy", "general", []string{"metadata", "name"}, value, "", "{{ .Values.policy.name }}"},
	{"PlacementPolicy", "general", []string{"spec", "mode"}, value, "", "{{ .Values.policy.mode }}"},
	{"PlacementPolicy", "general", []string{"spec"}, field, "", `{{- if eq .Values.policy.mode "canary" }}
canaryPercent: {{ .Values.policy.canaryPercent }}
{{- end }}`},
	{"Deployment", pilot, append(leader[:5:5], "image"), value, "", `{{ include "sigma.image" (list . "sigma-pilot") }}`},
	{"Deployment", pilot, append(leader[:5:5], "resources"), value, "", `{{- toYaml .Values.pilot.resources | nindent 12 }}`},
	{"Deployment", pilot, pod, field, "", placement},
	{"CronJob", pilot + "-training", append(trainer[:7:7], "image"), value, "", `{{ include "sigma.image" (list . "sigma-pilot") }}`},
	{"CronJob", pilot + "-training", job, field, "", placement},
	{"PersistentVolumeClaim", "sigma-history", []string{"spec", "resources", "requests", "storage"}, value, "", `{{ .Values.pilot.storage }}`},
	{"PersistentVolumeClaim", "sigma-history", []string{"spec"}, field, "", `{{- with .Values.pilot.storageClass }}
storageClassName: {{ . }}
{{- end }}`},
	// The policies and the page that its account may write, and the account in the namespace of the release.
	{"ClusterRole", pilot, []string{"rules", "2", "resourceNames"}, value, "", `{{ toJson (list .Values.policy.name (print .Values.policy.name "-candidate")) }}`},
	{"Role", pilot, []string{"rules", "4", "resourceNames"}, value, "", `{{ toJson (list (print "sigma-pilot-" .Values.policy.name)) }}`},
	{
		"ValidatingAdmissionPolicy", pilot, []string{"spec", "matchConditions", "[name=pilot]", "expression"}, within, "serviceaccount:sigma-system:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{
		"ValidatingAdmissionPolicy", pilot + "-jobs", []string{"spec", "matchConditions", "[name=pilot]", "expression"}, within, "serviceaccount:sigma-system:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{
		"ValidatingAdmissionPolicy", pilot + "-job-names", []string{"spec", "matchConditions", "[name=pilot]", "expression"}, within, "serviceaccount:sigma-system:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{"Deployment", mpa, []string{"spec", "replicas"}, value, "", "{{ .Values.mpa.replicas }}"},
	{"Deployment", mpa, append(agent[:5:5], "image"), value, "", `{{ include "sigma.image" (list . "sigma-mpa") }}`},
	{"Deployment", mpa, append(agent[:5:5], "resources"), value, "", `{{- toYaml .Values.mpa.resources | nindent 12 }}`},
	{"Deployment", mpa, pod, field, "", placement},
	{"Deployment", mpa, append(pod[:3:3], "volumes", "[name=journal]"), value, "", `- {{ toJson (merge (dict "name" "journal") (.Values.mpa.journal.volume | default (dict "emptyDir" (dict "sizeLimit" "2Gi")))) }}`},
	{"Deployment", mpa, append(agent[:5:5], "args"), item, "", `{{- if .Values.mpa.retraining.enabled }}
- --retraining-template=sigma-mpa-retraining
{{- end }}
{{- with .Values.mpa.gate.image }}
- --gate-image={{ . }}
{{- end }}`},
	{
		"ValidatingAdmissionPolicy", mpa + "-limits", []string{"spec", "matchConditions", "[name=autoscaler]", "expression"}, within, "serviceaccount:sigma-mpa:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{
		"ValidatingAdmissionPolicy", mpa + "-knative", []string{"spec", "matchConditions", "[name=autoscaler]", "expression"}, within, "serviceaccount:sigma-mpa:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{
		"ValidatingAdmissionPolicy", mpa + "-knative-revisions", []string{"spec", "matchConditions", "[name=autoscaler]", "expression"}, within, "serviceaccount:sigma-mpa:",
		"serviceaccount:{{ .Release.Namespace }}:",
	},
	{"CronJob", mpa + "-retraining", append(trainer[:7:7], "image"), value, "", `{{ include "sigma.image" (list . "sigma") }}`},
	{"CronJob", mpa + "-retraining", append(trainer[:7:7], "resources"), value, "", `{{- toYaml .Values.mpa.retraining.resources | nindent 16 }}`},
	{"CronJob", mpa + "-retraining", append(job[:5:5], "volumes", "[name=journal]"), value, "", `- {{ toJson (merge (dict "name" "journal") (required "mpa.retraining needs mpa.journal.volume, which its Jobs can read" .Values.mpa.journal.volume)) }}`},
	{"CronJob", mpa + "-retraining", job, field, "", placement},
	{"ConfigMap", mpa + "-prometheus", []string{"data", "servers.yaml"}, rewrite, "", `servers:{{ toYaml .Values.mpa.prometheus | nindent 4 }}`},
	// Scheduler and autoscaler share a namespace, so one quota has to do for both.
	{"ResourceQuota", "critical-pods", []string{"spec", "hard", "pods"}, value, "", `"{{ if .Values.mpa.enabled }}30{{ else }}10{{ end }}"`},
	// The autoscaler sizes neither its own pods nor those that a cluster depends on.
	{
		"MutatingWebhookConfiguration", mpa, []string{"webhooks", "[name=pods.autoscaling.sigma-scheduler.io]", "namespaceSelector", "matchExpressions", "[key=kubernetes.io/metadata.name]", "values"},
		value, "", `{{ toJson (list .Release.Namespace "kube-system") }}`,
	},
}

// apply marks the place of the expression; fill puts it there.
func (e *edit) apply(object *yaml.RNode, place func(string) string) error {
	n, err := object.Pipe(yaml.Lookup(e.path...))
	if err != nil {
		return err
	}
	if n == nil {
		return fmt.Errorf("no field %s", strings.Join(e.path, "."))
	}
	y := n.YNode()
	switch e.as {
	case value:
		*y = *yaml.NewStringRNode(place(e.expression)).YNode()
	case field:
		y.Style &^= yaml.FlowStyle
		y.Content = append(y.Content, yaml.NewStringRNode(place(e.expression)).YNode(), &yaml.Node{Kind: yaml.ScalarNode, Tag: yaml.NodeTagNull, Value: "null"})
	case item:
		y.Style &^= yaml.FlowStyle
		y.Content = append(y.Content, yaml.NewStringRNode(place(e.expression)).YNode())
	case within:
		if strings.Count(y.Value, e.old) != 1 {
			return fmt.Errorf("%s: %d times %q", strings.Join(e.path, "."), strings.Count(y.Value, e.old), e.old)
		}
		y.Value = strings.Replace(y.Value, e.old, place(e.expression), 1)
	case rewrite:
		y.Value, y.Style = place(e.expression)+"\n", yaml.LiteralStyle
	}
	return nil
}
