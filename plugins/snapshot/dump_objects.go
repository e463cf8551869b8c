package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/sigma-scheduler/sigma/plugins/apis/v1alpha1"
	"github.com/sigma-scheduler/sigma/plugins/kube"
	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A dump holds the objects of files. Versions of an API group are read alike: the fields that count have the same names
// in all of Kubernetes 1.28 to 1.37.
type dump struct {
	nodes        shelf[v1.Node]
	pods         shelf[v1.Pod]
	deployments  shelf[appsv1.Deployment]
	statefulSets shelf[appsv1.StatefulSet]
	replicaSets  shelf[appsv1.ReplicaSet]
	jobs         shelf[batchv1.Job]
	cronJobs     shelf[batchv1.CronJob]
	autoscalers  shelf[autoscalingv2.HorizontalPodAutoscaler]
	budgets      shelf[policyv1.PodDisruptionBudget]
	classes      shelf[resourcev1.DeviceClass]
	claims       shelf[v1.PersistentVolumeClaim]
	volumes      shelf[v1.PersistentVolume]
	csiNodes     shelf[storagev1.CSINode]
	rules        shelf[v1alpha1.PlacementRule]
	podUse       shelf[metricsv1beta1.PodMetrics]

	keep    map[schema.GroupKind]keeper
	ignored map[string]int // objects by kind
	twice   int            // objects that replaced one of the same name
	podList bool           // a list of pods was read: without any in it, there are none
}

// A keeper keeps the object of a text. twice: it replaced one of the same name.
type keeper func(raw []byte) (twice bool, err error)

// A shelf has the objects of a kind by namespace/name.
type shelf[T any] map[string]*T

func newDump() *dump {
	d := &dump{
		nodes: shelf[v1.Node]{}, pods: shelf[v1.Pod]{}, deployments: shelf[appsv1.Deployment]{},
		statefulSets: shelf[appsv1.StatefulSet]{}, replicaSets: shelf[appsv1.ReplicaSet]{}, jobs: shelf[batchv1.Job]{},
		cronJobs: shelf[batchv1.CronJob]{}, autoscalers: shelf[autoscalingv2.HorizontalPodAutoscaler]{},
		budgets: shelf[policyv1.PodDisruptionBudget]{}, classes: shelf[resourcev1.DeviceClass]{}, rules: shelf[v1alpha1.PlacementRule]{},
		claims: shelf[v1.PersistentVolumeClaim]{}, volumes: shelf[v1.PersistentVolume]{}, csiNodes: shelf[storagev1.CSINode]{},
		podUse: shelf[metricsv1beta1.PodMetrics]{}, ignored: map[string]int{},
	}
	d.keep = map[schema.GroupKind]keeper{
		{Kind: "Node"}:                                          keeperOf(d.nodes),
		{Kind: "Pod"}:                                           keeperOf(d.pods),
		{Group: "apps", Kind: "Deployment"}:                     keeperOf(d.deployments),
		{Group: "apps", Kind: "StatefulSet"}:                    keeperOf(d.statefulSets),
		{Group: "apps", Kind: "ReplicaSet"}:                     keeperOf(d.replicaSets),
		{Group: "batch", Kind: "Job"}:                           keeperOf(d.jobs),
		{Group: "batch", Kind: "CronJob"}:                       keeperOf(d.cronJobs),
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: keeperOf(d.autoscalers),
		{Group: "policy", Kind: "PodDisruptionBudget"}:          keeperOf(d.budgets),
		{Group: "resource.k8s.io", Kind: "DeviceClass"}:         keeperOf(d.classes),
		{Kind: "PersistentVolumeClaim"}:                         keeperOf(d.claims),
		{Kind: "PersistentVolume"}:                              keeperOf(d.volumes),
		{Group: "storage.k8s.io", Kind: "CSINode"}:              keeperOf(d.csiNodes),
		{Group: v1alpha1.GroupName, Kind: "PlacementRule"}:      keeperOf(d.rules),
		{Group: metricsGroup, Kind: "PodMetrics"}:               keeperOf(d.podUse),
	}
	return d
}

const metricsGroup = "metrics.k8s.io"

func keeperOf[T any, P interface {
	*T
	metav1.Object
}](to shelf[T]) keeper {
	return func(raw []byte) (twice bool, err error) {
		object := P(new(T))
		if err := kubejson.Unmarshal(raw, object); err != nil {
			return false, err
		}
		if object.GetName() == "" {
			return false, errors.New("metadata.name is missing")
		}
		object.SetManagedFields(nil)
		key := object.GetNamespace() + "/" + object.GetName()
		if object.GetUID() == "" { // removed from the file, or written by hand
			object.SetUID(types.UID(key))
		}
		_, twice = to[key]
		to[key] = object
		return twice, nil
	}
}

// list returns the objects in the order of an API server: by namespace/name.
func (s shelf[T]) list() []*T {
	list := make([]*T, 0, len(s))
	for _, key := range slices.Sorted(maps.Keys(s)) {
		list = append(list, s[key])
	}
	return list
}

// An objectError is a fault of one object.
type objectError struct{ text string }

func (e *objectError) Error() string { return e.text }

