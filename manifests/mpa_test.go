package manifests_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/sigma-scheduler/sigma/mpa/admission"
	"github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/mpa/batch"
	"github.com/sigma-scheduler/sigma/mpa/collect"
	"github.com/sigma-scheduler/sigma/mpa/reach"
)

// autoscaler returns the objects of a folder's files, by kind and name, each as
// Kubernetes reads it.
func autoscaler(t *testing.T, folders ...string) map[string]metav1.Object {
	t.Helper()
	kinds := map[string]func() metav1.Object{
		"Namespace":                    func() metav1.Object { return &corev1.Namespace{} },
		"ResourceQuota":                func() metav1.Object { return &corev1.ResourceQuota{} },
		"ServiceAccount":               func() metav1.Object { return &corev1.ServiceAccount{} },
		"Secret":                       func() metav1.Object { return &corev1.Secret{} },
		"ConfigMap":                    func() metav1.Object { return &corev1.ConfigMap{} },
		"Service":                      func() metav1.Object { return &corev1.Service{} },
		"NetworkPolicy":                func() metav1.Object { return &networkingv1.NetworkPolicy{} },
		"Deployment":                   func() metav1.Object { return &appsv1.Deployment{} },
		"PodDisruptionBudget":          func() metav1.Object { return &policyv1.PodDisruptionBudget{} },
		"Role":                         func() metav1.Object { return &rbacv1.Role{} },
		"RoleBinding":                  func() metav1.Object { return &rbacv1.RoleBinding{} },
		"ClusterRole":                  func() metav1.Object { return &rbacv1.ClusterRole{} },
		"ClusterRoleBinding":           func() metav1.Object { return &rbacv1.ClusterRoleBinding{} },
		"MutatingWebhookConfiguration": func() metav1.Object { return &admissionv1.MutatingWebhookConfiguration{} },
	}
	all := map[string]metav1.Object{}
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join("mpa", folder, "kustomization.yaml"))
		require.NoError(t, err)
		var kustomization struct{ Resources []string }
		require.NoError(t, yaml.Unmarshal(text, &kustomization))
		for _, file := range kustomization.Resources {
			if !strings.HasSuffix(file, ".yaml") {
				continue
			}
			text, err := os.ReadFile(filepath.Join("mpa", folder, file))
			require.NoError(t, err)
			for document := range strings.SplitSeq(string(text), "\n---\n") {
				var head struct{ Kind string }
				require.NoError(t, yaml.Unmarshal([]byte(document), &head))
				require.Contains(t, kinds, head.Kind, file)
				object := kinds[head.Kind]()
				require.NoError(t, yaml.UnmarshalStrict([]byte(document), object), file)
				name := head.Kind + "/" + object.GetName()
				require.NotContains(t, all, name)
				all[name] = object
			}
		}
	}
	return all
}

