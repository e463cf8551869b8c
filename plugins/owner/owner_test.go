package owner_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/sigma-scheduler/sigma/plugins/owner"
)

func ownedBy(apiVersion, kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid, Controller: new(true)}}
}

// pod is one of a controller, with labels in pairs of name and value.
func pod(owners []metav1.OwnerReference, labels ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod", OwnerReferences: owners, Labels: map[string]string{}}}
	for i := 0; i < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return p
}

func replicaSet(uid types.UID, owners []metav1.OwnerReference) metav1.Object {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-7d4", UID: uid, OwnerReferences: owners}}
}

func job(name string, uid types.UID, owners []metav1.OwnerReference) metav1.Object {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid, OwnerReferences: owners}}
}

// Each kind of controller, by the pod alone and with what a cache may know of its owner.
func TestOf(t *testing.T) {
	set := ownedBy("apps/v1", "ReplicaSet", "web-7d4", "set")
	hash := []string{"pod-template-hash", "7d4"}
	ownSet := owner.Ref{Group: "apps", Kind: "ReplicaSet", Name: "web-7d4", UID: "set"}
	deployment := ownedBy("apps/v1", "Deployment", "web", "d")
	tests := []struct {
		name  string
		pod   *v1.Pod
		known metav1.Object // of the owner's kind and name
		want  owner.Ref     // zero for none
	}{
		{"Deployment, by name", pod(set, hash...), nil, owner.Ref{Group: "apps", Kind: "Deployment", Name: "web"}},
		{"Deployment, by UID", pod(set, hash...), replicaSet("set", deployment), owner.Ref{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"}},
		{"Deployment whose ReplicaSets are called otherwise", pod(set), replicaSet("set", deployment), owner.Ref{Group: "apps", Kind: "Deployment", Name: "web", UID: "d"}},
		{"ReplicaSet alone", pod(ownedBy("apps/v1", "ReplicaSet", "web", "set")), nil, owner.Ref{Group: "apps", Kind: "ReplicaSet", Name: "web", UID: "set"}},
		{"ReplicaSet with a hash that is not its name's", pod(set, "pod-template-hash", "9"), nil, ownSet},
		{"ReplicaSet with an empty hash", pod(ownedBy("apps/v1", "ReplicaSet", "web-", "set"), "pod-template-hash", ""), nil, owner.Ref{Group: "apps", Kind: "ReplicaSet", Name: "web-", UID: "set"}},
		{"ReplicaSet that lost its Deployment", pod(set, hash...), replicaSet("set", nil), ownSet},
		{"ReplicaSet that was deleted and created again", pod(set, hash...), replicaSet("another", deployment), ownSet},
		{"ReplicaSet of another group", pod(ownedBy("example.io/v1", "ReplicaSet", "web-7d4", "set"), hash...), nil, owner.Ref{Group: "example.io", Kind: "Deployment", Name: "web"}},
		{"Argo Rollout, by name", pod(set, "rollouts-pod-template-hash", "7d4"), nil, owner.Ref{Group: "argoproj.io", Kind: "Rollout", Name: "web"}},
		{"Argo Rollout, by UID", pod(set, "rollouts-pod-template-hash", "7d4"), replicaSet("set", ownedBy("argoproj.io/v1alpha1", "Rollout", "web", "r")), owner.Ref{Group: "argoproj.io", Kind: "Rollout", Name: "web", UID: "r"}},
		{"StatefulSet", pod(ownedBy("apps/v1", "StatefulSet", "db", "s")), nil, owner.Ref{Group: "apps", Kind: "StatefulSet", Name: "db", UID: "s"}},
		{"StatefulSet of kruise", pod(ownedBy("apps.kruise.io/v1beta1", "StatefulSet", "db", "k")), nil, owner.Ref{Group: "apps.kruise.io", Kind: "StatefulSet", Name: "db", UID: "k"}},
		{"CloneSet", pod(ownedBy("apps.kruise.io/v1alpha1", "CloneSet", "web", "c"), hash...), nil, owner.Ref{Group: "apps.kruise.io", Kind: "CloneSet", Name: "web", UID: "c"}},
		{"DaemonSet", pod(ownedBy("apps/v1", "DaemonSet", "agent", "a")), nil, owner.Ref{Group: "apps", Kind: "DaemonSet", Name: "agent", UID: "a"}},
		{"Job", pod(ownedBy("batch/v1", "Job", "load", "j")), nil, owner.Ref{Group: "batch", Kind: "Job", Name: "load", UID: "j"}},
		{"Job with a number", pod(ownedBy("batch/v1", "Job", "load-7", "j")), nil, owner.Ref{Group: "batch", Kind: "Job", Name: "load-7", UID: "j"}},
		{"Job that is only called like one of a CronJob", pod(ownedBy("batch/v1", "Job", "load-29384756", "j")), job("load-29384756", "j", nil), owner.Ref{Group: "batch", Kind: "Job", Name: "load-29384756", UID: "j"}},
		{"CronJob, by name", pod(ownedBy("batch/v1", "Job", "backup-29384756", "j")), nil, owner.Ref{Group: "batch", Kind: "CronJob", Name: "backup"}},
		{"CronJob, by UID", pod(ownedBy("batch/v1", "Job", "backup-29384756", "j")), job("backup-29384756", "j", ownedBy("batch/v1", "CronJob", "backup", "b")), owner.Ref{Group: "batch", Kind: "CronJob", Name: "backup", UID: "b"}},
		{"node", pod(ownedBy("v1", "Node", "node-1", "n")), nil, owner.Ref{Kind: "Node", Name: "node-1", UID: "n"}},
		{"controller of an unknown kind", pod(ownedBy("example.io/v1", "PodGroup", "gang", "g")), nil, owner.Ref{Group: "example.io", Kind: "PodGroup", Name: "gang", UID: "g"}},
		{"bare pod", pod(nil), nil, owner.Ref{}},
		{"owner that does not control", pod([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "d"}}), nil, owner.Ref{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lookups := []owner.Lookup{func(*metav1.OwnerReference) metav1.Object { return tt.known }}
			if tt.known == nil {
				lookups = append(lookups, nil)
			}
			for _, lookup := range lookups {
				got, ok := owner.Of(tt.pod, lookup)
				require.Equal(t, tt.want, got)
				require.Equal(t, tt.want != owner.Ref{}, ok)
			}
		})
	}
}

func TestIs(t *testing.T) {
	web := owner.Ref{Group: "apps", Kind: "StatefulSet", Name: "web", UID: "1"}
	for _, tt := range []struct {
		name  string
		other owner.Ref
		want  bool
	}{
		{"itself", web, true},
		{"by name alone", owner.Ref{Group: "apps", Kind: "StatefulSet", Name: "web"}, true},
		{"created again", owner.Ref{Group: "apps", Kind: "StatefulSet", Name: "web", UID: "2"}, false},
		{"another group", owner.Ref{Group: "apps.kruise.io", Kind: "StatefulSet", Name: "web"}, false},
		{"another kind", owner.Ref{Group: "apps", Kind: "Deployment", Name: "web"}, false},
		{"another name", owner.Ref{Group: "apps", Kind: "StatefulSet", Name: "db"}, false},
		{"none", owner.Ref{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, web.Is(tt.other))
			require.Equal(t, tt.want, tt.other.Is(web))
		})
	}
}