// add keeps an object, or counts it as ignored. kind is that of an object without one.
func (d *dump) add(raw []byte, kind string) error {
	var is metav1.TypeMeta
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	group, _, versioned := strings.Cut(is.APIVersion, "/")
	if !versioned {
		group = "" // v1, or none in an item of a list of one kind
	}
	at := schema.GroupKind{Group: group, Kind: is.Kind}
	if at.Kind == "" {
		at = d.named(kind)
	}
	switch at.Kind {
	case "":
		return errors.New("an object has no kind: want what kubectl writes with -o json")
	case "Status":
		return &objectError{"it has the error of an API server in place of objects: " + messageOf(raw)}
	}
	keep, known := d.keep[at]
	if !known {
		d.ignored[at.Kind]++
		return nil
	}
	twice, err := keep(raw)
	if err != nil {
		return d.fault(at.Kind, raw, keep, err)
	}
	if twice {
		d.twice++
	}
	return nil
}

// named returns the known kind of a name; the name itself where it is not known.
func (d *dump) named(kind string) schema.GroupKind {
	for at := range d.keep {
		if at.Kind == kind {
			return at
		}
	}
	return schema.GroupKind{Kind: kind}
}

func messageOf(raw []byte) string {
	var status metav1.Status
	_ = json.Unmarshal(raw, &status)
	return status.Message
}

// fault returns the error of an object, with its name and the field that its kind cannot hold. It tries each
// field alone: a quantity's error does not name it.
func (d *dump) fault(kind string, raw []byte, keep keeper, err error) error {
	var object map[string]any
	var meta struct {
		Metadata struct{ Namespace, Name any }
	}
	_ = json.Unmarshal(raw, &meta)
	name := strings.TrimPrefix(fmt.Sprintf("%v/%v", textOf(meta.Metadata.Namespace), textOf(meta.Metadata.Name)), "/")
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&object) == nil {
		fails := func(value any) error {
			text, err := json.Marshal(value)
			if err != nil {
				return nil //nolint:nilerr // it was read as JSON
			}
			if _, err = keep(text); err != nil && strings.Contains(err.Error(), "metadata.name is missing") {
				return nil
			}
			return err
		}
		if path, of := faultIn(object, func(v any) any { return v }, fails); path != "" {
			return &objectError{fmt.Sprintf("%s %s: %s: %v", kind, name, strings.TrimPrefix(path, "."), of)}
		}
	}
	return &objectError{fmt.Sprintf("%s %s: %v", kind, name, err)}
}

func textOf(v any) string {
	text, _ := v.(string)
	return text
}

// faultIn returns the path of the first field below a value that fails by itself, and its error; "": none does. whole
// puts a value in the place of this one.
func faultIn(value any, whole func(any) any, fails func(any) error) (path string, err error) {
	try := func(step string, child any, whole func(any) any) bool {
		if err = fails(whole(child)); err == nil {
			return false
		}
		path = step
		if more, of := faultIn(child, whole, fails); more != "" {
			path, err = step+more, of
		}
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if try("."+key, v[key], func(child any) any { return whole(map[string]any{key: child}) }) {
				return path, err
			}
		}
	case []any:
		for i, child := range v {
			if try(fmt.Sprintf("[%d]", i), child, func(child any) any { return whole([]any{child}) }) {
				return path, err
			}
		}
	}
	return "", nil
}

// picture returns the cluster of the objects.
func (d *dump) picture() *Picture {
	p := &Picture{Nodes: d.nodes.list(), Pods: slices.DeleteFunc(d.pods.list(), podspec.Ended)}
	p.sort()
	p.Missing = d.missing(p.Pods)
	p.leaveOut()
	p.Declared = &kube.Declarations{
		Deployments: d.deployments.list(), StatefulSets: d.statefulSets.list(), ReplicaSets: d.replicaSets.list(),
		Jobs: d.jobs.list(), CronJobs: d.cronJobs.list(), Autoscalers: d.autoscalers.list(),
	}
	p.Served = kube.Served(d.classes.list())
	p.addRules(d.rules.list())
	p.Budgets = d.budgets.list()
	p.bind(d.claims.list(), d.volumes.list(), d.csiNodes.list())
	p.addUse(d.podUse.list())
	if len(d.ignored) > 0 {
		p.Notes = append(p.Notes, "objects of kinds that placement does not depend on are ignored: "+byCount(d.ignored))
	}
	if d.twice > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("objects that are in the dumps more than once: %d; the last of each counts", d.twice))
	}
	return p
}

// missing returns the kinds that a dump lacks although its pods belong to objects of them, and those without which
// something is not known.
func (d *dump) missing(pods []*v1.Pod) (list []Missing) {
	counts := map[string]int{
		"ReplicaSet": len(d.replicaSets), "StatefulSet": len(d.statefulSets), "Job": len(d.jobs),
		"Deployment": len(d.deployments), "HorizontalPodAutoscaler": len(d.autoscalers),
		"PodDisruptionBudget": len(d.budgets), "PodMetrics": len(d.podUse), "Pod": len(d.pods),
		"PersistentVolumeClaim": len(d.claims), "PersistentVolume": len(d.volumes), "CSINode": len(d.csiNodes),
	}
	owns := map[string]bool{"HorizontalPodAutoscaler": true, "PodDisruptionBudget": true, "PodMetrics": true, "Pod": !d.podList}
	for _, kind := range volumeKinds {
		owns[kind] = slices.ContainsFunc(pods, hasClaims)
	}
	for _, pod := range pods {
		if c := metav1.GetControllerOfNoCopy(pod); c != nil {
			owns[c.Kind] = true
			owns["Deployment"] = owns["Deployment"] || c.Kind == "ReplicaSet"
		}
	}
	for _, kind := range optionalKinds {
		if owns[kind.Kind] && counts[kind.Kind] == 0 {
			list = append(list, kind)
		}
	}
	return list
}
