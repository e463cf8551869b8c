package manifest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	flow "github.com/sigma-scheduler/sigma/flow/api/v1alpha1"
	mpa "github.com/sigma-scheduler/sigma/mpa/api/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/podspec/podtest"
)

// Each kind of Kubernetes and of Sigma is planned, used, left out with a reason, or known to have no pods.
func TestKindsAreComplete(t *testing.T) {
	all := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, flow.AddToScheme, mpa.AddToScheme, v1alpha1.AddToScheme} {
		require.NoError(t, add(all))
	}
	kinds := 0
	for gvk := range all.AllKnownTypes() {
		object, err := all.New(gvk)
		require.NoError(t, err)
		if _, ok := object.(metav1.Object); !ok {
			continue // a list, or the options of a request
		}
		kind, places := gvk.GroupKind(), 0
		for _, in := range []bool{typed[kind] || ones[kind], noPods[kind], leftOut[kind] != ""} {
			if in {
				places++
			}
		}
		require.Equal(t, 1, places, gvk)
		kinds++
	}
	require.Greater(t, kinds, 80)
	for kind := range changes {
		require.True(t, noPods[kind], kind)
	}
	require.False(t, noPods[schema.GroupKind{Group: "serving.knative.dev", Kind: "Service"}], "a group is part of a kind")
}

// podTemplateOf is a template of pods of some cores.
func podTemplateOf(cores int) string {
	return fmt.Sprintf(`{"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": %d}}}]}}`, cores)
}

