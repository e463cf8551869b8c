package podspec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sigma-scheduler/sigma/plugins/podspec"
)

func generated(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.GenerateName = name } }

func TestGroup(t *testing.T) {
	byLabel := labelled("app", "shop")
	tests := []struct {
		name     string
		appLabel string
		pod      *v1.Pod
		want     string
	}{
		{"Deployment", "", podOf("web-7d4-x", generated("web-7d4-"), ownedBy("ReplicaSet", "web-7d4"), labelled("pod-template-hash", "7d4")), "default/Deployment/web"},
		{"Rollout", "", podOf("web-7d4-x", ownedBy("ReplicaSet", "web-7d4"), labelled("rollouts-pod-template-hash", "7d4")), "default/Rollout/web"},
		{"ReplicaSet alone", "", podOf("web-x", ownedBy("ReplicaSet", "web")), "default/ReplicaSet/web"},
		{"ReplicaSet with a hash that is not its name's", "", podOf("web-x", ownedBy("ReplicaSet", "web-7d4"), labelled("pod-template-hash", "9")), "default/ReplicaSet/web-7d4"},
		{"ReplicaSet with an empty hash", "", podOf("web-x", ownedBy("ReplicaSet", "web-"), labelled("pod-template-hash", "")), "default/ReplicaSet/web-"},
		{"StatefulSet", "", podOf("db-0", generated("db-"), ownedBy("StatefulSet", "db")), "default/StatefulSet/db"},
		{"Job", "", podOf("load-x", ownedBy("Job", "load")), "default/Job/load"},
		{"Job of a CronJob", "", podOf("backup-29384756-x", ownedBy("Job", "backup-29384756")), "default/CronJob/backup"},
		{"Job with a number", "", podOf("load-7-x", ownedBy("Job", "load-7")), "default/Job/load-7"},
		{"a controller that nobody knows", "", podOf("gang-x", ownedBy("PodGroup", "gang")), "default/PodGroup/gang"},
		{"bare", "", podOf("single"), "default/Pod/single"},
		{"bare, one of many", "", podOf("work-7"), "default/Pod/work"},
		{"bare, one of many, generated elsewhere", "", podOf("dag-load-table-0f3a91bc-x2k9p"), "default/Pod/dag-load-table"},
		{"bare, a number is all there is", "", podOf("7"), "default/Pod/7"},
		{"bare with generateName", "", podOf("work-abc", generated("work-")), "default/Pod/work"},
		{"an owner that does not control", "", podOf("single", func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Deployment", Name: "web"}}
		}), "default/Pod/single"},
		{"another namespace", "", podOf("single", func(p *v1.Pod) { p.Namespace = "prod" }), "prod/Pod/single"},
		{"label", "app", podOf("web-x", byLabel, ownedBy("ReplicaSet", "web")), "default/shop"},
		{"label that the pod has not", "team", podOf("web-x", byLabel, ownedBy("ReplicaSet", "web")), "default/ReplicaSet/web"},
		{"empty label", "app", podOf("web-x", labelled("app", ""), ownedBy("ReplicaSet", "web")), "default/ReplicaSet/web"},
		{"label without asking for it", "", podOf("web-x", byLabel), "default/Pod/web-x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, podspec.Group(tt.pod, tt.appLabel))
		})
	}
}

func TestMovesAndEnded(t *testing.T) {
	mirror := func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }
	require.True(t, podspec.Moves(podOf("bare")))
	require.True(t, podspec.Moves(podOf("web", ownedBy("ReplicaSet", "web"))))
	require.False(t, podspec.Moves(podOf("agent", ownedBy("DaemonSet", "agent"))))
	require.False(t, podspec.Moves(podOf("static", ownedBy("Node", "node-1"))))
	require.False(t, podspec.Moves(podOf("static", mirror)))

	for phase, ended := range map[v1.PodPhase]bool{
		v1.PodPending: false, v1.PodRunning: false, v1.PodUnknown: false, v1.PodSucceeded: true, v1.PodFailed: true,
	} {
		require.Equal(t, ended, podspec.Ended(podOf("x", func(p *v1.Pod) { p.Status.Phase = phase })), phase)
	}
}