func of[T any](objects map[string]metav1.Object) []T {
	var found []T
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if o, ok := objects[name].(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// TestAutoscalerPods: in one process and apart, each part runs twice, without rights
// on its node, behind a budget, and is found by the services and the policy.
func TestAutoscalerPods(t *testing.T) {
	for folder, parts := range map[string][]string{".": {"all"}, "apart": {"admission", "recommender", "updater"}} {
		objects := autoscaler(t, "base", "network-policy", folder)
		deployments := of[*appsv1.Deployment](objects)
		require.Len(t, deployments, len(parts))
		for i, d := range deployments {
			template := d.Spec.Template
			require.EqualValues(t, 2, *d.Spec.Replicas)
			require.Equal(t, d.Labels, d.Spec.Selector.MatchLabels)
			budget, ok := objects["PodDisruptionBudget/"+d.Name].(*policyv1.PodDisruptionBudget)
			require.True(t, ok)
			for _, selector := range []*metav1.LabelSelector{
				d.Spec.Selector, budget.Spec.Selector,
				&objects["NetworkPolicy/sigma-mpa"].(*networkingv1.NetworkPolicy).Spec.PodSelector,
			} {
				s, err := metav1.LabelSelectorAsSelector(selector)
				require.NoError(t, err)
				require.True(t, s.Matches(labels.Set(template.Labels)), d.Name)
				for _, other := range deployments {
					require.True(t, other == d || selector.MatchLabels["app.kubernetes.io/component"] == "" || !s.Matches(labels.Set(other.Spec.Template.Labels)))
				}
			}
			require.Contains(t, objects, "ServiceAccount/"+template.Spec.ServiceAccountName)
			require.True(t, *template.Spec.SecurityContext.RunAsNonRoot)
			require.Len(t, template.Spec.Containers, 1)
			c := template.Spec.Containers[0]
			require.Equal(t, parts[i], c.Args[0])
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
			require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
			require.Len(t, c.Resources.Requests, 2)
			require.Len(t, c.Resources.Limits, 1)
			require.False(t, c.Resources.Limits.Memory().IsZero())
			for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
				require.Equal(t, corev1.URISchemeHTTPS, probe.HTTPGet.Scheme)
			}
			decides := parts[i] == "all" || parts[i] == "recommender"
			require.Equal(t, decides, len(template.Spec.Volumes) == 2 && len(c.VolumeMounts) == 2)
			if decides {
				list := template.Spec.Volumes[1].ConfigMap
				require.Equal(t, template.Spec.Volumes[1].Name, c.VolumeMounts[1].Name)
				require.Contains(t, objects, "ConfigMap/"+list.Name)
				require.Contains(t, c.Args, "--prometheus-servers="+c.VolumeMounts[1].MountPath+"/servers.yaml")
				require.Contains(t, c.Args, "--journal-dir="+c.VolumeMounts[0].MountPath)
				require.NotNil(t, template.Spec.SecurityContext.FSGroup)
			}
			answers := parts[i] == "all" || parts[i] == "admission"
			webhook := objects["Service/sigma-mpa-webhook"].(*corev1.Service)
			require.Equal(t, answers, labels.SelectorFromSet(webhook.Spec.Selector).Matches(labels.Set(template.Labels)))
			has := slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool {
				return p.Name == webhook.Spec.Ports[0].TargetPort.StrVal && p.ContainerPort == 9443
			})
			require.Equal(t, answers, has)
			require.True(t, labels.SelectorFromSet(objects["Service/sigma-mpa"].(*corev1.Service).Spec.Selector).Matches(labels.Set(template.Labels)))
		}
	}
}

// TestPrometheusServers: the list is one that the recommender reads, and has the server that
// the sample names; no pod may reach more than the API server, DNS and that list.
func TestPrometheusServers(t *testing.T) {
	objects := autoscaler(t, "base", "network-policy")
	path := filepath.Join(t.TempDir(), "servers.yaml")
	text := objects["ConfigMap/sigma-mpa-prometheus"].(*corev1.ConfigMap).Data["servers.yaml"]
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	servers, err := collect.ReadServers(path)
	require.NoError(t, err)
	sample, err := os.ReadFile("mpa/samples/slo.yaml")
	require.NoError(t, err)
	var o v1alpha1.MultidimPodAutoscaler
	require.NoError(t, yaml.UnmarshalStrict(sample, &o))
	require.Equal(t, o.Spec.Metrics.Prometheus.Server, servers[0].Name)
	way := objects["NetworkPolicy/sigma-mpa-prometheus"].(*networkingv1.NetworkPolicy).Spec
	require.Equal(t, objects["NetworkPolicy/sigma-mpa"].(*networkingv1.NetworkPolicy).Spec.PodSelector, way.PodSelector)
	for _, rule := range way.Egress {
		require.NotEmpty(t, rule.To)
		require.NotEmpty(t, rule.Ports)
	}
}