// Of kinds that Sigma has no types of, pods are planned where their templates have a number beside them; any other object is counted
// as not known, with the templates that were found.
func TestUnknownKinds(t *testing.T) {
	one, two := podTemplateOf(1), podTemplateOf(2)
	for _, tt := range []struct {
		kind, spec string
		pods       []string // planned
		notes      []string // each part of a note
		known      bool
	}{
		{kind: "monitoring.coreos.com/v1 Prometheus", spec: `{"replicas": 2, "resources": {"requests": {"cpu": 2}}}`},
		{kind: "postgresql.cnpg.io/v1 Cluster", spec: `{"instances": 3}`},
		{kind: "example.com/v1 List2", spec: `[1]`},
		{kind: "gateway.networking.k8s.io/v1 Gateway", spec: `{}`},
		{kind: "v1 Deploiment", spec: `{}`},

		{kind: "argoproj.io/v1alpha1 Rollout", spec: `{"replicas": 3, "minReadySeconds": 5, "revisionHistoryLimit": 2, "template": ` + one + `}`, known: true, pods: []string{"3 shop/Rollout/x@cpu=1"}},
		{kind: "argoproj.io/v1alpha1 Rollout", spec: `{"template": ` + one + `}`, known: true, pods: []string{"1 shop/Rollout/x@cpu=1"}},
		{kind: "argoproj.io/v1alpha1 Rollout", spec: `{"replicas": 3, "workloadRef": {"kind": "Deployment"}}`},
		{kind: "extensions/v1beta1 Deployment", spec: `{"replicas": 2, "template": ` + one + `}`, known: true, pods: []string{"2 shop/Deployment/x@cpu=1"}},
		{kind: "apps/v1beta2 StatefulSet", spec: `{"template": ` + one + `}`, known: true, pods: []string{"1 shop/StatefulSet/x@cpu=1"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 3, "podTemplate": ` + one + `}`, known: true, pods: []string{"3 shop/Thing/x@cpu=1"}, notes: []string{"Thing x of example.com/v1: pods are planned by its templates: 3 of spec.podTemplate"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 0, "template": ` + one + `}`, known: true},
		{kind: "example.com/v1 Thing", spec: `{"template": ` + one + `}`, notes: []string{"Thing x of example.com/v1: it is not known how many pods it makes of spec.template (without a number of replicas)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": "${N}", "template": ` + one + `}`, notes: []string{"spec.template (replicas is ${N})"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 1.5, "template": ` + one + `}`, notes: []string{"spec.template (replicas is 1.5)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": -1, "template": ` + one + `}`, notes: []string{"spec.template (replicas is -1)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 2, "shards": 3, "template": ` + one + `}`, notes: []string{"spec.template (beside shards 3)"}},
		{kind: "example.com/v1 Thing", spec: `{"shards": 3, "parts": [{"replicas": 2, "template": ` + one + `}]}`, notes: []string{"spec.parts[0].template (beside shards 3)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 2, "template": ` + one + `, "podTemplate": ` + two + `}`, notes: []string{"spec.podTemplate (a number of pods for more than one template), spec.template (a number"}},
		{kind: "example.com/v1 Thing", spec: `{"containers": [{"name": "more"}], "replicas": 2}`, notes: []string{"it is not known how many pods it makes of spec (containers of an unknown number of pods)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "lots"}}}]}}}`, notes: []string{`spec.template (spec.template.spec.containers[0].resources.requests.cpu "lots": want a quantity`}},
		{kind: "example.com/v1 Thing", spec: `{"template": {"spec": {"replicas": 2, "template": ` + one + `}}}`, notes: []string{"spec.template.spec.template (too deep to know the number)"}},
		{kind: "example.com/v1 Thing", spec: `{"group": {"zone": "a", "worker": {"replicas": 2, "template": ` + one + `}}}`, notes: []string{"spec.group.worker.template (too deep to know the number)"}},
		{kind: "example.com/v1 Thing", spec: `{"replicas": 2, "templates": [` + one + `]}`, notes: []string{"spec.templates[0] (in a list)"}},
		{kind: "argoproj.io/v1alpha1 Rollout", spec: one, notes: []string{"spec (too deep to know the number)"}},
		{kind: "serving.knative.dev/v1 Service", spec: `{"template": {"spec": {"containers": [{"image": "i"}]}}}`, notes: []string{"spec.template (without a number of replicas)"}},
		{kind: "flink.apache.org/v1beta1 FlinkDeployment", spec: `{"taskManager": {"replicas": 2, "resource": {"cpu": 2}, "podTemplate": ` + one + `}}`, notes: []string{"spec.taskManager.podTemplate (completed by resource)"}},
		{kind: "elasticsearch.k8s.elastic.co/v1 Elasticsearch", spec: `{"nodeSets": [{"name": "a", "replicas": 3, "podTemplate": {"spec": {"containers": [{"name": "c"}]}}}]}`, notes: []string{"spec.nodeSets[0].podTemplate (its containers have no image)"}},
		{kind: "apps.kruise.io/v1alpha1 DaemonSet", spec: `{"template": ` + one + `}`, notes: []string{"without a number"}},
		{kind: "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet", spec: `{"replicas": 2, "leaderWorkerTemplate": {"size": 4, "workerTemplate": ` + one + `}}`, notes: []string{"spec.leaderWorkerTemplate.workerTemplate (without a number of replicas)"}},
		{kind: "ray.io/v1 RayCluster", spec: `{"headGroupSpec": {"template": ` + one + `}, "workerGroupSpecs": [{"groupName": "w", "replicas": 2, "numOfHosts": 4, "template": ` + two + `}]}`, notes: []string{"spec.headGroupSpec.template (without a number of replicas), spec.workerGroupSpecs[0].template (beside numOfHosts 4)"}},

		{kind: "kubeflow.org/v1 PyTorchJob", spec: `{"pytorchReplicaSpecs": {"Master": {"template": ` + one + `}, "Worker": {"replicas": 3, "template": ` + two + `}}}`, known: true, pods: []string{"1 shop/PyTorchJob/x-master@cpu=1", "3 shop/PyTorchJob/x-worker@cpu=2"}},
		{kind: "example.com/v1 TrainJob", spec: `{"replicaSpecs": {"Master": {"template": ` + one + `}, "Worker": {"replicas": 3, "template": ` + two + `}}}`, pods: []string{"3 shop/TrainJob/x-worker@cpu=2"}, notes: []string{"3 of spec.replicaSpecs.Worker.template", "not known how many pods it makes of spec.replicaSpecs.Master.template (without"}},
		{kind: "batch.volcano.sh/v1alpha1 Job", spec: `{"minAvailable": 3, "tasks": [{"name": "PS", "replicas": 1, "template": ` + one + `}, {"replicas": 2, "template": ` + one + `}]}`, known: true, pods: []string{"1 shop/Job/x-ps@cpu=1", "2 shop/Job/x-1@cpu=1"}},
		{kind: "jobset.x-k8s.io/v1alpha2 JobSet", spec: `{"replicatedJobs": [{"name": "w", "replicas": 4, "template": {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": ` + one + `}}}]}`, known: true, pods: []string{"8 shop/JobSet/x@cpu=1"}},
		{kind: "jobset.x-k8s.io/v1alpha2 JobSet", spec: `{"replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": 3, "completions": 2, "template": ` + one + `}}}, {"name": "v", "template": {"spec": {"template": ` + one + `}}}]}`, known: true, pods: []string{"2 shop/JobSet/x-w@cpu=1", "1 shop/JobSet/x-v@cpu=1"}},
		{kind: "flow.volcano.sh/v1alpha1 JobTemplate", spec: `{"tasks": [{"name": "a", "replicas": 1, "template": ` + one + `}]}`, notes: []string{"spec.tasks[0].template (of a template for other objects)"}},
		{kind: "v1 APIResourceList", spec: `{}`},
		{kind: "keda.sh/v1alpha1 ScaledJob", spec: `{"maxReplicaCount": 5, "jobTargetRef": {"parallelism": 2, "template": ` + one + `}}`, notes: []string{"spec.jobTargetRef.template (without a number of replicas)"}},
		{kind: "example.com/v1 Crons", spec: `{"replicas": 2, "jobTemplate": {"spec": {"completions": 3, "template": ` + one + `}}}`, known: true, pods: []string{"2 shop/Crons/x@cpu=1"}},
		{kind: "example.com/v1 Huge", spec: `{"replicas": 1048576, "jobTemplate": {"spec": {"parallelism": 1048576, "template": ` + one + `}}}`, notes: []string{"(1099511627776 pods: at most 1048576)"}},
	} {
		version, kind, _ := strings.Cut(tt.kind, " ")
		text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": "x", "namespace": "shop"}, "spec": %s}`, version, kind, tt.spec)
		tr, count, notes, err := Add(snap(), []string{write(t, map[string]string{"w.json": text})}, Options{})
		require.NoError(t, err, text)
		var pods []string
		for _, line := range come(tr)[1:] {
			number, app, _ := strings.Cut(line, " ")
			app, _, _ = strings.Cut(app, " ")
			pods = append(pods, number+" "+app)
		}
		require.Equal(t, tt.pods, pods, text)
		all := strings.Join(notes, "\n")
		for _, part := range tt.notes {
			require.Contains(t, all, part)
		}
		if tt.known {
			require.Equal(t, Count{Planned: 1, NotKnown: map[string]int{}}, count, text)
			continue
		}
		name := schema.FromAPIVersionAndKind(version, kind).GroupKind().String()
		require.Equal(t, Count{NotKnown: map[string]int{name: 1}}, count, text)
		require.Contains(t, notes, "not known how many pods they make, if any, and not planned: "+name+" 1")
	}
}

// What an API server would name gets a name that nothing else has.
func TestGeneratedNames(t *testing.T) {
	job := func(name string) string {
		return strings.NewReplacer("kind: Deployment", "kind: Job", "apps/v1", "batch/v1", "name: web", name, "replicas: 5", "parallelism: 3", "selector: {matchLabels: {app: web}}", "backoffLimit: 1").Replace(web) + "---\n"
	}
	was := snap()
	was.Instance.Groups[0].Name = "shop/Job/train-2"
	was.Instance.Apps[0].Name = "shop/Job/train-2@cpu=1"
	dir := write(t, map[string]string{"w.yaml": job("generateName: train-") + job("generateName: train-") + job("name: train-1") +
		job("generateName: "+strings.Repeat("a", 70)) + `
kind: Pod
apiVersion: v1
metadata: {generateName: bare-}
spec: {containers: [{name: c}]}
---
kind: JobSet
apiVersion: jobset.x-k8s.io/v1alpha2
metadata: {generateName: set-, namespace: shop}
spec: {replicatedJobs: [{replicas: 2, template: {spec: {template: ` + podTemplateOf(1) + `}}}]}
---
kind: Workflow
apiVersion: argoproj.io/v1alpha1
metadata: {generateName: flow-}
`})
	tr, count, notes, err := Add(was, []string{dir}, Options{})
	require.NoError(t, err)
	require.Equal(t, Count{Planned: 6, NotKnown: map[string]int{"Workflow.argoproj.io": 1}}, count)
	var names []string
	for _, r := range tr.Requests[2:] {
		names = append(names, fmt.Sprint(r.Count, " ", strings.TrimPrefix(r.Name, "coming/")))
	}
	require.Equal(t, []string{
		"3 shop/Job/train-1", "3 shop/Job/train-3", "3 shop/Job/train-4", "3 shop/Job/" + strings.Repeat("a", 58) + "1", "1 default/Pod/bare", "2 shop/JobSet/set-1",
	}, names)
	require.Contains(t, notes, dir+"/w.yaml, document 1: Job train-* is planned as train-3")
}

// Documents end at --- and ..., JSON may follow JSON, and a list says the kind of its items.
func TestDocuments(t *testing.T) {
	pod := func(name string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: c}]}\n"
	}
	object := func(name string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `"}, "spec": {"containers": [{"name": "c"}]}}`
	}
	item := func(name string) string {
		return `{metadata: {name: ` + name + `}, spec: {template: {spec: {containers: [{name: c}]}}}}`
	}
	for text, want := range map[string]int{
		pod("a") + "...\n" + pod("b"):                                                                             2,
		pod("a") + "... # end\n---\n---\n\n" + pod("b") + "---":                                                   2,
		"\ufeff---\n" + pod("a") + "--- # next\n" + pod("b"):                                                      2,
		strings.ReplaceAll(pod("a")+"---\n"+pod("b"), "\n", "\r\n"):                                               2,
		pod("a") + "--- " + object("b") + "\n--- {}\n":                                                            -1, // no kind
		pod("a") + "--- " + object("b") + "\n":                                                                    2,
		object("a") + "\n" + object("b") + object("c"):                                                            3,
		"# first\n\n# second\n" + object("a") + "\n" + object("b"):                                                2,
		object("a") + "\n---\n" + object("b"):                                                                     2,
		object("a") + "\n,":                                                                                       -1,
		"{apiVersion: v1, kind: PodList, items: [" + object("a") + "]}":                                           1,
		"{apiVersion: apps/v1, kind: DeploymentList, items: [" + item("a") + ", " + item("b") + "]}":              2,
		"{apiVersion: v1, kind: ReplicationControllerList, items: [" + item("a") + "]}":                           1,
		"{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: [" + object("a") + "]}]}":       1,
		"{apiVersion: v1, kind: List}\n---\n" + pod("a"):                                                          1,
		"{apiVersion: example.com/v1, kind: PriceList, items: [1, 2]}\n---\n" + pod("a"):                          1,
		"{apiVersion: example.com/v1, kind: AllowList, spec: {}}\n---\n" + pod("a"):                               1,
		"{apiVersion: example.com/v1, kind: ThingList, items: [{metadata: {name: a}}]}\n---\n" + pod("a"):         1,
		pod("a") + "---\nmetadata: [1]\napiVersion: example.com/v1\nkind: Odd\n":                                  1,
		pod("a") + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  x: |\n    ---\n    ...\n": 1,
	} {
		_, count, _, err := Add(snap(), []string{write(t, map[string]string{"w.yaml": text})}, Options{})
		if want < 0 {
			require.ErrorContains(t, err, "w.yaml, document ", text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, count.Planned, text)
	}
}

// Pods of manifests request what the API server makes of their limits; the overhead of a class is not known.
func TestRequestsOfManifests(t *testing.T) {
	text := strings.Replace(web, "spec: {containers: [{name: main, image: i, resources: {requests: {cpu: 1}}}]}",
		"spec: {runtimeClassName: gvisor, resources: {limits: {cpu: 4, memory: 8Gi}}, containers: [{name: c}, {name: d, resources: {requests: {memory: 1Gi}}}]}", 1)
	dir := write(t, map[string]string{"w.yaml": strings.Replace(text, "name: web,", "name: own,", 1) + "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\n"})
	tr, _, notes, err := Add(snap(), []string{dir}, Options{})
	require.NoError(t, err)
	require.Contains(t, come(tr)[1], "5 shop/Deployment/own@cpu=4,memory=1Gi ")
	require.Contains(t, notes, dir+"/w.yaml, document 1: Deployment own: the overhead of the RuntimeClass gvisor is not known, and counts as 0")
	require.Contains(t, notes, "may change the pods that are planned, and are not taken into account: LimitRange 1")
}

// FuzzObjects reads any text: each object is counted once, or is an error.
func FuzzObjects(f *testing.F) {
	one := podTemplateOf(1)
	for _, text := range []string{
		web, "a: 1\n...\n--- {}\n", `{"kind": "List", "apiVersion": "v1", "items": [{}]}{}`, "kind: JobSet\napiVersion: jobset.x-k8s.io/v1alpha2\nmetadata: {name: a}\n" +
			`spec: {replicatedJobs: [{replicas: 2, template: {spec: {parallelism: 3, template: ` + one + `}}}]}`, `{"kind": "Rollout", "apiVersion": "argoproj.io/v1", "spec": ` + one + `, "template": ` + one + `}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if podtest.Slow(text) {
			return
		}
		objects := 0
		for _, d := range documentsOf(text) {
			list, err := d.objects()
			if err != nil {
				return
			}
			for _, object := range list {
				var e envelope
				if json.Unmarshal(object, &e) == nil && !strings.HasSuffix(e.Kind, "List") {
					objects++
				}
			}
		}
		path := filepath.Join(t.TempDir(), "w.yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		s, err := read([]string{path}, Options{}, nil)
		if err != nil {
			return
		}
		c := s.tally.count()
		counted := c.Planned + c.Used + c.NoPods + c.LeftOut
		for _, n := range c.NotKnown {
			counted += n
		}
		require.GreaterOrEqual(t, counted, objects)
		for _, w := range s.workloads {
			require.True(t, w.pods >= 0 && w.pods <= mostPods, w.name)
		}
	})
}
