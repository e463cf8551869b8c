package operate

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestVersions: doctor supports what the page says.
func TestVersions(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	for minor := oldestMinor; minor <= newestMinor; minor++ {
		require.Regexp(t, fmt.Sprintf(`(?m)^\| 1\.%d \(.*\) \| yes \|`, minor), string(text))
	}
	require.Contains(t, string(text), fmt.Sprintf("| 1.%d and older, 1.%d | no |", oldestMinor-1, newestMinor+1))
}

func TestAilment(t *testing.T) {
	waiting := func(reason, message string) v1.ContainerState {
		return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32, message string) v1.ContainerState {
		return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Message: message, Reason: "Error"}}
	}
	condition := func(kind v1.PodConditionType, status v1.ConditionStatus, message string) v1.PodCondition {
		return v1.PodCondition{Type: kind, Status: status, Message: message}
	}
	for _, c := range []struct {
		status      v1.PodStatus
		found, next string
	}{
		{v1.PodStatus{Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionTrue, "")}}, "", ""},
		{
			v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "s", Image: "r/s:x", State: waiting("ErrImagePull", "manifest\nunknown")}}},
			"ErrImagePull: the image r/s:x cannot be pulled: manifest unknown", "is it pushed, under that name and tag? kubectl describe pod -n ns p",
		},
		{
			v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "s", State: waiting("CrashLoopBackOff", "back-off"), LastTerminationState: ended(1, "")}}},
			"CrashLoopBackOff: container s ended with 1: Error", "kubectl logs --previous -c s -n ns p",
		},
		{
			v1.PodStatus{InitContainerStatuses: []v1.ContainerStatus{{Name: "i", State: waiting("CreateContainerConfigError", "configmap not found")}}},
			"CreateContainerConfigError: configmap not found", "kubectl describe pod -n ns p",
		},
		{
			v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{condition(v1.PodScheduled, v1.ConditionFalse, "0/3 nodes are available")}},
			"has no node: 0/3 nodes are available", "kubectl describe pod -n ns p",
		},
		{
			v1.PodStatus{
				Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{Name: "s"}},
				Conditions: []v1.PodCondition{condition(v1.PodReady, v1.ConditionFalse, "containers with unready status: [s]")},
			},
			"Running, not ready containers with unready status: [s]", "kubectl logs -n ns p",
		},
	} {
		found, next := ailment(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Status: c.status})
		require.Equal(t, c.found, found)
		require.Equal(t, c.next, next)
	}
}

func TestOrigin(t *testing.T) {
	tuned := map[string]any{"model": "linear", "provenance": map[string]any{
		"optimizer": "swarm", "evaluations": int64(200),
		"tune": map[string]any{"chosen": "linear K1", "against": "mostallocated", "savingPercent": map[string]any{"mean": 4.125, "low": 2.2, "high": int64(6)}},
	}}
	for _, c := range []struct {
		spec         map[string]any
		from, saving string
	}{
		{tuned, "tune: linear K1", "4.1 % (2.2 to 6.0) against mostallocated"},
		{map[string]any{"model": "linear", "provenance": map[string]any{"optimizer": "swarm", "evaluations": 2000.}}, "train: swarm, 2000 evaluations", ""},
		{map[string]any{"model": "shipped"}, "shipped with Sigma", ""},
		{map[string]any{"model": "rule", "rule": map[string]any{"name": "bestfit"}}, "rule bestfit", ""},
		{map[string]any{"model": "linear", "provenance": map[string]any{"tune": "by hand"}}, "", ""},
	} {
		from, saving := origin(c.spec)
		require.Equal(t, []string{c.from, c.saving}, []string{from, saving})
	}
}

func TestDiagnosis(t *testing.T) {
	d := Diagnosis{{"nodes", OK, "3 in 1 zones", ""}, {"policies", Lacks, "none", "kubectl apply"}, {"metrics API", Without, "none", "x"}}
	require.Equal(t, 1, d.Lacking())
	var table, asJSON strings.Builder
	require.NoError(t, d.Write(&table, false))
	require.Regexp(t, `(?m)^policies +lacks +none +kubectl apply$`, table.String())
	require.NoError(t, d.Write(&asJSON, true))
	require.Contains(t, asJSON.String(), `"check": "nodes"`)
}