// TestWebhook: it cannot hold up a pod for long, nor its own or the cluster's.
func TestWebhook(t *testing.T) {
	objects := autoscaler(t, "base")
	hooks := objects["MutatingWebhookConfiguration/sigma-mpa"].(*admissionv1.MutatingWebhookConfiguration).Webhooks
	require.Len(t, hooks, 2)
	probe := hooks[1]
	require.Equal(t, admissionv1.Ignore, *probe.FailurePolicy)
	require.Equal(t, hooks[0].TimeoutSeconds, probe.TimeoutSeconds)
	require.Equal(t, v1alpha1.ProbeWebhook, probe.Name)
	require.Equal(t, reach.Path, *probe.ClientConfig.Service.Path)
	require.Contains(t, probe.MatchConditions[0].Expression, "'"+v1alpha1.ProbeName+"'")
	probe.ClientConfig.Service.Path = hooks[0].ClientConfig.Service.Path
	require.Equal(t, hooks[0].ClientConfig, probe.ClientConfig, "the same way")
	h := hooks[0]
	require.Equal(t, admissionv1.Ignore, *h.FailurePolicy)
	require.EqualValues(t, 2, *h.TimeoutSeconds)
	require.Equal(t, admissionv1.SideEffectClassNone, *h.SideEffects)
	require.Equal(t, admission.Path, *h.ClientConfig.Service.Path)
	service := objects["Service/"+h.ClientConfig.Service.Name].(*corev1.Service)
	require.Equal(t, h.ClientConfig.Service.Namespace, service.Namespace)
	require.Equal(t, *h.ClientConfig.Service.Port, service.Spec.Ports[0].Port)
	s, err := metav1.LabelSelectorAsSelector(h.NamespaceSelector)
	require.NoError(t, err)
	for name, sees := range map[string]bool{"default": true, "shop": true, "kube-system": false, "sigma-system": false, service.Namespace: false} {
		require.Equal(t, sees, s.Matches(labels.Set{corev1.LabelMetadataName: name}), name)
	}
	require.Empty(t, objects["Secret/sigma-mpa-webhook"].(*corev1.Secret).Data)
}

// rights lists what rules allow, in order.
func rights(rules []rbacv1.PolicyRule) []string {
	var all []string
	for _, r := range rules {
		for _, url := range r.NonResourceURLs {
			all = append(all, strings.Join(r.Verbs, ",")+" "+url)
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				text := strings.Join(r.Verbs, ",") + " " + strings.TrimSuffix(resource+"."+group, ".")
				if r.ResourceNames != nil {
					text += " " + strings.Join(r.ResourceNames, ",")
				}
				all = append(all, text)
			}
		}
	}
	slices.Sort(all)
	return all
}

// TestAutoscalerRights lists what each account may do. The end-to-end tests show that it
// is enough; this one, that nobody adds to it unseen.
func TestAutoscalerRights(t *testing.T) {
	objects := autoscaler(t, "base")
	roles := map[string][]string{
		"ClusterRole/sigma-mpa-recommender": {
			"create,patch events",
			"get,list,watch multidimpodautoscalers.autoscaling.sigma-scheduler.io",
			"list pods.metrics.k8s.io",
			"list,watch deployments.apps",
			"list,watch horizontalpodautoscalers.autoscaling",
			"list,watch pods",
			"list,watch replicasets.apps",
			"list,watch scalingpolicies.autoscaling.sigma-scheduler.io",
			"list,watch services",
			"list,watch statefulsets.apps",
			"list,watch verticalpodautoscalers.autoscaling.k8s.io",
			"patch multidimpodautoscalers/status.autoscaling.sigma-scheduler.io",
			"patch scalingpolicies/status.autoscaling.sigma-scheduler.io",
		},
		"ClusterRole/sigma-mpa-updater": {
			"create pods/eviction",
			"create,patch,list events",
			"get,create,patch configmaps sigma-evictions",
			"get,list,watch deployments.apps",
			"get,list,watch multidimpodautoscalers.autoscaling.sigma-scheduler.io",
			"get,list,watch statefulsets.apps",
			"get,update deployments/scale.apps",
			"get,update statefulsets/scale.apps",
			"list cronjobs.batch",
			"list jobs.batch",
			"list nodes",
			"list resourcequotas",
			"list,watch horizontalpodautoscalers.autoscaling",
			"list,watch pods",
			"list,watch replicasets.apps",
			"patch deployments/status.apps",
			"patch multidimpodautoscalers/status.autoscaling.sigma-scheduler.io",
			"patch pods/resize",
			"patch statefulsets/status.apps",
		},
		"ClusterRole/sigma-mpa-admission": {
			"get,patch mutatingwebhookconfigurations.admissionregistration.k8s.io sigma-mpa",
			"list,watch controllerrevisions.apps",
			"list,watch limitranges",
			"list,watch multidimpodautoscalers.autoscaling.sigma-scheduler.io",
			"list,watch replicasets.apps",
			"list,watch resourcequotas",
		},
		"ClusterRole/sigma-mpa-metrics-reader": {"get /metrics"}, // of others
		"Role/sigma-mpa-leases": {
			"create leases.coordination.k8s.io",
			"create,patch events",
			"get,update leases.coordination.k8s.io sigma-mpa-all,sigma-mpa-recommender,sigma-mpa-updater",
		},
		"Role/sigma-mpa-probe":       {"create configmaps"},
		"Role/sigma-mpa-certificate": {"get,update secrets sigma-mpa-webhook"},
	}
	for name, want := range roles {
		switch role := objects[name].(type) {
		case *rbacv1.ClusterRole:
			require.Equal(t, want, rights(role.Rules), name)
		case *rbacv1.Role:
			require.Equal(t, want, rights(role.Rules), name)
		default:
			require.Fail(t, "missing", name)
		}
	}
	require.Equal(t, len(roles), len(of[*rbacv1.ClusterRole](objects))+len(of[*rbacv1.Role](objects)))

	// An account has the role of its name; sigma-mpa, all in one process, has all.
	has := map[string][]string{}
	bind := func(ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if ref.Name != "system:auth-delegator" { // of Kubernetes: who may read metrics?
			require.Contains(t, roles, ref.Kind+"/"+ref.Name)
		}
		for _, s := range subjects {
			require.Equal(t, "sigma-mpa", s.Namespace)
			require.Contains(t, objects, "ServiceAccount/"+s.Name)
			has[s.Name] = append(has[s.Name], strings.TrimPrefix(ref.Name, "sigma-mpa-"))
		}
	}
	for _, b := range of[*rbacv1.ClusterRoleBinding](objects) {
		bind(b.RoleRef, b.Subjects)
	}
	for _, b := range of[*rbacv1.RoleBinding](objects) {
		bind(b.RoleRef, b.Subjects)
	}
	require.Equal(t, map[string][]string{
		"sigma-mpa":             {"admission", "system:auth-delegator", "recommender", "updater", "certificate", "leases", "probe"},
		"sigma-mpa-recommender": {"system:auth-delegator", "recommender", "leases", "probe"},
		"sigma-mpa-updater":     {"system:auth-delegator", "updater", "leases"},
		"sigma-mpa-admission":   {"admission", "system:auth-delegator", "certificate"},
	}, has)
}

