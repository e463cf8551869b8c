package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

// A dump is a generated cluster for the tests with a real API server: its ReplicaSets are Deployments of twice as many pods,
// without claims.
type dump struct {
	Namespaces  []*v1.Namespace
	Nodes       []*v1.Node
	Deployments []*appsv1.Deployment
}

// TestDump writes SIGMA_ORACLE_COUNT (1) files SIGMA_ORACLE_DUMP/N.json from N = SIGMA_ORACLE_FROM (1), with
// SIGMA_ORACLE_MOVABLE=1 with the workloads of ten clusters, those alone whose pods may be moved.
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
		of := drawCluster(uint64(n))
		if os.Getenv("SIGMA_ORACLE_MOVABLE") != "" {
			crowd(t, of, n)
			keepMovable(of)
		}
		whole := newDump(of)
		text, err := json.Marshal(whole)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(n)+".json"), text, 0o600))
		var read dump
		require.NoError(t, json.Unmarshal(text, &read))
		require.Len(t, read.Deployments, len(whole.Deployments))
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

// crowd adds the pods of nine other clusters, under names of their own: most workloads of a cluster are not moved.
func crowd(t *testing.T, c *cluster, number int) {
	for k := 1; k < 10; k++ {
		text, err := json.Marshal(drawCluster(uint64(number + 1000000*k)).Pods)
		require.NoError(t, err)
		text = regexp.MustCompile(`\bapp(\d+)\b`).ReplaceAll(text, fmt.Appendf(nil, "app${1}of%d", k))
		var pods []*v1.Pod
		require.NoError(t, json.Unmarshal(text, &pods))
		for i, p := range pods {
			p.Spec.NodeName = c.Nodes[i%len(c.Nodes)].Name
		}
		c.Pods = append(c.Pods, pods...)
	}
}

// keepMovable removes the pods of workloads that a Rebalance would not move: at first those that it would not move in a cluster of their
// own, then others until it may move all that are left.
func keepMovable(c *cluster) {
	c.Pods = slices.DeleteFunc(c.Pods, func(p *v1.Pod) bool { return metav1.GetControllerOf(p) == nil })
	alone := map[string][]*v1.Pod{}
	for _, p := range c.Pods {
		alone[controllerOf(p)] = append(alone[controllerOf(p)], p)
	}
	stay := map[string]bool{}
	for _, pods := range alone {
		maps.Copy(stay, unmovable(pods, c.Nodes))
	}
	for len(stay) > 0 {
		c.Pods = slices.DeleteFunc(c.Pods, func(p *v1.Pod) bool { return stay[controllerOf(p)] })
		stay = unmovable(c.Pods, c.Nodes)
	}
}

// unmovable returns the controllers of pods that a Rebalance would not move.
func unmovable(pods []*v1.Pod, nodes []*v1.Node) map[string]bool {
	stay, bare := map[string]bool{}, make([]*v1.Pod, len(pods))
	for i, p := range pods {
		bare[i] = p.DeepCopy()
		unclaim(&bare[i].Spec)
		bare[i].Spec.NodeName, bare[i].DeletionTimestamp = p.Spec.NodeName, nil
		bare[i].Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
	}
	others := podspec.NewOthers(bare, nodes, appLabel)
	for _, p := range bare {
		if podspec.Movable(p, 0, others) != "" {
			stay[controllerOf(p)] = true
		}
	}
	return stay
}

// controllerOf returns a key of a pod's controller.
func controllerOf(p *v1.Pod) string { return p.Namespace + "/" + metav1.GetControllerOf(p).Name }

// unclaim removes the node of a pod, its volumes and claims, and its priority, which has no class.
func unclaim(s *v1.PodSpec) {
	s.NodeName, s.Volumes, s.ResourceClaims, s.Priority, s.RuntimeClassName, s.Overhead = "", nil, nil, nil, nil, nil
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			list[i].VolumeMounts, list[i].Resources.Claims = nil, nil
		}
	}
}
