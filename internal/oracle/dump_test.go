package oracle

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A dump is a generated cluster for the tests with a real API server: its ReplicaSets are Deployments of twice as many pods,
// without claims.
type dump struct {
	Namespaces  []*v1.Namespace
	Nodes       []*v1.Node
	Deployments []*appsv1.Deployment
}

// TestDump writes SIGMA_ORACLE_COUNT (1) files SIGMA_ORACLE_DUMP/N.json from N = SIGMA_ORACLE_FROM (1), each of SIGMA_ORACLE_MERGE (1) clusters
// in one.
func TestDump(t *testing.T) {
	dir := os.Getenv("SIGMA_ORACLE_DUMP")
	if dir == "" {
		dir = t.TempDir()
	}
	number := func(name string) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if os.Getenv(name) == "" {
			n, err = 1, nil
		}
		require.NoError(t, err, name)
		return n
	}
	for i := range number("SIGMA_ORACLE_COUNT") {
		n := number("SIGMA_ORACLE_FROM") + i
		whole := &dump{}
		for part := range number("SIGMA_ORACLE_MERGE") {
			whole.add(newDump(drawCluster(uint64(1000*n+part))), "c"+strconv.Itoa(part)+"-")
		}
		text, err := json.Marshal(whole)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(n)+".json"), text, 0o600))
		var read dump
		require.NoError(t, json.Unmarshal(text, &read))
		require.Equal(t, len(whole.Deployments), len(read.Deployments))
	}
}

// add takes in the nodes and workloads of another cluster, whose names get a prefix. Namespaces are the same in all.
func (d *dump) add(o *dump, prefix string) {
	d.Namespaces = o.Namespaces
	for _, n := range o.Nodes {
		n.Name = prefix + n.Name
		if host := n.Labels[v1.LabelHostname]; host != "" {
			n.Labels[v1.LabelHostname] = prefix + host
		}
		d.Nodes = append(d.Nodes, n)
	}
	for _, w := range o.Deployments {
		w.Name = prefix + w.Name
		w.Spec.Template.Labels["workload"] = w.Name
		w.Spec.Selector.MatchLabels["workload"] = w.Name
		if app := w.Spec.Template.Labels["app"]; app != "" {
			w.Spec.Template.Labels["app"] = prefix + app
			rename(&w.Spec.Template.Spec, prefix)
		}
		d.Deployments = append(d.Deployments, w)
	}
}

// rename gives the apps that a pod's terms name a prefix.
func rename(s *v1.PodSpec, prefix string) {
	var selectors []*metav1.LabelSelector
	if a := s.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selectors = append(selectors, t.LabelSelector)
		}
	}
	if a := s.Affinity; a != nil && a.PodAffinity != nil {
		for _, t := range a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			selectors = append(selectors, t.LabelSelector)
		}
	}
	for _, t := range s.TopologySpreadConstraints {
		selectors = append(selectors, t.LabelSelector)
	}
	for _, l := range selectors {
		if l == nil {
			continue
		}
		if app := l.MatchLabels["app"]; app != "" {
			l.MatchLabels["app"] = prefix + app
		}
		for _, e := range l.MatchExpressions {
			for i := range e.Values {
				if e.Key == "app" {
					e.Values[i] = prefix + e.Values[i]
				}
			}
		}
	}
}

func newDump(c *cluster) *dump {
	d, known := &dump{Namespaces: c.Namespaces, Nodes: c.Nodes}, map[string]*appsv1.Deployment{}
	for _, p := range c.Pods {
		owner := metav1.GetControllerOf(p)
		if owner == nil || owner.Kind != "ReplicaSet" || p.Spec.SchedulerName != v1.DefaultSchedulerName || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		if of := known[p.Namespace+"/"+owner.Name]; of != nil {
			*of.Spec.Replicas += 2
			continue
		}
		template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(p.Labels), Annotations: p.Annotations}, Spec: *p.Spec.DeepCopy()}
		delete(template.Labels, "pod-template-hash")
		template.Labels["workload"] = owner.Name
		unclaim(&template.Spec)
		of := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: owner.Name},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Template: template,
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"workload": owner.Name}},
			},
		}
		known[p.Namespace+"/"+owner.Name] = of
		d.Deployments = append(d.Deployments, of)
	}
	return d
}

// unclaim removes the node of a pod, its volumes and claims, and its priority, which has no class.
func unclaim(s *v1.PodSpec) {
	s.NodeName, s.Volumes, s.ResourceClaims, s.Priority, s.RuntimeClassName, s.Overhead = "", nil, nil, nil, nil, nil
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts, list[i].Resources.Claims = nil, nil
		}
	}
}