// TestAutoscalerMetrics: dashboard and alarms ask for what there is, and the dashboard
// shows all of it.
func TestAutoscalerMetrics(t *testing.T) {
	names := regexp.MustCompile(`sigma_mpa_[a-z_]+`)
	there := sets.New[string]()
	require.NoError(t, filepath.WalkDir("../mpa", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		there.Insert(names.FindAllString(string(text), -1)...)
		return err
	}))
	asked := sets.New[string]()
	for _, file := range []string{"mpa/base/dashboard.json", "mpa/monitoring/rules.yaml"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range names.FindAllString(string(text), -1) {
			name = strings.TrimSuffix(name, "_bucket")
			require.True(t, there.Has(name), "%s: nobody tells of %s", file, name)
			asked.Insert(name)
		}
	}
	require.Empty(t, sets.List(there.Difference(asked)))
}

// Batch work is off where its component is not applied, and observes at first where it is.
func TestBatchComponent(t *testing.T) {
	pod := document[appsv1.Deployment](t, "mpa/batch/deployment.yaml", "Deployment").Spec.Template.Spec
	require.Equal(t, []string{"batch", "--mode=$(MODE)", "--usage-history=/var/lib/sigma-mpa"}, pod.Containers[0].Args)
	require.Equal(t, []corev1.EnvVar{{Name: "MODE", Value: "Observe"}}, pod.Containers[0].Env)
	require.Equal(t, "sigma-mpa-batch", pod.ServiceAccountName)
	text, err := os.ReadFile("mpa/batch/webhooks.yaml")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(text), "path: "+batch.Path+","))
	require.Equal(t, 2, strings.Count(string(text), "failurePolicy: Ignore"))
	require.Equal(t, 2, strings.Count(string(text), `matchLabels: {`+batch.Label+`: "true"}`))
	class := document[schedulingv1.PriorityClass](t, "mpa/batch/priority.yaml", "PriorityClass")
	require.Equal(t, batch.PriorityClass, class.Name)
	require.Negative(t, class.Value)
	require.Equal(t, corev1.PreemptNever, *class.PreemptionPolicy)
}
